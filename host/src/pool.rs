//! Pools of devices and streams for many threads: a thread acquires one, and returns it by dropping
//! it.
//!
//! Waiting threads are served in order. A member is returned also when its user panics, and a
//! device that is lost is not handed out any more.
//!
//! ```no_run
//! use std::thread;
//! use ferrowarp::{DeviceBuffer, GpuPool, GpuResult};
//!
//! let pool = GpuPool::new()?; // all devices
//! let work = || -> GpuResult<Vec<u32>> {
//!     let gpu = pool.acquire()?; // waits for a device that nobody has
//!     DeviceBuffer::<u32>::zeroed(&*gpu, 1000)?.to_vec()
//! };
//! thread::scope(|scope| drop([scope.spawn(work), scope.spawn(work), scope.spawn(work)]));
//! # Ok::<(), ferrowarp::GpuError>(())
//! ```

use std::collections::VecDeque;
use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use cuda_std::launch::{Args, Kernel, Launch, LaunchConfig};

use crate::device::devices;
use crate::error::{GpuError, GpuResult};
use crate::gpu::Gpu;
use crate::lock::lock;
use crate::module::Image;
use crate::stream::{AsStream, Stream};

/// A pool of devices. A clone is the same pool.
#[derive(Clone)]
pub struct GpuPool {
    queue: Arc<Queue<Gpu>>,
}

impl GpuPool {
    /// All devices, with the kernels of this crate.
    ///
    /// # Errors
    /// As [`devices`] and [`Gpu::on`].
    pub fn new() -> GpuResult<Self> {
        Self::with_images(crate::shipped::IMAGES)
    }

    /// All devices, with your own kernels.
    ///
    /// # Errors
    /// As [`devices`] and [`Gpu::on`].
    pub fn with_images(images: &[Image]) -> GpuResult<Self> {
        let open = |info: crate::DeviceInfo| Gpu::on_with_images(info.ordinal, images);
        Self::of(devices()?.into_iter().map(open).collect::<GpuResult<Vec<_>>>()?)
    }

    /// These devices. One that stands there twice can be taken twice.
    ///
    /// # Errors
    /// [`InvalidArgument`](GpuError::InvalidArgument) if there is none.
    pub fn of(gpus: impl IntoIterator<Item = Gpu>) -> GpuResult<Self> {
        Ok(Self { queue: Queue::new(gpus)? })
    }

    /// Waits for a free device.
    ///
    /// # Errors
    /// [`DeviceLost`](GpuError::DeviceLost) when all of them are lost.
    pub fn acquire(&self) -> GpuResult<Pooled<Gpu>> {
        self.queue.acquire()
    }

    /// A free device that no thread waits for, if there is one.
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire).
    pub fn try_acquire(&self) -> GpuResult<Option<Pooled<Gpu>>> {
        self.queue.try_acquire()
    }

    /// How many devices there are, taken or not, that are not lost.
    #[must_use]
    pub fn len(&self) -> usize {
        self.queue.lock().members
    }

    /// How many threads wait for a device now.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.queue.lock().waiting.len()
    }

    /// Whether all devices are lost.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// A pool of streams of one device. A clone is the same pool.
///
/// A stream may come with work of the user before, which runs first, and with a panic that he did not
/// wait for.
#[derive(Clone)]
pub struct StreamPool {
    queue: Arc<Queue<Stream>>,
}

impl StreamPool {
    /// `n` streams of `gpu`.
    ///
    /// # Errors
    /// [`InvalidArgument`](GpuError::InvalidArgument) if `n` is 0; a driver's refusal.
    pub fn new(gpu: &Gpu, n: usize) -> GpuResult<Self> {
        let streams = (0..n).map(|_| gpu.create_stream()).collect::<GpuResult<Vec<_>>>()?;
        Ok(Self { queue: Queue::new(streams)? })
    }

    /// Waits for a free stream.
    ///
    /// # Errors
    /// [`DeviceLost`](GpuError::DeviceLost) when the device is lost.
    pub fn acquire(&self) -> GpuResult<Pooled<Stream>> {
        self.queue.acquire()
    }

    /// A free stream that no thread waits for, if there is one.
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire).
    pub fn try_acquire(&self) -> GpuResult<Option<Pooled<Stream>>> {
        self.queue.try_acquire()
    }

    /// How many threads wait for a stream now.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.queue.lock().waiting.len()
    }
}

