//! Libraries: modules that belong to no context. Each context that uses one gets its own copy of
//! the variables; kernels have one handle for all.
#![allow(non_snake_case)]

use std::collections::{BTreeMap, HashMap};
use std::ffi::{CString, c_char, c_void};
use std::sync::{Arc, Mutex};

use ::emulator::Module;

use super::current::{current, top};
use super::gpu::{Gpu, gpu};
use super::jit::Options;
use super::kernel::{self, Settings};
use super::module::{compile, no_function};
use super::preferences::check_cache_config;
use super::registry::{Handle, Registry};
use super::{capture, invalid, lock, module};
use crate::abi::{
    CUdevice, CUdeviceptr, CUfunction, CUkernel, CUlibrary, CUmodule, HostPtr, In, Out, text,
};
use crate::codes::{CUDA_ERROR_FILE_NOT_FOUND, CUDA_ERROR_NOT_FOUND, CUDA_ERROR_NOT_SUPPORTED};
use crate::detail::{Answer, Failure};

/// Options of a library: one code for all devices, and keep the caller's image (it is copied).
const LIBRARY_OPTIONS: std::ops::RangeInclusive<i32> = 0..=1;

struct Library {
    image: CString,
    /// What was compiled when the library was loaded; the first context of that device takes it.
    code: Arc<Module>,
    compiled_for: &'static Gpu,
    settings: HashMap<String, Arc<Settings>>,
    /// The copy of each context.
    modules: Mutex<BTreeMap<Handle, Handle>>,
    /// The handles given out: a kernel has one.
    kernels: Mutex<HashMap<String, Handle>>,
}

/// A kernel of a library.
struct LibraryKernel {
    library: Handle,
    name: CString,
}

static LIBRARIES: Registry<Library> = Registry::new("library");
static KERNELS: Registry<LibraryKernel> = Registry::new("kernel");

impl Library {
    fn new(image: CString, code: Arc<Module>, compiled_for: &'static Gpu) -> Answer<Self> {
        let entries = code.functions().iter().filter_map(|name| code.function(name));
        let settings = entries
            .map(|entry| Ok((entry.name.clone(), Arc::new(Settings::of(&entry)?))))
            .collect::<Answer<_>>()?;
        let (modules, kernels) = (Mutex::default(), Mutex::default());
        Ok(Self { image, code, compiled_for, settings, modules, kernels })
    }

    /// The copy of the current context.
    fn module(&self) -> Answer<Handle> {
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

    /// The handle of a kernel, whose library has handle `library`.
    fn kernel(&self, library: Handle, name: &str) -> Answer<Handle> {
        self.code.function(name).ok_or_else(|| no_function(&self.code, name))?;
        let mut kernels = lock(&self.kernels);
        if let Some(kernel) = kernels.get(name) {
            return Ok(*kernel);
        }
        let text = CString::new(name).map_err(|_| invalid("a kernel's name holds a NUL"))?;
        let kernel = KERNELS.add(LibraryKernel { library, name: text });
        kernels.insert(name.to_owned(), kernel);
        Ok(kernel)
    }
}

impl LibraryKernel {
    /// The kernel as a function of the current context.
    fn function(&self) -> Answer<Handle> {
        let module = LIBRARIES.get(self.library.as_ptr())?.module()?;
        module::function_of(module, &self.name.to_string_lossy())
    }
}

/// The current context's function of a library's kernel; `None` where the handle is no such one.
pub(super) fn function_of(handle: CUfunction) -> Answer<Option<Handle>> {
    KERNELS.find(handle.into()).map(|kernel| kernel.function()).transpose()
}

/// How many the program has loaded, and not unloaded.
pub(super) fn live() -> usize {
    LIBRARIES.count(|_| true)
}

/// The device that is likely to use what this thread loads.
fn likely_gpu() -> Answer<&'static Gpu> {
    top().map_or_else(|| gpu(0), |context| Ok(context.gpu))
}

fn load(
    library: Out<CUlibrary>,
    image: CString,
    options: &Options,
    library_options: (In<i32>, u32),
) -> Answer {
    library.check()?;
    let (list, count) = library_options;
    if count > 0 && list.is_null() {
        return Err(invalid("the library's options are a null pointer"));
    }
    let mut unknown = (0..count as usize).map(|at| list.at(at));
    if let Some(odd) = unknown.find(|option| !LIBRARY_OPTIONS.contains(option)) {
        return Err(invalid(format!("{odd} is no option of a library")));
    }
    let gpu = likely_gpu()?;
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
) -> Answer {
    let image = text(image.as_in())?.to_owned();
    let options = Options::read(n_options, options, values)?;
    load(library, image, &options, (library_options, n_library_options))
}

#[allow(clippy::too_many_arguments)]
pub(crate) fn cuLibraryLoadFromFile(
    library: Out<CUlibrary>,
    path: In<c_char>,
    options: In<i32>,
    values: Out<*mut c_void>,
    n_options: u32,
    library_options: In<i32>,
    _library_values: In<*mut c_void>,
    n_library_options: u32,
) -> Answer {
    let path = text(path)?.to_string_lossy();
    let mut image = std::fs::read(&*path).map_err(|error| {
        Failure::new(CUDA_ERROR_FILE_NOT_FOUND, format!("cannot read `{path}`: {error}"))
    })?;
    image.truncate(image.iter().position(|&byte| byte == 0).unwrap_or(image.len()));
    let image = CString::new(image).map_err(|_| invalid("the image holds a NUL"))?;
    let options = Options::read(n_options, options, values)?;
    load(library, image, &options, (library_options, n_library_options))
}

