//! Kernel images, the best one for a device, and the functions of the loaded one.

mod ahead;
mod code;
mod known;
mod params;
mod part;
mod program;
mod text;

use std::borrow::Cow;
use std::collections::HashMap;
use std::ffi::c_int;
use std::fmt;
use std::str::FromStr;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use cuda_std::launch::{Contract, Kernel};
use cust::sys;

use crate::context::Context;
use crate::error::{GpuError, GpuResult};
use crate::reload::Uses;
use crate::stream::StreamInner;
use known::ModuleId;
use part::Part;
use program::Program;

pub(crate) use ahead::HeadStart;
pub(crate) use code::Code;
pub(crate) use part::not_stopped_by_captures;
pub(crate) use text::{Digest, Text};

/// Kernels compiled for one architecture, to be loaded on a device.
///
/// A typed launcher finds its kernel by name and believes that it is the one it was written for. So a safe program
/// gets an image only from its own build: [`include_kernels!`](crate::include_kernels) makes them of what
/// `cuda_builder` compiled, and [`shipped::IMAGES`](crate::shipped::IMAGES) are this crate's. Other PTX becomes one by
/// [`from_ptx`](Self::from_ptx), whose caller vouches for it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Image {
    arch: &'static str,
    ptx: &'static str,
}

impl Image {
    /// PTX for the architecture `arch`, for example `sm_90a`.
    ///
    /// Nothing is looked at here: text that is no PTX, or that is for another architecture, is an error of the first
    /// launch.
    ///
    /// # Safety
    /// For each launcher that is called on a [`Gpu`](crate::Gpu) with this image, the entry of the launcher's
    /// [`name`](cuda_std::launch::Kernel::name), if there is one:
    /// - has the parameters that the launcher gives, in their order and of their types;
    /// - accesses no other memory than these lend it, within their lengths, and writes only what they lend for writing;
    /// - needs no other blocks, clusters or dynamic shared memory than the launcher's contract promises;
    /// - does what a safe kernel of that signature may do: whatever it writes, it makes no two threads race.
    ///
    /// PTX of `#[kernel]`s is such a text for the launchers of the same crate's same sources.
    #[must_use]
    pub const unsafe fn from_ptx(arch: &'static str, ptx: &'static str) -> Self {
        Self { arch, ptx }
    }

    /// The architecture, for example `sm_90a`.
    #[must_use]
    pub const fn arch(&self) -> &'static str {
        self.arch
    }

    /// The PTX.
    #[must_use]
    pub const fn ptx(&self) -> &'static str {
        self.ptx
    }

    /// What [`include_kernels!`](crate::include_kernels) expands to.
    ///
    /// # Safety
    /// As for [`from_ptx`](Self::from_ptx), for each of the `N` texts.
    #[doc(hidden)]
    #[must_use]
    pub const unsafe fn of_build<const N: usize>(texts: &[EmbeddedPtx]) -> [Self; N] {
        let (mut images, mut at) = ([Self { arch: "", ptx: "" }; N], 0);
        while at < N {
            images[at] = Self { arch: texts[at].arch, ptx: texts[at].ptx };
            at += 1;
        }
        images
    }
}

/// Does not compile for a file of [`include_kernels!`](crate::include_kernels) outside of the build script's folder.
#[doc(hidden)]
pub const fn assert_name(file: &str) {
    let (name, mut at) = (file.as_bytes(), 0);
    while at < name.len() {
        assert!(
            name[at] != b'/' && name[at] != b'\\',
            "`include_kernels!` takes the name of a file that the build script wrote, and no path"
        );
        at += 1;
    }
}

/// What `cuda_builder` writes into the file that [`include_kernels!`](crate::include_kernels) reads: a text, which
/// cannot be loaded before something vouches for it.
#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
pub struct EmbeddedPtx {
    /// The architecture.
    pub arch: &'static str,
    /// The PTX.
    pub ptx: &'static str,
}

/// The architecture, and how long the text is: it may have megabytes.
impl fmt::Debug for Image {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Image({}, {} bytes of PTX)", self.arch, self.ptx.len())
    }
}

