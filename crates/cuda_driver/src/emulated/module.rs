//! Modules: PTX text becomes kernels and variables.
#![allow(non_snake_case)]

use std::collections::HashMap;
use std::env;
use std::ffi::{CStr, c_char, c_void};
use std::sync::{Arc, Mutex};

use ::emulator::Module;

use super::current::{Context, current};
use super::gpu::Gpu;
use super::jit::Options;
use super::kernel::Settings;
use super::registry::{Handle, Registry};
use super::{capture, kernel, lock};
use crate::abi::{CUdeviceptr, CUfunction, CUmodule, HostPtr, In, Out, text};
use crate::codes::{
    CUDA_ERROR_FILE_NOT_FOUND, CUDA_ERROR_INVALID_IMAGE, CUDA_ERROR_INVALID_PTX,
    CUDA_ERROR_NO_BINARY_FOR_GPU, CUDA_ERROR_NOT_FOUND, CUDA_ERROR_NOT_PERMITTED,
};
use crate::detail::{Answer, Failure};

/// How machine code for a GPU begins: an ELF file, a fat binary, and the wrapper of one.
const BINARIES: [&[u8]; 3] = [b"\x7fELF", b"\x50\xed\x55\xba", b"\xb1\x43\x62\x46"];
/// What every PTX text begins with; without it NVIDIA's driver does not take an image for PTX.
const VERSION: &str = ".version";
/// The environment variable that says when NVIDIA's driver loads code, and its two values' numbers.
const LOADING: &str = "CUDA_MODULE_LOADING";
const EAGER_LOADING: i32 = 1;
const LAZY_LOADING: i32 = 2;

/// A loaded module.
struct Loaded {
    gpu: &'static Gpu,
    context: Handle,
    code: Arc<Module>,
    /// Those of a library's kernels, which all its modules share; the library unloads its modules.
    library: Option<HashMap<String, Arc<Settings>>>,
    /// The handles given out: a function has one.
    functions: Mutex<HashMap<String, Handle>>,
}

static MODULES: Registry<Loaded> = Registry::new("module");

/// How many the program has loaded, and not unloaded.
pub(super) fn live() -> usize {
    MODULES.count(|_| true)
}

/// Forgets a context's modules.
pub(super) fn forget(context: Handle) -> Answer {
    MODULES.remove_where(|module| module.context == context);
    Ok(())
}

/// The PTX text of an image.
pub(super) fn decode(image: &[u8]) -> Answer<&str> {
    if BINARIES.iter().any(|start| image.starts_with(start)) {
        let text = "the image is machine code for a GPU; the emulator runs PTX text";
        return Err(Failure::new(CUDA_ERROR_NO_BINARY_FOR_GPU, text));
    }
    let text = str::from_utf8(image).map_err(|error| {
        Failure::new(CUDA_ERROR_INVALID_PTX, format!("the PTX is not text: {error}"))
    })?;
    if !text.trim().is_empty() && !text.contains(VERSION) {
        let text = format!("the image is not PTX: it has no `{VERSION}`");
        return Err(Failure::new(CUDA_ERROR_INVALID_IMAGE, text));
    }
    Ok(text)
}

/// Compiles an image for a device.
pub(super) fn compile(image: &[u8], gpu: &Gpu) -> Answer<Arc<Module>> {
    Ok(gpu.device.load(decode(image)?)?)
}

fn keep(module: Out<CUmodule>, context: &Context, code: Arc<Module>) -> Answer {
    module.set(add(context, code, None).as_ptr())
}

/// A handle for compiled code, loaded into a context. Its kernels have settings of their own, but
/// for those that a library names.
pub(super) fn add(
    context: &Context,
    code: Arc<Module>,
    library: Option<HashMap<String, Arc<Settings>>>,
) -> Handle {
    let (gpu, context) = (context.gpu, context.handle);
    MODULES.add(Loaded { gpu, context, code, library, functions: Mutex::default() })
}

/// Unloads a library's module, where it is still there.
pub(super) fn drop_module(module: Handle) {
    if MODULES.remove(module).is_ok() {
        kernel::forget_module(module);
    }
}

pub(crate) fn cuModuleLoad(module: Out<CUmodule>, path: In<c_char>) -> Answer {
    let context = current()?;
    let path = text(path)?.to_string_lossy();
    let image = std::fs::read(&*path).map_err(|error| {
        Failure::new(CUDA_ERROR_FILE_NOT_FOUND, format!("cannot read `{path}`: {error}"))
    })?;
    module.check()?;
    keep(module, &context, compile(&image, context.gpu)?)
}

