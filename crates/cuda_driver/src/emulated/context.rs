//! Contexts: the device's primary one, those that a program makes, and each thread's stack of them.
#![allow(non_snake_case)]

use std::ffi::c_void;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard};

use ::emulator::memory::MAX_DEVICES;

use super::attributes::STREAM_PRIORITIES;
use super::current::{Context, attached, current, named, pop, push, replace, top};
use super::gpu::{Gpu, gpu};
use super::preferences::{
    HEAP_LIMIT, MAX_STACK_BYTES, STACK_LIMIT, STACK_UNIT, check_cache_config,
    check_shared_mem_config,
};
use super::registry::Handle;
use super::{capture, check_flags, invalid, lock};
use crate::abi::{CUcontext, CUdevice, ContextParams, In, Out};
use crate::codes::{
    CUDA_ERROR_INVALID_CONTEXT, CUDA_ERROR_NOT_SUPPORTED, CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY,
};
use crate::detail::{Answer, Failure};

/// Scheduling (three bits), mapped host memory, and keeping local memory after a resize.
const FLAGS: u32 = 0x1f;
/// The version of the context interface, as NVIDIA's driver reports it for these functions.
const API_VERSION: u32 = 3020;
struct Primary {
    context: Option<Arc<Context>>,
    retained: u32,
    flags: u32,
}

/// By device.
static PRIMARIES: [Mutex<Primary>; MAX_DEVICES] =
    [const { Mutex::new(Primary { context: None, retained: 0, flags: 0 }) }; MAX_DEVICES];

/// The primary context of a device.
fn primary(device: CUdevice) -> Answer<(&'static Gpu, MutexGuard<'static, Primary>)> {
    let gpu = gpu(device)?;
    Ok((gpu, lock(&PRIMARIES[gpu.ordinal as usize])))
}

impl Primary {
    fn retain(&mut self, gpu: &'static Gpu) -> Answer<Handle> {
        if self.context.is_none() {
            gpu.check()?;
        }
        let flags = self.flags;
        let context = self.context.get_or_insert_with(|| Context::create(gpu, flags, true));
        self.retained += 1;
        Ok(context.handle)
    }

    fn end(&mut self) -> Answer {
        self.context.take().map_or(Ok(()), |context| context.destroy())
    }
}

pub(crate) fn cuDevicePrimaryCtxRetain(context: Out<CUcontext>, device: CUdevice) -> Answer {
    let (gpu, mut primary) = primary(device)?;
    context.check()?;
    context.set(primary.retain(gpu)?.as_ptr())
}

pub(crate) fn cuDevicePrimaryCtxRelease_v2(device: CUdevice) -> Answer {
    let (_, mut primary) = primary(device)?;
    match primary.retained {
        0 => {
            let text = "the primary context was released more often than it was retained";
            Err(Failure::new(CUDA_ERROR_INVALID_CONTEXT, text))
        }
        retained => {
            primary.retained = retained - 1;
            if retained == 1 { primary.end() } else { Ok(()) }
        }
    }
}

pub(crate) fn cuDevicePrimaryCtxReset_v2(device: CUdevice) -> Answer {
    primary(device)?.1.end()
}

pub(crate) fn cuDevicePrimaryCtxSetFlags_v2(device: CUdevice, flags: u32) -> Answer {
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
) -> Answer {
    let (_, primary) = primary(device)?;
    flags.set(primary.flags)?;
    active.set(primary.context.is_some().into())
}

pub(crate) fn cuCtxCreate_v2(context: Out<CUcontext>, flags: u32, device: CUdevice) -> Answer {
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
) -> Answer {
    if n_affinities != 0 {
        let text = "the emulator does not limit a context to a part of the device";
        return Err(Failure::new(CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY, text));
    }
    cuCtxCreate_v2(context, flags, device)
}

/// Parameters may be a null pointer: a plain context.
pub(crate) fn cuCtxCreate_v4(
    context: Out<CUcontext>,
    params: In<ContextParams>,
    flags: u32,
    device: CUdevice,
) -> Answer {
    if params.is_null() {
        return cuCtxCreate_v2(context, flags, device);
    }
    let params = params.get()?;
    if !params.graphics.cast::<u8>().is_null() {
        let text = "the emulator shares no context with a graphics interface";
        return Err(Failure::new(CUDA_ERROR_NOT_SUPPORTED, text));
    }
    cuCtxCreate_v3(context, params.affinities, params.n_affinities, flags, device)
}

pub(crate) fn cuCtxDestroy_v2(context: CUcontext) -> Answer {
    let context = named(context)?;
    if context.is_primary() {
        let text = "the primary context is not destroyed but released";
        return Err(Failure::new(CUDA_ERROR_INVALID_CONTEXT, text));
    }
    if top().is_some_and(|top| top.handle == context.handle) {
        pop()?;
    }
    context.destroy()
}

