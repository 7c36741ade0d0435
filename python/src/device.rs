//! The devices, each opened once in a process, and the streams that calls run on.

use std::collections::BTreeMap;
use std::ops::{Deref, DerefMut};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use cuda_driver::sys;
use ferrowarp::memory::resource::StreamRef;
use ferrowarp::ops::Scratch;
use ferrowarp::{Backend, DeviceBuffer, Gpu, GpuResult, Stream};
use pyo3::prelude::*;

use crate::caller::CurrentContext;
use crate::dtype::Element;
use crate::error::to_python;

/// A device that was opened.
pub struct Device {
    gpu: Gpu,
    /// Streams that no call uses now.
    idle: Mutex<Vec<Stream>>,
    /// Streams of callers that are never destroyed, by their handles.
    callers: Mutex<BTreeMap<usize, &'static Caller>>,
}

/// A stream of a caller's library that is never destroyed.
struct Caller {
    stream: Stream,
    /// Scratch memory for its next call, unless a call of another thread has it now.
    scratch: Mutex<Option<Scratch>>,
}

/// What the process runs on, chosen once.
pub fn backend() -> GpuResult<Backend> {
    static CHOSEN: OnceLock<Backend> = OnceLock::new();
    match CHOSEN.get() {
        Some(chosen) => Ok(*chosen),
        None => ferrowarp::backend().map(|backend| *CHOSEN.get_or_init(|| backend)),
    }
}

impl Device {
    /// The device of that number.
    pub fn get(ordinal: u32) -> GpuResult<&'static Self> {
        static ALL: Mutex<BTreeMap<u32, &'static Device>> = Mutex::new(BTreeMap::new());
        let mut all = lock(&ALL);
        if let Some(device) = all.get(&ordinal) {
            return Ok(device);
        }
        let gpu = Gpu::on(ordinal)?;
        let device = Self { gpu, idle: Mutex::default(), callers: Mutex::default() };
        let device: &'static Self = Box::leak(Box::new(device));
        all.insert(ordinal, device);
        Ok(device)
    }

    /// The library's handle.
    pub fn gpu(&self) -> &Gpu {
        &self.gpu
    }

    /// Whether it is the emulator.
    pub fn is_emulated(&self) -> bool {
        self.gpu.backend() == Backend::Emulator
    }

    /// A stream for one call. Calls of several threads have a stream each, so that none waits for another one's work or
    /// gets its errors.
    pub fn lease(&'static self) -> GpuResult<Lease> {
        let stream = match lock(&self.idle).pop() {
            Some(idle) => idle,
            None => self.gpu.create_stream()?,
        };
        Ok(Lease { device: self, stream: LeasedStream::Own(stream) })
    }

    /// The stream of that handle (`CUstream`), which is the caller's current one; `is_kept` says that it is never destroyed.
    ///
    /// # Safety
    /// It is a stream of the device, and exists as long as the process if it is kept, else as long as what is returned.
    pub unsafe fn callers(&'static self, handle: usize, is_kept: bool) -> GpuResult<Lease> {
        // The default stream.
        let is_kept = is_kept || handle == 0;
        let known = if is_kept { lock(&self.callers).get(&handle).copied() } else { None };
        if let Some(known) = known {
            return Ok(Lease { device: self, stream: LeasedStream::Kept(known) });
        }
        let raw = std::ptr::with_exposed_provenance_mut(handle);
        // SAFETY: the caller's promise. What is not kept goes with the lease, and with what the call made on it.
        let stream = unsafe { Stream::from_raw(&self.gpu, raw, ())? };
        if !is_kept {
            return Ok(Lease { device: self, stream: LeasedStream::Callers(stream) });
        }
        let made: &'static Caller =
            Box::leak(Box::new(Caller { stream, scratch: Mutex::default() }));
        // Another thread may have been faster; both have the same stream.
        let kept = *lock(&self.callers).entry(handle).or_insert(made);
        Ok(Lease { device: self, stream: LeasedStream::Kept(kept) })
    }
}

/// The stream of one call.
pub struct Lease {
    device: &'static Device,
    stream: LeasedStream,
}

/// Whose stream it is.
enum LeasedStream {
    /// This library's.
    Own(Stream),
    /// The caller's.
    Callers(Stream),
    /// The caller's, who never destroys it.
    Kept(&'static Caller),
}

impl Lease {
    /// The device.
    pub fn device(&self) -> &'static Device {
        self.device
    }

    /// The stream.
    pub fn stream(&self) -> &Stream {
        match &self.stream {
            LeasedStream::Own(stream) | LeasedStream::Callers(stream) => stream,
            LeasedStream::Kept(caller) => &caller.stream,
        }
    }

    /// Whether it is the caller's own stream, for which no call waits. Otherwise the call alone has it, and it has done all of
    /// the call's work when this is dropped.
    pub fn is_callers(&self) -> bool {
        !matches!(self.stream, LeasedStream::Own(_))
    }

    /// Where the caller's stream keeps scratch memory.
    fn kept(&self) -> Option<&Mutex<Option<Scratch>>> {
        match &self.stream {
            LeasedStream::Kept(caller) => Some(&caller.scratch),
            _ => None,
        }
    }

