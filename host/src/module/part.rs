//! Module parts: the units in which PTX is loaded.

use std::borrow::Cow;
use std::collections::HashMap;
use std::ffi::{CStr, CString};
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use cuda_driver::sys;
use cuda_std::launch::Kernel;
use ptx_format::index::ModulePart;
use ptx_format::stack;

use super::arch::check_target;
use super::code::Code;
use super::image_text::ImageText;
use super::kernel_module::Function;
use super::params;
use super::program::not_found;
use super::text::{Source, Text};
use super::variables;
use crate::context::Context;
use crate::deferred_frees::{Freed, free_or_defer, running_kernels};
use crate::error::{GpuContext, GpuError, GpuResult};
use crate::lock::lock;
use crate::panic::{ModuleRecords, find_variable};

/// A unit of loading: one module part, or a PTX text that has no index of parts, on a device.
#[derive(Debug)]
pub(super) struct LoadUnit {
    context: Arc<Context>,
    arch: Arc<str>,
    text: PartText,
    loaded: OnceLock<Loaded>,
    /// Held while the driver compiles, so that only one thread does.
    loading: Mutex<()>,
    /// How much dynamic shared memory functions were allowed, each by its handle.
    allowed_bytes: Mutex<HashMap<usize, u32>>,
}

/// What a part is made from.
#[derive(Debug)]
pub(super) enum PartText {
    /// All of a text.
    Whole(Cow<'static, str>),
    /// A part of an image, by its position: it is cut out when it is asked for.
    OfImage(ImageText, Arc<[ModulePart]>, usize),
    /// A part that was cut out.
    Alone(ModulePart, String),
}

#[derive(Debug)]
struct Loaded {
    code: Code,
    /// Where its kernels report panics, if they can.
    records: Option<Arc<ModuleRecords>>,
    /// Whether all its kernels are on the device.
    is_resident: AtomicBool,
}

impl PartText {
    /// The part at a position of a text's index.
    pub(super) fn cut(text: &Text, at: usize, part: &ModulePart) -> Self {
        match (&text.source, &text.index) {
            (Source::Image(image), Some(index)) => Self::OfImage(*image, index.clone(), at),
            (Source::Image(image), None) => Self::Alone(part.clone(), image.part(part).into()),
            (Source::Owned(ptx), _) => Self::Alone(part.clone(), part.text(ptx)),
        }
    }

    pub(super) fn ptx(&self) -> Cow<'_, str> {
        match self {
            Self::Whole(ptx) => (&**ptx).into(),
            Self::OfImage(image, index, at) => image.part(&index[*at]),
            Self::Alone(_, ptx) => ptx.into(),
        }
    }
}

impl LoadUnit {
    pub(super) fn new(context: &Arc<Context>, arch: &Arc<str>, text: PartText) -> Self {
        Self {
            context: context.clone(),
            arch: arch.clone(),
            text,
            loaded: OnceLock::new(),
            loading: Mutex::default(),
            allowed_bytes: Mutex::default(),
        }
    }

    /// The hash that equal parts share; `None` for a whole text.
    pub(super) fn hash(&self) -> Option<u64> {
        self.indexed().map(|part| part.hash)
    }

    pub(super) fn is_loaded(&self) -> bool {
        self.loaded.get().is_some()
    }

