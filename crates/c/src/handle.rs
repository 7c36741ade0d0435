//! Handles: a device, a stream of the library's own, and scratch memory.

use std::collections::BTreeMap;
use std::ptr;
use std::sync::{Mutex, MutexGuard, PoisonError};

use cuda_driver::sys::{self, CUcontext, CUresult, CUstream};
use ferrowarp::memory::resource::StreamRef;
use ferrowarp::ops::Scratch;
use ferrowarp::{Backend, Gpu, GpuError, Stream};

use crate::context::{CurrentContext, check};
use crate::error::{Error, Status, report};

/// CUDA's stream: `CUstream` of the driver API and `cudaStream_t` of the runtime API are pointers to it.
#[allow(non_camel_case_types, missing_debug_implementations)]
pub struct CUstream_st {
    _private: [u8; 0],
}

/// What operations need of a device: a stream of the library's own, which orders them, and scratch memory, which grows to what the largest
/// operation took and is freed by ferrowarp_destroy().
///
/// Any thread may use a handle; calls of several threads with one handle run one after the other. Operations of one handle are ordered,
/// whatever streams they are called with: take a handle for each stream whose work is to overlap.
#[derive(Debug)]
pub struct Handle {
    context: CUcontext,
    ordinal: u32,
    lane: Mutex<Lane>,
}

// SAFETY: the context is a handle of the driver's, which any thread may use, and the device, which is never closed, keeps it.
unsafe impl Send for Handle {}
// SAFETY: as above.
unsafe impl Sync for Handle {}

/// What one operation at a time uses.
#[derive(Debug)]
pub(crate) struct Lane {
    pub(crate) stream: Stream,
    pub(crate) scratch: Scratch,
}

impl Handle {
    /// The ordinal of the device.
    pub(crate) fn ordinal(&self) -> u32 {
        self.ordinal
    }

    /// The device's primary context.
    pub(crate) fn context(&self) -> CUcontext {
        self.context
    }

    /// The stream and the scratch. Nothing is left half changed by a panic that later calls rely on.
    pub(crate) fn lane(&self) -> MutexGuard<'_, Lane> {
        self.lane.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The fault that has ended the context, where that is why the driver has refused a call.
    fn explain(&self, operation: &'static str, refused: Error) -> Error {
        if !matches!(refused, Error::Driver { .. } | Error::Stream { .. }) {
            return refused;
        }
        match self.lane().stream.is_idle() {
            Err(error) if matches!(error.root(), GpuError::DeviceLost { .. }) => {
                Error::Gpu { operation, error }
            }
            _ => refused,
        }
    }

    fn open(operation: &'static str, ordinal: u32) -> Result<Self, Error> {
        let refused = |error| Error::Gpu { operation, error };
        let gpu = device(ordinal).map_err(refused)?;
        let stream = gpu.create_stream().map_err(refused)?;
        let scratch = Scratch::new(&stream).map_err(refused)?;
        let mut context = ptr::null_mut();
        let raw = StreamRef::of(&stream).as_raw().cast();
        // SAFETY: the stream lives, and `context` is writable.
        check(operation, "cuStreamGetCtx", unsafe { sys::cuStreamGetCtx(raw, &mut context) })?;
        Ok(Self { context, ordinal, lane: Mutex::new(Lane { stream, scratch }) })
    }
}

/// Calls `work` with the handle, its device's context current; its error is the status and the thread's message, as a panic is.
///
/// # Safety
/// The handle is null or one that exists.
pub(crate) unsafe fn with_handle(
    operation: &'static str,
    handle: *const Handle,
    work: impl FnOnce(&Handle) -> Result<(), Error>,
) -> Status {
    report(operation, || {
        // SAFETY: the caller's promise.
        let handle = unsafe { handle.as_ref() }.ok_or(Error::Null { operation, name: "handle" })?;
        // SAFETY: the device keeps its context.
        let _before = unsafe { CurrentContext::enter(operation, handle.context) }
            .map_err(|error| handle.explain(operation, error))?;
        work(handle).map_err(|error| handle.explain(operation, error))
    })
}

/// The device of that number, opened once in a process: its kernels are loaded once.
fn device(ordinal: u32) -> ferrowarp::GpuResult<&'static Gpu> {
    static ALL: Mutex<BTreeMap<u32, &'static Gpu>> = Mutex::new(BTreeMap::new());
    let mut all = ALL.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(gpu) = all.get(&ordinal) {
        return Ok(gpu);
    }
    let gpu: &'static Gpu = Box::leak(Box::new(Gpu::on(ordinal)?));
    all.insert(ordinal, gpu);
    Ok(gpu)
}

