//! Libraries: loading from a file, and their kernels and variables by name.
#![allow(non_snake_case)]

use std::ffi::{CString, c_char, c_void};

use crate::abi::{CUdevice, CUdeviceptr, CUfunction, CUkernel, CUlibrary, In, Out, text};
use crate::codes::{CUDA_ERROR_FILE_NOT_FOUND, CUDA_ERROR_NOT_FOUND, CUDA_ERROR_NOT_SUPPORTED};
use crate::detail::{Answer, Failure};
use crate::emulated::current::current;
use crate::emulated::gpu::gpu;
use crate::emulated::jit::Options;
use crate::emulated::library::{KERNELS, LIBRARIES, load};
use crate::emulated::preferences::check_cache_config;
use crate::emulated::{invalid, kernel, module};

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
