//! Memory that the nodes of graphs allocate. Its address is known when the node is made, and does
//! not change from launch to launch.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Weak};

use super::allocations::{self, Allocation, MemoryKind, remove};
use super::current::Context;
use super::gpu::Gpu;
use super::operation::{NodeType, Operation};
use super::{invalid_value, lock};
use crate::abi::{CUdevice, CUdeviceptr};
use crate::codes::CUDA_ERROR_INVALID_VALUE;
use crate::detail::{DriverError, DriverResult};

/// The memory of an allocation node. Its address range is reserved as long as a graph or an
/// executable graph has the node.
pub(super) struct GraphMemory {
    pub(super) address: CUdeviceptr,
    pub(super) bytes: usize,
    pub(super) gpu: &'static Gpu,
    /// Whether a launch has allocated it and nothing has freed it since.
    live: AtomicBool,
}

static ALL: Mutex<BTreeMap<u64, Weak<GraphMemory>>> = Mutex::new(BTreeMap::new());

/// The graph memory that begins at `address`.
pub(super) fn at(address: CUdeviceptr) -> Option<Arc<GraphMemory>> {
    lock(&ALL).get(&address)?.upgrade()
}

impl GraphMemory {
    pub(super) fn new(bytes: usize, context: &Context) -> DriverResult<Arc<Self>> {
        let address = context.gpu.memory().alloc(bytes as u64)?;
        allocations::add(Allocation::new(address, bytes as u64, MemoryKind::Graph, 0, context));
        let live = AtomicBool::new(false);
        let memory = Arc::new(Self { address, bytes, gpu: context.gpu, live });
        lock(&ALL).insert(address, Arc::downgrade(&memory));
        note_usage(memory.gpu);
        Ok(memory)
    }

    /// Allocates the memory for a launch. Fails if memory of an earlier launch was not freed.
    fn begin(&self, free_first: bool) -> DriverResult {
        let before = self.live.swap(true, Ordering::AcqRel);
        note_usage(self.gpu);
        match before {
            true if !free_first => Err(DriverError::new(
                CUDA_ERROR_INVALID_VALUE,
                "memory that the graph's last launch allocated was not freed",
            )),
            _ => Ok(()),
        }
    }

    pub(super) fn is_live(&self) -> bool {
        self.live.load(Ordering::Acquire)
    }

    /// Frees the memory, in a graph or outside of one.
    pub(super) fn end(&self) -> DriverResult {
        match self.live.swap(false, Ordering::AcqRel) {
            true => Ok(()),
            false => Err(invalid_value(format!("{:#x} is not allocated at present", self.address))),
        }
    }
}

impl Operation for GraphMemory {
    fn node_type(&self) -> NodeType {
        NodeType::MemAlloc
    }

    fn name(&self) -> String {
        format!("allocation of {} bytes", self.bytes)
    }

    fn run(&self, _: &Gpu) -> DriverResult {
        Ok(())
    }

    fn before_launch(&self, free_first: bool) -> DriverResult {
        self.begin(free_first)
    }
}

/// Frees the memory that begins at an address, which may be of a graph, of a pool, or plain device
/// memory.
pub(super) struct FreeMemory(pub(super) CUdeviceptr);

impl Operation for FreeMemory {
    fn node_type(&self) -> NodeType {
        NodeType::MemFree
    }

    fn name(&self) -> String {
        format!("free of {:#x}", self.0)
    }

    /// Graph memory is freed already, by [`Operation::before_launch`].
    fn run(&self, _: &Gpu) -> DriverResult {
        if at(self.0).is_some() {
            return Ok(());
        }
        remove(self.0, &[MemoryKind::Device, MemoryKind::Pooled])?.release()
    }

    fn before_launch(&self, _: bool) -> DriverResult {
        at(self.0).map_or(Ok(()), |memory| memory.end())
    }
}

impl Drop for GraphMemory {
    fn drop(&mut self) {
        lock(&ALL).remove(&self.address);
        if let Ok(allocation) = remove(self.address, &[MemoryKind::Graph]) {
            // The only possible error is that it is free already.
            let _ = allocation.release();
        }
    }
}

/// Bytes of a device's memory that graphs use: allocated ones, and all reserved ones.
pub(super) fn usage(gpu: &Gpu) -> (u64, u64) {
    let all: Vec<_> = lock(&ALL).values().filter_map(Weak::upgrade).collect();
    let theirs = || all.iter().filter(|memory| memory.gpu.ordinal == gpu.ordinal);
    let bytes = |live: bool| {
        theirs().filter(|memory| !live || memory.is_live()).map(|memory| memory.bytes as u64).sum()
    };
    (bytes(true), bytes(false))
}

/// By device: the high-water marks of allocated and of reserved bytes since the program reset them.
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
