//! Modules: loading PTX, and its kernels and variables.
#![allow(non_snake_case)]

use std::collections::HashMap;
use std::env;
use std::ffi::{CStr, c_char, c_void};
use std::sync::{Arc, Mutex};

use ::emulator::Module;

use super::current::{Context, current};
use super::gpu::Gpu;
use super::jit::Options;
use super::kernel::KernelSettings;
use super::registry::{Handle, Registry};
use super::{capture, kernel, lock};
use crate::abi::{CUdeviceptr, CUfunction, CUmodule, HostPtr, In, Out, text};
use crate::codes::{
    CUDA_ERROR_FILE_NOT_FOUND, CUDA_ERROR_INVALID_IMAGE, CUDA_ERROR_INVALID_PTX,
    CUDA_ERROR_NO_BINARY_FOR_GPU, CUDA_ERROR_NOT_FOUND, CUDA_ERROR_NOT_PERMITTED,
};
use crate::constants::module_loading::{EAGER_LOADING, LAZY_LOADING};
use crate::detail::{DriverError, DriverResult};

/// The magic numbers of machine code for GPUs: an ELF file, a fat binary, and the wrapper of one.
const BINARIES: [&[u8]; 3] = [b"\x7fELF", b"\x50\xed\x55\xba", b"\xb1\x43\x62\x46"];
/// The directive at the beginning of all PTX; NVIDIA's driver does not recognize PTX without it.
const VERSION: &str = ".version";
/// The environment variable that selects lazy or eager loading.
const LOADING: &str = "CUDA_MODULE_LOADING";

/// A loaded module.
struct LoadedModule {
    gpu: &'static Gpu,
    context: Handle,
    code: Arc<Module>,
    /// The settings of a library's kernels, which all modules of the library share. Set only in
    /// modules of libraries, which only the library can unload.
    library: Option<HashMap<String, Arc<KernelSettings>>>,
    /// The handles of functions by name: a function has only one.
    functions: Mutex<HashMap<String, Handle>>,
}

static MODULES: Registry<LoadedModule> = Registry::new("module");

/// The number of loaded modules.
pub(super) fn live() -> usize {
    MODULES.count(|_| true)
}

/// Removes a context's modules.
pub(super) fn forget(context: Handle) -> DriverResult {
    MODULES.remove_where(|module| module.context == context);
    Ok(())
}

/// The PTX text of an image.
pub(super) fn decode(image: &[u8]) -> DriverResult<&str> {
    if BINARIES.iter().any(|start| image.starts_with(start)) {
        let text = "the image is machine code for a GPU; the emulator runs PTX";
        return Err(DriverError::new(CUDA_ERROR_NO_BINARY_FOR_GPU, text));
    }
    let text = str::from_utf8(image).map_err(|error| {
        DriverError::new(CUDA_ERROR_INVALID_PTX, format!("the PTX is not text: {error}"))
    })?;
    if !text.trim().is_empty() && !text.contains(VERSION) {
        let text = format!("the image is not PTX: it has no `{VERSION}`");
        return Err(DriverError::new(CUDA_ERROR_INVALID_IMAGE, text));
    }
    Ok(text)
}

/// Compiles an image for a device.
pub(super) fn compile(image: &[u8], gpu: &Gpu) -> DriverResult<Arc<Module>> {
    Ok(gpu.device.load(decode(image)?)?)
}

fn keep(module: Out<CUmodule>, context: &Context, code: Arc<Module>) -> DriverResult {
    module.set(add(context, code, None).as_ptr())
}

/// Makes a module of compiled code in a context. Its kernels have settings of their own, unless
/// `library` has them.
pub(super) fn add(
    context: &Context,
    code: Arc<Module>,
    library: Option<HashMap<String, Arc<KernelSettings>>>,
) -> Handle {
    let (gpu, context) = (context.gpu, context.handle);
    MODULES.add(LoadedModule { gpu, context, code, library, functions: Mutex::default() })
}

/// Unloads a library's module, if it still exists.
pub(super) fn drop_module(module: Handle) {
    if MODULES.remove(module).is_ok() {
        kernel::forget_module(module);
    }
}

pub(crate) fn cuModuleLoad(module: Out<CUmodule>, path: In<c_char>) -> DriverResult {
    let context = current()?;
    let path = text(path)?.to_string_lossy();
    let image = std::fs::read(&*path).map_err(|error| {
        DriverError::new(CUDA_ERROR_FILE_NOT_FOUND, format!("cannot read `{path}`: {error}"))
    })?;
    module.check()?;
    keep(module, &context, compile(&image, context.gpu)?)
}

