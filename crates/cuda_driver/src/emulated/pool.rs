//! Pools of memory for allocations in a stream's order. Memory goes back to the device as soon as
//! it is freed: nothing is kept for later, and so there is nothing to trim.
#![allow(non_snake_case)]

use std::ffi::c_void;
use std::sync::{Arc, Mutex, OnceLock};

use ::emulator::memory::MAX_DEVICES;

use super::allocations::{self, Block, Kind, Lender, blocks_where};
use super::current::Context;
use super::gpu::{Gpu, gpu};
use super::registry::{Handle, Registry};
use super::{capture, graph_memory, invalid, lacking, lock};
use crate::abi::{CUdevice, CUdeviceptr, CUobject, In, MemLocation, Out};
use crate::codes::CUDA_ERROR_OUT_OF_MEMORY;
use crate::detail::{Answer, Failure};
use crate::structs::{MemAccess, PoolProps};

/// Access of a device to memory: none, or to read and write.
pub(super) const NO_ACCESS: i32 = 0;
pub(super) const READ_WRITE: i32 = 3;
/// The API's number of memory that stays where it is.
const PINNED: i32 = 1;
/// The API's number of a place on a device.
pub(super) const ON_DEVICE: i32 = 1;

/// A pool.
pub(super) struct Pool {
    gpu: &'static Gpu,
    /// The most that it may hand out; 0 for any.
    max_bytes: u64,
    is_default: bool,
    state: Mutex<State>,
}

struct State {
    /// Three permissions to reuse memory early: there is none to reuse.
    reuse: [i32; 3],
    /// Bytes that may be kept: none are.
    threshold: u64,
    used: u64,
    high: u64,
    /// The devices that may touch the pool's memory besides its own.
    open_to: Vec<CUdevice>,
}

static POOLS: Registry<Pool> = Registry::new("memory pool");

/// By device: its default pool, and the one that `cuMemAllocAsync` takes from.
static DEFAULT: [OnceLock<Handle>; MAX_DEVICES] = [const { OnceLock::new() }; MAX_DEVICES];
static CURRENT: [Mutex<Option<Handle>>; MAX_DEVICES] = [const { Mutex::new(None) }; MAX_DEVICES];

fn create(gpu: &'static Gpu, max_bytes: u64, is_default: bool) -> Handle {
    let state = State { reuse: [1; 3], threshold: 0, used: 0, high: 0, open_to: Vec::new() };
    POOLS.add(Pool { gpu, max_bytes, is_default, state: Mutex::new(state) })
}

/// How many the program has made, and not ended.
pub(super) fn live() -> usize {
    POOLS.count(|pool| !pool.is_default)
}

fn default_of(gpu: &'static Gpu) -> Handle {
    *DEFAULT[gpu.ordinal as usize].get_or_init(|| create(gpu, 0, true))
}

/// The pool that a device's allocations come from where none is named.
pub(super) fn current_of(gpu: &'static Gpu) -> Handle {
    let current = *lock(&CURRENT[gpu.ordinal as usize]);
    current.unwrap_or_else(|| default_of(gpu))
}

/// Allocates from a pool, for a context that frees it in the end.
pub(super) fn allocate(pool: Handle, bytes: usize, context: &Context) -> Answer<CUdeviceptr> {
    let found = POOLS.get(pool.as_ptr())?;
    let bytes = bytes as u64;
    let mut state = lock(&found.state);
    if found.max_bytes > 0 && state.used + bytes > found.max_bytes {
        let text =
            format!("the pool may hand out {} bytes, and has {}", found.max_bytes, state.used);
        return Err(Failure::new(CUDA_ERROR_OUT_OF_MEMORY, text));
    }
    let memory = found.gpu.memory();
    let base = memory.alloc(bytes)?;
    for device in &state.open_to {
        memory.give(base, gpu(*device)?.memory(), true);
    }
    state.used += bytes;
    state.high = state.high.max(state.used);
    let block = Block::new(base, bytes, Kind::Pooled, 0, context);
    allocations::add(Block {
        gpu: found.gpu,
        pool: Some(Lender { handle: pool, take_back: shrink }),
        ..block
    });
    Ok(base)
}

