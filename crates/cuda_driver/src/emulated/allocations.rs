//! The live allocations: how each was made, and by which context. The emulator's memory knows only
//! their addresses.

use std::collections::BTreeMap;
use std::sync::Mutex;

use super::current::Context;
use super::gpu::Gpu;
use super::registry::Handle;
use super::{invalid_value, lock};
use crate::codes::{CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, CUDA_ERROR_INVALID_VALUE};
use crate::detail::{DriverError, DriverResult};

/// How memory was made accessible to the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MemoryKind {
    /// `cuMemAlloc`.
    Device,
    /// `cuMemAllocAsync`.
    Pooled,
    /// `cuMemAllocManaged`.
    Managed,
    /// `cuMemHostAlloc`.
    Host,
    /// `cuMemHostRegister` of the program's own memory.
    Registered,
    /// A node of a graph; freed with the graph.
    Graph,
    /// `cuArrayCreate`; not accessible by address.
    Array,
    /// `cuMemMap`.
    Mapped,
}

impl MemoryKind {
    /// Whether it is pinned host memory.
    pub(super) fn is_host(self) -> bool {
        matches!(self, Self::Host | Self::Registered)
    }
}

/// The pool that an allocation comes from.
#[derive(Clone, Copy)]
pub(super) struct OwningPool {
    pub(super) handle: Handle,
    /// Called with the pool and the number of bytes when the allocation is freed.
    pub(super) on_free: fn(Handle, u64),
}

/// One live allocation.
#[derive(Clone, Copy)]
pub(super) struct Allocation {
    pub(super) base: u64,
    pub(super) bytes: u64,
    pub(super) kind: MemoryKind,
    pub(super) flags: u32,
    pub(super) context: Handle,
    pub(super) gpu: &'static Gpu,
    /// The pool that it comes from.
    pub(super) pool: Option<OwningPool>,
    /// Whether copies of it are always synchronous, if the program has set that; see
    /// `cuPointerSetAttribute`.
    pub(super) sync_memops: Option<bool>,
}

impl Allocation {
    /// An allocation on a context's device.
    pub(super) fn new(
        base: u64,
        bytes: u64,
        kind: MemoryKind,
        flags: u32,
        context: &Context,
    ) -> Self {
        let (handle, gpu) = (context.handle, context.gpu);
        Self { base, bytes, kind, flags, context: handle, gpu, pool: None, sync_memops: None }
    }

    /// Frees the memory. The allocation was removed from the map already, so this happens once.
    pub(super) fn release(&self) -> DriverResult {
        let memory = self.gpu.memory();
        match self.kind {
            MemoryKind::Host => memory.free_host(self.base)?,
            MemoryKind::Registered => memory.unregister(self.base)?,
            _ => memory.free(self.base)?,
        }
        self.pool.into_iter().for_each(|pool| (pool.on_free)(pool.handle, self.bytes));
        Ok(())
    }
}

static ALLOCATIONS: Mutex<BTreeMap<u64, Allocation>> = Mutex::new(BTreeMap::new());

/// Allocates memory of a kind.
pub(super) fn allocate(
    kind: MemoryKind,
    bytes: usize,
    flags: u32,
    context: &Context,
) -> DriverResult<u64> {
    let (bytes, memory) = (bytes as u64, context.gpu.memory());
    let base = match kind {
        MemoryKind::Host => memory.alloc_host(bytes)?,
        MemoryKind::Managed => memory.alloc_shared(bytes)?,
        _ => memory.alloc(bytes)?,
    };
    add(Allocation::new(base, bytes, kind, flags, context));
    Ok(base)
}

/// Removes memory from the map that was not allocated here.
pub(super) fn forget(base: u64) {
    lock(&ALLOCATIONS).remove(&base);
}

/// Adds memory to the map.
pub(super) fn add(allocation: Allocation) {
    lock(&ALLOCATIONS).insert(allocation.base, allocation);
}

/// The live allocation that contains `address`.
pub(super) fn find(address: u64) -> Option<Allocation> {
    let allocations = lock(&ALLOCATIONS);
    let (_, allocation) = allocations.range(..=address).next_back()?;
    (address - allocation.base < allocation.bytes).then_some(*allocation)
}

/// Changes the live allocation that contains `address`.
pub(super) fn change(address: u64, change: impl FnOnce(&mut Allocation)) -> DriverResult {
    let mut allocations = lock(&ALLOCATIONS);
    let allocation =
        allocations.range_mut(..=address).next_back().map(|(_, allocation)| allocation);
    match allocation.filter(|allocation| address - allocation.base < allocation.bytes) {
        Some(allocation) => change(allocation),
        None => return Err(invalid_value(format!("{address:#x} lies in no live allocation"))),
    }
    Ok(())
}

/// The live allocation that contains `address`, or `CUDA_ERROR_INVALID_VALUE`.
pub(super) fn containing(address: u64) -> DriverResult<Allocation> {
    find(address).ok_or_else(|| invalid_value(format!("{address:#x} lies in no live allocation")))
}

/// The live allocations for which `wanted` returns true.
pub(super) fn allocations_where(predicate: impl Fn(&Allocation) -> bool) -> Vec<Allocation> {
    lock(&ALLOCATIONS).values().filter(|allocation| predicate(allocation)).copied().collect()
}

/// The number of live allocations.
pub(super) fn live() -> usize {
    lock(&ALLOCATIONS).len()
}

/// Removes the allocation that begins at `address` from the map. The caller has to release it, and
/// no other call can free it.
pub(super) fn remove(address: u64, kinds: &[MemoryKind]) -> DriverResult<Allocation> {
    let mut allocations = lock(&ALLOCATIONS);
    match allocations.get(&address).map(|allocation| allocation.kind) {
        Some(kind) if kinds.contains(&kind) => {}
        Some(kind) => return Err(invalid_value(format!("{address:#x} is {kind:?} memory"))),
        None => {
            drop(allocations);
            return Err(no_allocation(address, kinds));
        }
    }
    allocations.remove(&address).ok_or_else(|| no_allocation(address, kinds))
}

fn no_allocation(address: u64, kinds: &[MemoryKind]) -> DriverError {
    let code = match kinds {
        [MemoryKind::Registered] => CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED,
        _ => CUDA_ERROR_INVALID_VALUE,
    };
    let text = match find(address) {
        Some(Allocation { base, bytes, .. }) => format!(
            "{address:#x} is {} bytes into the {bytes}-byte allocation at {base:#x}; only its \
             first address can be freed",
            address - base
        ),
        None => format!("no live allocation begins at {address:#x}; was it freed already?"),
    };
    DriverError::new(code, text)
}

/// Frees all memory of a context, except graph memory and mapped memory, which outlive it.
pub(super) fn free_all(context: Handle) -> DriverResult {
    let stays =
        |allocation: &Allocation| matches!(allocation.kind, MemoryKind::Graph | MemoryKind::Mapped);
    let theirs = |allocation: &Allocation| allocation.context == context && !stays(allocation);
    let mut allocations = lock(&ALLOCATIONS);
    let gone: Vec<Allocation> = allocations.values().copied().filter(theirs).collect();
    allocations.retain(|_, allocation| !theirs(allocation));
    drop(allocations);
    gone.iter().try_for_each(Allocation::release)
}
