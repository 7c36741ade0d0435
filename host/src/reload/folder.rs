//! A folder of PTX files, each of which is a module.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::{self, JoinHandle};
use std::{fmt, fs};

use cuda_builder::Cancel;

use super::arrivals::{Arrivals, FolderJob};
use super::files::{Files, PtxFile};
use super::shared::{Callback, Loader};
use super::watch::{KEEP, Running};
use super::worker::{Job, Source};
use super::{FolderEvent, HotModule, ReloadEvent, Watching};
use crate::error::{GpuError, GpuResult};
use crate::gpu::Gpu;
use crate::lock::lock;
use crate::module::{HeadStart, Text};
use crate::stream::{AsStream, Stream};

/// Called with each event.
type FolderCallback = Box<dyn Fn(&FolderEvent) + Send + Sync>;

/// A folder to watch, and how.
///
/// ```no_run
/// use ferrowarp::Gpu;
/// use ferrowarp::reload::WatchFolder;
///
/// let gpu = Gpu::new()?;
/// // SAFETY: whoever writes into the folder keeps to the signatures of this program's launchers.
/// let plugins = unsafe { WatchFolder::new("plugins") }
///     .on_event(|event| println!("{event:?}"))
///     .start(&gpu)?;
/// for (name, module) in plugins.modules() {
///     println!("{name}: {}", module.current().info());
/// }
/// # Ok::<(), ferrowarp::GpuError>(())
/// ```
#[must_use = "nothing is watched before `start`"]
pub struct WatchFolder {
    folder: PathBuf,
    keep: usize,
    callbacks: Vec<FolderCallback>,
}

impl WatchFolder {
    /// Makes a [`HotModule`] of each file `*.ptx` in a folder: of those that are there, and of those that come. Folders in
    /// it, files of other names and files whose name begins with a dot do not count. The folder itself has to stay.
    ///
    /// # Safety
    /// Until the last clone of the [`HotFolder`], and of the modules that came from it, is dropped, whatever the files
    /// hold is PTX for the launchers that are called on their modules, as
    /// [`Image::from_ptx`](crate::module::Image::from_ptx) says it.
    pub unsafe fn new(folder: impl AsRef<Path>) -> Self {
        Self { folder: folder.as_ref().to_owned(), keep: KEEP, callbacks: Vec::new() }
    }

    /// How many versions of each file are kept, as [`Watch::keep`](super::Watch::keep).
    pub fn keep(mut self, versions: usize) -> Self {
        self.keep = versions;
        self
    }

    /// Calls `tell` with each event, on the thread that watches the folder or the file.
    pub fn on_event(mut self, tell: impl Fn(&FolderEvent) + Send + Sync + 'static) -> Self {
        self.callbacks.push(Box::new(tell));
        self
    }

    /// Loads the files that are there, and watches from now on until the last clone of the [`HotFolder`] is dropped.
    ///
    /// A file that cannot be loaded is an [event](FolderEvent::NotLoaded), and not an error.
    ///
    /// # Errors
    /// [`Watch`](GpuError::Watch) for a folder that cannot be read or watched.
    pub fn start(self, gpu: &Gpu) -> GpuResult<HotFolder> {
        let cannot = |source| GpuError::Watch { path: self.folder.clone(), source };
        let folder = self.folder.canonicalize().map_err(cannot)?;
        let (sender, jobs) = channel();
        let of_files = sender.clone();
        let files = Files::of_folder(&folder, move |event| {
            let _ = of_files.send(FolderJob::Files(event));
        })?;
        let (stream, keep) = (gpu.as_stream().clone(), self.keep);
        let (modules, listeners) = (Mutex::default(), Mutex::default());
        let callbacks = self.callbacks;
        let state = FolderState { folder, stream, keep, callbacks, modules, listeners };
        let state = Arc::new(state);
        // The watch has begun: what comes during this is seen, too.
        let there = state.ptx_files().map_err(|source| state.cannot_watch(source))?;
        let again: Vec<PathBuf> = there.into_iter().filter(|path| !state.load(path)).collect();
        let arrivals = Arrivals::new(state.clone(), files, jobs, again);
        let thread = thread::Builder::new().name("hot folder".to_owned());
        let thread =
            thread.spawn(|| arrivals.run()).map_err(|source| state.cannot_watch(source))?;
        let thread = Mutex::new(Some(thread));
        Ok(HotFolder { inner: Arc::new(WatchingFolder { state, jobs: sender, thread }) })
    }
}

