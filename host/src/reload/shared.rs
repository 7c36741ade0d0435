//! The versions of a module, and the change from one to the next.

use std::collections::{HashSet, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use cuda_std::launch::Kernel;

use super::files::PtxFile;
use super::version::{Inner, ModuleVersion};
use super::worker::Job;
use super::{ReloadEvent, VersionInfo, fit};
use crate::context::Context;
use crate::error::{GpuContext, GpuResult};
use crate::lock::lock;
use crate::module::{HeadStart, KernelModule, Text, target};
use crate::stream::Stream;

/// Called with each event.
pub(super) type Callback = Box<dyn Fn(&ReloadEvent) + Send + Sync>;

/// What a new version has to satisfy, and where it is loaded.
pub(super) struct Loader {
    pub(super) stream: Stream,
    /// Kernels that every version must have.
    pub(super) required: Vec<&'static Kernel>,
}

/// What [`Shared::swap`] did.
pub(super) enum Swap {
    Swapped { version: ModuleVersion, load: Duration },
    Unchanged(ModuleVersion),
}

/// What a hot module and its thread share.
pub(super) struct Shared {
    loader: Loader,
    /// Read by every launch: without a lock.
    current: ArcSwap<Inner>,
    /// Held during a change, so that changes come one after the other.
    changes: Mutex<()>,
    state: Mutex<State>,
    keep: usize,
    callbacks: Vec<Callback>,
    listeners: Mutex<Vec<Sender<ReloadEvent>>>,
    worker: Mutex<Sender<Job>>,
}

struct State {
    /// Oldest first; the last one is in use.
    kept: VecDeque<ModuleVersion>,
    retired: Vec<Retired>,
}

/// A version that is not kept any more.
struct Retired {
    number: u64,
    stage: Stage,
}

enum Stage {
    /// Somebody may hold it, and launch.
    Held(Arc<KernelModule>),
    /// Nobody can launch; what was launched may run.
    Ending(Box<KernelModule>),
}

impl Loader {
    pub(super) fn context(&self) -> &Arc<Context> {
        self.stream.inner().context()
    }

    /// Loads a text and looks its kernels up; `launchers` are those that it must fit. Parts that one of
    /// `others` has too are not loaded again.
    pub(super) fn load(
        &self,
        number: u64,
        text: &Text,
        launchers: &[&'static Kernel],
        others: &[Arc<KernelModule>],
    ) -> GpuResult<ModuleVersion> {
        let arch = target(text.ptx()).to_owned();
        let info = VersionInfo::new(number, &arch, text.digest());
        let module = KernelModule::from_ptx(self.context(), &arch, text, others);
        match fits(&module, launchers).with_gpu_context(|| format!("loading version {number}")) {
            Ok(()) => Ok(ModuleVersion::new(info, &self.stream, Arc::new(module))),
            Err(error) => {
                module.unload_unused();
                Err(error)
            }
        }
    }

    /// The image that is part of the program; the driver compiles it at its first launch.
    pub(super) fn embedded(&self) -> GpuResult<ModuleVersion> {
        let (arch, text) = self.stream.module().image()?;
        let info = VersionInfo::new(1, arch, text);
        Ok(ModuleVersion::new(info, &self.stream, self.stream.module().clone()))
    }
}

/// Loads a module, and compares its kernels with their launchers: those that are new in it.
fn fits(module: &KernelModule, launchers: &[&'static Kernel]) -> GpuResult<()> {
    module.look_up_all()?;
    let mut new = launchers.iter().filter(|kernel| !module.has_looked_up(kernel));
    new.try_for_each(|kernel| {
        module.function(kernel)?;
        module.text_of(kernel.name).map_or(Ok(()), |text| fit::check_bounds(kernel, &text))
    })
}

impl Shared {
    pub(super) fn new(
        loader: Loader,
        first: ModuleVersion,
        keep: usize,
        callbacks: Vec<Callback>,
        worker: Sender<Job>,
    ) -> Self {
        Self {
            loader,
            current: ArcSwap::new(first.inner.clone()),
            changes: Mutex::new(()),
            state: Mutex::new(State { kept: VecDeque::from([first]), retired: Vec::new() }),
            keep: keep.max(1),
            callbacks,
            listeners: Mutex::default(),
            worker: Mutex::new(worker),
        }
    }

    pub(super) fn current(&self) -> &ArcSwap<Inner> {
        &self.current
    }

    /// Those that are kept, oldest first.
    pub(super) fn kept(&self) -> Vec<ModuleVersion> {
        self.state().kept.iter().cloned().collect()
    }

    /// The version in use.
    pub(super) fn newest(&self) -> ModuleVersion {
        ModuleVersion { inner: self.current.load_full() }
    }

    /// Loads a text and puts it to use, if it is another one and the program's launchers fit it.
    pub(super) fn swap(&self, text: &Text) -> GpuResult<Swap> {
        let _one_at_a_time = lock(&self.changes);
        let newest = self.newest();
        if newest.info().is_of(text.digest()) {
            return Ok(Swap::Unchanged(newest));
        }
        let begin = Instant::now();
        let others: Vec<_> = self.kept().iter().map(|version| version.module().clone()).collect();
        let version = self.loader.load(newest.number() + 1, text, &self.launchers(), &others)?;
        drop(others);
        let load = begin.elapsed();
        self.put_to_use(version.clone());
        Ok(Swap::Swapped { version, load })
    }

    /// Begins to load what no version that is kept has, a part for each further core.
    pub(super) fn begin(&self, file: &PtxFile) -> HeadStart {
        let kept = self.kept();
        let known: HashSet<u64> = kept.iter().flat_map(|one| one.module().hashes()).collect();
        let more_cores = thread::available_parallelism().map_or(0, |cores| cores.get() - 1);
        let new = file.parts_at_end(more_cores, |hash| !known.contains(&hash));
        HeadStart::new(self.loader.context(), new)
    }

    /// Loads a text, puts it to use, and tells the result.
    pub(super) fn reload(&self, text: &Text, edit: Instant) {
        self.emit(match self.swap(text) {
            Ok(Swap::Swapped { version, load }) => {
                let (version, since_edit) = (version.info().clone(), edit.elapsed());
                ReloadEvent::Swapped { version, load, since_edit }
            }
            Ok(Swap::Unchanged(version)) => {
                ReloadEvent::Unchanged { version: version.info().clone() }
            }
            Err(error) => ReloadEvent::of_error(error),
        });
    }

    fn put_to_use(&self, version: ModuleVersion) {
        let mut state = self.state();
        self.current.store(version.inner.clone());
        state.kept.push_back(version);
        while state.kept.len() > self.keep {
            let Some(old) = state.kept.pop_front() else { break };
            // The image of the program itself stays loaded as long as its `Gpu`.
            if old.module().uses().is_some() {
                let stage = Stage::Held(old.module().clone());
                state.retired.push(Retired { number: old.number(), stage });
            }
        }
        drop(state);
        // The thread ends only after the last hot module.
        let _ = lock(&self.worker).send(Job::Retire);
    }

    /// The launchers that the program is known to use.
    pub(super) fn launchers(&self) -> Vec<&'static Kernel> {
        let mut launchers = self.loader.required.clone();
        launchers.extend(self.loader.stream.module().launchers());
        launchers.extend(self.kept().iter().flat_map(|version| version.module().launchers()));
        // By their places: each version knows the same ones, and there may be hundreds.
        let mut known = HashSet::new();
        launchers.retain(|kernel| known.insert(ptr::from_ref(*kernel)));
        launchers
    }

    /// Unloads what nothing uses any more. Whether something is left for later.
    pub(super) fn unload(&self) -> bool {
        let retired = std::mem::take(&mut self.state().retired);
        for one in retired {
            let number = one.number;
            match one.step() {
                Some(rest) => self.state().retired.push(rest),
                None => self.emit(ReloadEvent::Unloaded { number }),
            }
        }
        !self.state().retired.is_empty()
    }

    pub(super) fn listen(&self) -> Receiver<ReloadEvent> {
        let (sender, receiver) = channel();
        lock(&self.listeners).push(sender);
        receiver
    }

    pub(super) fn emit(&self, event: ReloadEvent) {
        for callback in &self.callbacks {
            // A callback that panics has said so; reloading goes on.
            let _ = catch_unwind(AssertUnwindSafe(|| callback(&event)));
        }
        let mut listeners = lock(&self.listeners);
        listeners.retain(|listener| listener.send(event.clone()).is_ok());
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }
}

impl Retired {
    /// Unloads the module if nothing uses it; otherwise gives back what is left.
    fn step(self) -> Option<Self> {
        let number = self.number;
        let rest = |stage| Some(Self { number, stage });
        let module = match self.stage {
            Stage::Held(module) => match Arc::try_unwrap(module) {
                Ok(module) => Box::new(module),
                Err(held) => return rest(Stage::Held(held)),
            },
            Stage::Ending(module) => module,
        };
        if module.uses().is_some_and(|uses| !uses.are_over()) {
            return rest(Stage::Ending(module));
        }
        module.unload_unused();
        None
    }
}
