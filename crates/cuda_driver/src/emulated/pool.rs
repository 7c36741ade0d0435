//! Memory pools for stream-ordered allocation. Freed memory is returned to the device at once.
//! Nothing is cached, so there is nothing to trim.
#![allow(non_snake_case)]

use std::ffi::c_void;
use std::sync::{Arc, Mutex, OnceLock};

use ::emulator::memory::MAX_DEVICES;

use super::allocations::{self, Allocation, MemoryKind, OwningPool, allocations_where};
use super::current::Context;
use super::gpu::{Gpu, gpu};
use super::registry::{Handle, Registry};
use super::{capture, graph_memory, invalid_value, lock, not_supported};
use crate::abi::{CUdevice, CUdeviceptr, CUmemoryPool, In, MemLocation, Out};
use crate::codes::CUDA_ERROR_OUT_OF_MEMORY;
pub(super) use crate::constants::mem_access::{
    PROT_NONE as NO_ACCESS, PROT_READWRITE as READ_WRITE,
};
use crate::constants::mem_allocation_type::PINNED;
pub(super) use crate::constants::mem_location_type::DEVICE as ON_DEVICE;
use crate::constants::mempool_attribute as A;
use crate::detail::{DriverError, DriverResult};
use crate::structs::{MemAccess, PoolProps};

/// A memory pool.
pub(super) struct Pool {
    gpu: &'static Gpu,
    /// Bytes that may be allocated at once; 0 for no limit.
    max_bytes: u64,
    is_default: bool,
    state: Mutex<State>,
}