/// Takes note of freed memory.
fn shrink(pool: Handle, bytes: u64) {
    if let Some(pool) = POOLS.find(pool) {
        let mut state = lock(&pool.state);
        state.used = state.used.saturating_sub(bytes);
    }
}

pub(crate) fn cuDeviceGetDefaultMemPool(pool: Out<CUobject>, device: CUdevice) -> Answer {
    pool.set(default_of(gpu(device)?).as_ptr())
}

pub(crate) fn cuDeviceGetMemPool(pool: Out<CUobject>, device: CUdevice) -> Answer {
    pool.set(current_of(gpu(device)?).as_ptr())
}

pub(crate) fn cuDeviceSetMemPool(device: CUdevice, pool: CUobject) -> Answer {
    let gpu = gpu(device)?;
    let found = POOLS.get(pool)?;
    if found.gpu.ordinal != gpu.ordinal {
        return Err(invalid("the pool is another device's"));
    }
    *lock(&CURRENT[gpu.ordinal as usize]) = Some(pool.into());
    Ok(())
}

pub(crate) fn cuMemPoolCreate(pool: Out<CUobject>, props: In<PoolProps>) -> Answer {
    let PoolProps { kind, handle_types, location, max_bytes, .. } = props.get()?;
    pool.check()?;
    if kind != PINNED {
        return Err(invalid(format!("{kind} is no kind of allocation for a pool")));
    }
    if location.kind != ON_DEVICE {
        return Err(lacking("the emulator's pools are of devices"));
    }
    if handle_types != 0 {
        return Err(lacking("the emulator shares no memory with other processes"));
    }
    capture::check_unsafe()?;
    pool.set(create(gpu(location.id)?, max_bytes as u64, false).as_ptr())
}

/// What is allocated stays until it is freed.
pub(crate) fn cuMemPoolDestroy(pool: CUobject) -> Answer {
    let found = POOLS.get(pool)?;
    if found.is_default {
        return Err(invalid("a device's default pool is not destroyed"));
    }
    capture::check_unsafe()?;
    let mut current = lock(&CURRENT[found.gpu.ordinal as usize]);
    if *current == Some(pool.into()) {
        *current = None;
    }
    drop(current);
    POOLS.remove(pool).map(drop)
}

pub(crate) fn cuMemPoolTrimTo(pool: CUobject, _keep_bytes: usize) -> Answer {
    POOLS.get(pool)?;
    capture::check_unsafe()
}

/// Attributes 1 to 3 are numbers of 32 bits, 4 to 8 of 64. Reading them ends captures too.
pub(crate) fn cuMemPoolGetAttribute(pool: CUobject, id: i32, value: Out<c_void>) -> Answer {
    let pool = POOLS.get(pool)?;
    capture::check_unsafe()?;
    let state = lock(&pool.state);
    let wide = match id {
        1..=3 => return value.cast::<i32>().set(state.reuse[(id - 1) as usize]),
        4 => state.threshold,
        5 | 7 => state.used,
        6 | 8 => state.high,
        _ => return Err(invalid(format!("{id} is no attribute of a pool"))),
    };
    value.cast::<u64>().set(wide)
}

/// The highest amounts can only be set back to 0, which stands for the present ones.
pub(crate) fn cuMemPoolSetAttribute(pool: CUobject, id: i32, value: In<c_void>) -> Answer {
    let pool = POOLS.get(pool)?;
    capture::check_unsafe()?;
    let mut state = lock(&pool.state);
    match id {
        1..=3 => state.reuse[(id - 1) as usize] = value.cast::<i32>().get()?.signum().abs(),
        4 => state.threshold = value.cast::<u64>().get()?,
        6 | 8 if value.cast::<u64>().get()? == 0 => state.high = state.used,
        6 | 8 => return Err(invalid("a highest amount can only be set back to 0")),
        _ => return Err(invalid(format!("attribute {id} of a pool cannot be set"))),
    }
    Ok(())
}

