//! Libraries: code that is loaded independently of contexts. Each context that uses a library gets
//! a module of its own, with its own variables; kernels have one handle for all contexts.
#![allow(non_snake_case)]

use std::collections::{BTreeMap, HashMap};
use std::ffi::{CString, c_void};
use std::sync::{Arc, Mutex};

use ::emulator::Module;

use super::current::{current, top};
use super::gpu::{Gpu, gpu};
use super::jit::Options;
use super::kernel::KernelSettings;
use super::module::{compile, no_function};
use super::registry::{Handle, Registry};
use super::{capture, invalid_value, lock, module};
use crate::abi::{CUfunction, CUlibrary, CUmodule, HostPtr, In, Out, text};
use crate::detail::DriverResult;

/// The options of a library: whether all devices share universal code, and that the caller
/// preserves the image. Neither has an effect: the image is copied.
const LIBRARY_OPTIONS: std::ops::RangeInclusive<i32> = 0..=1;

pub(super) struct Library {
    image: CString,
    /// The code that was compiled when the library was loaded, for the first context of that
    /// device.
    pub(super) code: Arc<Module>,
    compiled_for: &'static Gpu,
    settings: HashMap<String, Arc<KernelSettings>>,
    /// The module of each context.
    modules: Mutex<BTreeMap<Handle, Handle>>,
    /// The handles of kernels by name: a kernel has only one.
    kernels: Mutex<HashMap<String, Handle>>,
}

/// A kernel of a library.
pub(super) struct LibraryKernel {
    pub(super) library: Handle,
    pub(super) name: CString,
}

pub(super) static LIBRARIES: Registry<Library> = Registry::new("library");
pub(super) static KERNELS: Registry<LibraryKernel> = Registry::new("kernel");

impl Library {
    fn new(image: CString, code: Arc<Module>, compiled_for: &'static Gpu) -> DriverResult<Self> {
        let entries = code.functions().iter().filter_map(|name| code.function(name));
        let settings = entries
            .map(|entry| Ok((entry.name.clone(), Arc::new(KernelSettings::of(&entry)?))))
            .collect::<DriverResult<_>>()?;
        let (modules, kernels) = (Mutex::default(), Mutex::default());
        Ok(Self { image, code, compiled_for, settings, modules, kernels })
    }

    /// The current context's module.
    pub(super) fn module(&self) -> DriverResult<Handle> {
        let context = current()?;
        let mut modules = lock(&self.modules);
        if let Some(module) = modules.get(&context.handle) {
            return Ok(*module);
        }
        let code = match modules.is_empty() && context.gpu.ordinal == self.compiled_for.ordinal {
            true => self.code.clone(),
            false => compile(self.image.as_bytes(), context.gpu)?,
        };
        let module = module::add(&context, code, Some(self.settings.clone()));
        modules.insert(context.handle, module);
        Ok(module)
    }

    /// The handle of a kernel. `library` is the handle of this library.
    pub(super) fn kernel(&self, library: Handle, name: &str) -> DriverResult<Handle> {
        self.code.function(name).ok_or_else(|| no_function(&self.code, name))?;
        let mut kernels = lock(&self.kernels);
        if let Some(kernel) = kernels.get(name) {
            return Ok(*kernel);
        }
        let text = CString::new(name).map_err(|_| invalid_value("a kernel's name holds a NUL"))?;
        let kernel = KERNELS.add(LibraryKernel { library, name: text });
        kernels.insert(name.to_owned(), kernel);
        Ok(kernel)
    }
}

impl LibraryKernel {
    /// The current context's function for the kernel.
    pub(super) fn function(&self) -> DriverResult<Handle> {
        let module = LIBRARIES.get(self.library)?.module()?;
        module::function_of(module, &self.name.to_string_lossy())
    }
}

/// The current context's function for a library's kernel; `None` if the handle is not one of a
/// library's kernel.
pub(super) fn function_of(handle: CUfunction) -> DriverResult<Option<Handle>> {
    KERNELS.find(handle.into()).map(|kernel| kernel.function()).transpose()
}

/// The number of loaded libraries.
pub(super) fn live() -> usize {
    LIBRARIES.count(|_| true)
}

/// The device that code is compiled for at load: that of the current context, if there is one.
fn default_gpu() -> DriverResult<&'static Gpu> {
    top().map_or_else(|| gpu(0), |context| Ok(context.gpu))
}

pub(super) fn load(
    library: Out<CUlibrary>,
    image: CString,
    options: &Options,
    library_options: (In<i32>, u32),
) -> DriverResult {
    library.check()?;
    let (list, count) = library_options;
    if count > 0 && list.is_null() {
        return Err(invalid_value("the library's options are a null pointer"));
    }
    let mut unknown = (0..count as usize).map(|at| list.at(at));
    if let Some(odd) = unknown.find(|option| !LIBRARY_OPTIONS.contains(option)) {
        return Err(invalid_value(format!("{odd} is not a library option")));
    }
    let gpu = default_gpu()?;
    let code = options.logged(|| compile(image.as_bytes(), gpu))?;
    library.set(LIBRARIES.add(Library::new(image, code, gpu)?).as_ptr())
}

#[allow(clippy::too_many_arguments)]
pub(crate) fn cuLibraryLoadData(
    library: Out<CUlibrary>,
    image: HostPtr,
    options: In<i32>,
    values: Out<*mut c_void>,
    n_options: u32,
    library_options: In<i32>,
    _library_values: In<*mut c_void>,
    n_library_options: u32,
) -> DriverResult {
    let image = text(image.as_in())?.to_owned();
    let options = Options::read(n_options, options, values)?;
    load(library, image, &options, (library_options, n_library_options))
}

pub(crate) fn cuLibraryUnload(library: CUlibrary) -> DriverResult {
    LIBRARIES.get(library)?;
    capture::check_unsafe()?;
    let gone = LIBRARIES.remove(library)?;
    KERNELS.remove_where(|kernel| kernel.library == Handle::from(library));
    lock(&gone.modules).values().for_each(|module| module::drop_module(*module));
    Ok(())
}

pub(crate) fn cuLibraryGetModule(module: Out<CUmodule>, library: CUlibrary) -> DriverResult {
    module.set(LIBRARIES.get(library)?.module()?.as_ptr())
}
