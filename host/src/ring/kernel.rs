//! Persistent kernels.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use cuda_std::launch::{Args, Home, Kernel, Launch, LaunchConfig};

use crate::deferred_frees::free_pending;
use crate::error::{GpuError, GpuResult};
use crate::event::Event;
use crate::persistent::PersistentKernels;
use crate::shared_memory::{SharedMemory, shared_of};
use crate::stream::{AsStream, Stream};

/// How long a kernel may take to answer what is left, and again to end without, unless it is said
/// otherwise.
const PATIENCE: Duration = Duration::from_secs(1);

/// A persistent kernel, which answers the messages of its rings, with a stream of its own.
///
/// It ends when its rings are closed: all senders are dropped, or [`shut_down`](Self::shut_down) is
/// called, which dropping it does too. A panic or fault in it is the error of whoever waits for one of
/// its rings, and of `shut_down`.
pub struct PersistentKernel {
    stream: Stream,
    /// The memory of its rings.
    rings: Vec<Arc<dyn Any + Send + Sync>>,
    /// How many launches it is.
    launches: usize,
    patience: Duration,
    ended: bool,
}

/// What starts the kernels of a [`PersistentKernel`].
pub struct Launcher {
    stream: Stream,
    rings: RefCell<Vec<Arc<dyn Any + Send + Sync>>>,
    launches: Cell<usize>,
}

impl Launch for Launcher {
    type Error = GpuError;

    unsafe fn launch(
        &self,
        kernel: &'static Kernel,
        config: LaunchConfig,
        args: &Args<'_>,
    ) -> GpuResult<()> {
        let shared = args.homes().filter(|&home| shared_of(home).is_some());
        self.rings.borrow_mut().extend(shared.map(Home::keep));
        self.launches.update(|launches| launches + 1);
        // SAFETY: the caller's promise.
        unsafe { self.stream.launch(kernel, config, args) }
    }
}

impl PersistentKernel {
    /// Starts what `launch` launches, on a new stream of the device that `on` is of. Of the kernels only
    /// these are loaded; what is to be launched while they run is loaded before, by
    /// [`Gpu::load_kernels`](crate::Gpu::load_kernels) or a launch.
    ///
    /// # Errors
    /// The error of `launch`; a driver's refusal; [`LoadWouldBlock`](GpuError::LoadWouldBlock) where `launch`
    /// launches several kernels that are not loaded.
    pub fn start(
        on: &impl AsStream,
        launch: impl FnOnce(&Launcher) -> GpuResult<()>,
    ) -> GpuResult<Self> {
        let parent = on.as_stream();
        let context = parent.inner().context();
        let stream = Stream::new(context, parent.module())?;
        PersistentKernels::of(context).add(stream.inner());
        let (rings, launches) = (RefCell::default(), Cell::new(0));
        let launcher = Launcher { stream: stream.clone(), rings, launches };
        let launched = launch(&launcher);
        let (rings, launches) = (launcher.rings.into_inner(), launcher.launches.get());
        // Where some kernels were launched and others not, dropping it ends the former.
        let kernel = Self { stream, rings, launches, patience: PATIENCE, ended: false };
        launched.map(|()| kernel)
    }

    /// Sets how long the kernel may take to end: once for what is left in its rings, and once more
    /// when no code receives its answers. The default is one second each.
    pub fn set_shutdown_timeout(&mut self, patience: Duration) {
        self.patience = patience;
    }

    /// Whether it runs.
    ///
    /// # Errors
    /// Its panic or fault.
    pub fn is_running(&self) -> GpuResult<bool> {
        self.stream.is_idle().map(|idle| !idle)
    }

    /// Lets the kernel answer what was sent, and waits for its end.
    ///
    /// Its answers stay in their rings and can be received afterwards. Where these are full and no
    /// code receives, they are closed too after the time that
    /// [`set_shutdown_timeout`](Self::set_shutdown_timeout) says, and the kernel's further answers
    /// are lost.
    ///
    /// # Errors
    /// [`KernelNotResponding`](GpuError::KernelNotResponding) if it goes on nevertheless: then its
    /// memory is never given back. Its panic or fault.
    pub fn shut_down(mut self) -> GpuResult<()> {
        self.end()
    }

    /// Whether it ends in the time that it may take to answer what is left.
    pub(super) fn ends_in_time(&self) -> GpuResult<bool> {
        self.stream.synchronize_timeout(self.patience)
    }

    /// Whether it is one launch, so that there is one grid alone.
    pub(super) fn is_one_launch(&self) -> bool {
        self.launches == 1
    }

    /// Records an event after it.
    pub(super) fn event_after(&self) -> GpuResult<Event> {
        let stream = self.stream.inner();
        let event = Event::untimed(stream.context())?;
        stream.record_into(&event).map(|()| event)
    }

    fn end(&mut self) -> GpuResult<()> {
        self.ended = true;
        let end = self.wait_for_end();
        for context in PersistentKernels::of(self.stream.inner().context()).contexts() {
            free_pending(&context);
        }
        end
    }

    fn wait_for_end(&self) -> GpuResult<()> {
        self.each_ring(SharedMemory::close_requests);
        if self.ends_in_time()? {
            self.each_ring(SharedMemory::close);
            return Ok(());
        }
        self.each_ring(SharedMemory::close);
        if self.ends_in_time()? {
            return Ok(());
        }
        // Nothing may wait for this kernel from now on: its memory and its module leak.
        std::mem::forget(self.rings.clone());
        std::mem::forget(self.stream.clone());
        let waited_ms = u64::try_from(2 * self.patience.as_millis()).unwrap_or(u64::MAX);
        Err(GpuError::KernelNotResponding { waited_ms })
    }

    fn each_ring(&self, what: impl Fn(&SharedMemory)) {
        self.rings.iter().map(Home::from).filter_map(shared_of).for_each(what);
    }
}

impl Drop for PersistentKernel {
    fn drop(&mut self) {
        if !self.ended {
            // The error is available from `shut_down`.
            let _ = self.end();
        }
    }
}

impl fmt::Debug for PersistentKernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PersistentKernel({} rings)", self.rings.len())
    }
}

impl fmt::Debug for Launcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Launcher")
    }
}
