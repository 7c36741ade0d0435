//! Memory of ranks of one host that all of them reach, and what is fast by it: sums of small messages, and exchanges of large ones.
//!
//! Each rank of a communicator allocates the same amount, and maps what the others have allocated (`cuIpcGetMemHandle`,
//! `cuIpcOpenMemHandle`). Whether that is done is decided once for a communicator, by all ranks together: the backend is NCCL, there
//! are two to [`MAX_RANKS`] ranks, all on one host, each device reaches each other one, and no rank has said no. Otherwise no
//! rank has it, and NCCL does all the work.
//!
//! What a rank allocates, one behind the other:
//!
//! | what | bytes |
//! |---|---|
//! | lines, quads and flags of the sums: [`kernels_gpu::peers`] | 39 MiB |
//! | flags of the exchanges: [`exchange`] | 4 KiB |
//! | staging, a part for each other rank | 192 MiB; from five ranks on 64 MiB for each other one |
//!
//! [Rooms](rooms), memory of any size that the others write into without staging, are allocated when an operation wants them.
//!
//! # Ranks that are lost
//!
//! A kernel that waits for another rank looks at a word in the host's memory now and then, which whatever ends the communicator sets
//! ([`Fate::end`]). So it ends, and what was enqueued behind it runs, with data that mean nothing. The memory of the others stays
//! mapped until all that this rank has enqueued is done, and its own memory stays allocated until all ranks have said that
//! they have closed it. Where that cannot be known, since a rank is lost or does not come, it stays until the process ends.

mod exchange;
mod kernels;
mod memory;
mod reduce;
mod rooms;
#[cfg(test)]
pub(crate) mod tests;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use cuda_std::launch::DeviceAtomics;
use ferrowarp::memory::MappedAtomics;
use ferrowarp::{Gpu, Stream};
use kernels_gpu::peers::{MAX_RANKS, exchange_bytes};

use crate::error::DistResult;
use crate::fate::Fate;
use crate::world::World;

pub(crate) use exchange::{CHUNKS, Landing, Put, Puts, Rows, copy_bytes};
pub(crate) use kernels::Unordered;
pub(crate) use rooms::{Reached, Rooms};

use exchange::Lanes;
use kernels::Kernels;
use memory::{Mapping, Meeting, Own};
use reduce::Calls;

/// The most bytes of a message that is summed here.
pub(crate) const MOST_SUMMED_BYTES: usize = 8 << 20;
/// The bytes of all staging of a rank, and the fewest for each other rank. Every chunk costs its flags, and three launches of the
/// host on each side: with slots of 16 MiB two H200s exchanged a matrix at 67 % of the link's rate, with slots of 24 MiB at 79 %;
/// four with slots of 5 MiB at 42 %, with slots of 16 MiB at 69 %.
const STAGING_BYTES: usize = 192 << 20;
const LEAST_STAGING_BYTES: usize = 64 << 20;
/// Chunks of staging for each other rank.
const SLOTS: usize = 4;
/// Where the exchanges' flags begin.
const FLAGS: usize = exchange_bytes(MOST_SUMMED_BYTES).next_multiple_of(4096);
/// Where staging begins.
const STAGING: usize = FLAGS + 4096;
const _: () = assert!(2 * MAX_RANKS * SLOTS * size_of::<u32>() <= STAGING - FLAGS);

/// What each of some ranks allocates.
fn memory_bytes(ranks: usize, slot_bytes: usize) -> usize {
    STAGING + (ranks - 1) * SLOTS * slot_bytes
}

/// How long the end of a communicator waits for work that was enqueued, and for the other ranks.
const END: Duration = Duration::from_secs(10);

/// The memory of all ranks of a communicator, as one of them has it.
pub(crate) struct PeerMemory {
    rank: usize,
    ranks: usize,
    slot_bytes: usize,
    gpu: Gpu,
    /// Word 0 is set when the communicator has ended.
    given_up: Arc<MappedAtomics<u32>>,
    kernels: Kernels,
    calls: Mutex<Calls>,
    lanes: Mutex<Lanes>,
    rooms: Mutex<Rooms>,
    /// What ends last.
    mapping: Mapping,
}