/// The modules of a folder of PTX files, which come, change and go while the program runs.
///
/// A file is loaded when it is complete, as [`Watch::ptx`](super::Watch::ptx) says it; so a file that is half written is
/// not. When a file goes, its module leaves the folder; what the program holds of it stays in use, and gets a new
/// version if the file comes back.
///
/// A clone is the same folder; any thread may use it. After the last one the modules that the program holds stay as they
/// are, and are not reloaded any more.
#[derive(Clone)]
pub struct HotFolder {
    inner: Arc<WatchingFolder>,
}

/// Ends the thread with the last hot folder.
struct WatchingFolder {
    state: Arc<FolderState>,
    jobs: Sender<FolderJob>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl HotFolder {
    /// The module of the file `NAME.ptx`; `None` if there is no such file, or it could not be loaded yet.
    #[must_use]
    pub fn module(&self, name: &str) -> Option<HotModule> {
        self.modules().into_iter().find_map(|(own, module)| (own == name).then_some(module))
    }

    /// The modules of the files that are there, each with the file's name without `.ptx`, in the order of the names.
    #[must_use]
    pub fn modules(&self) -> Vec<(String, HotModule)> {
        let modules = lock(&self.inner.state.modules);
        let there = modules.iter().filter_map(|(path, place)| match place {
            Place::There(module) => Some((name_of(path), module.clone())),
            Place::Gone(_) => None,
        });
        there.collect()
    }

    /// What happens from now on. Several receivers each get everything.
    #[must_use]
    pub fn events(&self) -> Receiver<FolderEvent> {
        let (sender, receiver) = channel();
        lock(&self.inner.state.listeners).push(sender);
        receiver
    }
}

impl fmt::Debug for HotFolder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.modules().into_iter().map(|(name, _)| name).collect();
        f.debug_struct("HotFolder").field("modules", &names).finish_non_exhaustive()
    }
}

impl Drop for WatchingFolder {
    fn drop(&mut self) {
        let _ = self.jobs.send(FolderJob::Stop);
        let thread = self.thread.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        // A callback may hold the last hot folder, on the thread itself.
        if let Some(thread) = thread.filter(|own| own.thread().id() != thread::current().id()) {
            let _ = thread.join();
        }
    }
}

/// What a hot folder and its thread share.
pub(super) struct FolderState {
    folder: PathBuf,
    stream: Stream,
    keep: usize,
    callbacks: Vec<FolderCallback>,
    modules: Mutex<BTreeMap<PathBuf, Place>>,
    listeners: Mutex<Vec<Sender<FolderEvent>>>,
}

/// The module of a file.
enum Place {
    There(HotModule),
    /// The file is gone; the program may hold its module.
    Gone(Weak<Watching>),
}

impl FolderState {
    /// The files in the folder that are modules.
    pub(super) fn ptx_files(&self) -> io::Result<Vec<PathBuf>> {
        let entries = fs::read_dir(&self.folder)?;
        let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
        paths.retain(|path| self.is_module(path));
        paths.sort();
        Ok(paths)
    }

    /// The files that are modules, and those that were.
    pub(super) fn all_paths(&self) -> Vec<PathBuf> {
        let mut paths = self.ptx_files().unwrap_or_default();
        paths.extend(self.modules().keys().cloned());
        paths.sort();
        paths.dedup();
        paths
    }

    /// Whether a path is that of a file that is, or would be, a module.
    pub(super) fn is_module(&self, path: &Path) -> bool {
        let hidden = path.file_name().is_none_or(|name| name.as_encoded_bytes().starts_with(b"."));
        let is_ptx = path.extension() == Some(OsStr::new("ptx"));
        is_ptx && !hidden && path.parent() == Some(self.folder.as_path()) && !path.is_dir()
    }

    /// Gives an event to the thread of a file whose module is there, or is held although the file was gone. Whether
    /// there is such a module.
    pub(super) fn pass_on(&self, path: &Path, event: &notify::Event) -> bool {
        let mut modules = self.modules();
        let module = match modules.get(path) {
            Some(Place::There(module)) => module.clone(),
            Some(Place::Gone(held)) => match held.upgrade() {
                Some(inner) => HotModule { inner },
                None => return false,
            },
            None => return false,
        };
        if path.exists() {
            modules.insert(path.to_owned(), Place::There(module.clone()));
        }
        drop(modules);
        // The thread ends only after the module.
        let _ = module.inner.worker.send(Job::Files(event.clone()));
        true
    }

