//! Memory that a node of a graph allocates. Its address is known when the node is made, and stays
//! the same in every launch.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Weak};

use super::allocations::{self, Block, Kind, take};
use super::current::Context;
use super::gpu::Gpu;
use super::operation::Operation;
use super::{invalid, lock};
use crate::abi::{CUdevice, CUdeviceptr};
use crate::codes::CUDA_ERROR_INVALID_VALUE;
use crate::detail::{Answer, Failure};

/// The memory of an allocation node. The address range is taken as long as a graph, or something
/// made ready from it, has the node.
pub(super) struct GraphMemory {
    pub(super) address: CUdeviceptr,
    pub(super) bytes: usize,
    pub(super) gpu: &'static Gpu,
    /// Whether a launch allocated it, and nothing freed it since.
    live: AtomicBool,
}

static ALL: Mutex<BTreeMap<u64, Weak<GraphMemory>>> = Mutex::new(BTreeMap::new());

/// The graph's memory that begins at `address`.
pub(super) fn at(address: CUdeviceptr) -> Option<Arc<GraphMemory>> {
    lock(&ALL).get(&address)?.upgrade()
}

impl GraphMemory {
    pub(super) fn new(bytes: usize, context: &Context) -> Answer<Arc<Self>> {
        let address = context.gpu.memory().alloc(bytes as u64)?;
        allocations::add(Block::new(address, bytes as u64, Kind::Graph, 0, context));
        let live = AtomicBool::new(false);
        let memory = Arc::new(Self { address, bytes, gpu: context.gpu, live });
        lock(&ALL).insert(address, Arc::downgrade(&memory));
        note_usage(memory.gpu);
        Ok(memory)
    }

    /// What a launch does. It is an error where an earlier launch's memory was not freed.
    fn begin(&self, free_first: bool) -> Answer {
        let before = self.live.swap(true, Ordering::AcqRel);
        note_usage(self.gpu);
        match before {
            true if !free_first => Err(Failure::new(
                CUDA_ERROR_INVALID_VALUE,
                "memory of the graph's last launch was not freed",
            )),
            _ => Ok(()),
        }
    }

    pub(super) fn is_live(&self) -> bool {
        self.live.load(Ordering::Acquire)
    }

    /// What a free does, in a graph or outside.
    pub(super) fn end(&self) -> Answer {
        match self.live.swap(false, Ordering::AcqRel) {
            true => Ok(()),
            false => Err(invalid(format!("{:#x} is not allocated now", self.address))),
        }
    }
}

impl Operation for GraphMemory {
    fn node_type(&self) -> i32 {
        10
    }

    fn name(&self) -> String {
        format!("allocation of {} bytes", self.bytes)
    }

    fn run(&self, _: &Gpu) -> Answer {
        Ok(())
    }

    fn before_launch(&self, free_first: bool) -> Answer {
        self.begin(free_first)
    }
}

/// Frees the memory that begins at an address: a graph's, or any that a pool or the device has.
pub(super) struct FreeMemory(pub(super) CUdeviceptr);

impl Operation for FreeMemory {
    fn node_type(&self) -> i32 {
        11
    }

    fn name(&self) -> String {
        format!("free of {:#x}", self.0)
    }

    /// A graph's memory is freed already, by [`Operation::before_launch`].
    fn run(&self, _: &Gpu) -> Answer {
        if at(self.0).is_some() {
            return Ok(());
        }
        take(self.0, &[Kind::Device, Kind::Pooled])?.release()
    }

    fn before_launch(&self, _: bool) -> Answer {
        at(self.0).map_or(Ok(()), |memory| memory.end())
    }
}

impl Drop for GraphMemory {
    fn drop(&mut self) {
        lock(&ALL).remove(&self.address);
        if let Ok(block) = take(self.address, &[Kind::Graph]) {
            // The only error would be that it is free already.
            let _ = block.release();
        }
    }
}

/// Bytes of a device that graphs have: live ones, and all that are reserved.
pub(super) fn usage(gpu: &Gpu) -> (u64, u64) {
    let all: Vec<_> = lock(&ALL).values().filter_map(Weak::upgrade).collect();
    let theirs = || all.iter().filter(|memory| memory.gpu.ordinal == gpu.ordinal);
    let bytes = |live: bool| {
        theirs().filter(|memory| !live || memory.is_live()).map(|memory| memory.bytes as u64).sum()
    };
    (bytes(true), bytes(false))
}

/// By device: the highest amounts of live and of reserved bytes since the program set them back.
static HIGHEST: Mutex<BTreeMap<CUdevice, (u64, u64)>> = Mutex::new(BTreeMap::new());

fn note_usage(gpu: &Gpu) {
    let (live, reserved) = usage(gpu);
    let mut highest = lock(&HIGHEST);
    let own = highest.entry(gpu.ordinal).or_default();
    *own = (own.0.max(live), own.1.max(reserved));
}

pub(super) fn highest(device: CUdevice) -> (u64, u64) {
    lock(&HIGHEST).get(&device).copied().unwrap_or_default()
}

pub(super) fn forget_highest(device: CUdevice) {
    lock(&HIGHEST).remove(&device);
}