impl PeerMemory {
    /// The memory of the ranks of `fate`, if all of them can have it. All ranks call it, with the same `key`.
    pub(crate) fn meet(
        world: &World,
        gpu: &Gpu,
        rank: u32,
        key: &str,
        fate: &Arc<Fate>,
    ) -> DistResult<Option<Self>> {
        let (rank, ranks) = (rank as usize, fate.members().len());
        if !(2..=MAX_RANKS).contains(&ranks) {
            return Ok(None);
        }
        let meeting = Meeting::new(world, format!("{key}/peers"), fate, rank);
        let is_wanted = world.environment().settings.allows_peer_memory();
        let parts = if is_wanted { Parts::new(gpu, ranks).ok() } else { None };
        let (own, others) =
            parts.map(|parts| (parts.memory, (parts.kernels, parts.given_up))).unzip();
        let mapping = meeting.clone().map(own)?;
        let (Some(mapping), Some((kernels, given_up))) = (mapping, others) else { return Ok(None) };
        let lanes = Lanes::new(gpu, rank, ranks)?;
        fate.give_up_by(given_up.clone());
        let (slot_bytes, rooms) = (slot_bytes(ranks), Rooms::new(gpu, rank, Some(meeting)));
        let (gpu, calls) = (gpu.clone(), Mutex::default());
        let (lanes, rooms) = (Mutex::new(lanes), Mutex::new(rooms));
        Ok(Some(Self {
            rank,
            ranks,
            slot_bytes,
            gpu,
            given_up,
            kernels,
            calls,
            lanes,
            rooms,
            mapping,
        }))
    }

    /// Memory of all ranks that they write into at its place.
    pub(crate) fn rooms(&self) -> MutexGuard<'_, Rooms> {
        lock(&self.rooms)
    }

    /// The address, for kernels, of the word that ends their waits.
    fn given_up(&self) -> u64 {
        self.given_up.raw_atomics().address
    }

    /// The staging at rank `at` for what comes from rank `from`.
    fn staging(&self, at: usize, from: usize, slot: usize) -> u64 {
        let part = from - usize::from(from > at);
        let offset = STAGING + (part * SLOTS + slot) * self.slot_bytes();
        self.mapping.address(at) + offset as u64
    }

    /// The bytes of a slot: the largest chunk of an exchange.
    pub(crate) fn slot_bytes(&self) -> usize {
        self.slot_bytes
    }

    /// The flag at rank `at` of a slot, by which rank `from` tells that it has filled it (`kind` 0), or emptied its own (1).
    fn flag(&self, at: usize, kind: usize, from: usize, slot: usize) -> u64 {
        let index = (kind * MAX_RANKS + from) * SLOTS + slot;
        self.mapping.address(at) + (FLAGS + index * size_of::<u32>()) as u64
    }

    /// Waits until all that was enqueued here is done; whether it is.
    fn drain(&self, patience: Duration) -> bool {
        let last = lock(&self.calls).last.clone();
        let lanes = lock(&self.lanes);
        let is_idle = |stream: &Stream| match stream.synchronize_timeout(patience) {
            Ok(is_idle) => is_idle,
            // A device that is lost has stopped.
            Err(_) => self.gpu.is_lost(),
        };
        last.iter().all(is_idle) && lanes.all().all(is_idle)
    }
}

/// The bytes of a slot, of which each other rank of so many has [`SLOTS`].
fn slot_bytes(ranks: usize) -> usize {
    let of_each = (STAGING_BYTES / (ranks - 1)).max(LEAST_STAGING_BYTES);
    of_each / SLOTS / 4096 * 4096
}

impl Drop for PeerMemory {
    fn drop(&mut self) {
        /// More than a kernel needs to see that it is given up.
        const GIVEN_UP: Duration = Duration::from_secs(2);
        if self.drain(END) {
            return;
        }
        self.given_up[0].store(1, std::sync::atomic::Ordering::Release);
        if !self.drain(GIVEN_UP) {
            // Something may use all of it yet: it stays until the process ends.
            self.mapping.keep();
            lock(&self.rooms).keep();
            std::mem::forget(self.given_up.clone());
        }
    }
}

/// What a rank has before it knows of the others.
struct Parts {
    memory: Own,
    kernels: Kernels,
    given_up: Arc<MappedAtomics<u32>>,
}

impl Parts {
    fn new(gpu: &Gpu, ranks: usize) -> DistResult<Self> {
        let memory = Own::new(gpu, memory_bytes(ranks, slot_bytes(ranks)))?;
        let given_up = Arc::new(MappedAtomics::zeroed(gpu, 1)?);
        Ok(Self { memory, kernels: Kernels::load(gpu)?, given_up })
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