/// The kernel images that `cuda_builder` wrote for this crate from its build script: an
/// expression of type `&'static [Image]`. A crate that forbids `unsafe` has them too:
///
/// ```
/// #![forbid(unsafe_code)]
/// use ferrowarp::{DeviceBuffer, Gpu, LaunchConfig};
/// use kernels_gpu::elementwise::vecadd;
///
/// let gpu = Gpu::with_images(ferrowarp::include_kernels!())?;
/// let x = DeviceBuffer::from_slice(&gpu, &[1.0, 2.0])?;
/// let mut sum = DeviceBuffer::zeroed(&gpu, 2)?;
/// vecadd::launch(&gpu, LaunchConfig::for_num_elems(2), &x, &x, &mut sum)?;
/// assert_eq!(sum.to_vec()?, [2.0, 4.0]);
/// # Ok::<(), ferrowarp::GpuError>(())
/// ```
///
/// `include_kernels!("other.rs")` reads the file that the build script named by `CudaBuilder::embed_file`. It takes a name
/// and no path, since only what a build script wrote is trusted:
///
/// ```compile_fail,E0080
/// let elsewhere = ferrowarp::include_kernels!("./kernels.rs");
/// ```
#[macro_export]
macro_rules! include_kernels {
    () => {
        $crate::include_kernels!("kernels.rs")
    };
    ($file:expr) => {{
        const { $crate::module::assert_name($file) };
        const TEXTS: &[$crate::module::EmbeddedPtx] = include!(concat!(
            env!(
                "OUT_DIR",
                "there is no build script: a `build.rs` beside `Cargo.toml` that calls \
                 `cuda_builder::CudaBuilder::new(\"kernels\").embed()?` makes the images"
            ),
            "/",
            $file
        ));
        const IMAGES: &[$crate::module::Image] = {
            // SAFETY: the build script of this crate compiled the texts from the kernel crate whose launchers the
            // program has: cargo builds both from the same sources, and the script again when they change.
            &unsafe { $crate::module::Image::of_build::<{ TEXTS.len() }>(TEXTS) }
        };
        IMAGES
    }};
}

/// An architecture's name, taken apart. The order is the order of preference.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Arch {
    capability: (u32, u32),
    reach: Reach,
}

/// The devices that code for an architecture runs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Reach {
    /// `sm_90`: that capability and every higher one.
    Forward,
    /// `sm_100f`: that capability and higher ones of the same family.
    Family,
    /// `sm_90a`: that capability alone.
    Exact,
}

impl Arch {
    fn runs_on(self, device: (u32, u32)) -> bool {
        match self.reach {
            Reach::Forward => self.capability <= device,
            Reach::Family => self.capability.0 == device.0 && self.capability.1 <= device.1,
            Reach::Exact => self.capability == device,
        }
    }
}

impl FromStr for Arch {
    type Err = ();

    fn from_str(name: &str) -> Result<Self, ()> {
        let number = name.strip_prefix("sm_").or_else(|| name.strip_prefix("compute_")).ok_or(())?;
        let (number, reach) = match number.strip_suffix(['a', 'f']) {
            Some(rest) if number.ends_with('a') => (rest, Reach::Exact),
            Some(rest) => (rest, Reach::Family),
            None => (number, Reach::Forward),
        };
        let number: u32 = number.parse().map_err(|_| ())?;
        Ok(Self { capability: (number / 10, number % 10), reach })
    }
}

/// The image to load on a device: the highest architecture that runs there.
///
/// ```
/// use ferrowarp::module::best_image;
/// use ferrowarp::shipped::IMAGES; // for sm_80 and sm_90a
///
/// assert_eq!(best_image(IMAGES, (9, 0)).unwrap().arch(), "sm_90a");
/// assert_eq!(best_image(IMAGES, (12, 0)).unwrap().arch(), "sm_80");
/// assert!(best_image(IMAGES, (7, 5)).is_none());
/// ```
#[must_use]
pub fn best_image(images: &[Image], device: (u32, u32)) -> Option<Image> {
    let name = best_arch(images.iter().map(|image| image.arch), device)?;
    images.iter().find(|image| image.arch == name).copied()
}

/// What was loaded on a device.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LoadedImage {
    /// The architecture, for example `sm_90a`.
    pub arch: String,
}