/// A device or a stream that is taken from its pool until this is dropped.
#[derive(Debug)]
pub struct Pooled<T: Member> {
    /// Always there, but while it is given back.
    value: Option<T>,
    queue: Arc<Queue<T>>,
}

impl<T: Member> Deref for Pooled<T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.value.as_ref().expect("it is given back only in `drop`")
    }
}

impl<T: Member> AsStream for Pooled<T> {
    fn as_stream(&self) -> &Stream {
        (**self).as_stream()
    }
}

impl<T: Member> Launch for Pooled<T> {
    type Error = GpuError;

    unsafe fn launch(
        &self,
        kernel: &'static Kernel,
        config: LaunchConfig,
        args: &Args<'_>,
    ) -> GpuResult<()> {
        // SAFETY: the caller's promise.
        unsafe { self.as_stream().launch(kernel, config, args) }
    }
}

impl<T: Member> Drop for Pooled<T> {
    fn drop(&mut self) {
        if let Some(value) = self.value.take() {
            self.queue.give_back(value);
        }
    }
}

/// What a pool holds: a [`Gpu`] or a [`Stream`].
pub trait Member: AsStream + sealed::Sealed {}

impl Member for Gpu {}
impl Member for Stream {}

mod sealed {
    pub trait Sealed {}
    impl Sealed for super::Gpu {}
    impl Sealed for super::Stream {}
}

/// The free members, and the waiting threads.
struct Queue<T> {
    state: Mutex<State<T>>,
    changed: Condvar,
}

struct State<T> {
    free: VecDeque<T>,
    /// Those that wait, the first one first.
    waiting: VecDeque<u64>,
    next_ticket: u64,
    /// How many there are, free or taken, that are not lost.
    members: usize,
    /// Why the last one was put out.
    lost: Option<GpuError>,
}

impl<T: Member> Queue<T> {
    fn new(values: impl IntoIterator<Item = T>) -> GpuResult<Arc<Self>> {
        let free: VecDeque<T> = values.into_iter().collect();
        let members = free.len();
        if members == 0 {
            let reason = "a pool of nothing would let everybody wait for ever".to_owned();
            return Err(GpuError::InvalidArgument { operation: "making a pool", reason });
        }
        let (waiting, next_ticket, lost) = (VecDeque::new(), 0, None);
        let state = Mutex::new(State { free, waiting, next_ticket, members, lost });
        Ok(Arc::new(Self { state, changed: Condvar::new() }))
    }

    fn acquire(self: &Arc<Self>) -> GpuResult<Pooled<T>> {
        let mut state = self.lock();
        let ticket = state.next_ticket;
        state.next_ticket += 1;
        state.waiting.push_back(ticket);
        let result = loop {
            if state.waiting.front() == Some(&ticket) {
                match state.take() {
                    Ok(None) => {}
                    Ok(Some(value)) => break Ok(value),
                    Err(error) => break Err(error),
                }
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        };
        state.waiting.pop_front();
        drop(state);
        // The next one may find something, too, or that all is lost.
        self.changed.notify_all();
        result.map(|value| Pooled { value: Some(value), queue: self.clone() })
    }

    fn try_acquire(self: &Arc<Self>) -> GpuResult<Option<Pooled<T>>> {
        let mut state = self.lock();
        if !state.waiting.is_empty() {
            return Ok(None);
        }
        let value = state.take()?;
        Ok(value.map(|value| Pooled { value: Some(value), queue: self.clone() }))
    }

    fn give_back(&self, value: T) {
        self.lock().free.push_back(value);
        self.changed.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, State<T>> {
        lock(&self.state)
    }
}

impl<T: Member> State<T> {
    /// One that is free, and not lost.
    fn take(&mut self) -> GpuResult<Option<T>> {
        while let Some(value) = self.free.pop_front() {
            match value.as_stream().inner().context().lost() {
                None => return Ok(Some(value)),
                Some(cause) => (self.members, self.lost) = (self.members - 1, Some(cause)),
            }
        }
        match &self.lost {
            Some(GpuError::DeviceLost { cause }) if self.members == 0 => {
                Err(GpuError::DeviceLost { cause: cause.clone() })
            }
            _ => Ok(None),
        }
    }
}

impl<T> fmt::Debug for Queue<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Queue")
    }
}

impl fmt::Debug for GpuPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "GpuPool({} devices)", self.len())
    }
}

impl fmt::Debug for StreamPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StreamPool({} streams)", self.queue.lock().members)
    }
}