pub(crate) fn cuModuleLoadData(module: Out<CUmodule>, image: HostPtr) -> DriverResult {
    cuModuleLoadDataEx(module, image, 0, In::NULL, Out::NULL)
}

pub(crate) fn cuModuleLoadFatBinary(module: Out<CUmodule>, image: HostPtr) -> DriverResult {
    cuModuleLoadData(module, image)
}

pub(crate) fn cuModuleLoadDataEx(
    module: Out<CUmodule>,
    image: HostPtr,
    n_options: u32,
    options: In<i32>,
    values: Out<*mut c_void>,
) -> DriverResult {
    let context = current()?;
    module.check()?;
    let image: &CStr = text(image.as_in())?;
    let compiled = || compile(image.to_bytes(), context.gpu);
    let code = Options::read(n_options, options, values)?.logged(compiled)?;
    keep(module, &context, code)
}

pub(crate) fn cuModuleUnload(module: CUmodule) -> DriverResult {
    current()?;
    if MODULES.get(module)?.library.is_some() {
        let text = "the module is a library's; cuLibraryUnload unloads it";
        return Err(DriverError::new(CUDA_ERROR_NOT_PERMITTED, text));
    }
    capture::check_unsafe()?;
    MODULES.remove(module)?;
    kernel::forget_module(Handle::from(module));
    Ok(())
}

pub(crate) fn cuModuleGetFunction(
    function: Out<CUfunction>,
    module: CUmodule,
    name: In<c_char>,
) -> DriverResult {
    current()?;
    let name = text(name)?.to_string_lossy();
    function.set(function_of(module.into(), &name)?.as_ptr())
}

/// The handle of a module's kernel. Each kernel has only one.
pub(super) fn function_of(module: Handle, name: &str) -> DriverResult<Handle> {
    let loaded = MODULES.get(module)?;
    let entry = loaded.code.function(name).ok_or_else(|| no_function(&loaded.code, name))?;
    let mut functions = lock(&loaded.functions);
    if let Some(handle) = functions.get(name) {
        return Ok(*handle);
    }
    let settings = match loaded.library.as_ref().and_then(|settings| settings.get(name)) {
        Some(settings) => settings.clone(),
        None => Arc::new(KernelSettings::of(&entry)?),
    };
    let handle = kernel::add((loaded.gpu, loaded.context), module, &loaded.code, entry, settings)?;
    functions.insert(name.to_owned(), handle);
    Ok(handle)
}

pub(super) fn no_function(code: &Module, name: &str) -> DriverError {
    let names = code.functions();
    let there = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
    let text = format!("the module has no kernel `{name}`; it has {there}");
    DriverError::new(CUDA_ERROR_NOT_FOUND, text)
}

pub(crate) fn cuModuleGetGlobal_v2(
    address: Out<CUdeviceptr>,
    bytes: Out<usize>,
    module: CUmodule,
    name: In<c_char>,
) -> DriverResult {
    current()?;
    let name = text(name)?.to_string_lossy();
    let (at, size) = global_of(module.into(), &name)?;
    address.set_if_wanted(at);
    bytes.set_if_wanted(size);
    Ok(())
}

/// The address of a module's variable, and its size in bytes.
pub(super) fn global_of(module: Handle, name: &str) -> DriverResult<(CUdeviceptr, usize)> {
    let loaded = MODULES.get(module)?;
    let global = loaded.code.global(name).ok_or_else(|| {
        DriverError::new(CUDA_ERROR_NOT_FOUND, format!("the module has no variable `{name}`"))
    })?;
    Ok((global.address, global.size_bytes as usize))
}

pub(crate) fn cuModuleGetFunctionCount(count: Out<u32>, module: CUmodule) -> DriverResult {
    current()?;
    count.set(MODULES.get(module)?.code.functions().len() as u32)
}

/// Writes as many functions as there is room for.
pub(crate) fn cuModuleEnumerateFunctions(
    functions: Out<CUfunction>,
    room: u32,
    module: CUmodule,
) -> DriverResult {
    current()?;
    functions.check()?;
    let loaded = MODULES.get(module)?;
    for (at, name) in loaded.code.functions().iter().take(room as usize).enumerate() {
        functions.set_at(at, function_of(module.into(), name)?.as_ptr());
    }
    Ok(())
}

/// Lazy by default, as with NVIDIA's driver. The emulator may load eagerly in both modes, and does.
pub(crate) fn cuModuleGetLoadingMode(mode: Out<i32>) -> DriverResult {
    let is_eager = env::var_os(LOADING).is_some_and(|said| said == "EAGER");
    mode.set(if is_eager { EAGER_LOADING } else { LAZY_LOADING })
}
