//! The kernels of a `Gpu`, and the functions of those that were looked up.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

use cuda_driver::sys;
use cuda_std::launch::{Contract, Kernel, LaunchConfig};

use super::entry;
use super::function_cache::{CheckedLaunch, ModuleId};
use super::image::{Image, best_image};
use super::part::{self, LoadUnit};
use super::program::{Program, not_found};
use super::stream_uses::StreamUses;
use super::text::{Digest, Text};
use crate::context::Context;
use crate::device_sync::drop_after_all_work;
use crate::error::{GpuError, GpuResult};
use crate::lock::lock;
use crate::panic::{Epoch, Panics};
use crate::stream::StreamInner;

/// What was loaded on a device.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LoadedImage {
    /// The architecture, for example `sm_90a`.
    pub arch: String,
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
    uses: Option<StreamUses>,
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

    /// A module of PTX that is not embedded in the program. The parts that it shares with `others`
    /// are taken from them, with the kernels that were looked up there; nothing is loaded yet.
    pub(crate) fn from_ptx(
        context: &Arc<Context>,
        arch: &str,
        text: &Text,
        others: &[Arc<KernelModule>],
    ) -> Self {
        let others: Vec<(&Program, &Self)> =
            others.iter().filter_map(|other| Some((other.program(None).ok()?, &**other))).collect();
        let programs: Vec<&Program> = others.iter().map(|(program, _)| *program).collect();
        let program = Program::new(context, arch, text, &programs);
        let mut functions = HashMap::new();
        for (theirs, other) in others {
            let looked_up = other.functions();
            let shared = looked_up.iter().filter(|(name, _)| program.shares(name, theirs));
            functions.extend(shared.map(|(name, found)| (*name, *found)));
        }
        let module =
            Self::of(context, Vec::new(), OnceLock::from(program), Some(StreamUses::default()));
        *module.functions() = functions;
        module
    }

    fn of(
        context: &Arc<Context>,
        images: Vec<Image>,
        program: OnceLock<Program>,
        uses: Option<StreamUses>,
    ) -> Self {
        let (id, context, functions) = (ModuleId::new(), context.clone(), Mutex::default());
        Self { id, context, images, program, functions, uses }
    }

    /// Loads all parts that are not loaded yet, on several threads.
    pub(crate) fn load_all(&self) -> GpuResult<LoadedImage> {
        let program = self.program(None)?;
        program.load_all()?;
        Ok(LoadedImage { arch: program.arch().to_owned() })
    }

    /// The architecture of the chosen image, and the digest of its PTX.
    pub(crate) fn image(&self) -> GpuResult<(&str, Digest)> {
        self.program(None).map(|program| (program.arch(), program.digest()))
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
    pub(crate) fn uses(&self) -> Option<&StreamUses> {
        self.uses.as_ref()
    }

    /// Notes that `stream` may run its kernels.
    pub(crate) fn used_on(&self, stream: &Arc<StreamInner>) {
        self.uses.iter().for_each(|uses| uses.add(stream));
    }

    /// Looks up a kernel, whose parameters must be those of the PTX; later lookups do not call the
    /// driver, and take no lock on the same thread.
    #[inline]
    pub(crate) fn function(&self, kernel: &'static Kernel) -> GpuResult<Function> {
        match self.id.cached(kernel) {
            Some(function) => Ok(function),
            None => self.look_up(kernel).inspect(|&function| self.id.cache(kernel, function, 0)),
        }
    }

    /// What this thread remembers of its latest launch of `kernel`, if that was of this shape and needed no attributes but
    /// clusters and an early start.
    #[inline]
    pub(crate) fn checked(
        &self,
        kernel: &'static Kernel,
        config: &LaunchConfig,
    ) -> Option<CheckedLaunch> {
        self.id.checked(kernel, config)
    }

    /// Remembers a launch on this thread that passed all checks of its shape, and that needs no attributes but clusters and
    /// an early start.
    pub(crate) fn note_checked(
        &self,
        kernel: &'static Kernel,
        config: LaunchConfig,
        function: sys::CUfunction,
        has_attributes: bool,
    ) {
        self.id.note_checked(kernel, config, function, has_attributes);
    }

    /// Remembers in which epoch of a stream such a launch was noted on this thread.
    pub(crate) fn set_noted(&self, kernel: &'static Kernel, config: &LaunchConfig, epoch: Epoch) {
        self.id.set_noted(kernel, config, epoch);
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
        // Without the lock: other kernels can be launched while the driver compiles this one.
        let part = self.part(kernel.name)?;
        let function = part.function(kernel)?;
        self.functions()
            .entry(kernel.name)
            // A launcher that knows its types stays: later versions are compared with it.
            .and_modify(|known| {
                if known.1.contract.signature.is_empty() {
                    *known = (function, kernel);
                }
            })
            .or_insert((function, kernel));
        Ok(function)
    }

    /// The names of its kernels.
    pub(crate) fn kernels(&self) -> GpuResult<Vec<String>> {
        self.program(None).map(Program::kernels)
    }

    /// The address and the bytes of a variable, whose part is loaded if it was not.
    pub(super) fn variable(&self, name: &str) -> GpuResult<(u64, usize)> {
        self.program(None)?.variable(name)
    }

    /// What the PTX says of an entry.
    pub(super) fn header(&self, kernel: &str) -> GpuResult<String> {
        let program = self.program(Some(kernel))?;
        let text = program.part(kernel).map(|part| part.text());
        let header = text.and_then(|text| entry::header(&text, kernel));
        header.ok_or_else(|| not_found(kernel, program.kernels()))
    }

    /// Loads the parts that no other module has and looks up their kernels, so that errors show
    /// before a launch.
    pub(crate) fn look_up_all(&self) -> GpuResult<()> {
        self.program(None)?.look_up_own()
    }

    /// The hashes of its parts, if there is an image for the device.
    pub(crate) fn hashes(&self) -> impl Iterator<Item = u64> {
        self.program(None).ok().into_iter().flat_map(Program::hashes)
    }

    /// The text of the part that has a kernel; nothing where none has.
    pub(crate) fn text_of(&self, kernel: &str) -> Option<Cow<'_, str>> {
        Some(self.program(Some(kernel)).ok()?.part(kernel)?.text())
    }

    /// Unloads a module that nothing uses any more: no launch runs, and none can come.
    pub(crate) fn unload_unused(mut self) {
        // A panic that was not reported yet outlives the records that hold it.
        Panics::of(&self.context).keep_all();
        drop(self.program.take());
    }

    /// Allows `kernel` to use `bytes` of dynamic shared memory, beyond the default limit.
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
        self.id.cache(kernel, function, bytes);
        Ok(())
    }

    /// Allows `function` to run in clusters larger than the portable size.
    pub(crate) fn allow_large_clusters(&self, function: Function) -> GpuResult<()> {
        const ALLOWED: i32 = sys::function_attribute::NON_PORTABLE_CLUSTER_SIZE_ALLOWED;
        // SAFETY: the function lives as long as its module, which `self` keeps.
        let set = || unsafe { sys::cuFuncSetAttribute(function.handle, ALLOWED, 1) };
        self.context.call("cuFuncSetAttribute", set)
    }

    pub(crate) fn attribute(&self, function: sys::CUfunction, attribute: i32) -> GpuResult<u32> {
        part::attribute(&self.context, function, attribute)
    }

    fn functions(&self) -> MutexGuard<'_, HashMap<&'static str, (Function, &'static Kernel)>> {
        lock(&self.functions)
    }

    fn part(&self, kernel: &str) -> GpuResult<&Arc<LoadUnit>> {
        let program = self.program(Some(kernel))?;
        program.part(kernel).ok_or_else(|| program.not_found(kernel))
    }

    /// The best image for the device, parsed. `kernel` is named in an error.
    fn program(&self, kernel: Option<&str>) -> GpuResult<&Program> {
        if let Some(program) = self.program.get() {
            return Ok(program);
        }
        let image = self.pick(kernel)?;
        Ok(self.program.get_or_init(|| Program::of_image(&self.context, image)))
    }

    fn pick(&self, kernel: Option<&str>) -> GpuResult<Image> {
        if self.images.is_empty() {
            return Err(GpuError::NoKernels { kernel: kernel.map(str::to_owned) });
        }
        let device = self.context.info().compute_capability;
        best_image(&self.images, device).ok_or_else(|| GpuError::UnsupportedArch {
            device,
            available: self.images.iter().map(|image| image.arch().to_owned()).collect(),
        })
    }
}

impl Drop for KernelModule {
    fn drop(&mut self) {
        // Its kernels may still run.
        if let Some(program) = self.program.take().filter(Program::is_loaded) {
            drop_after_all_work(&self.context, program);
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

#[cfg(test)]
mod tests {
    use super::*;

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
}
