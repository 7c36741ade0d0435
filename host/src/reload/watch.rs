//! What to watch, and how.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use cuda_builder::{Cancel, CudaBuilder, NvvmArch};
use cuda_std::launch::Kernel;

use super::builds::Builds;
use super::files::{Files, PtxFile};
use super::shared::{Callback, Loader, Shared};
use super::version::ModuleVersion;
use super::worker::{Job, Source, Worker};
use super::{HotModule, ReloadEvent};
use crate::error::{GpuContext, GpuError, GpuResult};
use crate::gpu::Gpu;
use crate::module::{Text, best_arch};
use crate::stream::AsStream;

/// How many versions are kept.
pub(super) const KEEP: usize = 8;

/// What a [`HotModule`] is made from, and how it is watched.
///
/// ```no_run
/// use ferrowarp::Gpu;
/// use ferrowarp::reload::{ReloadEvent, Watch};
/// use kernels_gpu::elementwise::vecadd;
///
/// let gpu = Gpu::new()?;
/// // SAFETY: the folder has this program's own kernels, whose edits keep to their signatures.
/// let hot = unsafe { Watch::kernel_crate("kernels-gpu") }
///     .keep(3)
///     .require(&[&vecadd::KERNEL])
///     .on_event(|event| {
///         if let ReloadEvent::BuildFailed { error } = event {
///             eprintln!("{error}");
///         }
///     })
///     .start(&gpu)?;
/// # Ok::<(), ferrowarp::GpuError>(())
/// ```
#[must_use = "nothing is watched before `start`"]
pub struct Watch {
    source: Given,
    keep: usize,
    required: Vec<&'static Kernel>,
    callbacks: Vec<Callback>,
}

enum Given {
    Program,
    Ptx(PathBuf),
    /// A folder, whose architecture and target directory are chosen.
    Folder(PathBuf),
    Builder(Box<CudaBuilder>),
}

impl Watch {
    fn new(source: Given) -> Self {
        Self { source, keep: KEEP, required: Vec::new(), callbacks: Vec::new() }
    }

    /// Builds the kernel crate in a folder whenever a file changes that it is made from. It needs
    /// the sources, and a compiler, on the machine that it runs on.
    ///
    /// The first version is the image that is part of the program, if there is one; the crate is
    /// then built in the background, and swapped in if it differs.
    ///
    /// An edit is first built without the kernels that it does not concern, and of those that it does
    /// without the ones that the program has not launched, if it has launched any of them
    /// ([`CudaBuilder::rebuild`]); all kernels are built behind it, in the background, and swapped in
    /// too. A later edit ends that build.
    ///
    /// # Safety
    /// Until the last clone of the [`HotModule`] is dropped, whatever is built from the folder is PTX for the launchers
    /// that are called on the module, as [`Image::from_ptx`](crate::module::Image::from_ptx) says it. A crate of safe
    /// `#[kernel]`s is, as long as no edit makes a safe kernel `unsafe` or changes the fields of a type that keeps its
    /// name and size, which the versions are not checked for.
    pub unsafe fn kernel_crate(folder: impl AsRef<Path>) -> Self {
        Self::new(Given::Folder(folder.as_ref().to_owned()))
    }

    /// As [`kernel_crate`](Self::kernel_crate), with the options that the program's build script
    /// has. Of several architectures the best one for the device is built.
    ///
    /// # Safety
    /// As [`kernel_crate`](Self::kernel_crate).
    pub unsafe fn builder(builder: CudaBuilder) -> Self {
        Self::new(Given::Builder(Box::new(builder)))
    }

    /// Loads a PTX file, and again whenever it is written or replaced. On Linux a file that is written counts
    /// when its writer has closed it; elsewhere when it has not changed for 10 ms.
    ///
    /// # Safety
    /// Until the last clone of the [`HotModule`] is dropped, whatever the file holds is PTX for the launchers that are
    /// called on the module, as [`Image::from_ptx`](crate::module::Image::from_ptx) says it.
    pub unsafe fn ptx(file: impl AsRef<Path>) -> Self {
        Self::new(Given::Ptx(file.as_ref().to_owned()))
    }

    /// Watches nothing: versions come from [`HotModule::load_ptx`] alone.
    pub fn nothing() -> Self {
        Self::new(Given::Program)
    }

