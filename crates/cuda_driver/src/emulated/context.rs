//! Context management: the devices' primary contexts, those that a program makes, and each thread's
//! stack of contexts.
#![allow(non_snake_case)]

use std::ffi::c_void;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard};

use ::emulator::memory::MAX_DEVICES;

use super::current::{Context, attached, current, from_handle, pop, push, replace, top};
use super::device_attributes::STREAM_PRIORITIES;
use super::gpu::{Gpu, gpu};
use super::preferences::{
    MAX_STACK_BYTES, STACK_UNIT, check_cache_config, check_shared_mem_config,
};
use super::registry::Handle;
use super::{capture, check_flags, invalid_value, lock};
use crate::abi::{CUcontext, CUdevice, ContextParams, In, Out};
use crate::codes::{
    CUDA_ERROR_INVALID_CONTEXT, CUDA_ERROR_NOT_SUPPORTED, CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY,
};
use crate::constants::limit::{MALLOC_HEAP_SIZE, STACK_SIZE};
use crate::detail::{DriverError, DriverResult};

/// Context flags: scheduling (three bits), mapped host memory, and keeping local memory after a
/// resize.
const FLAGS: u32 = 0x1f;
/// The API version of contexts that NVIDIA's driver reports for these functions.
const API_VERSION: u32 = 3020;
struct Primary {
    context: Option<Arc<Context>>,
    retained: u32,
    flags: u32,
}

/// Indexed by device.
static PRIMARIES: [Mutex<Primary>; MAX_DEVICES] =
    [const { Mutex::new(Primary { context: None, retained: 0, flags: 0 }) }; MAX_DEVICES];

/// The primary context of a device.
fn primary(device: CUdevice) -> DriverResult<(&'static Gpu, MutexGuard<'static, Primary>)> {
    let gpu = gpu(device)?;
    Ok((gpu, lock(&PRIMARIES[gpu.ordinal as usize])))
}

impl Primary {
    fn retain(&mut self, gpu: &'static Gpu) -> DriverResult<Handle> {
        if self.context.is_none() {
            gpu.check()?;
        }
        let flags = self.flags;
        let context = self.context.get_or_insert_with(|| Context::create(gpu, flags, true));
        self.retained += 1;
        Ok(context.handle)
    }

    fn end(&mut self) -> DriverResult {
        self.context.take().map_or(Ok(()), |context| context.destroy())
    }
}

pub(crate) fn cuDevicePrimaryCtxRetain(context: Out<CUcontext>, device: CUdevice) -> DriverResult {
    let (gpu, mut primary) = primary(device)?;
    context.check()?;
    context.set(primary.retain(gpu)?.as_ptr())
}

pub(crate) fn cuDevicePrimaryCtxRelease_v2(device: CUdevice) -> DriverResult {
    let (_, mut primary) = primary(device)?;
    match primary.retained {
        0 => {
            let text = "the primary context was released more often than it was retained";
            Err(DriverError::new(CUDA_ERROR_INVALID_CONTEXT, text))
        }
        retained => {
            primary.retained = retained - 1;
            if retained == 1 { primary.end() } else { Ok(()) }
        }
    }
}

pub(crate) fn cuDevicePrimaryCtxReset_v2(device: CUdevice) -> DriverResult {
    primary(device)?.1.end()
}

pub(crate) fn cuDevicePrimaryCtxSetFlags_v2(device: CUdevice, flags: u32) -> DriverResult {
    let (_, mut primary) = primary(device)?;
    check_flags(flags, FLAGS)?;
    primary.flags = flags;
    if let Some(context) = &primary.context {
        context.flags.store(flags, Ordering::Relaxed);
    }
    Ok(())
}

pub(crate) fn cuDevicePrimaryCtxGetState(
    device: CUdevice,
    flags: Out<u32>,
    active: Out<i32>,
) -> DriverResult {
    let (_, primary) = primary(device)?;
    flags.set(primary.flags)?;
    active.set(primary.context.is_some().into())
}

pub(crate) fn cuCtxCreate_v2(
    context: Out<CUcontext>,
    flags: u32,
    device: CUdevice,
) -> DriverResult {
    let gpu = gpu(device)?;
    check_flags(flags, FLAGS)?;
    gpu.check()?;
    context.check()?;
    let made = Context::create(gpu, flags, false);
    context.set(made.handle.as_ptr())?;
    push(made);
    Ok(())
}

pub(crate) fn cuCtxCreate_v3(
    context: Out<CUcontext>,
    _affinity: In<c_void>,
    n_affinities: i32,
    flags: u32,
    device: CUdevice,
) -> DriverResult {
    if n_affinities != 0 {
        let text = "the emulator cannot limit a context to a part of the device";
        return Err(DriverError::new(CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY, text));
    }
    cuCtxCreate_v2(context, flags, device)
}

/// A null pointer as parameters makes a plain context.
pub(crate) fn cuCtxCreate_v4(
    context: Out<CUcontext>,
    params: In<ContextParams>,
    flags: u32,
    device: CUdevice,
) -> DriverResult {
    if params.is_null() {
        return cuCtxCreate_v2(context, flags, device);
    }
    let params = params.get()?;
    if !params.graphics.cast::<u8>().is_null() {
        let text = "the emulator cannot share a context with a graphics API";
        return Err(DriverError::new(CUDA_ERROR_NOT_SUPPORTED, text));
    }
    cuCtxCreate_v3(context, params.affinities, params.n_affinities, flags, device)
}