/// The best of several architectures for a device, by name.
pub(crate) fn best_arch<'a>(
    names: impl IntoIterator<Item = &'a str>,
    device: (u32, u32),
) -> Option<&'a str> {
    let ranked = names.into_iter().filter_map(|name| Some((name.parse::<Arch>().ok()?, name)));
    ranked.filter(|(arch, _)| arch.runs_on(device)).max_by_key(|(arch, _)| *arch).map(|(_, n)| n)
}

/// The kernels of a [`Gpu`](crate::Gpu). The driver compiles each part of them when a kernel of it is first
/// looked up; those of a version of a [`HotModule`](crate::reload::HotModule) were compiled before.
pub(crate) struct KernelModule {
    id: ModuleId,
    context: Arc<Context>,
    images: Vec<Image>,
    program: OnceLock<Program>,
    /// The kernels that were looked up, by name.
    functions: Mutex<HashMap<&'static str, (Function, &'static Kernel)>>,
    /// The streams that may run its kernels, where it can be unloaded before they end.
    uses: Option<Uses>,
}

/// A kernel of a loaded module, and its limits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Function {
    pub(crate) handle: sys::CUfunction,
    /// Most threads in one block; the registers limit it.
    pub(crate) max_threads_per_block: u32,
    /// Shared memory that the kernel declares itself.
    pub(crate) static_shared_bytes: u32,
}

// SAFETY: the handle is used through the driver alone, which allows any thread.
unsafe impl Send for Function {}

impl fmt::Debug for KernelModule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KernelModule").field("images", &self.images).finish_non_exhaustive()
    }
}

impl KernelModule {
    pub(crate) fn new(context: &Arc<Context>, images: &[Image]) -> Arc<Self> {
        Arc::new(Self::of(context, images.to_vec(), OnceLock::new(), None))
    }

    /// A text that is no part of the program. What it has in common with `others` is theirs, with the kernels
    /// that were looked up there; nothing is loaded yet.
    pub(crate) fn from_ptx(
        context: &Arc<Context>,
        arch: &str,
        text: &Text,
        others: &[Arc<KernelModule>],
    ) -> Self {
        let others: Vec<(&Program, &Self)> = others
            .iter()
            .filter_map(|other| Some((other.program("any").ok()?, &**other)))
            .collect();
        let programs: Vec<&Program> = others.iter().map(|(program, _)| *program).collect();
        let program = Program::new(context, arch, text, &programs);
        let mut functions = HashMap::new();
        for (theirs, other) in others {
            let looked_up = other.functions();
            let shared = looked_up.iter().filter(|(name, _)| program.shares(name, theirs));
            functions.extend(shared.map(|(name, found)| (*name, *found)));
        }
        let module = Self::of(context, Vec::new(), OnceLock::from(program), Some(Uses::default()));
        *module.functions() = functions;
        module
    }

    fn of(
        context: &Arc<Context>,
        images: Vec<Image>,
        program: OnceLock<Program>,
        uses: Option<Uses>,
    ) -> Self {
        let (id, context, functions) = (ModuleId::new(), context.clone(), Mutex::default());
        Self { id, context, images, program, functions, uses }
    }

    /// Loads all that is not loaded, on several threads.
    pub(crate) fn load_all(&self) -> GpuResult<LoadedImage> {
        let program = self.program("any")?;
        program.load_all()?;
        Ok(LoadedImage { arch: program.arch().to_owned() })
    }

    /// The architecture of what is loaded, or will be, and what tells its text from others.
    pub(crate) fn image(&self) -> GpuResult<(&str, Digest)> {
        self.program("any").map(|program| (program.arch(), program.digest()))
    }

    /// The images that it can be loaded from.
    pub(crate) fn images(&self) -> &[Image] {
        &self.images
    }