    /// Memory that an operation is about to write from end to end.
    pub fn unwritten<T: Element>(&self, len: usize) -> GpuResult<DeviceBuffer<T>> {
        // SAFETY: every bit pattern is a value, and the caller's operation writes all of it, or the buffer is dropped.
        unsafe {
            match self.is_callers() {
                true => DeviceBuffer::uninitialized_async(self.stream(), len),
                false => DeviceBuffer::uninitialized(self.stream(), len),
            }
        }
    }

    /// Scratch memory for an operation that takes that many bytes of it.
    pub fn scratch(&self, bytes: usize) -> GpuResult<CallScratch<'_>> {
        if !self.is_callers() {
            let mut scratch = Scratch::new(self.stream())?;
            scratch.reserve(self.stream(), bytes)?;
            return Ok(CallScratch { scratch: Some(scratch), slot: None });
        }
        let is_small = bytes <= KEPT_BYTES;
        let slot = self.kept().filter(|_| is_small && !self.is_captured());
        let kept = slot.and_then(|slot| lock(slot).take());
        let bytes = if slot.is_some() { KEPT_BYTES } else { bytes };
        let scratch = match kept {
            Some(kept) => kept,
            None => Scratch::with_bytes_async(self.stream(), bytes)?,
        };
        Ok(CallScratch { scratch: Some(scratch), slot })
    }

    /// Enqueues `work`, which takes that many bytes of scratch memory and writes a count, and waits for the count.
    pub fn count(
        &self,
        bytes: usize,
        work: impl FnOnce(&mut DeviceBuffer<u64>, &mut Scratch) -> GpuResult<()>,
    ) -> GpuResult<usize> {
        let (mut count, mut scratch) = (self.unwritten(1)?, self.scratch(bytes)?);
        work(&mut count, &mut scratch)?;
        let mut host = [0];
        count.copy_to_host(&mut host).inspect_err(|_| scratch.slot = None)?;
        Ok(host[0] as usize)
    }

    /// Whether the stream's work becomes a graph, whose memory no other work may use between its runs.
    pub fn is_captured(&self) -> bool {
        let stream = StreamRef::of(self.stream()).as_raw().cast();
        let mut status = sys::stream_capture_status::NONE;
        // SAFETY: the stream lives, and `status` is writable.
        let code = unsafe { sys::cuStreamIsCapturing(stream, &mut status) };
        // The default stream is not asked while another one is captured.
        code != sys::CUresult::CUDA_SUCCESS || status != sys::stream_capture_status::NONE
    }
}

/// The scratch memory that a caller's stream keeps. For an operation that takes more, the time of an allocation is little.
const KEPT_BYTES: usize = 1 << 20;

/// Scratch memory of a call. A caller's stream may keep it for the next call, which comes after this one's work.
pub struct CallScratch<'a> {
    /// Always there, but while it is given back.
    scratch: Option<Scratch>,
    /// Where it is kept; `None` after a kernel that did not end well.
    slot: Option<&'a Mutex<Option<Scratch>>>,
}

impl Deref for CallScratch<'_> {
    type Target = Scratch;

    fn deref(&self) -> &Scratch {
        self.scratch.as_ref().expect("it is given back only in `drop`")
    }
}

impl DerefMut for CallScratch<'_> {
    fn deref_mut(&mut self) -> &mut Scratch {
        self.scratch.as_mut().expect("it is given back only in `drop`")
    }
}

impl Drop for CallScratch<'_> {
    fn drop(&mut self) {
        if let Some(slot) = self.slot {
            *lock(slot) = self.scratch.take();
        }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if let LeasedStream::Own(stream) = &self.stream {
            // After an error of the call; otherwise the stream is idle. A device that is lost does no more work.
            let _ = stream.synchronize();
            lock(&self.device.idle).push(stream.clone());
        }
    }
}

/// Nothing that the mutexes guard is left half changed by a panic.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A GPU, or the emulated one.
#[pyclass(frozen, get_all, module = "ferrowarp")]
pub struct DeviceInfo {
    /// Its number, from 0.
    ordinal: u32,
    /// Its name.
    name: String,
    /// Whether it is the emulator inside this process.
    emulated: bool,
    /// Its compute capability: (9, 0) runs `sm_90` code.
    compute_capability: (u32, u32),
    /// The size of its memory in bytes.
    total_memory: usize,
    /// How much of it no process had when this was asked for.
    free_memory: usize,
}

#[pymethods]
impl DeviceInfo {
    fn __repr__(&self) -> String {
        let kind = if self.emulated { "emulated" } else { "GPU" };
        format!("<ferrowarp device {}: {} ({kind})>", self.ordinal, self.name)
    }
}

/// The device with this number: its name, and whether it is emulated.
///
/// The choice between a GPU and the emulator is made once in a process, by the variable FERROWARP_DEVICE ("cuda" or
/// "emulator") and by what the machine has.
#[pyfunction]
#[pyo3(signature = (ordinal = 0))]
pub fn device(py: Python<'_>, ordinal: u32) -> PyResult<DeviceInfo> {
    let _current = CurrentContext::get();
    let device = py.detach(|| Device::get(ordinal)).map_err(to_python)?;
    let (free_memory, _) = device.gpu().memory_info().map_err(to_python)?;
    let info = device.gpu().info();
    Ok(DeviceInfo {
        ordinal,
        name: info.name.clone(),
        emulated: device.is_emulated(),
        compute_capability: info.compute_capability,
        total_memory: info.total_memory_bytes,
        free_memory,
    })
}
