//! Allocations, and their mapping into other processes.

use std::sync::Arc;

use cuda_driver::sys;
use ferrowarp::Gpu;
use kernels_gpu::peers::MAX_RANKS;

use super::END;
use crate::driver::{check, in_context};
use crate::error::{DistError, DistResult};
use crate::fate::Fate;
use crate::world::World;

/// Memory of this rank's device that other processes can map. Freed when it is dropped.
pub(super) struct Own {
    gpu: Gpu,
    address: u64,
    handle: sys::IpcMemHandle,
}

impl Own {
    /// So many bytes of zeros.
    pub(super) fn new(gpu: &Gpu, bytes: usize) -> DistResult<Self> {
        in_context(gpu, || {
            let (mut address, mut handle) = (0, sys::IpcMemHandle { reserved: [0; 64] });
            // Not of a pool, whose memory has no such handle.
            // SAFETY: `address` is writable.
            check("cuMemAlloc", unsafe { sys::cuMemAlloc_v2(&mut address, bytes) })?;
            // Freed from here on, whatever fails.
            let mut own = Self { gpu: gpu.clone(), address, handle };
            // SAFETY: the memory is as long, and no other code has it; the call waits for itself.
            check("cuMemsetD8", unsafe { sys::cuMemsetD8_v2(address, 0, bytes) })?;
            // SAFETY: no pointers are given. (The fill above may be under way when it returns.)
            check("cuCtxSynchronize", unsafe { sys::cuCtxSynchronize() })?;
            // SAFETY: `handle` is writable, and the memory is an allocation.
            let got = unsafe { sys::cuIpcGetMemHandle(&mut handle, address) };
            check("cuIpcGetMemHandle", got)?;
            own.handle = handle;
            Ok(own)
        })
    }

    /// What another process opens it by.
    pub(super) fn handle(&self) -> &[u8] {
        &self.handle.reserved
    }

    /// Maps the memory that the others' handles name.
    pub(super) fn open(
        self,
        gpu: &Gpu,
        rank: usize,
        handles: &[&[u8]],
        leave: Leave,
    ) -> DistResult<Mapping> {
        const LAZY_ENABLE_PEER_ACCESS: u32 = 1;
        let (mut addresses, own) = ([0; MAX_RANKS], self.address);
        let mut mapping =
            Mapping { own: Some(self), rank, addresses, ranks: handles.len(), leave: Some(leave) };
        in_context(gpu, || {
            for (peer, bytes) in handles.iter().enumerate() {
                if peer == rank {
                    addresses[peer] = own;
                    continue;
                }
                let mut handle = sys::IpcMemHandle { reserved: [0; 64] };
                let damaged = DistError::Unable {
                    rank: peer as u32,
                    reason: "its handle of memory is damaged".to_owned(),
                };
                if bytes.len() != handle.reserved.len() {
                    return Err(damaged);
                }
                handle.reserved.copy_from_slice(bytes);
                // SAFETY: the address is writable, and the handle came from the driver of a process that keeps the memory.
                let opened = unsafe {
                    sys::cuIpcOpenMemHandle_v2(
                        &mut addresses[peer],
                        handle,
                        LAZY_ENABLE_PEER_ACCESS,
                    )
                };
                check("cuIpcOpenMemHandle", opened)?;
                mapping.addresses = addresses;
            }
            mapping.addresses = addresses;
            Ok(())
        })?;
        Ok(mapping)
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        // SAFETY: the memory was allocated here, no other process has it mapped, and nothing uses it: its owners have seen to that.
        let free = || check("cuMemFree", unsafe { sys::cuMemFree_v2(self.address) });
        // An error is that of a device which is lost.
        let _ = in_context(&self.gpu, free);
    }
}

/// How the ranks tell each other that they have closed what they had opened.
pub(super) struct Leave {
    world: World,
    key: String,
    fate: Arc<Fate>,
}

impl Leave {
    pub(super) fn new(world: &World, key: String, fate: &Arc<Fate>) -> Self {
        Self { world: world.clone(), key, fate: fate.clone() }
    }

    /// Waits until all ranks have come here; whether they have.
    fn meet(self) -> bool {
        let what = "the end of a communicator";
        let members = self.fate.members();
        // Of one that was aborted the others do not know.
        !self.fate.has_ended()
            && self.world.exchange_among(what, &self.key, members, Vec::new(), END).is_ok()
    }
}

/// The memory of all ranks, as this one reaches it. What is dropped is closed, and freed when all ranks have closed it; nothing may use
/// it any more.
pub(super) struct Mapping {
    /// `None` once it is to stay.
    own: Option<Own>,
    rank: usize,
    ranks: usize,
    /// Of each rank; 0 where it is not mapped.
    addresses: [u64; MAX_RANKS],
    leave: Option<Leave>,
}

impl Mapping {
    /// Where this rank reaches the memory of `rank`.
    pub(super) fn address(&self, rank: usize) -> u64 {
        self.addresses[rank]
    }

    /// As [`address`](Self::address), of all ranks.
    pub(super) fn addresses(&self) -> [u64; MAX_RANKS] {
        self.addresses
    }

    /// Neither closes nor frees anything, until the process ends.
    pub(super) fn keep(&mut self) {
        self.addresses = [0; MAX_RANKS];
        self.leave = None;
        std::mem::forget(self.own.take());
    }

    fn close(&self) {
        let Some(own) = &self.own else { return };
        let others = (0..self.ranks).filter(|rank| *rank != self.rank);
        for address in others.map(|rank| self.addresses[rank]).filter(|address| *address != 0) {
            // SAFETY: the mapping was opened here, and nothing uses it any more.
            let close =
                || check("cuIpcCloseMemHandle", unsafe { sys::cuIpcCloseMemHandle(address) });
            // As above.
            let _ = in_context(&own.gpu, close);
        }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        let Some(leave) = self.leave.take() else { return };
        self.close();
        if !leave.meet() {
            // Another rank may have it mapped yet.
            std::mem::forget(self.own.take());
        }
    }
}

#[cfg(test)]
impl Mapping {
    /// The memory of ranks that are all in this process, on one device: for each of them.
    pub(super) fn of_one_process(gpu: &Gpu, ranks: usize, bytes: usize) -> Vec<Self> {
        let allocate = |_| {
            let (mut address, handle) = (0, sys::IpcMemHandle { reserved: [0; 64] });
            in_context(gpu, || {
                // SAFETY: `address` is writable, and the memory is as long.
                let made = unsafe {
                    [sys::cuMemAlloc_v2(&mut address, bytes), sys::cuMemsetD8_v2(address, 0, bytes)]
                };
                made.into_iter().try_for_each(|made| check("cuMemAlloc", made))
            })
            .expect("there is memory");
            Own { gpu: gpu.clone(), address, handle }
        };
        let all: Vec<_> = (0..ranks).map(allocate).collect();
        let mut addresses = [0; MAX_RANKS];
        addresses.iter_mut().zip(&all).for_each(|(to, own)| *to = own.address);
        let mapping = |(rank, own)| Self { own: Some(own), rank, ranks, addresses, leave: None };
        all.into_iter().enumerate().map(mapping).collect()
    }
}
