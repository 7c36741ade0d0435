//! Copies of boxes in three dimensions.
#![allow(non_snake_case)]

use crate::abi::{CUstream, Copy2D, In};
use crate::detail::Answer;
use crate::emulated::boxes::{cuMemcpy2D_v2, plan};
use crate::emulated::copy::wait_for;
use crate::emulated::transfer::{later, now};
use crate::structs::Copy3D;

pub(crate) fn cuMemcpy2DUnaligned_v2(copy: In<Copy2D>) -> Answer {
    cuMemcpy2D_v2(copy)
}

pub(crate) fn cuMemcpy3D_v2(copy: In<Copy3D>) -> Answer {
    now(plan(&copy.get()?)?)
}

pub(crate) fn cuMemcpy3DAsync_v2(copy: In<Copy3D>, stream: CUstream) -> Answer {
    later(plan(&copy.get()?)?, stream)
}

pub(crate) fn cuMemcpy3DPeer(copy: In<Copy3D>) -> Answer {
    let copy = copy.get()?;
    let contexts = [copy.dst_context, copy.src_context];
    let named: Vec<_> = contexts.into_iter().filter(|context| !context.is_null()).collect();
    wait_for(&named)?;
    now(plan(&copy)?)
}

pub(crate) fn cuMemcpy3DPeerAsync(copy: In<Copy3D>, stream: CUstream) -> Answer {
    cuMemcpy3DAsync_v2(copy, stream)
}
