//! Handles: a device, a stream of the caller's, and scratch memory.

use std::collections::BTreeMap;
use std::ptr;
use std::sync::{Mutex, MutexGuard, PoisonError};

use cuda_driver::sys::{self, CUcontext, CUresult, CUstream};
use ferrowarp::memory::resource::StreamRef;
use ferrowarp::ops::Scratch;
use ferrowarp::{Backend, Gpu, GpuError, GpuResult, Stream};

use crate::context::CurrentContext;
use crate::error::{Error, Status, report};

/// CUDA's stream: `CUstream` of the driver API and `cudaStream_t` of the runtime API are pointers to it.
#[allow(non_camel_case_types, missing_debug_implementations)]
pub struct CUstream_st {
    _private: [u8; 0],
}

/// A stream of the caller's, on which all work of the handle is enqueued, and scratch memory, which grows in the order of the stream to what the
/// largest operation took, and is freed by ferrowarp_destroy(). Handles of a device share its kernels.
///
/// Any thread may use a handle; calls of several threads with one handle run one after the other.
#[derive(Debug)]
pub struct Handle {
    device: &'static Device,
    lane: Mutex<Lane>,
}

/// A device that was opened, with the driver's handle of its primary context.
#[derive(Debug)]
struct Device {
    gpu: Gpu,
    context: CUcontext,
}

// SAFETY: any thread may use the context, which the `Gpu` keeps.
unsafe impl Send for Device {}
// SAFETY: as above.
unsafe impl Sync for Device {}

/// What one operation at a time uses.
#[derive(Debug)]
pub(crate) struct Lane {
    stream: Stream,
    /// With room for that many bytes, from the first operation that takes any.
    scratch: Option<(usize, Scratch)>,
}

/// The least scratch memory of a handle: growing costs more than this is worth.
const LEAST_SCRATCH_BYTES: usize = 1 << 20;

impl Lane {
    /// The caller's stream.
    pub(crate) fn stream(&self) -> &Stream {
        &self.stream
    }

    /// Calls `work` with room for `bytes` of scratch memory. A graph into which the stream is captured gets memory of its own, since its
    /// runs are not ordered with other work of the handle.
    pub(crate) fn with_scratch<R>(
        &mut self,
        bytes: usize,
        work: impl FnOnce(&Stream, &mut Scratch) -> GpuResult<R>,
    ) -> GpuResult<R> {
        let stream = &self.stream;
        if is_captured(stream) {
            return work(stream, &mut Scratch::with_bytes_async(stream, bytes)?);
        }
        if self.scratch.as_ref().is_none_or(|(room, _)| *room < bytes) {
            let room = bytes.max(LEAST_SCRATCH_BYTES);
            // What there is is freed before, in the order of the stream too.
            self.scratch = None;
            self.scratch = Some((room, Scratch::with_bytes_async(stream, room)?));
        }
        let (_, scratch) = self.scratch.as_mut().expect("made above");
        work(stream, scratch)
    }

    /// Frees the scratch memory, in the order of the stream, and waits for it.
    fn close(&mut self) -> GpuResult<()> {
        self.scratch = None;
        self.stream.synchronize()
    }

    /// Waits for the stream. After an error the scratch memory may not be as operations leave it.
    pub(crate) fn synchronize(&mut self) -> GpuResult<()> {
        self.stream.synchronize().inspect_err(|_| self.scratch = None)
    }
}

/// Whether the stream is captured into a CUDA graph. The default stream cannot be asked while another one is.
pub(crate) fn is_captured(stream: &Stream) -> bool {
    let mut status = 0;
    // SAFETY: the stream lives, and `status` is writable.
    let asked = unsafe { sys::cuStreamIsCapturing(raw(stream), &mut status) };
    if asked != CUresult::CUDA_SUCCESS {
        cuda_driver::take_detail();
    }
    asked != CUresult::CUDA_SUCCESS || status != 0
}

/// The driver's handle.
pub(crate) fn raw(stream: &Stream) -> CUstream {
    StreamRef::of(stream).as_raw().cast()
}

impl Handle {
    /// The ordinal of the device.
    pub(crate) fn ordinal(&self) -> u32 {
        self.device.gpu.info().ordinal
    }

    /// The device's primary context.
    pub(crate) fn context(&self) -> CUcontext {
        self.device.context
    }

    /// The stream and the scratch memory. Nothing is left half changed by a panic that later calls rely on.
    pub(crate) fn lane(&self) -> MutexGuard<'_, Lane> {
        self.lane.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The fault that has ended the context, where that is why the driver has refused a call.
    fn explain(&self, operation: &'static str, refused: Error) -> Error {
        if !matches!(refused, Error::Driver { .. } | Error::Stream { .. }) {
            return refused;
        }
        match self.lane().stream().is_idle() {
            Err(error) if matches!(error.root(), GpuError::DeviceLost { .. }) => {
                Error::Gpu { operation, error }
            }
            _ => refused,
        }
    }

