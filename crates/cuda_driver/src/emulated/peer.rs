//! Peer access: kernels of one device that access another device's memory.
//!
//! The API enables access between contexts. In the emulator all contexts of a device share its
//! memory, so access that one of them enables holds for all.
#![allow(non_snake_case)]

use std::collections::BTreeSet;
use std::sync::Mutex;

use super::current::{Context, current, from_handle};
use super::gpu::{Gpu, gpu};
use super::registry::Handle;
use super::{check_flags, invalid_value, lock};
use crate::abi::{CUcontext, CUdevice, Out};
use crate::codes::{
    CUDA_ERROR_INVALID_DEVICE, CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED,
    CUDA_ERROR_PEER_ACCESS_NOT_ENABLED, CUDA_ERROR_PEER_ACCESS_UNSUPPORTED,
};
use crate::detail::{DriverError, DriverResult};

/// The accessing context and its device, and the context whose memory it accesses and its device.
type PeerAccess = ((Handle, CUdevice), (Handle, CUdevice));

static PEER_ACCESSES: Mutex<BTreeSet<PeerAccess>> = Mutex::new(BTreeSet::new());

fn key(context: &Context) -> (Handle, CUdevice) {
    (context.handle, context.gpu.ordinal)
}

pub(crate) fn cuDeviceCanAccessPeer(
    can: Out<i32>,
    device: CUdevice,
    peer: CUdevice,
) -> DriverResult {
    let (device, peer) = (gpu(device)?, gpu(peer)?);
    can.set((device.ordinal != peer.ordinal).into())
}

/// All pairs of devices have equal attributes.
pub(crate) fn cuDeviceGetP2PAttribute(
    value: Out<i32>,
    attribute: i32,
    from: CUdevice,
    to: CUdevice,
) -> DriverResult {
    let (from, to) = (gpu(from)?, gpu(to)?);
    if from.ordinal == to.ordinal {
        let text = "a device is not a peer of itself";
        return Err(DriverError::new(CUDA_ERROR_INVALID_DEVICE, text));
    }
    match attribute {
        // The performance rank; support of access, of atomics, of arrays.
        1 => value.set(0),
        2..=4 => value.set(1),
        _ => Err(invalid_value(format!("{attribute} is not a peer-to-peer attribute"))),
    }
}

pub(crate) fn cuCtxEnablePeerAccess(peer: CUcontext, flags: u32) -> DriverResult {
    let own = current()?;
    check_flags(flags, 0)?;
    let peer = from_handle(peer)?;
    peer.check()?;
    if own.gpu.ordinal == peer.gpu.ordinal {
        let text = "both contexts are on the same device";
        return Err(DriverError::new(CUDA_ERROR_PEER_ACCESS_UNSUPPORTED, text));
    }
    if !lock(&PEER_ACCESSES).insert((key(&own), key(&peer))) {
        return Err(DriverError::from(CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED));
    }
    own.gpu.memory().reach(peer.gpu.memory(), true);
    Ok(())
}

pub(crate) fn cuCtxDisablePeerAccess(peer: CUcontext) -> DriverResult {
    let own = current()?;
    let peer = from_handle(peer)?;
    if !lock(&PEER_ACCESSES).remove(&(key(&own), key(&peer))) {
        return Err(DriverError::from(CUDA_ERROR_PEER_ACCESS_NOT_ENABLED));
    }
    own.streams.wait_all();
    close(own.gpu, peer.gpu);
    own.check()
}

/// Ends the access of one device to another, unless other contexts still have it.
fn close(own: &Gpu, peer: &Gpu) {
    let between = |((_, from), (_, to)): &PeerAccess| *from == own.ordinal && *to == peer.ordinal;
    if !lock(&PEER_ACCESSES).iter().any(between) {
        own.memory().reach(peer.memory(), false);
    }
}

/// Ends all access from a context and to it.
pub(super) fn forget(context: Handle) -> DriverResult {
    let gone: Vec<PeerAccess> =
        lock(&PEER_ACCESSES).extract_if(.., |(a, b)| a.0 == context || b.0 == context).collect();
    for ((_, from), (_, to)) in gone {
        close(gpu(from)?, gpu(to)?);
    }
    Ok(())
}

/// Whether kernels of a device can access another one's memory.
pub(super) fn is_open(from: &Gpu, to: &Gpu) -> bool {
    let between = |((_, a), (_, b)): &PeerAccess| *a == from.ordinal && *b == to.ordinal;
    from.ordinal == to.ordinal || lock(&PEER_ACCESSES).iter().any(between)
}