pub(crate) fn cuModuleLoadData(module: Out<CUmodule>, image: HostPtr) -> Answer {
    cuModuleLoadDataEx(module, image, 0, In::NULL, Out::NULL)
}

pub(crate) fn cuModuleLoadFatBinary(module: Out<CUmodule>, image: HostPtr) -> Answer {
    cuModuleLoadData(module, image)
}

pub(crate) fn cuModuleLoadDataEx(
    module: Out<CUmodule>,
    image: HostPtr,
    n_options: u32,
    options: In<i32>,
    values: Out<*mut c_void>,
) -> Answer {
    let context = current()?;
    module.check()?;
    let image: &CStr = text(image.as_in())?;
    let compiled = || compile(image.to_bytes(), context.gpu);
    let code = Options::read(n_options, options, values)?.logged(compiled)?;
    keep(module, &context, code)
}

pub(crate) fn cuModuleUnload(module: CUmodule) -> Answer {
    current()?;
    if MODULES.get(module)?.library.is_some() {
        let text = "the module is a library's; cuLibraryUnload unloads it";
        return Err(Failure::new(CUDA_ERROR_NOT_PERMITTED, text));
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
) -> Answer {
    current()?;
    let name = text(name)?.to_string_lossy();
    function.set(function_of(module.into(), &name)?.as_ptr())
}

/// The handle of a module's kernel: there is one for each.
pub(super) fn function_of(module: Handle, name: &str) -> Answer<Handle> {
    let loaded = MODULES.get(module)?;
    let entry = loaded.code.function(name).ok_or_else(|| no_function(&loaded.code, name))?;
    let mut functions = lock(&loaded.functions);
    if let Some(handle) = functions.get(name) {
        return Ok(*handle);
    }
    let settings = match loaded.library.as_ref().and_then(|settings| settings.get(name)) {
        Some(settings) => settings.clone(),
        None => Arc::new(Settings::of(&entry)?),
    };
    let handle = kernel::add((loaded.gpu, loaded.context), module, &loaded.code, entry, settings)?;
    functions.insert(name.to_owned(), handle);
    Ok(handle)
}

pub(super) fn no_function(code: &Module, name: &str) -> Failure {
    let names = code.functions();
    let there = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
    let text = format!("the module has no kernel `{name}`; it has {there}");
    Failure::new(CUDA_ERROR_NOT_FOUND, text)
}

pub(crate) fn cuModuleGetGlobal_v2(
    address: Out<CUdeviceptr>,
    bytes: Out<usize>,
    module: CUmodule,
    name: In<c_char>,
) -> Answer {
    current()?;
    let name = text(name)?.to_string_lossy();
    let (at, size) = global_of(module.into(), &name)?;
    address.set_if_wanted(at);
    bytes.set_if_wanted(size);
    Ok(())
}

/// Where a module's variable is, and its size.
pub(super) fn global_of(module: Handle, name: &str) -> Answer<(CUdeviceptr, usize)> {
    let loaded = MODULES.get(module)?;
    let global = loaded.code.global(name).ok_or_else(|| {
        Failure::new(CUDA_ERROR_NOT_FOUND, format!("the module has no variable `{name}`"))
    })?;
    Ok((global.address, global.size_bytes as usize))
}

pub(crate) fn cuModuleGetFunctionCount(count: Out<u32>, module: CUmodule) -> Answer {
    current()?;
    count.set(MODULES.get(module)?.code.functions().len() as u32)
}

/// As many functions as there is room for.
pub(crate) fn cuModuleEnumerateFunctions(
    functions: Out<CUfunction>,
    room: u32,
    module: CUmodule,
) -> Answer {
    current()?;
    functions.check()?;
    let loaded = MODULES.get(module)?;
    for (at, name) in loaded.code.functions().iter().take(room as usize).enumerate() {
        functions.set_at(at, function_of(module.into(), name)?.as_ptr());
    }
    Ok(())
}

/// Lazy where nothing else is said, as with NVIDIA's driver. What may be put off, the emulator does at once.
pub(crate) fn cuModuleGetLoadingMode(mode: Out<i32>) -> Answer {
    let is_eager = env::var_os(LOADING).is_some_and(|said| said == "EAGER");
    mode.set(if is_eager { EAGER_LOADING } else { LAZY_LOADING })
}
