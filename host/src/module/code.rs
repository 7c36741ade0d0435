//! Compiled code, and the two ways to pass PTX to the driver: as a library, or as a module.
//!
//! A *library* belongs to no context, and the driver compiles several of them at a time, each on the thread that
//! asks. Modules it compiles one after the other, whoever asks. So a text is loaded as a library; a driver
//! that has none (before CUDA 12.0), or that refuses this one, is given the text as a module, and has the last word.

use std::ffi::CStr;
use std::ptr;

use cuda_driver::sys::{self, module_loading::EAGER_LOADING};

use crate::context::{Context, Handle};
use crate::error::GpuResult;

/// Compiled code in a context.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Code {
    module: Handle<sys::CUmod_st>,
    /// What the module is part of, and is unloaded with.
    library: Option<Handle<sys::CUlib_st>>,
}

impl Code {
    /// Passes PTX to the driver, which compiles it.
    pub(super) fn load(context: &Context, ptx: &CStr) -> GpuResult<Self> {
        if is_eager(context) {
            return Self::load_module(context, ptx);
        }
        // A library reports a refusal at the second call, and without the compiler's log; a module
        // returns the log.
        Self::load_library(context, ptx).or_else(|_| Self::load_module(context, ptx))
    }

    fn load_library(context: &Context, ptx: &CStr) -> GpuResult<Self> {
        let mut library = ptr::null_mut();
        let (none, no_values) = (ptr::null(), ptr::null_mut());
        context.call("cuLibraryLoadData", || {
            // SAFETY: `library` is writable, the image is a NUL-terminated text, which the driver copies, and
            // there are no options.
            unsafe {
                let image = ptx.as_ptr().cast_mut().cast();
                sys::cuLibraryLoadData(&mut library, image, none, no_values, 0, none, no_values, 0)
            }
        })?;
        let mut module = ptr::null_mut();
        // SAFETY: `module` is writable, the library is loaded, and `call` made the context current.
        let get = || unsafe { sys::cuLibraryGetModule(&mut module, library) };
        context.call("cuLibraryGetModule", get).inspect_err(|_| {
            // SAFETY: the library is loaded, and nothing of it was handed out.
            context.release(|| unsafe { sys::cuLibraryUnload(library) });
        })?;
        Ok(Self { module: Handle(module), library: Some(Handle(library)) })
    }

    fn load_module(context: &Context, ptx: &CStr) -> GpuResult<Self> {
        let mut module = ptr::null_mut();
        // SAFETY: `module` is writable, and the image is a NUL-terminated text.
        let load = || unsafe { sys::cuModuleLoadData(&mut module, ptx.as_ptr().cast_mut().cast()) };
        context.call("cuModuleLoadData", load)?;
        Ok(Self { module: Handle(module), library: None })
    }

    pub(super) fn module(self) -> sys::CUmodule {
        self.module.get()
    }

    /// Unloads it.
    ///
    /// # Safety
    /// It is loaded, and nothing launches its kernels or uses its variables any more. A module's context is current.
    pub(crate) unsafe fn unload(self) -> sys::CUresult {
        match self.library {
            // SAFETY: the caller's.
            Some(library) => unsafe { sys::cuLibraryUnload(library.get()) },
            // SAFETY: the caller's.
            None => unsafe { sys::cuModuleUnload(self.module.get()) },
        }
    }
}

/// Whether the environment asks for code to be loaded at once (`CUDA_MODULE_LOADING=EAGER`). A library would then
/// be loaded into the contexts of all devices, also of those on which a kernel stays.
fn is_eager(context: &Context) -> bool {
    let mut mode = 0;
    // SAFETY: `mode` is writable.
    let get = || unsafe { sys::cuModuleGetLoadingMode(&mut mode) };
    // A driver before CUDA 11.7 does not know: it has no libraries either.
    context.call_uncounted("cuModuleGetLoadingMode", get).is_err() || mode == EAGER_LOADING
}
