//! Kernel images, the best one for a device, and the functions of the loaded one.

mod known;

use std::borrow::Cow;
use std::collections::HashMap;
use std::ffi::{CStr, CString, c_int};
use std::ptr;
use std::str::FromStr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cuda_std::launch::Kernel;
use cust::sys;

use crate::context::Context;
use crate::error::{GpuContext, GpuError, GpuResult};
use crate::panic::ModuleRecords;
use crate::reload::Uses;
use crate::stack;
use crate::stream::StreamInner;
use known::ModuleId;

/// What the driver answers where a kernel has no such parameter.
const NO_PARAM: u32 = 1;

/// Kernels compiled for one architecture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Image {
    /// The architecture, for example `sm_90a`.
    pub arch: &'static str,
    /// The PTX.
    pub ptx: &'static str,
}

/// The kernel images that `cuda_builder` wrote for this crate from its build script: an
/// expression of type `&'static [Image]`.
#[macro_export]
macro_rules! include_kernels {
    () => {
        include!(concat!(env!("OUT_DIR"), "/kernels.rs"))
    };
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
/// use ferrowarp::module::{Image, best_image};
///
/// let images = [Image { arch: "sm_80", ptx: "" }, Image { arch: "sm_90a", ptx: "" }];
/// assert_eq!(best_image(&images, (9, 0)).unwrap().arch, "sm_90a");
/// assert_eq!(best_image(&images, (12, 0)).unwrap().arch, "sm_80");
/// assert!(best_image(&images, (7, 5)).is_none());
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

/// The kernels of a [`Gpu`](crate::Gpu). The driver compiles them at the first launch; those of a
/// version of a [`HotModule`](crate::reload::HotModule) were compiled before.
#[derive(Debug)]
pub(crate) struct KernelModule {
    id: ModuleId,
    context: Arc<Context>,
    images: Vec<Image>,
    loaded: Mutex<Option<Loaded>>,
    /// How much dynamic shared memory functions were allowed, each by its handle.
    allowed_bytes: Mutex<HashMap<usize, u32>>,
    /// The streams that may run its kernels, where it can be unloaded before they end.
    uses: Option<Uses>,
}

#[derive(Debug)]
struct Loaded {
    handle: sys::CUmodule,
    arch: Cow<'static, str>,
    ptx: Cow<'static, str>,
    functions: HashMap<&'static str, (Function, &'static Kernel)>,
    /// Where its kernels report panics, if they can.
    records: Option<Arc<ModuleRecords>>,
}

// SAFETY: the handles are used through the driver alone, which allows any thread.
unsafe impl Send for Loaded {}

/// A kernel of a loaded module, and its limits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Function {
    pub(crate) handle: sys::CUfunction,
    /// Most threads in one block; the registers limit it.
    pub(crate) max_threads_per_block: u32,
    /// Shared memory that the kernel declares itself.
    pub(crate) static_shared_bytes: u32,
}

impl KernelModule {
    pub(crate) fn new(context: &Arc<Context>, images: &[Image]) -> Arc<Self> {
        let (id, context, images) = (ModuleId::new(), context.clone(), images.to_vec());
        let (loaded, allowed_bytes) = (Mutex::default(), Mutex::default());
        Arc::new(Self { id, context, images, loaded, allowed_bytes, uses: None })
    }

    /// Loads a text that is no part of the program.
    pub(crate) fn from_ptx(context: &Arc<Context>, arch: String, ptx: String) -> GpuResult<Self> {
        let loaded = load(context, arch.into(), ptx.into())?;
        let (id, context, loaded) = (ModuleId::new(), context.clone(), Mutex::new(Some(loaded)));
        let (images, allowed_bytes, uses) = (Vec::new(), Mutex::default(), Some(Uses::default()));
        Ok(Self { id, context, images, loaded, allowed_bytes, uses })
    }