/// The device that a description of access names.
pub(super) fn device_of(location: MemLocation) -> Answer<&'static Gpu> {
    match location.kind {
        ON_DEVICE => gpu(location.id),
        2..=4 => Err(lacking("the emulator gives access to devices only")),
        odd => Err(invalid(format!("{odd} is no kind of place; there are 1 to 4"))),
    }
}

pub(crate) fn cuMemPoolSetAccess(pool: CUobject, list: In<MemAccess>, count: usize) -> Answer {
    let handle = Handle::from(pool);
    let pool = POOLS.get(pool)?;
    if count > 0 {
        list.get()?;
    }
    for at in 0..count {
        let MemAccess { location, flags } = list.at(at);
        let open = match flags {
            NO_ACCESS => false,
            READ_WRITE => true,
            _ => return Err(invalid(format!("access {flags}; a pool gives 0 or {READ_WRITE}"))),
        };
        pool.open(handle, device_of(location)?, open)?;
    }
    Ok(())
}

impl Pool {
    fn open(&self, handle: Handle, to: &'static Gpu, open: bool) -> Answer {
        if to.ordinal == self.gpu.ordinal {
            return if open {
                Ok(())
            } else {
                Err(invalid("a pool's own device keeps its access"))
            };
        }
        let mut state = lock(&self.state);
        state.open_to.retain(|device| *device != to.ordinal);
        if open {
            state.open_to.push(to.ordinal);
        }
        for block in blocks_where(|block| block.pool.is_some_and(|pool| pool.handle == handle)) {
            self.gpu.memory().give(block.base, to.memory(), open);
        }
        Ok(())
    }
}

pub(crate) fn cuMemPoolGetAccess(
    flags: Out<i32>,
    pool: CUobject,
    location: In<MemLocation>,
) -> Answer {
    let pool: Arc<Pool> = POOLS.get(pool)?;
    let device = device_of(location.get()?)?.ordinal;
    let open = device == pool.gpu.ordinal || lock(&pool.state).open_to.contains(&device);
    flags.set(if open { READ_WRITE } else { NO_ACCESS })
}

/// Memory of a device that graphs have: live bytes, their highest amount, reserved bytes, theirs.
pub(crate) fn cuDeviceGetGraphMemAttribute(
    device: CUdevice,
    id: i32,
    value: Out<c_void>,
) -> Answer {
    let (live, reserved) = graph_memory::usage(gpu(device)?);
    let highest = graph_memory::highest(device);
    let amount = match id {
        0 => live,
        1 => highest.0.max(live),
        2 => reserved,
        3 => highest.1.max(reserved),
        _ => return Err(invalid(format!("{id} is no attribute of graphs' memory"))),
    };
    value.cast::<u64>().set(amount)
}

pub(crate) fn cuDeviceSetGraphMemAttribute(device: CUdevice, id: i32, value: In<c_void>) -> Answer {
    gpu(device)?;
    match (id, value.cast::<u64>().get()?) {
        (1 | 3, 0) => graph_memory::forget_highest(device),
        (1 | 3, _) => return Err(invalid("a highest amount can only be set back to 0")),
        _ => return Err(invalid(format!("attribute {id} of graphs' memory cannot be set"))),
    }
    Ok(())
}

/// Graphs keep what their nodes need, and nothing more.
pub(crate) fn cuDeviceGraphMemTrim(device: CUdevice) -> Answer {
    gpu(device).map(drop)
}

/// The pool of a block of memory.
pub(super) fn handle_of(block: &Block) -> CUobject {
    block.pool.map_or(std::ptr::null_mut(), |pool| pool.handle.as_ptr())
}