pub(crate) fn cuCtxDestroy_v2(context: CUcontext) -> DriverResult {
    let context = from_handle(context)?;
    if context.is_primary() {
        let text = "the primary context cannot be destroyed, only released";
        return Err(DriverError::new(CUDA_ERROR_INVALID_CONTEXT, text));
    }
    if top().is_some_and(|top| top.handle == context.handle) {
        pop()?;
    }
    context.destroy()
}

pub(crate) fn cuCtxPushCurrent_v2(context: CUcontext) -> DriverResult {
    push(from_handle(context)?);
    Ok(())
}

pub(crate) fn cuCtxPopCurrent_v2(context: Out<CUcontext>) -> DriverResult {
    context.set_if_wanted(pop()?.handle.as_ptr());
    Ok(())
}

pub(crate) fn cuCtxSetCurrent(context: CUcontext) -> DriverResult {
    let context = if context.is_null() { None } else { Some(from_handle(context)?) };
    replace(context);
    Ok(())
}

pub(crate) fn cuCtxGetCurrent(context: Out<CUcontext>) -> DriverResult {
    context.set(top().map_or(std::ptr::null_mut(), |top| top.handle.as_ptr()))
}

pub(crate) fn cuCtxGetDevice(device: Out<CUdevice>) -> DriverResult {
    device.set(attached()?.gpu.ordinal)
}

pub(crate) fn cuCtxGetFlags(flags: Out<u32>) -> DriverResult {
    flags.set(attached()?.flags.load(Ordering::Relaxed))
}

pub(crate) fn cuCtxGetApiVersion(context: CUcontext, version: Out<u32>) -> DriverResult {
    if context.is_null() { attached()? } else { from_handle(context)? }.check_alive()?;
    version.set(API_VERSION)
}

pub(crate) fn cuCtxGetCacheConfig(config: Out<i32>) -> DriverResult {
    let context = current()?;
    config.set(lock(&context.preferences).cache)
}

pub(crate) fn cuCtxSetCacheConfig(config: i32) -> DriverResult {
    check_cache_config(config)?;
    let context = current()?;
    capture::check_unsafe()?;
    lock(&context.preferences).cache = config;
    Ok(())
}

pub(crate) fn cuCtxGetSharedMemConfig(config: Out<i32>) -> DriverResult {
    let context = current()?;
    config.set(lock(&context.preferences).shared_mem)
}

pub(crate) fn cuCtxSetSharedMemConfig(config: i32) -> DriverResult {
    check_shared_mem_config(config)?;
    lock(&current()?.preferences).shared_mem = config;
    Ok(())
}

pub(crate) fn cuCtxGetLimit(value: Out<usize>, limit: i32) -> DriverResult {
    let context = current()?;
    value.set(*lock(&context.preferences).limits.limit(limit)?)
}

pub(crate) fn cuCtxSetLimit(limit: i32, value: usize) -> DriverResult {
    let context = current()?;
    lock(&context.preferences).limits.limit(limit)?;
    capture::check_unsafe()?;
    let value = match limit {
        STACK_SIZE if value > MAX_STACK_BYTES => {
            return Err(invalid_value(format!(
                "a stack of {value} bytes; the limit is {MAX_STACK_BYTES}"
            )));
        }
        STACK_SIZE => value.next_multiple_of(STACK_UNIT),
        _ => value,
    };
    *lock(&context.preferences).limits.limit(limit)? = value;
    if limit == MALLOC_HEAP_SIZE {
        context.gpu.device.system().heap.set_limit(value as u64);
    }
    Ok(())
}

pub(crate) fn cuCtxGetStreamPriorityRange(least: Out<i32>, greatest: Out<i32>) -> DriverResult {
    current()?;
    least.set_if_wanted(STREAM_PRIORITIES.0);
    greatest.set_if_wanted(STREAM_PRIORITIES.1);
    Ok(())
}

pub(crate) fn cuCtxSynchronize() -> DriverResult {
    let context = current()?;
    capture::check_context(&context)?;
    context.streams.wait_all();
    context.check()
}

/// An ID that is unique among the contexts of the process.
pub(crate) fn cuCtxGetId(context: CUcontext, id: Out<u64>) -> DriverResult {
    let context = if context.is_null() { attached()? } else { from_handle(context)? };
    id.set(context.handle.number())
}

pub(crate) fn cuCtxSetFlags(flags: u32) -> DriverResult {
    check_flags(flags, FLAGS)?;
    attached()?.flags.store(flags, Ordering::Relaxed);
    Ok(())
}

/// The emulator has no L2 cache to reset.
pub(crate) fn cuCtxResetPersistingL2Cache() -> DriverResult {
    current().map(drop)
}

/// Returns the type of affinity (multiprocessors) and their number: every context has all of them.
pub(crate) fn cuCtxGetExecAffinity(affinity: Out<[u32; 2]>, kind: i32) -> DriverResult {
    let context = current()?;
    match kind {
        0 => affinity.set([0, context.gpu.profile().multiprocessors]),
        _ => Err(invalid_value(format!("{kind} is not a type of execution affinity"))),
    }
}
