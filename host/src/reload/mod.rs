//! Hot reload: kernels that are edited while the program runs.
//!
//! A [`HotModule`] watches a kernel crate or a PTX file. An edit is built, loaded and put to use
//! while the program launches; whatever is wrong with it (it does not compile, the driver refuses
//! it, a kernel does not fit its launcher any more) leaves the version before in use and is reported as
//! a [`ReloadEvent`]. Each launch sees one version, and older ones stay loaded beside it to be
//! compared.
//!
//! ```no_run
//! use ferrowarp::{DeviceBuffer, Gpu, LaunchConfig};
//! use kernels_gpu::elementwise::saxpy;
//!
//! let gpu = Gpu::new()?;
//! // SAFETY: the folder has this program's own kernels, whose edits keep to their signatures.
//! let hot = unsafe { gpu.watch_kernels("kernels-gpu")? };
//! let x = DeviceBuffer::from_slice(&gpu, &[1.0f32; 1000])?;
//! let mut y = DeviceBuffer::zeroed(&gpu, 1000)?;
//! loop {
//!     // The newest version, whenever it came.
//!     saxpy::launch(&hot, LaunchConfig::for_num_elems(x.len()), 2.0, &x, &mut y)?;
//! #   break;
//! }
//! # Ok::<(), ferrowarp::GpuError>(())
//! ```
//!
//! # What a launcher is checked against
//!
//! A launcher is part of the program and is not reloaded. A version is refused if a kernel that was
//! launched before, or that [`Watch::require`] names, is missing in it, has parameters of other
//! sizes or types, is compiled for other blocks or clusters than its launcher gives, or takes what some launches
//! would not give it: a thread index of one dimension where the launcher allows two, a dynamic shared array of other
//! elements, or the promises of an `unsafe fn` where safe code launches it. Fixed shared arrays may change, and an index may go: no launch depends on them. PTX that `#[kernel]` did
//! not write has no types: there, after an edit from `&[f32]` to `&[f64]`, build the host again.
//!
//! # What is trusted
//!
//! What a kernel does with its arguments is not checked. The compiler has looked at the kernels that are part of
//! the program, and at no others: so whatever brings a module other PTX is `unsafe`, and the caller vouches for what
//! comes from there, now and at each edit. The compiler looks at a crate of safe `#[kernel]`s again whenever it is
//! built, and no more than access to the folder is trusted there.

mod arrivals;
mod builds;
mod compare;
mod event;
mod files;
mod fit;
mod folder;
mod shared;
mod version;
mod watch;
mod worker;