pub(crate) fn cuCtxPushCurrent_v2(context: CUcontext) -> Answer {
    push(named(context)?);
    Ok(())
}

pub(crate) fn cuCtxPopCurrent_v2(context: Out<CUcontext>) -> Answer {
    context.set_if_wanted(pop()?.handle.as_ptr());
    Ok(())
}

pub(crate) fn cuCtxSetCurrent(context: CUcontext) -> Answer {
    let context = if context.is_null() { None } else { Some(named(context)?) };
    replace(context);
    Ok(())
}

pub(crate) fn cuCtxGetCurrent(context: Out<CUcontext>) -> Answer {
    context.set(top().map_or(std::ptr::null_mut(), |top| top.handle.as_ptr()))
}

pub(crate) fn cuCtxGetDevice(device: Out<CUdevice>) -> Answer {
    device.set(attached()?.gpu.ordinal)
}

pub(crate) fn cuCtxGetFlags(flags: Out<u32>) -> Answer {
    flags.set(attached()?.flags.load(Ordering::Relaxed))
}

pub(crate) fn cuCtxGetApiVersion(context: CUcontext, version: Out<u32>) -> Answer {
    if context.is_null() { attached()? } else { named(context)? }.check_alive()?;
    version.set(API_VERSION)
}

pub(crate) fn cuCtxGetCacheConfig(config: Out<i32>) -> Answer {
    let context = current()?;
    config.set(lock(&context.preferences).cache)
}

pub(crate) fn cuCtxSetCacheConfig(config: i32) -> Answer {
    check_cache_config(config)?;
    let context = current()?;
    capture::check_unsafe()?;
    lock(&context.preferences).cache = config;
    Ok(())
}

pub(crate) fn cuCtxGetSharedMemConfig(config: Out<i32>) -> Answer {
    let context = current()?;
    config.set(lock(&context.preferences).shared_mem)
}

pub(crate) fn cuCtxSetSharedMemConfig(config: i32) -> Answer {
    check_shared_mem_config(config)?;
    lock(&current()?.preferences).shared_mem = config;
    Ok(())
}

pub(crate) fn cuCtxGetLimit(value: Out<usize>, limit: i32) -> Answer {
    let context = current()?;
    value.set(*lock(&context.preferences).limits.limit(limit)?)
}

pub(crate) fn cuCtxSetLimit(limit: i32, value: usize) -> Answer {
    let context = current()?;
    lock(&context.preferences).limits.limit(limit)?;
    capture::check_unsafe()?;
    let value = match limit {
        STACK_LIMIT if value > MAX_STACK_BYTES => {
            return Err(invalid(format!(
                "a stack of {value} bytes; a thread may have {MAX_STACK_BYTES} at most"
            )));
        }
        STACK_LIMIT => value.next_multiple_of(STACK_UNIT),
        _ => value,
    };
    *lock(&context.preferences).limits.limit(limit)? = value;
    if limit == HEAP_LIMIT {
        context.gpu.device.system().heap.set_limit(value as u64);
    }
    Ok(())
}

pub(crate) fn cuCtxGetStreamPriorityRange(least: Out<i32>, greatest: Out<i32>) -> Answer {
    current()?;
    least.set_if_wanted(STREAM_PRIORITIES.0);
    greatest.set_if_wanted(STREAM_PRIORITIES.1);
    Ok(())
}

pub(crate) fn cuCtxSynchronize() -> Answer {
    let context = current()?;
    capture::check_context(&context)?;
    context.queue.wait_all();
    context.check()
}

/// A number that no other context of the process has.
pub(crate) fn cuCtxGetId(context: CUcontext, id: Out<u64>) -> Answer {
    let context = if context.is_null() { attached()? } else { named(context)? };
    id.set(context.handle.as_ptr().addr() as u64)
}

pub(crate) fn cuCtxSetFlags(flags: u32) -> Answer {
    check_flags(flags, FLAGS)?;
    attached()?.flags.store(flags, Ordering::Relaxed);
    Ok(())
}

/// The cache that a GPU would empty is not there.
pub(crate) fn cuCtxResetPersistingL2Cache() -> Answer {
    current().map(drop)
}

/// The kind of limit, a number of multiprocessors, and the number: every context has them all.
pub(crate) fn cuCtxGetExecAffinity(affinity: Out<[u32; 2]>, kind: i32) -> Answer {
    let context = current()?;
    match kind {
        0 => affinity.set([0, context.gpu.profile().multiprocessors]),
        _ => Err(invalid(format!("{kind} is no kind of affinity"))),
    }
}
