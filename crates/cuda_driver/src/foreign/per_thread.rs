//! The per-thread variants of driver functions, for which the null stream is the calling thread's
//! default stream.
//!
//! A program gets them if it is compiled with `CUDA_API_PER_THREAD_DEFAULT_STREAM`, or asks
//! `cuGetProcAddress` for them. They call the plain functions, on whichever backend.

use std::ffi::{c_int, c_uint, c_void};

use crate::abi::*;
use crate::codes::{CUDA_SUCCESS, ResultCode};
use crate::exports::*;
use crate::structs::*;

/// The handle of the calling thread's default stream.
const PER_THREAD_STREAM: CUstream = std::ptr::without_provenance_mut(2);

/// The stream that a variant works on: the thread's default stream for the null stream, else the
/// given one.
fn effective_stream(stream: CUstream) -> CUstream {
    if stream.is_null() { PER_THREAD_STREAM } else { stream }
}

macro_rules! per_thread {
    ($($kind:ident {
        $($variant:ident = $plain:ident($($arg:ident: $type:ty),* $(,)?);)*
    })*) => {
        /// The names of all per-thread variants that this crate exports.
        pub const PER_THREAD_FUNCTIONS: &[&str] = &[$($(stringify!($variant),)*)*];

        /// The address of the variant `name`.
        pub(crate) fn address(name: &str) -> Option<*const c_void> {
            match name {
                $($(stringify!($variant) => Some($variant as *const c_void),)*)*
                _ => None,
            }
        }

        $($(
            #[doc = concat!("The driver API's `", stringify!($variant), "`.")]
            ///
            /// # Safety
            /// As for the function without the suffix.
            #[unsafe(no_mangle)]
            #[allow(non_snake_case, clippy::too_many_arguments)]
            pub unsafe extern "C" fn $variant($($arg: $type),*) -> ResultCode {
                // SAFETY: the same arguments for the same function; its contract is the caller's.
                unsafe { call_plain!($kind, $plain, ($($arg),*)) }
            }
        )*)*
    };
}

macro_rules! call_plain {
    (takes_stream, $plain:ident, ($($arg:ident),*)) => {
        $plain($(argument!($arg $arg)),*)
    };
    (waits, $plain:ident, ($($arg:ident),*)) => {
        match $plain($($arg,)* PER_THREAD_STREAM) {
            CUDA_SUCCESS => cuStreamSynchronize(PER_THREAD_STREAM),
            code => code,
        }
    };
    // This function has no asynchronous form, so the variant runs in the order of the null stream,
    // which is stricter.
    (stricter, $plain:ident, ($($arg:ident),*)) => {
        $plain($($arg),*)
    };
    (configured, $plain:ident, ($config:ident, $($arg:ident),*)) => {
        match $config.get() {
            Ok(config) => {
                let config = CUlaunchConfig { stream: effective_stream(config.stream), ..config };
                $plain(In::from(&config), $($arg),*)
            }
            Err(_) => $plain($config, $($arg),*),
        }
    };
}

macro_rules! argument {
    (stream $value:ident) => {
        effective_stream($value)
    };
    ($other:ident $value:ident) => {
        $value
    };
}