    /// Loads the module if it is not.
    pub(crate) fn load(&self, kernel: &str) -> GpuResult<LoadedImage> {
        let mut guard = self.lock();
        let loaded = self.loaded(&mut guard, kernel)?;
        Ok(LoadedImage { arch: loaded.arch.clone().into_owned() })
    }

    /// The image that is loaded, or will be.
    pub(crate) fn image(&self) -> GpuResult<(String, String)> {
        let mut guard = self.lock();
        match guard.as_mut() {
            Some(loaded) => Ok((loaded.arch.clone().into_owned(), loaded.ptx.clone().into_owned())),
            None => self.pick("any").map(|image| (image.arch.to_owned(), image.ptx.to_owned())),
        }
    }

    /// The images that it can be loaded from.
    pub(crate) fn images(&self) -> &[Image] {
        &self.images
    }

    /// The kernels that were launched, as their launchers know them.
    pub(crate) fn launchers(&self) -> Vec<&'static Kernel> {
        let guard = self.lock();
        guard.iter().flat_map(|loaded| loaded.functions.values()).map(|(_, k)| *k).collect()
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

    fn look_up(&self, kernel: &'static Kernel) -> GpuResult<Function> {
        let name = kernel.name;
        let mut guard = self.lock();
        let loaded = self.loaded(&mut guard, name)?;
        if let Some((function, known)) = loaded.functions.get(name)
            && (std::ptr::eq(*known, kernel) || known.params == kernel.params)
        {
            return Ok(*function);
        }
        let function = self.find(loaded, name)?;
        self.check_params(kernel, function.handle)?;
        loaded.functions.insert(name, (function, kernel));
        loaded.records.iter().for_each(|records| records.uses(name));
        Ok(function)
    }

    /// Looks up every kernel that the text has: what does not work shows before a launch.
    pub(crate) fn look_up_all(&self) -> GpuResult<()> {
        let mut guard = self.lock();
        let loaded = self.loaded(&mut guard, "any")?;
        entries(&loaded.ptx).iter().try_for_each(|name| self.lookup(loaded, name).map(drop))
    }

    /// Unloads a module that nothing uses any more: no launch can come, and none runs.
    pub(crate) fn unload_unused(mut self) {
        let slot = self.loaded.get_mut().unwrap_or_else(PoisonError::into_inner);
        let Some(loaded) = slot.take() else { return };
        // A panic that nobody was told of is kept beyond the records that have it.
        self.context.panics().keep_all();
        // SAFETY: the module is loaded; its functions were in `loaded` alone.
        self.context.release(|| unsafe { sys::cuModuleUnload(loaded.handle) });
    }

    /// Lets `kernel` have `bytes` of dynamic shared memory, beyond the ordinary limit.
    pub(crate) fn allow_dynamic_shared(
        &self,
        kernel: &'static Kernel,
        function: Function,
        bytes: u32,
    ) -> GpuResult<()> {
        let attribute = sys::CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
        if self.id.allowed_bytes(kernel) >= bytes {
            return Ok(());
        }
        self.context.call("cuFuncSetAttribute", || {
            // Never less than before: another thread may be about to launch with that. The lock is held for
            // this call alone.
            let mut all = self.allowed_bytes.lock().unwrap_or_else(PoisonError::into_inner);
            let allowed = all.entry(function.handle.addr()).or_default();
            let most = bytes.max(*allowed);
            let value = i32::try_from(most).unwrap_or(i32::MAX);
            // SAFETY: the function lives as long as its module, which `self` keeps.
            let code = unsafe { sys::cuFuncSetAttribute(function.handle, attribute, value) };
            if code == sys::CUresult::CUDA_SUCCESS {
                *allowed = most;
            }
            code
        })?;
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

    /// A panic while the lock is held leaves the map whole, so poison is no reason to stop.
    fn lock(&self) -> MutexGuard<'_, Option<Loaded>> {
        self.loaded.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn loaded<'a>(&self, slot: &'a mut Option<Loaded>, kernel: &str) -> GpuResult<&'a mut Loaded> {
        if slot.is_none() {
            let image = self.pick(kernel)?;
            let context = || format!("loading the kernels for {}", image.arch);
            let loaded = load(&self.context, image.arch.into(), image.ptx.into());
            *slot = Some(loaded.with_gpu_context(context)?);
        }
        Ok(slot.as_mut().expect("it was filled above"))
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

