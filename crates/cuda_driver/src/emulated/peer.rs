//! Access of one device to another's memory.
//!
//! Access is between contexts; but the contexts of a device share its memory here, so that one of
//! them opens it to all.
#![allow(non_snake_case)]

use std::collections::BTreeSet;
use std::sync::Mutex;

use super::current::{Context, current, named};
use super::gpu::{Gpu, gpu};
use super::registry::Handle;
use super::{check_flags, invalid, lock};
use crate::abi::{CUcontext, CUdevice, Out};
use crate::codes::{
    CUDA_ERROR_INVALID_DEVICE, CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED,
    CUDA_ERROR_PEER_ACCESS_NOT_ENABLED, CUDA_ERROR_PEER_ACCESS_UNSUPPORTED,
};
use crate::detail::{Answer, Failure};

/// A context and its device, and the same of the other one whose memory it reaches.
type Open = ((Handle, CUdevice), (Handle, CUdevice));

static OPEN: Mutex<BTreeSet<Open>> = Mutex::new(BTreeSet::new());

fn key(context: &Context) -> (Handle, CUdevice) {
    (context.handle, context.gpu.ordinal)
}

pub(crate) fn cuDeviceCanAccessPeer(can: Out<i32>, device: CUdevice, peer: CUdevice) -> Answer {
    let (device, peer) = (gpu(device)?, gpu(peer)?);
    can.set((device.ordinal != peer.ordinal).into())
}

/// Every pair of devices is like every other.
pub(crate) fn cuDeviceGetP2PAttribute(
    value: Out<i32>,
    attribute: i32,
    from: CUdevice,
    to: CUdevice,
) -> Answer {
    let (from, to) = (gpu(from)?, gpu(to)?);
    if from.ordinal == to.ordinal {
        let text = "a device is no peer of itself";
        return Err(Failure::new(CUDA_ERROR_INVALID_DEVICE, text));
    }
    match attribute {
        // A rank of speed; access, atomics, arrays.
        1 => value.set(0),
        2..=4 => value.set(1),
        _ => Err(invalid(format!("{attribute} is no attribute of a pair of devices"))),
    }
}

pub(crate) fn cuCtxEnablePeerAccess(peer: CUcontext, flags: u32) -> Answer {
    let own = current()?;
    check_flags(flags, 0)?;
    let peer = named(peer)?;
    peer.check()?;
    if own.gpu.ordinal == peer.gpu.ordinal {
        let text = "both contexts are of one device";
        return Err(Failure::new(CUDA_ERROR_PEER_ACCESS_UNSUPPORTED, text));
    }
    if !lock(&OPEN).insert((key(&own), key(&peer))) {
        return Err(Failure::from(CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED));
    }
    own.gpu.memory().reach(peer.gpu.memory(), true);
    Ok(())
}

pub(crate) fn cuCtxDisablePeerAccess(peer: CUcontext) -> Answer {
    let own = current()?;
    let peer = named(peer)?;
    if !lock(&OPEN).remove(&(key(&own), key(&peer))) {
        return Err(Failure::from(CUDA_ERROR_PEER_ACCESS_NOT_ENABLED));
    }
    own.queue.wait_all();
    close(own.gpu, peer.gpu);
    own.check()
}

/// Ends the access of one device to another, unless other contexts have it.
fn close(own: &Gpu, peer: &Gpu) {
    let between = |((_, from), (_, to)): &Open| *from == own.ordinal && *to == peer.ordinal;
    if !lock(&OPEN).iter().any(between) {
        own.memory().reach(peer.memory(), false);
    }
}

/// Ends all access of a context, and to it.
pub(super) fn forget(context: Handle) -> Answer {
    let gone: Vec<Open> =
        lock(&OPEN).extract_if(.., |(a, b)| a.0 == context || b.0 == context).collect();
    for ((_, from), (_, to)) in gone {
        close(gpu(from)?, gpu(to)?);
    }
    Ok(())
}

/// Whether kernels of a device reach another one's memory.
pub(super) fn is_open(from: &Gpu, to: &Gpu) -> bool {
    let between = |((_, a), (_, b)): &Open| *a == from.ordinal && *b == to.ordinal;
    from.ordinal == to.ordinal || lock(&OPEN).iter().any(between)
}