pub(crate) fn cuLibraryUnload(library: CUlibrary) -> Answer {
    LIBRARIES.get(library)?;
    capture::check_unsafe()?;
    let gone = LIBRARIES.remove(library)?;
    KERNELS.remove_where(|kernel| kernel.library == Handle::from(library));
    lock(&gone.modules).values().for_each(|module| module::drop_module(*module));
    Ok(())
}

pub(crate) fn cuLibraryGetKernel(
    kernel: Out<CUkernel>,
    library: CUlibrary,
    name: In<c_char>,
) -> Answer {
    let name = text(name)?.to_string_lossy();
    kernel.set(LIBRARIES.get(library)?.kernel(library.into(), &name)?.as_ptr())
}

pub(crate) fn cuLibraryGetKernelCount(count: Out<u32>, library: CUlibrary) -> Answer {
    count.set(LIBRARIES.get(library)?.code.functions().len() as u32)
}

/// As many kernels as there is room for.
pub(crate) fn cuLibraryEnumerateKernels(
    kernels: Out<CUkernel>,
    room: u32,
    library: CUlibrary,
) -> Answer {
    kernels.check()?;
    let named = LIBRARIES.get(library)?;
    for (at, name) in named.code.functions().iter().take(room as usize).enumerate() {
        kernels.set_at(at, named.kernel(library.into(), name)?.as_ptr());
    }
    Ok(())
}

pub(crate) fn cuLibraryGetModule(module: Out<CUmodule>, library: CUlibrary) -> Answer {
    module.set(LIBRARIES.get(library)?.module()?.as_ptr())
}

pub(crate) fn cuLibraryGetGlobal(
    address: Out<CUdeviceptr>,
    bytes: Out<usize>,
    library: CUlibrary,
    name: In<c_char>,
) -> Answer {
    let name = text(name)?.to_string_lossy();
    let (at, size) = module::global_of(LIBRARIES.get(library)?.module()?, &name)?;
    address.set_if_wanted(at);
    bytes.set_if_wanted(size);
    Ok(())
}

/// The emulator's modules have no managed variables.
pub(crate) fn cuLibraryGetManaged(
    _address: Out<CUdeviceptr>,
    _bytes: Out<usize>,
    library: CUlibrary,
    name: In<c_char>,
) -> Answer {
    LIBRARIES.get(library)?;
    let name = text(name)?.to_string_lossy();
    let text = format!("the library has no managed variable `{name}`");
    Err(Failure::new(CUDA_ERROR_NOT_FOUND, text))
}

pub(crate) fn cuLibraryGetUnifiedFunction(
    _function: Out<*mut c_void>,
    library: CUlibrary,
    _name: In<c_char>,
) -> Answer {
    LIBRARIES.get(library)?;
    let text = "the emulator has no functions with one address on the host and on the device";
    Err(Failure::new(CUDA_ERROR_NOT_SUPPORTED, text))
}

pub(crate) fn cuKernelGetFunction(function: Out<CUfunction>, kernel: CUkernel) -> Answer {
    function.set(KERNELS.get(kernel)?.function()?.as_ptr())
}

pub(crate) fn cuKernelGetLibrary(library: Out<CUlibrary>, kernel: CUkernel) -> Answer {
    library.set(KERNELS.get(kernel)?.library.as_ptr())
}

pub(crate) fn cuKernelGetName(name: Out<*const c_char>, kernel: CUkernel) -> Answer {
    name.set(KERNELS.get(kernel)?.name.as_ptr())
}

pub(crate) fn cuKernelGetParamInfo(
    kernel: CUkernel,
    index: usize,
    offset: Out<usize>,
    bytes: Out<usize>,
) -> Answer {
    current()?;
    let param = kernel::get(KERNELS.get(kernel)?.function()?)?.param(index)?;
    offset.set(param.0)?;
    bytes.set_if_wanted(param.1);
    Ok(())
}

pub(crate) fn cuKernelGetAttribute(
    value: Out<i32>,
    attribute: i32,
    kernel: CUkernel,
    device: CUdevice,
) -> Answer {
    gpu(device)?;
    let function = KERNELS.get(kernel)?.function()?;
    value.set(kernel::get(function)?.attribute(attribute)?)
}

pub(crate) fn cuKernelSetAttribute(
    attribute: i32,
    value: i32,
    kernel: CUkernel,
    device: CUdevice,
) -> Answer {
    gpu(device)?;
    let function = KERNELS.get(kernel)?.function()?;
    kernel::get(function)?.set_attribute(attribute, value)
}

/// A hint about a cache that the emulator does not have: it is checked, and that is all.
pub(crate) fn cuKernelSetCacheConfig(kernel: CUkernel, config: i32, device: CUdevice) -> Answer {
    gpu(device)?;
    KERNELS.get(kernel)?;
    check_cache_config(config)
}
