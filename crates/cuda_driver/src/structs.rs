//! The structures of the C interface for copies, arrays, graphs, memory pools and streams.

use std::ffi::{c_int, c_uint, c_void};

use crate::abi::{
    CUarray, CUcontext, CUdeviceptr, CUevent, CUfunction, CUgraphNode, CUhostFn, CUkernel,
    CUstream, HostPtr, In, LaunchAttribute, MemLocation, Out,
};

/// A three-dimensional copy, `CUDA_MEMCPY3D` and `CUDA_MEMCPY3D_PEER`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
#[allow(missing_docs)]
pub struct Copy3D {
    pub src_x_bytes: usize,
    pub src_y: usize,
    pub src_z: usize,
    pub src_lod: usize,
    pub src_memory_type: c_int,
    pub src_host: *const c_void,
    pub src_device: CUdeviceptr,
    pub src_array: CUarray,
    pub src_context: CUcontext,
    pub src_pitch: usize,
    pub src_height: usize,
    pub dst_x_bytes: usize,
    pub dst_y: usize,
    pub dst_z: usize,
    pub dst_lod: usize,
    pub dst_memory_type: c_int,
    pub dst_host: *mut c_void,
    pub dst_device: CUdeviceptr,
    pub dst_array: CUarray,
    pub dst_context: CUcontext,
    pub dst_pitch: usize,
    pub dst_height: usize,
    pub width_bytes: usize,
    pub height: usize,
    pub depth: usize,
}

// SAFETY: bare addresses; a copy that carries them to a stream's thread upholds the argument of
// `abi.rs`, by which the caller keeps the memory valid until the stream reaches it.
unsafe impl Send for Copy3D {}
// SAFETY: as for `Send`; a shared description is only read.
unsafe impl Sync for Copy3D {}

/// The extent and format of an array, `CUDA_ARRAY_DESCRIPTOR`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct ArrayDescriptor {
    pub width: usize,
    pub height: usize,
    pub format: c_uint,
    pub channels: c_uint,
}

/// The extent, format and flags of a three-dimensional array, `CUDA_ARRAY3D_DESCRIPTOR`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Array3DDescriptor {
    pub width: usize,
    pub height: usize,
    pub depth: usize,
    pub format: c_uint,
    pub channels: c_uint,
    pub flags: c_uint,
}

/// The access that a device has to memory, `CUmemAccessDesc`.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemAccess {
    /// The device.
    pub location: MemLocation,
    /// 0 none, 1 read, 3 read and write.
    pub flags: c_int,
}

/// The properties of a memory pool, `CUmemPoolProps`.
#[repr(C)]
#[derive(Clone, Copy)]
#[allow(missing_docs)]
pub struct PoolProps {
    pub kind: c_int,
    pub handle_types: c_int,
    pub location: MemLocation,
    pub security: *mut c_void,
    pub max_bytes: usize,
    pub usage: u16,
    pub reserved: [u8; 54],
}

/// The properties of physical memory, `CUmemAllocationProp`.
#[repr(C)]
#[derive(Clone, Copy)]
#[allow(missing_docs)]
pub struct AllocationProp {
    pub kind: c_int,
    pub handle_types: c_int,
    pub location: MemLocation,
    pub security: *mut c_void,
    pub flags: [u8; 8],
}

/// The parameters of a kernel node, `CUDA_KERNEL_NODE_PARAMS_v1`.
#[repr(C)]
#[derive(Clone, Copy)]
#[allow(missing_docs)]
pub struct KernelNodeParams {
    pub function: CUfunction,
    pub grid: [c_uint; 3],
    pub block: [c_uint; 3],
    pub shared_mem_bytes: c_uint,
    pub params: In<HostPtr>,
    pub extra: In<HostPtr>,
}

/// The parameters of a kernel node since CUDA 12, `CUDA_KERNEL_NODE_PARAMS_v2`.
#[repr(C)]
#[derive(Clone, Copy)]
#[allow(missing_docs)]
pub struct KernelNodeParamsV2 {
    pub first: KernelNodeParams,
    pub kernel: CUkernel,
    pub context: CUcontext,
}

/// The parameters of a memset node, `CUDA_MEMSET_NODE_PARAMS`.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct MemsetNodeParams {
    pub dst: CUdeviceptr,
    pub pitch: usize,
    pub value: c_uint,
    pub element_bytes: c_uint,
    pub width: usize,
    pub height: usize,
}

/// The parameters of a host node, `CUDA_HOST_NODE_PARAMS`.
#[repr(C)]
#[derive(Clone, Copy)]
#[allow(missing_docs)]
pub struct HostNodeParams {
    pub function: CUhostFn,
    pub data: HostPtr,
}

