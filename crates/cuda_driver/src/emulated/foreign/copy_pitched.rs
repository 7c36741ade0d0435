//! Three-dimensional copies.
#![allow(non_snake_case)]

use crate::abi::{CUstream, Copy2D, In};
use crate::detail::DriverResult;
use crate::emulated::copy::wait_for;
use crate::emulated::copy_pitched::{cuMemcpy2D_v2, plan_copy};
use crate::emulated::memory_copy::{copy_blocking, copy_on_stream};
use crate::structs::Copy3D;

pub(crate) fn cuMemcpy2DUnaligned_v2(copy: In<Copy2D>) -> DriverResult {
    cuMemcpy2D_v2(copy)
}

pub(crate) fn cuMemcpy3D_v2(copy: In<Copy3D>) -> DriverResult {
    copy_blocking(plan_copy(&copy.get()?)?)
}

pub(crate) fn cuMemcpy3DAsync_v2(copy: In<Copy3D>, stream: CUstream) -> DriverResult {
    copy_on_stream(plan_copy(&copy.get()?)?, stream)
}

pub(crate) fn cuMemcpy3DPeer(copy: In<Copy3D>) -> DriverResult {
    let copy = copy.get()?;
    let contexts = [copy.dst_context, copy.src_context];
    let named: Vec<_> = contexts.into_iter().filter(|context| !context.is_null()).collect();
    wait_for(&named)?;
    copy_blocking(plan_copy(&copy)?)
}

pub(crate) fn cuMemcpy3DPeerAsync(copy: In<Copy3D>, stream: CUstream) -> DriverResult {
    cuMemcpy3DAsync_v2(copy, stream)
}