    fn find(&self, loaded: &Loaded, name: &'static str) -> GpuResult<Function> {
        const NOT_FOUND: u32 = 500;
        let handle = self.lookup(loaded, name).map_err(|error| match error.driver() {
            Some(driver) if driver.code() == NOT_FOUND => {
                let candidates = nearest_first(name, entries(&loaded.ptx));
                GpuError::NotFound { kernel: name.to_owned(), candidates }
            }
            _ => error,
        })?;
        use sys::CUfunction_attribute as A;
        Ok(Function {
            handle,
            max_threads_per_block: self
                .attribute(handle, A::CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK)?,
            static_shared_bytes: self.attribute(handle, A::CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES)?,
        })
    }

    /// Compares a kernel's parameters with those of the entry, as far as the driver tells them (from CUDA
    /// 12.4 on).
    fn check_params(&self, kernel: &'static Kernel, function: sys::CUfunction) -> GpuResult<()> {
        let wanted: Vec<usize> = kernel.params.iter().map(|param| param.size_bytes).collect();
        let mut found = Vec::new();
        for index in 0..=wanted.len() {
            match self.param_bytes(function, index) {
                Ok(bytes) => found.push(bytes),
                Err(NO_PARAM) => break,
                Err(_) => return Ok(()),
            }
        }
        if found == wanted {
            return Ok(());
        }
        Err(GpuError::WrongParameters { kernel: kernel.name, expected: found, found: wanted })
    }

    /// The size of a parameter, or the driver's code.
    fn param_bytes(&self, function: sys::CUfunction, index: usize) -> Result<usize, u32> {
        // cust's bindings do not know this one.
        unsafe extern "C" {
            fn cuFuncGetParamInfo(
                f: sys::CUfunction,
                index: usize,
                offset: *mut usize,
                bytes: *mut usize,
            ) -> sys::CUresult;
        }
        let (mut offset, mut bytes) = (0, 0);
        // SAFETY: the function's module is loaded, and both places are writable.
        let ask = || unsafe { cuFuncGetParamInfo(function, index, &mut offset, &mut bytes) };
        let asked = self.context.call("cuFuncGetParamInfo", ask);
        // A refusal of the call itself; on the way there others can fail with the same codes.
        let own = |error: &GpuError| {
            let driver = error.driver().filter(|own| own.operation() == "cuFuncGetParamInfo");
            driver.map_or(0, |driver| driver.code())
        };
        asked.map_err(|error| own(&error))?;
        Ok(bytes)
    }

    fn lookup(&self, loaded: &Loaded, name: &str) -> GpuResult<sys::CUfunction> {
        let c_name = CString::new(name.split('\0').next().unwrap_or_default());
        let c_name: &CStr = &c_name.expect("the name was cut at its first NUL");
        let mut handle = ptr::null_mut();
        self.context.call("cuModuleGetFunction", || {
            // SAFETY: `handle` is writable, the module is loaded, the name NUL-terminated.
            unsafe { sys::cuModuleGetFunction(&mut handle, loaded.handle, c_name.as_ptr()) }
        })?;
        Ok(handle)
    }

    pub(crate) fn attribute(
        &self,
        function: sys::CUfunction,
        attribute: sys::CUfunction_attribute,
    ) -> GpuResult<u32> {
        let mut value = 0;
        // SAFETY: `value` is writable, and the function is of a loaded module.
        let get = || unsafe { sys::cuFuncGetAttribute(&mut value, attribute, function) };
        self.context.call("cuFuncGetAttribute", get)?;
        Ok(u32::try_from(value).unwrap_or(0))
    }
}