/// The parameters of an allocation node, `CUDA_MEM_ALLOC_NODE_PARAMS`.
#[repr(C)]
#[derive(Clone, Copy)]
#[allow(missing_docs)]
pub struct MemAllocNodeParams {
    pub pool: PoolProps,
    pub access: In<MemAccess>,
    pub n_access: usize,
    pub bytes: usize,
    pub address: CUdeviceptr,
}

/// The parameters of a node of stream memory operations, `CUDA_BATCH_MEM_OP_NODE_PARAMS`.
#[repr(C)]
#[derive(Clone, Copy)]
#[allow(missing_docs)]
pub struct BatchMemOpNodeParams {
    pub context: CUcontext,
    pub count: c_uint,
    pub ops: In<StreamMemOp>,
    pub flags: c_uint,
}

/// A stream memory operation (a wait for a value, or a write of one), `CUstreamBatchMemOpParams`.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StreamMemOp {
    /// The operation: 1 and 4 wait for a value of 32 and 64 bits, 2 and 5 write one, 3 flushes, 6
    /// is a memory fence.
    pub operation: c_int,
    /// Flags of a flush or a memory fence.
    pub barrier_flags: c_uint,
    /// The address of the value.
    pub address: CUdeviceptr,
    /// The value; a 32-bit one is in the low half.
    pub value: u64,
    /// The comparison of a wait; whether a write is ordered.
    pub flags: c_uint,
    /// Padding.
    pub pad: [u32; 5],
}

/// The parameters of a node of any type, `CUgraphNodeParams`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct NodeParams {
    /// The type of the node.
    pub kind: c_int,
    /// Reserved, zero.
    pub reserved: [c_int; 3],
    /// A union of all types' parameters.
    pub params: [u64; 29],
    /// Reserved, zero.
    pub reserved_end: u64,
}

/// How a graph is instantiated, `CUDA_GRAPH_INSTANTIATE_PARAMS`.
#[repr(C)]
#[derive(Clone, Copy)]
#[allow(missing_docs)]
pub struct InstantiateParams {
    pub flags: u64,
    pub upload_stream: CUstream,
    pub error_node: CUgraphNode,
    pub result: c_int,
}

/// The result of the update of an executable graph, `CUgraphExecUpdateResultInfo`.
#[repr(C)]
#[derive(Clone, Copy)]
#[allow(missing_docs)]
pub struct UpdateResult {
    pub result: c_int,
    pub error_node: CUgraphNode,
    pub error_from_node: CUgraphNode,
}

/// The value of an attribute of a launch, a stream or a kernel node: a union of 64 bytes.
pub type AttributeValue = [u32; 16];

/// A launch attribute that names an event.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct EventAttribute {
    /// The event.
    pub event: CUevent,
    /// Flags of the event record.
    pub flags: c_int,
    /// Whether the event is triggered when all blocks have begun, rather than by the kernel.
    pub at_block_start: c_int,
}

impl LaunchAttribute {
    /// An attribute whose value begins with `words`; the rest is zero.
    pub fn new(id: c_uint, words: &[u32]) -> Self {
        let mut value = [0; 16];
        value[..words.len()].copy_from_slice(words);
        Self { id, pad: [0; 4], value }
    }
}

/// A tensor map, `CUtensorMap`: the layout of a tensor in memory, for the copy instructions of
/// kernels.
#[repr(C, align(64))]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CUtensorMap {
    /// Opaque.
    pub words: [u64; 16],
}

/// An out-parameter that receives the address of the first element of a list.
pub type ListOut<T> = Out<*const T>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn structs_have_the_drivers_layout() {
        assert_eq!(size_of::<Copy3D>(), 200);
        assert_eq!(size_of::<ArrayDescriptor>(), 24);
        assert_eq!(size_of::<Array3DDescriptor>(), 40);
        assert_eq!(size_of::<MemAccess>(), 12);
        assert_eq!(size_of::<PoolProps>(), 88);
        assert_eq!(size_of::<AllocationProp>(), 32);
        assert_eq!(size_of::<KernelNodeParams>(), 56);
        assert_eq!(size_of::<KernelNodeParamsV2>(), 72);
        assert_eq!(size_of::<MemsetNodeParams>(), 40);
        assert_eq!(size_of::<HostNodeParams>(), 16);
        assert_eq!(size_of::<MemAllocNodeParams>(), 120);
        assert_eq!(size_of::<BatchMemOpNodeParams>(), 32);
        assert_eq!(size_of::<StreamMemOp>(), 48);
        assert_eq!(size_of::<NodeParams>(), 256);
        assert_eq!(size_of::<InstantiateParams>(), 32);
        assert_eq!(size_of::<UpdateResult>(), 24);
        assert_eq!(size_of::<CUtensorMap>(), 128);
    }
}
