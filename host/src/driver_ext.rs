//! Driver functions and constants that cust's bindings lack, or declare with enums that lack newer values.
//!
//! `cuda_driver` exports the functions.

use std::ffi::{c_int, c_uint, c_void};

use cuda_driver::{CUlaunchConfig, HostPtr, In};
use cust::sys;

/// The function attribute that lets a kernel run in clusters that not every device with clusters can hold.
pub(crate) const NON_PORTABLE_CLUSTER_SIZE_ALLOWED: c_int = 14;

/// The driver's `CUlib_st`.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Library {}

/// The driver's `CUstreamBatchMemOpParams` for a write of 32 bits.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct WriteValue {
    pub(crate) operation: u32,
    pub(crate) context_reserved: u32,
    pub(crate) address: u64,
    pub(crate) value: u64,
    pub(crate) flags: u32,
    pub(crate) pad: u32,
    /// An address for the driver's own use.
    pub(crate) alias: u64,
    pub(crate) rest: u64,
}

const _: () = assert!(size_of::<WriteValue>() == 48);

unsafe extern "C" {
    pub(crate) fn cuFuncSetAttribute(
        function: sys::CUfunction,
        attribute: c_int,
        value: c_int,
    ) -> sys::CUresult;

    pub(crate) fn cuFuncGetParamInfo(
        function: sys::CUfunction,
        index: usize,
        offset: *mut usize,
        bytes: *mut usize,
    ) -> sys::CUresult;

    /// cust's binding passes the status as a Rust enum, which lacks codes. Unlike `cuLaunchHostFunc`, this one
    /// calls back after a fault as well.
    pub(crate) fn cuStreamAddCallback(
        stream: sys::CUstream,
        callback: unsafe extern "C" fn(sys::CUstream, u32, *mut c_void),
        data: *mut c_void,
        flags: c_uint,
    ) -> sys::CUresult;

    pub(crate) fn cuStreamBatchMemOp_v2(
        stream: sys::CUstream,
        count: u32,
        ops: *mut WriteValue,
        flags: u32,
    ) -> sys::CUresult;

    /// cust's binding takes the attribute as a Rust enum, which lacks newer attributes.
    pub(crate) fn cuGraphKernelNodeSetAttribute(
        node: sys::CUgraphNode,
        attribute: c_uint,
        value: *const [u32; 16],
    ) -> sys::CUresult;

    pub(crate) fn cuLibraryLoadData(
        library: *mut *mut Library,
        code: *const c_void,
        jit_options: *mut c_int,
        jit_values: *mut *mut c_void,
        n_jit_options: c_uint,
        options: *mut c_int,
        values: *mut *mut c_void,
        n_options: c_uint,
    ) -> sys::CUresult;
    pub(crate) fn cuLibraryGetModule(
        module: *mut sys::CUmodule,
        library: *mut Library,
    ) -> sys::CUresult;
    pub(crate) fn cuLibraryUnload(library: *mut Library) -> sys::CUresult;
    pub(crate) fn cuModuleGetLoadingMode(mode: *mut c_int) -> sys::CUresult;

    pub(crate) fn cuLaunchKernelEx(
        config: In<CUlaunchConfig>,
        function: sys::CUfunction,
        params: In<HostPtr>,
        extra: In<HostPtr>,
    ) -> sys::CUresult;
    pub(crate) fn cuOccupancyMaxActiveClusters(
        clusters: *mut c_int,
        function: sys::CUfunction,
        config: In<CUlaunchConfig>,
    ) -> sys::CUresult;
}