    /// Its PTX.
    pub(super) fn text(&self) -> Cow<'_, str> {
        self.text.ptx()
    }

    /// Whether it is made from that text for that architecture.
    pub(super) fn is_of(&self, arch: &str, ptx: &str) -> bool {
        *self.arch == *arch && self.text() == ptx
    }

    /// Loads it, unless it is loaded: the driver compiles it.
    pub(super) fn load(&self) -> GpuResult<()> {
        self.loaded().map(drop)
    }

    /// Whether a launch of any of its kernels waits for nothing.
    pub(super) fn is_resident(&self) -> bool {
        self.loaded.get().is_some_and(|loaded| loaded.is_resident.load(Ordering::Acquire))
    }

    /// Loads it, unless it is loaded, and brings the code of its kernels to the device. By default the driver does the
    /// latter at the first launch of each kernel, which waits until no other kernel runs: beside a persistent one it would
    /// not end.
    pub(super) fn make_resident(&self) -> GpuResult<()> {
        let loaded = self.loaded()?;
        if !self.is_resident() {
            no_wait(&self.context)?;
            let (module, kernels) = (loaded.code.module(), self.kernels());
            despite_captures(|| load_functions(&self.context, module, &kernels))?;
            loaded.is_resident.store(true, Ordering::Release);
        }
        Ok(())
    }

    /// Loads it and looks up all its kernels.
    pub(super) fn look_up_all(&self) -> GpuResult<()> {
        self.load()?;
        self.kernels().iter().try_for_each(|name| self.handle(name).map(drop))
    }

    /// A kernel whose parameters are those of the PTX.
    pub(super) fn function(&self, kernel: &'static Kernel) -> GpuResult<Function> {
        let handle = self.handle(kernel.name)?;
        params::check(&self.context, kernel, handle)?;
        params::check_types(kernel, &self.text())?;
        self.loaded()?.records.iter().for_each(|records| records.uses(kernel.name));
        use sys::function_attribute as A;
        let attribute = |what| attribute(&self.context, handle, what);
        Ok(Function {
            handle,
            max_threads_per_block: attribute(A::MAX_THREADS_PER_BLOCK)?,
            static_shared_bytes: attribute(A::SHARED_SIZE_BYTES)?,
        })
    }

    /// The address and the bytes of a variable; `None` if it has none of that name. Loads it only if it has.
    pub(super) fn variable(&self, name: &str) -> GpuResult<Option<(u64, usize)>> {
        if !variables::names(&self.text()).any(|own| own == name) {
            return Ok(None);
        }
        find_variable(&self.context, self.loaded()?.code.module(), name)
    }

    /// Allows `function` to use `bytes` of dynamic shared memory, beyond the default limit.
    pub(super) fn allow_dynamic_shared(&self, function: Function, bytes: u32) -> GpuResult<()> {
        let attribute = sys::function_attribute::MAX_DYNAMIC_SHARED_SIZE_BYTES;
        self.context.call("cuFuncSetAttribute", || {
            // Never less than before: another thread may be about to launch with that. The lock is held for
            // this call alone.
            let mut all = lock(&self.allowed_bytes);
            let allowed = all.entry(function.handle.addr()).or_default();
            let most = bytes.max(*allowed);
            let value = i32::try_from(most).unwrap_or(i32::MAX);
            // SAFETY: the function lives as long as its module, which `self` keeps.
            let code = unsafe { sys::cuFuncSetAttribute(function.handle, attribute, value) };
            if code == sys::CUresult::CUDA_SUCCESS {
                *allowed = most;
            }
            code
        })
    }

    fn indexed(&self) -> Option<&ModulePart> {
        match &self.text {
            PartText::Whole(_) => None,
            PartText::OfImage(_, index, at) => index.get(*at),
            PartText::Alone(part, _) => Some(part),
        }
    }

    /// The names of its kernels.
    pub(super) fn kernels(&self) -> Cow<'_, [String]> {
        match self.indexed() {
            Some(part) => (&*part.kernels).into(),
            None => entries(&self.text()).into(),
        }
    }

    fn loaded(&self) -> GpuResult<&Loaded> {
        if let Some(loaded) = self.loaded.get() {
            return Ok(loaded);
        }
        let _one_compiles = lock(&self.loading);
        if let Some(loaded) = self.loaded.get() {
            return Ok(loaded);
        }
        let load = || load(&self.context, &self.text());
        let loaded = no_wait(&self.context).and_then(|()| despite_captures(load));
        let loaded = match self.what() {
            Some(what) => loaded.with_gpu_context(|| what)?,
            None => loaded?,
        };
        Ok(self.loaded.get_or_init(|| loaded))
    }

    /// What is being loaded, for an error of the driver's compiler.
    fn what(&self) -> Option<String> {
        let Self { arch, text, .. } = self;
        match text {
            PartText::Whole(Cow::Owned(_)) => None,
            PartText::Whole(_) => Some(format!("loading the kernels for {arch}")),
            _ => Some(format!("loading {} for {arch}", named(&self.kernels()))),
        }
    }

    fn handle(&self, name: &str) -> GpuResult<sys::CUfunction> {
        let module = self.loaded()?.code.module();
        let found = despite_captures(|| function(&self.context, module, name));
        found.map_err(|error| match error.driver() {
            Some(driver) if driver.code() == NOT_FOUND => {
                not_found(name, self.kernels().into_owned())
            }
            _ => error,
        })
    }
}

impl Drop for LoadUnit {
    fn drop(&mut self) {
        let Some(loaded) = self.loaded.take() else { return };
        // Each module that had the part has let go of it, after its kernels.
        free_or_defer(&self.context, Freed::Code(loaded.code), 0);
    }
}

/// `the kernel `a``, `the kernels `a` and `b``, `the kernels `a`, `b` and 5 more`.
fn named(kernels: &[String]) -> String {
    match kernels {
        [one] => format!("the kernel `{one}`"),
        [one, other] => format!("the kernels `{one}` and `{other}`"),
        [one, other, more @ ..] => {
            format!("the kernels `{one}`, `{other}` and {} more", more.len())
        }
        [] => "no kernel".to_owned(),
    }
}

/// What the driver answers for a name that a module does not have.
const NOT_FOUND: u32 = 500;