    /// Loads a file that has no module yet. `false` if it changed while it was read.
    pub(super) fn load(self: &Arc<Self>, path: &Path) -> bool {
        let mut file = PtxFile::new(path.to_owned());
        let error = match file.read(HeadStart::default()) {
            Ok(None) => return false,
            // It is being written; the end of that is an event of its own.
            Ok(Some(text)) if text.ptx().trim().is_empty() => return true,
            Ok(Some(text)) => match self.add(file, text) {
                Ok(()) => return true,
                Err(error) => error,
            },
            Err(error) if error.kind() == io::ErrorKind::NotFound => return true,
            Err(source) => GpuError::Unreadable { path: path.to_owned(), source },
        };
        self.emit(FolderEvent::NotLoaded { path: path.to_owned(), error: Arc::new(error) });
        true
    }

    fn add(self: &Arc<Self>, mut file: PtxFile, text: Text) -> GpuResult<()> {
        let path = file.path().to_owned();
        let loader = Loader { stream: self.stream.clone(), required: Vec::new() };
        let first = loader.load(1, &text, &[], &[])?;
        file.recycle(text);
        let version = first.info().clone();
        let (sender, jobs) = channel();
        let running = Running {
            loader,
            first,
            keep: self.keep,
            callbacks: vec![self.callback(path.clone())],
            source: Source::Ptx(file),
            files: Some(Files::told(&path)),
            cancel: Cancel::default(),
            sender,
            jobs,
        };
        let module = running.start()?;
        self.modules().insert(path.clone(), Place::There(module));
        self.emit(FolderEvent::Added { path, version });
        Ok(())
    }

    /// What the thread of a file calls. It does not keep the folder.
    fn callback(self: &Arc<Self>, path: PathBuf) -> Callback {
        let folder = Arc::downgrade(self);
        Box::new(move |event| {
            if let Some(folder) = folder.upgrade() {
                folder.told(&path, event);
            }
        })
    }

    fn told(&self, path: &Path, event: &ReloadEvent) {
        match event {
            ReloadEvent::Unreadable { error, .. } if error.kind() == io::ErrorKind::NotFound => {
                self.remove(path);
            }
            other => {
                self.emit(FolderEvent::Changed { path: path.to_owned(), event: other.clone() });
            }
        }
    }

    fn remove(&self, path: &Path) {
        let mut modules = self.modules();
        let Some(place) = modules.get_mut(path) else { return };
        let Place::There(module) = &*place else { return };
        // With the lock, which the thread of the folder takes for each event: one that came back meanwhile is seen by
        // this thread, and one that comes back later by that.
        if path.exists() {
            return;
        }
        let gone = Place::Gone(Arc::downgrade(&module.inner));
        let was_there = std::mem::replace(place, gone);
        // Without the lock, and before the news: whoever hears of it, and brings the file back, gets a new module unless
        // the program holds this one.
        drop(modules);
        drop(was_there);
        self.emit(FolderEvent::Removed { path: path.to_owned() });
    }

    fn emit(&self, event: FolderEvent) {
        for callback in &self.callbacks {
            // A callback that panics has said so; watching goes on.
            let _ = catch_unwind(AssertUnwindSafe(|| callback(&event)));
        }
        lock(&self.listeners).retain(|listener| listener.send(event.clone()).is_ok());
    }

    fn modules(&self) -> MutexGuard<'_, BTreeMap<PathBuf, Place>> {
        lock(&self.modules)
    }

    fn cannot_watch(&self, source: io::Error) -> GpuError {
        GpuError::Watch { path: self.folder.clone(), source }
    }
}

/// `blur` of `folder/blur.ptx`.
fn name_of(path: &Path) -> String {
    path.file_stem().unwrap_or_default().to_string_lossy().into_owned()
}

impl Gpu {
    /// Watches a folder of PTX files: see [`WatchFolder`], which has options.
    ///
    /// # Errors
    /// As [`WatchFolder::start`].
    ///
    /// # Safety
    /// As [`WatchFolder::new`].
    pub unsafe fn watch_folder(&self, folder: impl AsRef<Path>) -> GpuResult<HotFolder> {
        // SAFETY: the caller's promise.
        unsafe { WatchFolder::new(folder) }.start(self)
    }
}