struct State {
    /// Three flags that permit early reuse of memory; without a cache they have no effect.
    reuse: [i32; 3],
    /// The release threshold, without effect: no memory is cached.
    threshold: u64,
    used: u64,
    high: u64,
    /// The devices that have access to the pool's memory besides its own.
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

/// The number of live pools, without default pools.
pub(super) fn live() -> usize {
    POOLS.count(|pool| !pool.is_default)
}

fn default_of(gpu: &'static Gpu) -> Handle {
    *DEFAULT[gpu.ordinal as usize].get_or_init(|| create(gpu, 0, true))
}

/// The current pool of a device, for allocations that name none.
pub(super) fn current_of(gpu: &'static Gpu) -> Handle {
    let current = *lock(&CURRENT[gpu.ordinal as usize]);
    current.unwrap_or_else(|| default_of(gpu))
}

/// Allocates from a pool. The memory is freed with the context at the latest.
pub(super) fn allocate(pool: Handle, bytes: usize, context: &Context) -> DriverResult<CUdeviceptr> {
    let found = POOLS.get(pool)?;
    let bytes = bytes as u64;
    let mut state = lock(&found.state);
    if found.max_bytes > 0 && state.used + bytes > found.max_bytes {
        let text = format!(
            "the pool is limited to {} bytes, and {} are in use",
            found.max_bytes, state.used
        );
        return Err(DriverError::new(CUDA_ERROR_OUT_OF_MEMORY, text));
    }
    let memory = found.gpu.memory();
    let base = memory.alloc(bytes)?;
    for device in &state.open_to {
        memory.give(base, gpu(*device)?.memory(), true);
    }
    state.used += bytes;
    state.high = state.high.max(state.used);
    let allocation = Allocation::new(base, bytes, MemoryKind::Pooled, 0, context);
    allocations::add(Allocation {
        gpu: found.gpu,
        pool: Some(OwningPool { handle: pool, on_free: shrink }),
        ..allocation
    });
    Ok(base)
}

/// Counts bytes as freed.
fn shrink(pool: Handle, bytes: u64) {
    if let Some(pool) = POOLS.find(pool) {
        let mut state = lock(&pool.state);
        state.used = state.used.saturating_sub(bytes);
    }
}

pub(crate) fn cuDeviceGetDefaultMemPool(pool: Out<CUmemoryPool>, device: CUdevice) -> DriverResult {
    pool.set(default_of(gpu(device)?).as_ptr())
}

pub(crate) fn cuDeviceGetMemPool(pool: Out<CUmemoryPool>, device: CUdevice) -> DriverResult {
    pool.set(current_of(gpu(device)?).as_ptr())
}

pub(crate) fn cuDeviceSetMemPool(device: CUdevice, pool: CUmemoryPool) -> DriverResult {
    let gpu = gpu(device)?;
    let found = POOLS.get(pool)?;
    if found.gpu.ordinal != gpu.ordinal {
        return Err(invalid_value("the pool belongs to another device"));
    }
    *lock(&CURRENT[gpu.ordinal as usize]) = Some(pool.into());
    Ok(())
}

pub(crate) fn cuMemPoolCreate(pool: Out<CUmemoryPool>, props: In<PoolProps>) -> DriverResult {
    let PoolProps { kind, handle_types, location, max_bytes, .. } = props.get()?;
    pool.check()?;
    if kind != PINNED {
        return Err(invalid_value(format!("{kind} is not an allocation type of a memory pool")));
    }
    if location.kind != ON_DEVICE {
        return Err(not_supported("the emulator's pools are on devices only"));
    }
    if handle_types != 0 {
        return Err(not_supported("the emulator cannot share memory with other processes"));
    }
    capture::check_unsafe()?;
    pool.set(create(gpu(location.id)?, max_bytes as u64, false).as_ptr())
}

/// Allocated memory outlives the pool.
pub(crate) fn cuMemPoolDestroy(pool: CUmemoryPool) -> DriverResult {
    let found = POOLS.get(pool)?;
    if found.is_default {
        return Err(invalid_value("a device's default pool cannot be destroyed"));
    }
    capture::check_unsafe()?;
    let mut current = lock(&CURRENT[found.gpu.ordinal as usize]);
    if *current == Some(pool.into()) {
        *current = None;
    }
    drop(current);
    POOLS.remove(pool).map(drop)
}

pub(crate) fn cuMemPoolTrimTo(pool: CUmemoryPool, _keep_bytes: usize) -> DriverResult {
    POOLS.get(pool)?;
    capture::check_unsafe()
}

/// Attributes 1 to 3 are 32-bit numbers, 4 to 8 are 64-bit ones. Reading one invalidates captures,
/// too.
pub(crate) fn cuMemPoolGetAttribute(
    pool: CUmemoryPool,
    id: i32,
    value: Out<c_void>,
) -> DriverResult {
    let pool = POOLS.get(pool)?;
    capture::check_unsafe()?;
    let state = lock(&pool.state);
    let wide = match id {
        1..=3 => return value.cast::<i32>().set(state.reuse[(id - 1) as usize]),
        A::RELEASE_THRESHOLD => state.threshold,
        A::RESERVED_MEM_CURRENT | A::USED_MEM_CURRENT => state.used,
        A::RESERVED_MEM_HIGH | A::USED_MEM_HIGH => state.high,
        _ => return Err(invalid_value(format!("{id} is not a memory pool attribute"))),
    };
    value.cast::<u64>().set(wide)
}

/// A high-water mark can only be reset, by the value 0.
pub(crate) fn cuMemPoolSetAttribute(
    pool: CUmemoryPool,
    id: i32,
    value: In<c_void>,
) -> DriverResult {
    let pool = POOLS.get(pool)?;
    capture::check_unsafe()?;
    let mut state = lock(&pool.state);
    match id {
        1..=3 => state.reuse[(id - 1) as usize] = value.cast::<i32>().get()?.signum().abs(),
        A::RELEASE_THRESHOLD => state.threshold = value.cast::<u64>().get()?,
        A::RESERVED_MEM_HIGH | A::USED_MEM_HIGH => match value.cast::<u64>().get()? {
            0 => state.high = state.used,
            _ => return Err(invalid_value("a high-water mark can only be reset to 0")),
        },
        _ => return Err(invalid_value(format!("attribute {id} of a pool cannot be set"))),
    }
    Ok(())
}

/// The device of a memory location.
pub(super) fn device_of(location: MemLocation) -> DriverResult<&'static Gpu> {
    match location.kind {
        ON_DEVICE => gpu(location.id),
        2..=4 => Err(not_supported("the emulator can give access to devices only")),
        odd => Err(invalid_value(format!("{odd} is not a location type; there are 1 to 4"))),
    }
}