    /// How many versions are kept, the one in use counted; 8 if nothing is said, and at least 1.
    /// Older ones are unloaded after their last launch has run.
    pub fn keep(mut self, versions: usize) -> Self {
        self.keep = versions;
        self
    }

    /// Kernels that every version must have, with the parameters and the contract of these
    /// launchers. Kernels that the program has launched are required without being named.
    pub fn require(mut self, kernels: &[&'static Kernel]) -> Self {
        self.required.extend_from_slice(kernels);
        self
    }

    /// Calls `tell` with each event, on the thread that watches, or that loads.
    pub fn on_event(mut self, tell: impl Fn(&ReloadEvent) + Send + Sync + 'static) -> Self {
        self.callbacks.push(Box::new(tell));
        self
    }

    /// Loads the first version, and watches from now on until the last clone of the
    /// [`HotModule`] is dropped.
    ///
    /// # Errors
    /// A first version that cannot be built ([`KernelCrate`](GpuError::KernelCrate)), read
    /// ([`Watch`](GpuError::Watch)) or loaded; a kernel that is required and does not fit; a folder
    /// that cannot be watched; [`NoKernels`](GpuError::NoKernels) where nothing is watched and the
    /// `gpu` has none.
    pub fn start(self, gpu: &Gpu) -> GpuResult<HotModule> {
        let cancel = Cancel::default();
        let (sender, jobs) = channel();
        let mut source = self.source.resolved(gpu, &cancel, &sender)?;
        let loader = Loader { stream: gpu.as_stream().clone(), required: self.required };
        let mut files = files(&source, &sender)?;
        let first = first(&loader, &mut source, &mut files)?;
        let is_embedded = first.module().uses().is_none();
        if is_embedded && matches!(source, Source::Crate(_)) {
            let _ = sender.send(Job::Build);
        }
        let (keep, callbacks) = (self.keep, self.callbacks);
        Running { loader, first, keep, callbacks, source, files, cancel, sender, jobs }.start()
    }
}

/// A module whose first version is loaded, and its thread before it runs.
pub(super) struct Running {
    pub(super) loader: Loader,
    pub(super) first: ModuleVersion,
    pub(super) keep: usize,
    pub(super) callbacks: Vec<Callback>,
    pub(super) source: Source,
    pub(super) files: Option<Files>,
    pub(super) cancel: Cancel,
    pub(super) sender: Sender<Job>,
    pub(super) jobs: Receiver<Job>,
}

impl Running {
    pub(super) fn start(self) -> GpuResult<HotModule> {
        let Self { loader, first, keep, callbacks, source, files, cancel, sender, jobs } = self;
        let shared = Arc::new(Shared::new(loader, first, keep, callbacks, sender.clone()));
        let (backlog, whole, waiting) = Default::default();
        let worker =
            Worker { shared: shared.clone(), source, files, jobs, backlog, whole, waiting };
        let thread = thread::Builder::new().name("hot module".to_owned());
        let thread = thread.spawn(|| worker.run());
        let failed = |source| GpuError::Watch { path: PathBuf::from("a thread"), source };
        Ok(HotModule::new(shared, sender, cancel, thread.map_err(failed)?))
    }
}

impl Given {
    fn resolved(self, gpu: &Gpu, cancel: &Cancel, sender: &Sender<Job>) -> GpuResult<Source> {
        let (folder, archs) = match self {
            Self::Program => return Ok(Source::Program),
            Self::Ptx(path) => return Ok(Source::Ptx(PtxFile::new(path))),
            Self::Folder(folder) => (with_target_dir(&folder), Vec::new()),
            Self::Builder(builder) => {
                let archs = builder.archs.clone();
                (*builder, archs)
            }
        };
        let arch = arch(gpu, &archs)?;
        let builder = folder.arch(arch).keep_messages(true).cancel(cancel);
        Ok(Source::Crate(Box::new(Builds::new(builder, sender.clone()))))
    }
}

/// The architecture to build for: the one of these, of the embedded images or of all that is best on
/// the device.
fn arch(gpu: &Gpu, wanted: &[NvvmArch]) -> GpuResult<NvvmArch> {
    let device = gpu.compute_capability();
    let names = |archs: &[NvvmArch]| archs.iter().map(NvvmArch::target_cpu).collect::<Vec<_>>();
    let images = gpu.stream().module().images();
    let candidates = match (wanted, images) {
        ([], []) => names(NvvmArch::ALL),
        ([], images) => images.iter().map(|image| image.arch().to_owned()).collect(),
        (wanted, _) => names(wanted),
    };
    let best = best_arch(candidates.iter().map(String::as_str), device);
    let best = best.and_then(|name| name.parse().ok());
    best.ok_or(GpuError::UnsupportedArch { device, available: candidates })
}

/// A builder that shares the target directory in which the program itself was built, where the crate
/// may have been built there too: `core` is compiled there.
fn with_target_dir(folder: &Path) -> CudaBuilder {
    let program = std::env::current_exe().unwrap_or_default();
    let builder = CudaBuilder::new(folder);
    match shared_target_dir(&program, folder) {
        Some(dir) => builder.target_dir(dir),
        None => builder,
    }
}

/// Where kernels were built in the target directory that a program lies in. If that is a workspace's own, no
/// crate outside of the workspace is built there.
fn shared_target_dir(program: &Path, folder: &Path) -> Option<PathBuf> {
    let mut built = program.ancestors().skip(1).map(|dir| dir.join("cuda-builder"));
    let dir = built.find(|dir| dir.join("nvptx64-nvidia-cuda").is_dir())?;
    let folder = folder.canonicalize().ok()?;
    let workspace = dir.ancestors().find(|dir| dir.join("Cargo.lock").is_file());
    let is_outside = |own: &Path| own.canonicalize().is_ok_and(|own| !folder.starts_with(own));
    if workspace.is_some_and(is_outside) { None } else { Some(dir) }
}

fn files(source: &Source, sender: &Sender<Job>) -> GpuResult<Option<Files>> {
    let sender = sender.clone();
    let tell = move |event| drop(sender.send(Job::Files(event)));
    match source {
        Source::Program => Ok(None),
        Source::Ptx(file) => Files::of_file(file.path(), tell).map(Some),
        Source::Crate(builds) if builds.path().join("Cargo.toml").is_file() => {
            Files::of_crate(builds.path(), tell).map(Some)
        }
        Source::Crate(builds) => {
            let missing = builds.path().to_owned();
            let error = cuda_builder::CudaBuilderError::CratePathDoesntExist(missing);
            Err(GpuError::KernelCrate(Arc::new(error)))
        }
    }
}

fn first(
    loader: &Loader,
    source: &mut Source,
    files: &mut Option<Files>,
) -> GpuResult<ModuleVersion> {
    let has_images = !loader.stream.module().images().is_empty();
    let load = |text: &Text| {
        let loaded = loader.load(1, text, &loader.required, &[]);
        loaded.gpu_context("loading the first version")
    };
    match source {
        Source::Program => loader.embedded(),
        Source::Crate(_) if has_images => loader.embedded(),
        Source::Crate(builds) => {
            let built = builds.first().map_err(|error| GpuError::KernelCrate(Arc::new(error)))?;
            files.iter_mut().for_each(|files| files.follow(&built.sources));
            load(&Text::new(built.ptx.clone()))
        }
        Source::Ptx(file) => match std::fs::read_to_string(file.path()).map(Text::new) {
            Ok(text) => {
                let loaded = load(&text);
                file.recycle(text);
                loaded
            }
            Err(_) if has_images && !file.path().exists() => loader.embedded(),
            Err(source) => Err(GpuError::Watch { path: file.path().to_owned(), source }),
        },
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn another_project_is_not_built_where_the_program_was() {
        let dir = tempfile::tempdir().unwrap();
        let folders =
            ["own/kernels", "other/kernels", "own/target/cuda-builder/nvptx64-nvidia-cuda"];
        folders.iter().for_each(|folder| fs::create_dir_all(dir.path().join(folder)).unwrap());
        let [own, other, _] = folders.map(|folder| dir.path().join(folder));
        let target = dir.path().join("own/target");
        let shared = |folder| shared_target_dir(&target.join("debug/program"), folder);
        // A target directory outside of every workspace is that of all who were told to use it.
        assert_eq!(shared(&other), Some(target.join("cuda-builder")));
        fs::write(dir.path().join("own/Cargo.lock"), "").unwrap();
        assert_eq!(shared(&own), Some(target.join("cuda-builder")));
        assert_eq!(shared(&other), None);
        assert_eq!(shared_target_dir(&dir.path().join("bin/program"), &own), None);
    }
}
