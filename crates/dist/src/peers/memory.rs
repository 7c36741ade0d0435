//! Allocations, and their mapping into other processes.

use std::sync::Arc;

use cuda_driver::sys;
use ferrowarp::memory::resource::SynchronousMemory;
use ferrowarp::{DeviceBuffer, Gpu};
use kernels_gpu::peers::MAX_RANKS;
use serde::{Deserialize, Serialize};

use super::END;
use crate::driver::{check, in_context};
use crate::error::{DistError, DistResult};
use crate::fate::Fate;
use crate::world::World;

/// Memory of this rank's device that other processes can map. Freed when it is dropped.
pub(super) struct Own {
    gpu: Gpu,
    memory: DeviceBuffer<u8>,
    handle: sys::IpcMemHandle,
}

impl Own {
    /// So many bytes of zeros.
    pub(super) fn new(gpu: &Gpu, bytes: usize) -> DistResult<Self> {
        let mut own = Self {
            gpu: gpu.clone(),
            // Not of a pool, whose memory has no such handle.
            memory: DeviceBuffer::zeroed_in(&Arc::new(SynchronousMemory), gpu, bytes)?,
            handle: sys::IpcMemHandle { reserved: [0; 64] },
        };
        gpu.stream().synchronize()?;
        let address = own.address();
        // SAFETY: `handle` is writable, and the memory is an allocation.
        let mut got = || unsafe { sys::cuIpcGetMemHandle(&mut own.handle, address) };
        in_context(gpu, || check("cuIpcGetMemHandle", got()))?;
        Ok(own)
    }

    fn address(&self) -> u64 {
        self.memory.as_device_ptr().address()
    }

    /// Maps the memory that the ranks' handles name.
    fn open(self, handles: &[&[u8]], meeting: Meeting) -> DistResult<Mapping> {
        const LAZY_ENABLE_PEER_ACCESS: u32 = 1;
        let (mut addresses, own, rank) = ([0; MAX_RANKS], self.address(), meeting.rank);
        let (gpu, ranks, meeting) = (self.gpu.clone(), handles.len(), Some(meeting));
        let mut mapping = Mapping { own: Some(self), rank, addresses, ranks, meeting };
        in_context(&gpu, || {
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

/// How some ranks meet to map each other's memory, and part.
#[derive(Clone)]
pub(super) struct Meeting {
    world: World,
    key: String,
    fate: Arc<Fate>,
    rank: usize,
}

/// What a rank says of its memory.
#[derive(Serialize, Deserialize)]
struct Offer {
    host_id: String,
    handle: Vec<u8>,
}

impl Meeting {
    /// All ranks of `fate` have the same `key`, which no other meeting has.
    pub(super) fn new(world: &World, key: String, fate: &Arc<Fate>, rank: usize) -> Self {
        Self { world: world.clone(), key, fate: fate.clone(), rank }
    }

    /// Another meeting of the same ranks.
    pub(super) fn named(&self, name: &str) -> Self {
        Self { key: format!("{}/{name}", self.key), ..self.clone() }
    }

    fn exchange(&self, step: &str, value: Vec<u8>) -> DistResult<Vec<Vec<u8>>> {
        let (what, key) = ("the mapping of memory among ranks", format!("{}/{step}", self.key));
        self.world.exchange_among(what, &key, self.fate.members(), value, self.world.timeout())
    }

    /// Maps what each rank has allocated; `None`, on all ranks, if one of them has nothing, or cannot map what another one has. All ranks
    /// call it.
    pub(super) fn map(self, own: Option<Own>) -> DistResult<Option<Mapping>> {
        let offer = own.as_ref().map(|own| Offer {
            host_id: crate::control::host_id(),
            handle: own.handle.reserved.to_vec(),
        });
        let offers = self.exchange("offer", encode(&offer))?;
        let offers: Option<Vec<Offer>> = offers.iter().map(|offer| decode(offer)).collect();
        // From here on all ranks that have an offer of each other go on alike.
        let (Some(own), Some(offers)) = (own, offers) else { return Ok(None) };
        if offers.iter().any(|offer| offer.host_id != offers[0].host_id) {
            return Ok(None);
        }
        let handles: Vec<_> = offers.iter().map(|offer| offer.handle.as_slice()).collect();
        let opened = own.open(&handles, self.clone());
        let answers = self.exchange("opened", vec![u8::from(opened.is_ok())]);
        let is_open = |answer: &Vec<u8>| answer.first() == Some(&1);
        match opened {
            // Of all that is opened the drop of it takes care, on all ranks.
            Ok(mapping) if answers?.iter().all(is_open) => Ok(Some(mapping)),
            _ => Ok(None),
        }
    }

    /// Waits until all ranks have closed what they had opened; whether they have.
    fn part(self) -> bool {
        let what = "the end of memory that ranks have mapped";
        let (members, key) = (self.fate.members(), format!("{}/end", self.key));
        // Of one that was aborted the others do not know.
        !self.fate.has_ended()
            && self.world.exchange_among(what, &key, members, Vec::new(), END).is_ok()
    }
}

fn encode(offer: &Option<Offer>) -> Vec<u8> {
    serde_json::to_vec(offer).expect("names and numbers are JSON")
}

fn decode(text: &[u8]) -> Option<Offer> {
    serde_json::from_slice::<Option<Offer>>(text).ok().flatten()
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
    meeting: Option<Meeting>,
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
        self.meeting = None;
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
        let Some(meeting) = self.meeting.take() else { return };
        self.close();
        if !meeting.part() {
            // Another rank may have it mapped yet.
            std::mem::forget(self.own.take());
        }
    }
}

#[cfg(test)]
impl Mapping {
    /// The memory of ranks that are all in this process, on one device: for each of them.
    pub(super) fn of_one_process(gpu: &Gpu, ranks: usize, bytes: usize) -> Vec<Self> {
        let allocate = |_| Own {
            gpu: gpu.clone(),
            memory: DeviceBuffer::zeroed(gpu, bytes).expect("there is memory"),
            handle: sys::IpcMemHandle { reserved: [0; 64] },
        };
        let all: Vec<_> = (0..ranks).map(allocate).collect();
        let mut addresses = [0; MAX_RANKS];
        addresses.iter_mut().zip(&all).for_each(|(to, own)| *to = own.address());
        let mapping = |(rank, own)| Self { own: Some(own), rank, ranks, addresses, meeting: None };
        all.into_iter().enumerate().map(mapping).collect()
    }
}