/// The kernel of that name of a loaded module.
fn function(context: &Context, module: sys::CUmodule, name: &str) -> GpuResult<sys::CUfunction> {
    let c_name = CString::new(name.split('\0').next().unwrap_or_default());
    let c_name: &CStr = &c_name.expect("the name was cut at its first NUL");
    let mut handle = ptr::null_mut();
    context.call("cuModuleGetFunction", || {
        // SAFETY: `handle` is writable, the module is loaded, the name NUL-terminated.
        unsafe { sys::cuModuleGetFunction(&mut handle, module, c_name.as_ptr()) }
    })?;
    Ok(handle)
}

/// Brings the code of the kernels to the device, which may wait for all work there, running or not.
fn load_functions(context: &Context, module: sys::CUmodule, kernels: &[String]) -> GpuResult<()> {
    for name in kernels {
        let loaded = function(context, module, name).and_then(|function| {
            // SAFETY: the function is of a loaded module.
            context.call_uncounted("cuFuncLoad", || unsafe { sys::cuFuncLoad(function) })
        });
        match loaded {
            // A driver before CUDA 12.4 has no such call, and a name may stand in a comment of the text.
            Err(error) if error.driver().is_some_and(|driver| driver.code() == NOT_FOUND) => {}
            other => other?,
        }
    }
    Ok(())
}

/// An attribute of a function of a loaded module.
pub(super) fn attribute(
    context: &Context,
    function: sys::CUfunction,
    attribute: i32,
) -> GpuResult<u32> {
    let mut value = 0;
    // SAFETY: `value` is writable, and the function is of a loaded module.
    let get = || unsafe { sys::cuFuncGetAttribute(&mut value, attribute, function) };
    context.call("cuFuncGetAttribute", get)?;
    Ok(u32::try_from(value).unwrap_or(0))
}

/// Loading waits until the whole device is idle, which it never is while a persistent kernel runs.
fn no_wait(context: &Context) -> GpuResult<()> {
    match running_kernels(context) {
        0 => Ok(()),
        running => Err(GpuError::LoadWouldBlock { running }),
    }
}

/// Passes PTX to the driver, which compiles it.
fn load(context: &Arc<Context>, ptx: &str) -> GpuResult<Loaded> {
    check_target(context, ptx)?;
    // PTX ends at its first NUL, which a build writes nowhere.
    let text = ptx.split('\0').next().unwrap_or_default();
    let c_text = CString::new(text).expect("the text was cut at its first NUL");
    let code = Code::load(context, &c_text)?;
    let records = prepare(context, code.module(), text).inspect_err(|_| {
        // SAFETY: it is loaded, nothing of it was handed out, and `release` makes the context current.
        context.release(|| unsafe { code.unload() });
    })?;
    Ok(Loaded { code, records, is_resident: AtomicBool::new(false) })
}

/// Raises the stack limit as the kernels need it, and attaches the records for their panics.
fn prepare(
    context: &Arc<Context>,
    module: sys::CUmodule,
    ptx: &str,
) -> GpuResult<Option<Arc<ModuleRecords>>> {
    context.raise_stack_limit(stack::needed(ptx))?;
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

/// Lets this thread load modules while another thread captures: by default a driver capture forbids
/// that to all threads. A thread that calls this uses no stream that is captured.
pub(crate) fn not_stopped_by_captures() {
    exchange_mode(sys::stream_capture_mode::RELAXED);
}

/// Runs `work`, which loads code, as [`not_stopped_by_captures`]: a load enqueues nothing that a capture could miss. A
/// load that a capture forbids would fail, and would end the capture of whoever began it.
fn despite_captures<R>(work: impl FnOnce() -> R) -> R {
    struct Restore(i32);
    impl Drop for Restore {
        fn drop(&mut self) {
            exchange_mode(self.0);
        }
    }
    let _restore = Restore(exchange_mode(sys::stream_capture_mode::RELAXED));
    work()
}

/// Changes what captures forbid to this thread, and returns what they forbade before.
fn exchange_mode(mut mode: i32) -> i32 {
    // SAFETY: `mode` is writable; the mode is this thread's own. Where the driver refuses, loads
    // during a capture fail with the driver's error.
    let _ = unsafe { sys::cuThreadExchangeStreamCaptureMode(&mut mode) };
    mode
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_read_from_the_text() {
        let ptx = ".visible .entry saxpy(\n.entry vecadd (\n// .entry comment(\n.func f()\n";
        assert_eq!(entries(ptx), ["saxpy", "vecadd"]);
    }

    #[test]
    fn a_part_is_named_by_its_kernels() {
        let of =
            |kernels: &[&str]| named(&kernels.iter().map(|&k| k.to_owned()).collect::<Vec<_>>());
        assert_eq!(of(&["a"]), "the kernel `a`");
        assert_eq!(of(&["a", "b"]), "the kernels `a` and `b`");
        assert_eq!(of(&["a", "b", "c", "d"]), "the kernels `a`, `b` and 2 more");
    }
}