per_thread! {
    waits {
        cuMemcpy_ptds = cuMemcpyAsync(dst: CUdeviceptr, src: CUdeviceptr, bytes: usize);
        cuMemcpyHtoD_v2_ptds = cuMemcpyHtoDAsync_v2(dst: CUdeviceptr, src: HostPtr, bytes: usize);
        cuMemcpyDtoH_v2_ptds = cuMemcpyDtoHAsync_v2(dst: HostPtr, src: CUdeviceptr, bytes: usize);
        cuMemcpyDtoD_v2_ptds =
            cuMemcpyDtoDAsync_v2(dst: CUdeviceptr, src: CUdeviceptr, bytes: usize);
        cuMemcpy2D_v2_ptds = cuMemcpy2DAsync_v2(copy: In<Copy2D>);
        cuMemcpy2DUnaligned_v2_ptds = cuMemcpy2DAsync_v2(copy: In<Copy2D>);
        cuMemcpy3D_v2_ptds = cuMemcpy3DAsync_v2(copy: In<Copy3D>);
        cuMemsetD8_v2_ptds = cuMemsetD8Async(dst: CUdeviceptr, value: u8, count: usize);
        cuMemsetD16_v2_ptds = cuMemsetD16Async(dst: CUdeviceptr, value: u16, count: usize);
        cuMemsetD32_v2_ptds = cuMemsetD32Async(dst: CUdeviceptr, value: u32, count: usize);
        cuMemsetD2D8_v2_ptds = cuMemsetD2D8Async(
            dst: CUdeviceptr, pitch: usize, value: u8, width: usize, height: usize,
        );
        cuMemsetD2D16_v2_ptds = cuMemsetD2D16Async(
            dst: CUdeviceptr, pitch: usize, value: u16, width: usize, height: usize,
        );
        cuMemsetD2D32_v2_ptds = cuMemsetD2D32Async(
            dst: CUdeviceptr, pitch: usize, value: u32, width: usize, height: usize,
        );
    }
    stricter {
        cuMemcpyPeer_ptds = cuMemcpyPeer(
            dst: CUdeviceptr, dst_context: CUcontext, src: CUdeviceptr, src_context: CUcontext,
            bytes: usize,
        );
        cuMemcpy3DPeer_ptds = cuMemcpy3DPeer(copy: In<Copy3D>);
        cuMemcpyAtoD_v2_ptds =
            cuMemcpyAtoD_v2(dst: CUdeviceptr, src: CUarray, offset: usize, bytes: usize);
        cuMemcpyDtoA_v2_ptds =
            cuMemcpyDtoA_v2(dst: CUarray, offset: usize, src: CUdeviceptr, bytes: usize);
        cuMemcpyAtoA_v2_ptds = cuMemcpyAtoA_v2(
            dst: CUarray, dst_offset: usize, src: CUarray, src_offset: usize, bytes: usize,
        );
        cuMemcpyAtoH_v2_ptds =
            cuMemcpyAtoH_v2(dst: HostPtr, src: CUarray, offset: usize, bytes: usize);
        cuMemcpyHtoA_v2_ptds =
            cuMemcpyHtoA_v2(dst: CUarray, offset: usize, src: HostPtr, bytes: usize);
    }
    takes_stream {
        cuMemcpyAsync_ptsz =
            cuMemcpyAsync(dst: CUdeviceptr, src: CUdeviceptr, bytes: usize, stream: CUstream);
        cuMemcpyHtoDAsync_v2_ptsz =
            cuMemcpyHtoDAsync_v2(dst: CUdeviceptr, src: HostPtr, bytes: usize, stream: CUstream);
        cuMemcpyDtoHAsync_v2_ptsz =
            cuMemcpyDtoHAsync_v2(dst: HostPtr, src: CUdeviceptr, bytes: usize, stream: CUstream);
        cuMemcpyDtoDAsync_v2_ptsz = cuMemcpyDtoDAsync_v2(
            dst: CUdeviceptr, src: CUdeviceptr, bytes: usize, stream: CUstream,
        );
        cuMemcpy2DAsync_v2_ptsz = cuMemcpy2DAsync_v2(copy: In<Copy2D>, stream: CUstream);
        cuMemcpy3DAsync_v2_ptsz = cuMemcpy3DAsync_v2(copy: In<Copy3D>, stream: CUstream);
        cuMemcpy3DPeerAsync_ptsz = cuMemcpy3DPeerAsync(copy: In<Copy3D>, stream: CUstream);
        cuMemcpyPeerAsync_ptsz = cuMemcpyPeerAsync(
            dst: CUdeviceptr, dst_context: CUcontext, src: CUdeviceptr, src_context: CUcontext,
            bytes: usize, stream: CUstream,
        );
        cuMemcpyHtoAAsync_v2_ptsz = cuMemcpyHtoAAsync_v2(
            dst: CUarray, offset: usize, src: HostPtr, bytes: usize, stream: CUstream,
        );
        cuMemcpyAtoHAsync_v2_ptsz = cuMemcpyAtoHAsync_v2(
            dst: HostPtr, src: CUarray, offset: usize, bytes: usize, stream: CUstream,
        );
        cuMemsetD8Async_ptsz =
            cuMemsetD8Async(dst: CUdeviceptr, value: u8, count: usize, stream: CUstream);
        cuMemsetD16Async_ptsz =
            cuMemsetD16Async(dst: CUdeviceptr, value: u16, count: usize, stream: CUstream);
        cuMemsetD32Async_ptsz =
            cuMemsetD32Async(dst: CUdeviceptr, value: u32, count: usize, stream: CUstream);
        cuMemsetD2D8Async_ptsz = cuMemsetD2D8Async(
            dst: CUdeviceptr, pitch: usize, value: u8, width: usize, height: usize,
            stream: CUstream,
        );
        cuMemsetD2D16Async_ptsz = cuMemsetD2D16Async(
            dst: CUdeviceptr, pitch: usize, value: u16, width: usize, height: usize,
            stream: CUstream,
        );
        cuMemsetD2D32Async_ptsz = cuMemsetD2D32Async(
            dst: CUdeviceptr, pitch: usize, value: u32, width: usize, height: usize,
            stream: CUstream,
        );
        cuMemAllocAsync_ptsz =
            cuMemAllocAsync(address: Out<CUdeviceptr>, bytes: usize, stream: CUstream);
        cuMemFreeAsync_ptsz = cuMemFreeAsync(address: CUdeviceptr, stream: CUstream);
        cuMemPrefetchAsync_ptsz = cuMemPrefetchAsync(
            address: CUdeviceptr, bytes: usize, device: CUdevice, stream: CUstream,
        );
        cuMemPrefetchAsync_v2_ptsz = cuMemPrefetchAsync_v2(
            address: CUdeviceptr, bytes: usize, location: MemLocation, flags: c_uint,
            stream: CUstream,
        );
        cuMemAllocFromPoolAsync_ptsz = cuMemAllocFromPoolAsync(
            address: Out<CUdeviceptr>, bytes: usize, pool: CUmemoryPool, stream: CUstream,
        );
        cuStreamAttachMemAsync_ptsz = cuStreamAttachMemAsync(
            stream: CUstream, address: CUdeviceptr, bytes: usize, flags: c_uint,
        );
        cuStreamWaitValue32_v2_ptsz = cuStreamWaitValue32_v2(
            stream: CUstream, address: CUdeviceptr, value: u32, flags: c_uint,
        );
        cuStreamWaitValue64_v2_ptsz = cuStreamWaitValue64_v2(
            stream: CUstream, address: CUdeviceptr, value: u64, flags: c_uint,
        );
        cuStreamWriteValue32_v2_ptsz = cuStreamWriteValue32_v2(
            stream: CUstream, address: CUdeviceptr, value: u32, flags: c_uint,
        );
        cuStreamWriteValue64_v2_ptsz = cuStreamWriteValue64_v2(
            stream: CUstream, address: CUdeviceptr, value: u64, flags: c_uint,
        );
        cuStreamBatchMemOp_v2_ptsz = cuStreamBatchMemOp_v2(
            stream: CUstream, count: c_uint, ops: In<StreamMemOp>, flags: c_uint,
        );
        cuStreamGetAttribute_ptsz =
            cuStreamGetAttribute(stream: CUstream, id: c_int, value: Out<AttributeValue>);
        cuStreamSetAttribute_ptsz =
            cuStreamSetAttribute(stream: CUstream, id: c_int, value: In<AttributeValue>);
        cuStreamCopyAttributes_ptsz = cuStreamCopyAttributes(stream: CUstream, from: CUstream);
        cuStreamGetId_ptsz = cuStreamGetId(stream: CUstream, id: Out<u64>);
        cuStreamGetDevice_ptsz = cuStreamGetDevice(stream: CUstream, device: Out<CUdevice>);
        cuStreamGetCtx_v2_ptsz =
            cuStreamGetCtx_v2(stream: CUstream, context: Out<CUcontext>, green: Out<CUobject>);
        cuStreamBeginCapture_ptsz = cuStreamBeginCapture(stream: CUstream);
        cuStreamBeginCapture_v2_ptsz = cuStreamBeginCapture_v2(stream: CUstream, mode: c_int);
        cuStreamBeginCaptureToGraph_ptsz = cuStreamBeginCaptureToGraph(
            stream: CUstream, graph: CUgraph, dependencies: In<CUgraphNode>, edges: In<u64>,
            n_dependencies: usize, mode: c_int,
        );
        cuStreamEndCapture_ptsz = cuStreamEndCapture(stream: CUstream, graph: Out<CUgraph>);
        cuStreamIsCapturing_ptsz = cuStreamIsCapturing(stream: CUstream, answer: Out<c_int>);
        cuStreamGetCaptureInfo_ptsz =
            cuStreamGetCaptureInfo(stream: CUstream, answer: Out<c_int>, id: Out<u64>);
        cuStreamGetCaptureInfo_v2_ptsz = cuStreamGetCaptureInfo_v2(
            stream: CUstream, answer: Out<c_int>, id: Out<u64>, graph: Out<CUgraph>,
            dependencies: Out<*const CUgraphNode>, n_dependencies: Out<usize>,
        );
        cuStreamGetCaptureInfo_v3_ptsz = cuStreamGetCaptureInfo_v3(
            stream: CUstream, answer: Out<c_int>, id: Out<u64>, graph: Out<CUgraph>,
            dependencies: Out<*const CUgraphNode>, edges: Out<*const u64>,
            n_dependencies: Out<usize>,
        );
        cuStreamUpdateCaptureDependencies_ptsz = cuStreamUpdateCaptureDependencies(
            stream: CUstream, dependencies: In<CUgraphNode>, n_dependencies: usize, flags: c_uint,
        );
        cuStreamUpdateCaptureDependencies_v2_ptsz = cuStreamUpdateCaptureDependencies_v2(
            stream: CUstream, dependencies: In<CUgraphNode>, edges: In<u64>, n_dependencies: usize,
            flags: c_uint,
        );
        cuGraphInstantiateWithParams_ptsz = cuGraphInstantiateWithParams(
            exec: Out<CUgraphExec>, graph: CUgraph, params: Out<InstantiateParams>,
        );
        cuGraphUpload_ptsz = cuGraphUpload(exec: CUgraphExec, stream: CUstream);
        cuGraphLaunch_ptsz = cuGraphLaunch(exec: CUgraphExec, stream: CUstream);
        cuStreamGetFlags_ptsz = cuStreamGetFlags(stream: CUstream, flags: Out<c_uint>);
        cuStreamGetPriority_ptsz = cuStreamGetPriority(stream: CUstream, priority: Out<c_int>);
        cuStreamGetCtx_ptsz = cuStreamGetCtx(stream: CUstream, context: Out<CUcontext>);
        cuStreamQuery_ptsz = cuStreamQuery(stream: CUstream);
        cuStreamSynchronize_ptsz = cuStreamSynchronize(stream: CUstream);
        cuStreamWaitEvent_ptsz = cuStreamWaitEvent(stream: CUstream, event: CUevent, flags: c_uint);
        cuLaunchHostFunc_ptsz =
            cuLaunchHostFunc(stream: CUstream, function: CUhostFn, data: HostPtr);
        cuStreamAddCallback_ptsz = cuStreamAddCallback(
            stream: CUstream, callback: CUstreamCallback, data: HostPtr, flags: c_uint,
        );
        cuEventRecord_ptsz = cuEventRecord(event: CUevent, stream: CUstream);
        cuEventRecordWithFlags_ptsz =
            cuEventRecordWithFlags(event: CUevent, stream: CUstream, flags: c_uint);
        cuLaunchKernel_ptsz = cuLaunchKernel(
            function: CUfunction,
            grid_x: c_uint, grid_y: c_uint, grid_z: c_uint,
            block_x: c_uint, block_y: c_uint, block_z: c_uint,
            shared_mem_bytes: c_uint,
            stream: CUstream,
            params: In<HostPtr>,
            extra: In<HostPtr>,
        );
        cuLaunchCooperativeKernel_ptsz = cuLaunchCooperativeKernel(
            function: CUfunction,
            grid_x: c_uint, grid_y: c_uint, grid_z: c_uint,
            block_x: c_uint, block_y: c_uint, block_z: c_uint,
            shared_mem_bytes: c_uint,
            stream: CUstream,
            params: In<HostPtr>,
        );
    }
    configured {
        cuLaunchKernelEx_ptsz = cuLaunchKernelEx(
            config: In<CUlaunchConfig>,
            function: CUfunction,
            params: In<HostPtr>,
            extra: In<HostPtr>,
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::foreign::versions::{PerThread, row_of};
    use crate::symbols::FUNCTIONS;

    /// A new row of the table that takes a stream needs a variant here.
    #[test]
    fn every_function_with_a_stream_has_its_variant() {
        for name in FUNCTIONS {
            let base = name.rsplit_once("_v").map_or(*name, |(base, _)| base);
            let suffix = match row_of(base).map(|row| row.per_thread) {
                Some(PerThread::Ptds) => "_ptds",
                Some(PerThread::Ptsz) => "_ptsz",
                _ => continue,
            };
            let variant = format!("{name}{suffix}");
            assert!(address(&variant).is_some(), "per_thread.rs has no {variant}");
        }
    }

    #[test]
    fn only_the_null_stream_is_replaced() {
        assert_eq!(effective_stream(std::ptr::null_mut()), PER_THREAD_STREAM);
        let other = std::ptr::without_provenance_mut(1);
        assert_eq!(effective_stream(other), other);
    }
}
