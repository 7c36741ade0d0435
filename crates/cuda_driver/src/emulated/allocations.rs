//! What was allocated, how, and by whom; the emulator's memory knows only where.

use std::collections::BTreeMap;
use std::sync::Mutex;

use super::current::Context;
use super::gpu::Gpu;
use super::registry::Handle;
use super::{invalid, lock};
use crate::codes::{CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, CUDA_ERROR_INVALID_VALUE};
use crate::detail::{Answer, Failure};

/// How memory came to be the device's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// `cuMemAlloc`.
    Device,
    /// `cuMemAllocAsync`.
    Pooled,
    /// `cuMemAllocManaged`.
    Managed,
    /// `cuMemHostAlloc`.
    Host,
    /// `cuMemHostRegister`: the program's own memory.
    Registered,
    /// A node of a graph; it goes with the graph.
    Graph,
    /// `cuArrayCreate`: not reached by address.
    Array,
    /// `cuMemMap`: pages that the program put there.
    Mapped,
}

impl Kind {
    /// Whether the memory is the host's, which kernels may touch too.
    pub(super) fn is_host(self) -> bool {
        matches!(self, Self::Host | Self::Registered)
    }
}

/// The pool that an allocation comes from.
#[derive(Clone, Copy)]
pub(super) struct Lender {
    pub(super) handle: Handle,
    /// Told that so many bytes of the pool were freed.
    pub(super) take_back: fn(Handle, u64),
}

/// One live allocation.
#[derive(Clone, Copy)]
pub(super) struct Block {
    pub(super) base: u64,
    pub(super) bytes: u64,
    pub(super) kind: Kind,
    pub(super) flags: u32,
    pub(super) context: Handle,
    pub(super) gpu: &'static Gpu,
    /// The pool it comes from.
    pub(super) pool: Option<Lender>,
    /// Whether copies of it always wait, where the program said so; see `cuPointerSetAttribute`.
    pub(super) sync_memops: Option<bool>,
}

impl Block {
    /// A block of a context's device.
    pub(super) fn new(base: u64, bytes: u64, kind: Kind, flags: u32, context: &Context) -> Self {
        let (handle, gpu) = (context.handle, context.gpu);
        Self { base, bytes, kind, flags, context: handle, gpu, pool: None, sync_memops: None }
    }

    /// Gives the memory back. The block is out of the map already, so this happens once.
    pub(super) fn release(&self) -> Answer {
        let memory = self.gpu.memory();
        match self.kind {
            Kind::Host => memory.free_host(self.base)?,
            Kind::Registered => memory.unregister(self.base)?,
            _ => memory.free(self.base)?,
        }
        self.pool.into_iter().for_each(|pool| (pool.take_back)(pool.handle, self.bytes));
        Ok(())
    }
}

static BLOCKS: Mutex<BTreeMap<u64, Block>> = Mutex::new(BTreeMap::new());

/// Allocates memory of a kind.
pub(super) fn allocate(kind: Kind, bytes: usize, flags: u32, context: &Context) -> Answer<u64> {
    let (bytes, memory) = (bytes as u64, context.gpu.memory());
    let base = match kind {
        Kind::Host => memory.alloc_host(bytes)?,
        Kind::Managed => memory.alloc_shared(bytes)?,
        _ => memory.alloc(bytes)?,
    };
    add(Block::new(base, bytes, kind, flags, context));
    Ok(base)
}

/// Takes memory out of the map that was never allocated here.
pub(super) fn forget(base: u64) {
    lock(&BLOCKS).remove(&base);
}

/// Enters memory into the map.
pub(super) fn add(block: Block) {
    lock(&BLOCKS).insert(block.base, block);
}

/// The live block that `address` lies in.
pub(super) fn find(address: u64) -> Option<Block> {
    let blocks = lock(&BLOCKS);
    let (_, block) = blocks.range(..=address).next_back()?;
    (address - block.base < block.bytes).then_some(*block)
}

/// Changes the live block that `address` lies in.
pub(super) fn change(address: u64, change: impl FnOnce(&mut Block)) -> Answer {
    let mut blocks = lock(&BLOCKS);
    let block = blocks.range_mut(..=address).next_back().map(|(_, block)| block);
    match block.filter(|block| address - block.base < block.bytes) {
        Some(block) => change(block),
        None => return Err(invalid(format!("{address:#x} lies in no live allocation"))),
    }
    Ok(())
}

/// The live block that `address` lies in, or `CUDA_ERROR_INVALID_VALUE`.
pub(super) fn containing(address: u64) -> Answer<Block> {
    find(address).ok_or_else(|| invalid(format!("{address:#x} lies in no live allocation")))
}

/// The live blocks of which `wanted` says so.
pub(super) fn blocks_where(wanted: impl Fn(&Block) -> bool) -> Vec<Block> {
    lock(&BLOCKS).values().filter(|block| wanted(block)).copied().collect()
}

/// How many there are.
pub(super) fn live() -> usize {
    lock(&BLOCKS).len()
}

/// Takes the block that begins at `address` out of the map; from here on it is the caller's to
/// release, and nobody else can free it.
pub(super) fn take(address: u64, kinds: &[Kind]) -> Answer<Block> {
    let mut blocks = lock(&BLOCKS);
    match blocks.get(&address).map(|block| block.kind) {
        Some(kind) if kinds.contains(&kind) => {}
        Some(kind) => return Err(invalid(format!("{address:#x} is {kind:?} memory"))),
        None => {
            drop(blocks);
            return Err(no_block(address, kinds));
        }
    }
    blocks.remove(&address).ok_or_else(|| no_block(address, kinds))
}

fn no_block(address: u64, kinds: &[Kind]) -> Failure {
    let code = match kinds {
        [Kind::Registered] => CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED,
        _ => CUDA_ERROR_INVALID_VALUE,
    };
    let text = match find(address) {
        Some(Block { base, bytes, .. }) => format!(
            "{address:#x} is {} bytes into the {bytes}-byte allocation at {base:#x}; only its \
             first address can be freed",
            address - base
        ),
        None => format!("no live allocation begins at {address:#x}; was it freed already?"),
    };
    Failure::new(code, text)
}

/// Frees all that a context has, but for what belongs to a graph, or is mapped: that outlives it.
pub(super) fn free_all(context: Handle) -> Answer {
    let stays = |block: &Block| matches!(block.kind, Kind::Graph | Kind::Mapped);
    let theirs = |block: &Block| block.context == context && !stays(block);
    let mut blocks = lock(&BLOCKS);
    let gone: Vec<Block> = blocks.values().copied().filter(theirs).collect();
    blocks.retain(|_, block| !theirs(block));
    drop(blocks);
    gone.iter().try_for_each(Block::release)
}