/// An error unless work of the handle can be ordered with that of the stream. The handle's context is current.
///
/// # Safety
/// The stream is one of CUDA's special ones (null among them), or exists.
pub(crate) unsafe fn check_stream(
    operation: &'static str,
    handle: &Handle,
    stream: CUstream,
) -> Result<(), Error> {
    /// `CU_STREAM_LEGACY` and `CU_STREAM_PER_THREAD`, which are of the current context, as the null stream is.
    const LAST_SPECIAL: usize = 2;
    let device = handle.ordinal;
    if stream.addr() > LAST_SPECIAL {
        let mut context = ptr::null_mut();
        // SAFETY: the stream exists by the caller's promise, and `context` is writable.
        let asked = unsafe { sys::cuStreamGetCtx(stream, &mut context) };
        if asked != CUresult::CUDA_SUCCESS || context != handle.context {
            let detail = cuda_driver::take_detail().map(|detail| detail.text);
            return Err(Error::Stream { operation, device, detail });
        }
    }
    let mut captures = 0;
    // SAFETY: as above.
    check(operation, "cuStreamIsCapturing", unsafe {
        sys::cuStreamIsCapturing(stream, &mut captures)
    })?;
    if captures == 0 { Ok(()) } else { Err(Error::Captured { operation }) }
}

/// Creates a handle for the device with that ordinal, from 0, in its primary context, which is the runtime API's.
///
/// The environment variable FERROWARP_DEVICE chooses between "cuda" and "emulator" when a process creates its first handle; without it,
/// the emulator is taken where no NVIDIA driver finds a device. The driver compiles kernels for the device at their first launch in a process, unless its cache
/// has them.
///
/// # Safety
/// `handle` is null or points to a pointer that can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferrowarp_create(handle: *mut *mut Handle, device: i32) -> Status {
    const OPERATION: &str = "ferrowarp_create";
    report(OPERATION, || {
        let _before = CurrentContext::keep();
        if handle.is_null() {
            return Err(Error::Null { operation: OPERATION, name: "handle" });
        }
        let ordinal = u32::try_from(device).map_err(|_| Error::Value {
            operation: OPERATION,
            reason: format!("`device` is {device}, and must not be negative"),
        })?;
        let created = Box::new(Handle::open(OPERATION, ordinal)?);
        // SAFETY: the caller's promise.
        unsafe { handle.write(Box::into_raw(created)) };
        Ok(())
    })
}

/// Waits for the handle's work, and frees its scratch memory and its stream. A null handle is left alone.
///
/// # Safety
/// The handle is null, or was created by ferrowarp_create() and not destroyed; no other thread uses it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferrowarp_destroy(handle: *mut Handle) -> Status {
    const OPERATION: &str = "ferrowarp_destroy";
    report(OPERATION, || {
        if handle.is_null() {
            return Ok(());
        }
        // SAFETY: it came from `Box::into_raw`, and is the caller's to destroy.
        let handle = unsafe { Box::from_raw(handle) };
        // SAFETY: the device keeps its context.
        let _before = unsafe { CurrentContext::enter(OPERATION, handle.context)? };
        let done = handle.lane().stream.synchronize();
        drop(handle);
        done.map_err(|error| Error::Gpu { operation: OPERATION, error })
    })
}

/// Writes whether the handle's device is the emulator inside this process. Its memory is that of ferrowarp_malloc() alone.
///
/// # Safety
/// `handle` is null or a handle, and `emulated` null or a place that can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferrowarp_is_emulated(
    handle: *const Handle,
    emulated: *mut bool,
) -> Status {
    const OPERATION: &str = "ferrowarp_is_emulated";
    report(OPERATION, || {
        if handle.is_null() || emulated.is_null() {
            let name = if handle.is_null() { "handle" } else { "emulated" };
            return Err(Error::Null { operation: OPERATION, name });
        }
        let backend =
            ferrowarp::backend().map_err(|error| Error::Gpu { operation: OPERATION, error })?;
        // SAFETY: the caller's promise.
        unsafe { emulated.write(backend == Backend::Emulator) };
        Ok(())
    })
}

/// Waits for the work of the stream and of the handle, and returns what went wrong in it: FERROWARP_STATUS_KERNEL_PANIC, which no function
/// of CUDA's reports, or FERROWARP_STATUS_DEVICE_LOST.
///
/// # Safety
/// `handle` is null or a handle; the stream exists.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferrowarp_synchronize(
    handle: *const Handle,
    stream: *mut CUstream_st,
) -> Status {
    const OPERATION: &str = "ferrowarp_synchronize";
    // SAFETY: the caller's promise.
    unsafe {
        with_handle(OPERATION, handle, |handle| {
            check_stream(OPERATION, handle, stream.cast())?;
            // The handle's stream first: its error says more than the driver's.
            let done = handle.lane().stream.synchronize();
            done.map_err(|error| Error::Gpu { operation: OPERATION, error })?;
            check(OPERATION, "cuStreamSynchronize", sys::cuStreamSynchronize(stream.cast()))
        })
    }
}