    /// # Safety
    /// The stream exists as long as the handle.
    unsafe fn open(operation: &'static str, ordinal: u32, stream: CUstream) -> Result<Self, Error> {
        let device = Device::open(operation, ordinal)?;
        // SAFETY: the device keeps its context; the rest is the caller's promise.
        let stream = unsafe {
            let _before = CurrentContext::enter(operation, device.context)?;
            check_stream(operation, (ordinal, device.context), stream)?;
            Stream::from_raw(&device.gpu, stream.cast(), ())
        };
        let stream = stream.map_err(|error| Error::Gpu { operation, error })?;
        Ok(Self { device, lane: Mutex::new(Lane { stream, scratch: None }) })
    }
}

impl Device {
    /// The device of that number, opened once in a process: its kernels are loaded once.
    fn open(operation: &'static str, ordinal: u32) -> Result<&'static Self, Error> {
        static ALL: Mutex<BTreeMap<u32, &'static Device>> = Mutex::new(BTreeMap::new());
        let mut all = ALL.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(device) = all.get(&ordinal) {
            return Ok(device);
        }
        let gpu = Gpu::on(ordinal).map_err(|error| Error::Gpu { operation, error })?;
        let context = gpu.as_raw_context().cast();
        let device: &'static Self = Box::leak(Box::new(Self { gpu, context }));
        all.insert(ordinal, device);
        Ok(device)
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
        let _before = unsafe { CurrentContext::enter(operation, handle.context()) }
            .map_err(|error| handle.explain(operation, error))?;
        work(handle).map_err(|error| handle.explain(operation, error))
    })
}

/// An error unless a handle of the device can have the stream.
///
/// # Safety
/// The stream exists, or is one of CUDA's special ones; the device's context is current.
unsafe fn check_stream(
    operation: &'static str,
    (device, context): (u32, CUcontext),
    stream: CUstream,
) -> Result<(), Error> {
    /// `CU_STREAM_LEGACY`, which is the null stream.
    const LEGACY: usize = 1;
    /// `CU_STREAM_PER_THREAD`.
    const PER_THREAD: usize = 2;
    if stream.addr() <= LEGACY {
        return Ok(());
    }
    if stream.addr() == PER_THREAD {
        let reason =
            "`stream` is cudaStreamPerThread, another stream in each thread: pass one of your own"
                .into();
        return Err(Error::Value { operation, reason });
    }
    let mut found = ptr::null_mut();
    // SAFETY: the stream exists by the caller's promise, and `found` is writable.
    let asked = unsafe { sys::cuStreamGetCtx(stream, &mut found) };
    if asked == CUresult::CUDA_SUCCESS && found == context {
        return Ok(());
    }
    let detail = cuda_driver::take_detail().map(|detail| detail.text);
    Err(Error::Stream { operation, device, detail })
}

/// Creates a handle for the device with that ordinal, from 0, in its primary context, which is the runtime API's. Work of the handle is
/// enqueued on `stream`, a stream of that context that exists as long as the handle; null is the default stream.
///
/// The environment variable FERROWARP_DEVICE chooses between "cuda" and "emulator" when a process creates its first handle; without it,
/// the emulator is taken where no NVIDIA driver finds a device. The driver compiles kernels for the device at their first launch in a
/// process, unless its cache has them.
///
/// # Safety
/// `handle` is null or points to a pointer that can be written; the stream exists until the handle is destroyed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferrowarp_create(
    handle: *mut *mut Handle,
    device: i32,
    stream: *mut CUstream_st,
) -> Status {
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
        // SAFETY: the caller's promise.
        unsafe {
            let created = Box::new(Handle::open(OPERATION, ordinal, stream.cast())?);
            handle.write(Box::into_raw(created));
        }
        Ok(())
    })
}

/// Waits for the stream, and frees the handle's scratch memory. A null handle is left alone.
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
        let _before = unsafe { CurrentContext::enter(OPERATION, handle.context())? };
        let done = handle.lane().close();
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

/// Loads all kernels for the handle's device now, on several threads: some seconds, of which a program that uses a few of the operations needs
/// a part. Without it the driver loads a kernel in the first call that needs it, which a capture into a CUDA graph does not allow. May wait for all work on the device.
///
/// # Safety
/// `handle` is null or a handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferrowarp_load_kernels(handle: *const Handle) -> Status {
    const OPERATION: &str = "ferrowarp_load_kernels";
    // SAFETY: the caller's promise.
    unsafe {
        with_handle(OPERATION, handle, |handle| {
            if is_captured(handle.lane().stream()) {
                return Err(Error::Captured { operation: OPERATION });
            }
            let loaded = handle.device.gpu.load_kernels();
            loaded.map(drop).map_err(|error| Error::Gpu { operation: OPERATION, error })
        })
    }
}

/// Waits for the stream, and returns what went wrong in its work: FERROWARP_STATUS_KERNEL_PANIC, which no function of CUDA's reports, or
/// FERROWARP_STATUS_DEVICE_LOST.
///
/// # Safety
/// `handle` is null or a handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferrowarp_synchronize(handle: *const Handle) -> Status {
    const OPERATION: &str = "ferrowarp_synchronize";
    // SAFETY: the caller's promise.
    unsafe {
        with_handle(OPERATION, handle, |handle| {
            let done = handle.lane().synchronize();
            done.map_err(|error| Error::Gpu { operation: OPERATION, error })
        })
    }
}