use std::fmt;
use std::sync::mpsc::{Receiver, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use cuda_builder::Cancel;
use cuda_std::launch::{Args, Kernel, Launch, LaunchConfig};

use crate::error::{GpuError, GpuResult};
use crate::gpu::Gpu;
use crate::module::Text;
use crate::stream::{AsStream, Stream};
use shared::{Shared, Swap};
use worker::Job;

pub use compare::{Comparison, Interval, Outcome, Timing, Verdict};
pub use event::{FolderEvent, ReloadEvent};
pub use folder::{HotFolder, WatchFolder};
pub use version::{ModuleVersion, VersionInfo};
pub use watch::Watch;

/// A module whose kernels can be exchanged while the program runs.
///
/// A launch on it runs the newest version's kernel on the stream of the [`Gpu`] that it was made
/// of. [`on`](Self::on) gives other streams, and several launches, one and the same version. A
/// clone is the same module; any thread may use it.
///
/// A callback of [`Watch::on_event`] that holds the module keeps it, and its thread, forever.
#[derive(Clone)]
pub struct HotModule {
    inner: Arc<Watching>,
}

/// Ends the thread with the last hot module.
struct Watching {
    shared: Arc<Shared>,
    worker: Sender<Job>,
    cancel: Cancel,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl HotModule {
    fn new(
        shared: Arc<Shared>,
        worker: Sender<Job>,
        cancel: Cancel,
        thread: JoinHandle<()>,
    ) -> Self {
        let thread = Mutex::new(Some(thread));
        Self { inner: Arc::new(Watching { shared, worker, cancel, thread }) }
    }

    /// The version in use.
    #[must_use]
    pub fn current(&self) -> ModuleVersion {
        self.inner.shared.newest()
    }

    /// The version of that number.
    ///
    /// # Errors
    /// [`NoVersion`](GpuError::NoVersion) if it never was, or is not kept any more.
    pub fn version(&self, number: u64) -> GpuResult<ModuleVersion> {
        let kept = self.versions();
        let found = kept.iter().find(|version| version.number() == number).cloned();
        let kept = || kept.iter().map(ModuleVersion::number).collect();
        found.ok_or_else(|| GpuError::NoVersion { asked: number, kept: kept() })
    }

    /// The versions that are kept, oldest first; the last one is in use.
    #[must_use]
    pub fn versions(&self) -> Vec<ModuleVersion> {
        self.inner.shared.kept()
    }

    /// The device with the kernels of the version in use, for what takes a [`Gpu`]. It stays with
    /// that version.
    #[must_use]
    pub fn gpu(&self) -> Gpu {
        self.current().gpu()
    }

    /// `stream` with the kernels of the version in use. It stays with that version: ask for each
    /// frame, or whatever is to see one version.
    ///
    /// # Errors
    /// [`WrongDevice`](GpuError::WrongDevice) for a stream of another device.
    pub fn on(&self, stream: &impl AsStream) -> GpuResult<Stream> {
        self.current().on(stream)
    }

    /// Loads a PTX text and puts it to use, on this thread. The version in use is returned where
    /// the text is its own.
    ///
    /// # Errors
    /// What the driver says of the text, or a kernel that does not fit its launcher; the version
    /// before stays in use.
    ///
    /// # Safety
    /// The text is one for the launchers that are called on this module and its versions, as
    /// [`Image::from_ptx`](crate::module::Image::from_ptx) says it.
    pub unsafe fn load_ptx(&self, ptx: impl Into<String>) -> GpuResult<ModuleVersion> {
        Ok(match self.inner.shared.swap(&Text::new(ptx.into()))? {
            Swap::Swapped { version, .. } | Swap::Unchanged(version) => version,
        })
    }

    /// Builds the kernel crate, or reads the file, as if it had changed. [`events`](Self::events)
    /// tell the result.
    pub fn reload(&self) {
        // The thread ends only after `self`.
        let _ = self.inner.worker.send(Job::Build);
    }

    /// What happens from now on. Several receivers each get everything.
    #[must_use]
    pub fn events(&self) -> Receiver<ReloadEvent> {
        self.inner.shared.listen()
    }
}

impl Launch for HotModule {
    type Error = GpuError;

    unsafe fn launch(
        &self,
        kernel: &'static Kernel,
        config: LaunchConfig,
        args: &Args<'_>,
    ) -> GpuResult<()> {
        let version = self.inner.shared.current().load();
        // SAFETY: the caller's promise.
        unsafe { version.launch(kernel, config, args) }
    }
}

impl fmt::Debug for HotModule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HotModule").field("versions", &self.versions()).finish_non_exhaustive()
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        self.cancel.cancel();
        let _ = self.worker.send(Job::Stop);
        let thread = self.thread.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        // A callback may hold the last hot module, on the thread itself.
        if let Some(thread) = thread.filter(|own| own.thread().id() != std::thread::current().id())
        {
            let _ = thread.join();
        }
    }
}

impl Gpu {
    /// Watches a kernel crate: see [`Watch::kernel_crate`], which has options.
    ///
    /// # Errors
    /// As [`Watch::start`].
    ///
    /// # Safety
    /// As [`Watch::kernel_crate`].
    pub unsafe fn watch_kernels(
        &self,
        folder: impl AsRef<std::path::Path>,
    ) -> GpuResult<HotModule> {
        // SAFETY: the caller's promise.
        unsafe { Watch::kernel_crate(folder) }.start(self)
    }

    /// Watches a PTX file: see [`Watch::ptx`], which has options.
    ///
    /// # Errors
    /// As [`Watch::start`].
    ///
    /// # Safety
    /// As [`Watch::ptx`].
    pub unsafe fn watch_ptx(&self, file: impl AsRef<std::path::Path>) -> GpuResult<HotModule> {
        // SAFETY: the caller's promise.
        unsafe { Watch::ptx(file) }.start(self)
    }
}

/// The book's page, whose program compiles.
#[cfg(doctest)]
#[doc = include_str!("../../../book/src/hot-reload.md")]
struct Book;