impl Drop for KernelModule {
    fn drop(&mut self) {
        let slot = self.loaded.get_mut().unwrap_or_else(PoisonError::into_inner);
        let Some(loaded) = slot.take() else { return };
        if self.context.persistent().running() > 0 {
            // The wait would not end. The module stays loaded until the process ends.
            return;
        }
        // Kernels of it may still run.
        // SAFETY: `release` makes the context current.
        self.context.release(|| unsafe { sys::cuCtxSynchronize() });
        // SAFETY: the module is loaded; its functions were in `loaded` alone.
        self.context.release(|| unsafe { sys::cuModuleUnload(loaded.handle) });
    }
}

/// Gives a PTX text to the driver, which compiles it.
fn load(
    context: &Arc<Context>,
    arch: Cow<'static, str>,
    ptx: Cow<'static, str>,
) -> GpuResult<Loaded> {
    check_target(context, &ptx)?;
    // PTX ends at its first NUL, which a build writes nowhere.
    let text = ptx.split('\0').next().unwrap_or_default();
    let c_text = CString::new(text).expect("the text was cut at its first NUL");
    let mut handle = ptr::null_mut();
    // SAFETY: `handle` is writable, and the image is a NUL-terminated text.
    let load = || unsafe { sys::cuModuleLoadData(&mut handle, c_text.as_ptr().cast()) };
    context.call("cuModuleLoadData", load)?;
    let prepared = prepare(context, handle, text);
    let records = prepared.inspect_err(|_| {
        // SAFETY: the module is loaded, and nothing of it was handed out.
        context.release(|| unsafe { sys::cuModuleUnload(handle) });
    })?;
    Ok(Loaded { handle, arch, ptx, functions: HashMap::new(), records })
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

/// The stack that the kernels need, and the place where they report panics.
fn prepare(
    context: &Arc<Context>,
    module: sys::CUmodule,
    ptx: &str,
) -> GpuResult<Option<Arc<ModuleRecords>>> {
    context.at_least_stack(stack::needed(ptx))?;
    ModuleRecords::attach(context, module, ptx)
}

/// The names behind `.entry` in a PTX text.
fn entries(ptx: &str) -> Vec<String> {
    let is_name = |c: char| c.is_alphanumeric() || matches!(c, '_' | '$' | '%');
    let name = |text: &str| {
        let text = text.trim_start();
        text[..text.find(|c| !is_name(c)).unwrap_or(text.len())].to_owned()
    };
    let code = ptx.lines().map(|line| line.split("//").next().unwrap_or_default());
    code.filter_map(|line| Some(name(line.split_once(".entry ")?.1))).collect()
}

/// `names` with those that begin most like `name` first.
fn nearest_first(name: &str, mut names: Vec<String>) -> Vec<String> {
    let shared = |other: &str| name.chars().zip(other.chars()).take_while(|(a, b)| a == b).count();
    names.sort_by(|a, b| shared(b).cmp(&shared(a)).then_with(|| a.cmp(b)));
    names
}

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
    fn a_name_that_is_no_architecture_is_never_taken() {
        assert_eq!(best(&["sm_", "sm_x", "90", ""], (9, 0)), None);
    }

    #[test]
    fn the_target_is_read_from_the_text() {
        assert_eq!(target("// .target sm_10\n.version 8.0\n.target sm_90a, debug\n"), "sm_90a");
        assert_eq!(target(".target\tsm_70 // x"), "sm_70");
        assert_eq!(target("nonsense"), "");
    }

    #[test]
    fn entries_are_read_from_the_text() {
        let ptx = ".visible .entry saxpy(\n.entry vecadd (\n// .entry comment(\n.func f()\n";
        assert_eq!(entries(ptx), ["saxpy", "vecadd"]);
        assert_eq!(nearest_first("vecad", entries(ptx)), ["vecadd", "saxpy"]);
    }
}