    /// The kernels that were launched, as their launchers know them.
    pub(crate) fn launchers(&self) -> Vec<&'static Kernel> {
        self.functions().values().map(|(_, kernel)| *kernel).collect()
    }

    /// The streams that may run its kernels, if it can be unloaded before they end.
    pub(crate) fn uses(&self) -> Option<&Uses> {
        self.uses.as_ref()
    }

    /// Notes that `stream` may run its kernels.
    pub(crate) fn used_on(&self, stream: &Arc<StreamInner>) {
        self.uses.iter().for_each(|uses| uses.add(stream));
    }

    /// Looks a kernel up; the second time without the driver, and on the same thread without a lock.
    /// Its parameters must be those of the PTX.
    #[inline]
    pub(crate) fn function(&self, kernel: &'static Kernel) -> GpuResult<Function> {
        match self.id.known(kernel) {
            Some(function) => Ok(function),
            None => self.look_up(kernel).inspect(|&function| self.id.keep(kernel, function, 0)),
        }
    }

    /// Whether this launcher's kernel was looked up, here or where its part was loaded.
    pub(crate) fn has_looked_up(&self, kernel: &Kernel) -> bool {
        self.functions().get(kernel.name).is_some_and(|(_, known)| *known == kernel)
    }

    fn look_up(&self, kernel: &'static Kernel) -> GpuResult<Function> {
        if let Some((function, known)) = self.functions().get(kernel.name)
            && (std::ptr::eq(*known, kernel) || are_alike(known, kernel))
        {
            return Ok(*function);
        }
        // Not under the lock: other kernels are launched while the driver compiles this one.
        let part = self.part(kernel.name)?;
        let function = part.function(kernel)?;
        self.functions().insert(kernel.name, (function, kernel));
        Ok(function)
    }

    /// Loads what no other module had and looks its kernels up: what does not work shows before a launch.
    pub(crate) fn look_up_all(&self) -> GpuResult<()> {
        self.program("any")?.look_up_own()
    }

    /// The numbers of its parts, if it is loaded or will be.
    pub(crate) fn hashes(&self) -> impl Iterator<Item = u64> {
        self.program("any").ok().into_iter().flat_map(Program::hashes)
    }

    /// The text of the part that has a kernel; nothing where none has.
    pub(crate) fn text_of(&self, kernel: &str) -> Option<Cow<'_, str>> {
        Some(self.program(kernel).ok()?.part(kernel)?.text())
    }

    /// Unloads a module that nothing uses any more: no launch can come, and none runs.
    pub(crate) fn unload_unused(mut self) {
        // A panic that nobody was told of is kept beyond the records that have it.
        self.context.panics().keep_all();
        drop(self.program.take());
    }

    /// Lets `kernel` have `bytes` of dynamic shared memory, beyond the ordinary limit.
    pub(crate) fn allow_dynamic_shared(
        &self,
        kernel: &'static Kernel,
        function: Function,
        bytes: u32,
    ) -> GpuResult<()> {
        if self.id.allowed_bytes(kernel) >= bytes {
            return Ok(());
        }
        self.part(kernel.name)?.allow_dynamic_shared(function, bytes)?;
        self.id.keep(kernel, function, bytes);
        Ok(())
    }

    /// Lets `function` run in clusters that not every device with clusters can hold.
    pub(crate) fn allow_large_clusters(&self, function: Function) -> GpuResult<()> {
        // cust's bindings do not know this one.
        const NON_PORTABLE_CLUSTER_SIZE_ALLOWED: c_int = 14;
        unsafe extern "C" {
            fn cuFuncSetAttribute(f: sys::CUfunction, attribute: c_int, to: c_int)
            -> sys::CUresult;
        }
        // SAFETY: the function lives as long as its module, which `self` keeps.
        let set =
            || unsafe { cuFuncSetAttribute(function.handle, NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1) };
        self.context.call("cuFuncSetAttribute", set)
    }

    pub(crate) fn attribute(
        &self,
        function: sys::CUfunction,
        attribute: sys::CUfunction_attribute,
    ) -> GpuResult<u32> {
        part::attribute(&self.context, function, attribute)
    }

    /// A panic while the lock is held leaves the map whole, so poison is no reason to stop.
    fn functions(&self) -> MutexGuard<'_, HashMap<&'static str, (Function, &'static Kernel)>> {
        self.functions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn part(&self, kernel: &str) -> GpuResult<&Arc<Part>> {
        let program = self.program(kernel)?;
        program.part(kernel).ok_or_else(|| program.not_found(kernel))
    }

    fn program(&self, kernel: &str) -> GpuResult<&Program> {
        if let Some(program) = self.program.get() {
            return Ok(program);
        }
        let image = self.pick(kernel)?;
        Ok(self.program.get_or_init(|| Program::of_image(&self.context, image)))
    }

    fn pick(&self, kernel: &str) -> GpuResult<Image> {
        if self.images.is_empty() {
            return Err(GpuError::NoKernels { kernel: kernel.to_owned() });
        }
        let device = self.context.info().compute_capability;
        best_image(&self.images, device).ok_or_else(|| GpuError::UnsupportedArch {
            device,
            available: self.images.iter().map(|image| image.arch.to_owned()).collect(),
        })
    }
}