pub(crate) fn cuMemPoolSetAccess(
    pool: CUmemoryPool,
    list: In<MemAccess>,
    count: usize,
) -> DriverResult {
    let handle = Handle::from(pool);
    let pool = POOLS.get(pool)?;
    if count > 0 {
        list.get()?;
    }
    capture::check_unsafe()?;
    for at in 0..count {
        let MemAccess { location, flags } = list.at(at);
        let open = match flags {
            NO_ACCESS => false,
            READ_WRITE => true,
            _ => {
                return Err(invalid_value(format!("access {flags}; a pool has 0 or {READ_WRITE}")));
            }
        };
        pool.open(handle, device_of(location)?, open)?;
    }
    Ok(())
}

impl Pool {
    fn open(&self, handle: Handle, to: &'static Gpu, open: bool) -> DriverResult {
        if to.ordinal == self.gpu.ordinal {
            return if open {
                Ok(())
            } else {
                Err(invalid_value("a pool's own device cannot lose its access"))
            };
        }
        let mut state = lock(&self.state);
        state.open_to.retain(|device| *device != to.ordinal);
        if open {
            state.open_to.push(to.ordinal);
        }
        for allocation in allocations_where(|allocation| {
            allocation.pool.is_some_and(|pool| pool.handle == handle)
        }) {
            self.gpu.memory().give(allocation.base, to.memory(), open);
        }
        Ok(())
    }
}

pub(crate) fn cuMemPoolGetAccess(
    flags: Out<i32>,
    pool: CUmemoryPool,
    location: In<MemLocation>,
) -> DriverResult {
    let pool: Arc<Pool> = POOLS.get(pool)?;
    capture::check_unsafe()?;
    let device = device_of(location.get()?)?.ordinal;
    let open = device == pool.gpu.ordinal || lock(&pool.state).open_to.contains(&device);
    flags.set(if open { READ_WRITE } else { NO_ACCESS })
}

/// Memory of a device that graphs use: allocated bytes and their high-water mark, reserved bytes
/// and theirs.
pub(crate) fn cuDeviceGetGraphMemAttribute(
    device: CUdevice,
    id: i32,
    value: Out<c_void>,
) -> DriverResult {
    let (live, reserved) = graph_memory::usage(gpu(device)?);
    let highest = graph_memory::highest(device);
    let amount = match id {
        0 => live,
        1 => highest.0.max(live),
        2 => reserved,
        3 => highest.1.max(reserved),
        _ => return Err(invalid_value(format!("{id} is not a graph memory attribute"))),
    };
    value.cast::<u64>().set(amount)
}

pub(crate) fn cuDeviceSetGraphMemAttribute(
    device: CUdevice,
    id: i32,
    value: In<c_void>,
) -> DriverResult {
    gpu(device)?;
    match (id, value.cast::<u64>().get()?) {
        (1 | 3, 0) => graph_memory::forget_highest(device),
        (1 | 3, _) => return Err(invalid_value("a high-water mark can only be reset to 0")),
        _ => return Err(invalid_value(format!("attribute {id} of graphs' memory cannot be set"))),
    }
    Ok(())
}

/// Graphs cache no memory that could be trimmed.
pub(crate) fn cuDeviceGraphMemTrim(device: CUdevice) -> DriverResult {
    gpu(device).map(drop)
}

/// The pool of an allocation, or null.
pub(super) fn handle_of(allocation: &Allocation) -> CUmemoryPool {
    allocation.pool.map_or(std::ptr::null_mut(), |pool| pool.handle.as_ptr())
}