impl Drop for KernelModule {
    fn drop(&mut self) {
        // Kernels of it may still run.
        if let Some(program) = self.program.take().filter(Program::is_loaded) {
            self.context.drop_after_all(program);
        }
    }
}

/// Whether what fits one launcher's parameters fits the other's.
fn are_alike(one: &Kernel, other: &Kernel) -> bool {
    let hardware = |kernel: &Kernel| {
        let Contract { index, block, dynamic_element_bytes, is_safe, .. } = kernel.contract;
        (index, block, dynamic_element_bytes, is_safe)
    };
    one.params == other.params
        && one.contract.signature == other.contract.signature
        && hardware(one) == hardware(other)
}

/// Refuses a text for another device before the driver does, and with both architectures.
fn check_target(context: &Context, ptx: &str) -> GpuResult<()> {
    let (target, device) = (target(ptx), context.info().compute_capability);
    // A text without a target, or with one of a later kind, is for the driver to judge.
    if target.parse::<Arch>().map_or(true, |arch| arch.runs_on(device)) {
        return Ok(());
    }
    Err(GpuError::UnsupportedArch { device, available: vec![target.to_owned()] })
}

/// The architecture that a PTX text names; empty where it names none.
pub(crate) fn target(ptx: &str) -> &str {
    let mut code = ptx.lines().map(|line| line.split("//").next().unwrap_or_default().trim());
    let line = code.find_map(|line| line.strip_prefix(".target"));
    line.and_then(|line| line.split([',', ' ', '\t']).find(|word| !word.is_empty())).unwrap_or("")
}

/// The chapter's examples are tests.
#[cfg(doctest)]
#[doc = include_str!("../../book/src/own-project.md")]
struct Chapter;

#[cfg(test)]
mod tests {
    use super::*;

    fn best(archs: &[&'static str], device: (u32, u32)) -> Option<&'static str> {
        let images: Vec<_> = archs.iter().map(|arch| Image { arch, ptx: "" }).collect();
        best_image(&images, device).map(|image| image.arch)
    }

    #[test]
    fn the_highest_image_that_runs_is_taken() {
        assert_eq!(best(&["sm_80", "sm_75", "sm_90"], (8, 6)), Some("sm_80"));
        assert_eq!(best(&["sm_80", "sm_90", "sm_90a"], (9, 0)), Some("sm_90a"));
        assert_eq!(best(&["compute_70"], (9, 0)), Some("compute_70"));
    }

    #[test]
    fn exact_and_family_images_stay_where_they_belong() {
        assert_eq!(best(&["sm_90a"], (10, 0)), None);
        assert_eq!(best(&["sm_90", "sm_90a"], (10, 0)), Some("sm_90"));
        assert_eq!(best(&["sm_90", "sm_100f"], (10, 3)), Some("sm_100f"));
        assert_eq!(best(&["sm_90", "sm_100f"], (12, 0)), Some("sm_90"));
        assert_eq!(best(&["sm_100f", "sm_100a"], (10, 0)), Some("sm_100a"));
    }

    #[test]
    fn launchers_of_other_launches_are_looked_up_again() {
        let kernel = |contract| Kernel { name: "k", params: &[], contract };
        let own = Contract::NONE.with_hardware(1, None);
        assert!(are_alike(&kernel(own), &kernel(own)));
        for other in [
            own.with_safe_launch(),
            own.with_hardware(2, None),
            own.with_hardware(1, Some(4)),
            own.with_block([64, 1, 1]),
        ] {
            assert!(!are_alike(&kernel(own), &kernel(other)), "{other:?}");
        }
    }

    #[test]
    fn a_name_that_is_no_architecture_is_never_taken() {
        assert_eq!(best(&["sm_", "sm_x", "90", ""], (9, 0)), None);
    }

    #[test]
    fn the_target_is_read_from_the_text() {
        assert_eq!(target("// .target sm_10\n.version 8.0\n.target sm_90a, debug\n"), "sm_90a");
        assert_eq!(target(".target\tsm_70 // x"), "sm_70");
        assert_eq!(target("nonsense"), "");
    }
}
