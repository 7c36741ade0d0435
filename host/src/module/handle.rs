//! Modules that programs hold: PTX that is loaded at run time, and the kernels of a `Gpu` by their names.

use std::fmt;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use bytemuck::Pod;

use super::arch::target;
use super::function::ModuleFunction;
use super::global::Global;
use super::kernel_module::KernelModule;
use super::text::Text;
use crate::error::{GpuContext, GpuError, GpuResult};
use crate::gpu::Gpu;
use crate::stream::{AsStream, Stream};

/// Kernels and variables that are found by their names when the program runs.
///
/// PTX from any compiler will do: nvcc's and clang's, a text that the program has made, a file that it was given.
/// Kernels whose source the program has are better launched by their typed launchers, which are safe.
///
/// ```
/// use ferrowarp::module::{Args, Module};
/// use ferrowarp::{DeviceBuffer, Gpu, Linear};
///
/// const PTX: &str = "
/// .version 7.0
/// .target sm_70
/// .address_size 64
/// .visible .entry fill(.param .u64 out, .param .u32 value)
/// {
///     .reg .b32 %r<3>;
///     .reg .b64 %rd<4>;
///     ld.param.u64 %rd1, [out];
///     ld.param.u32 %r1, [value];
///     mov.u32 %r2, %tid.x;
///     mul.wide.u32 %rd2, %r2, 4;
///     add.s64 %rd3, %rd1, %rd2;
///     st.u32 [%rd3], %r1;
///     ret;
/// }";
///
/// let gpu = Gpu::new()?;
/// let fill = Module::from_ptx(&gpu, PTX)?.function("fill")?;
/// let mut words = DeviceBuffer::<u32>::zeroed(&gpu, 32)?;
/// let mut args = Args::new();
/// args.push_write_pointer(&mut words);
/// args.push_value(7u32);
/// // SAFETY: `fill` takes a pointer and a `u32`, and writes a word for each of the 32 threads.
/// unsafe { fill.launch(&gpu, Linear::new(1, 32), &args)? };
/// assert_eq!(words.to_vec()?, [7; 32]);
/// # Ok::<(), ferrowarp::GpuError>(())
/// ```
///
/// A clone is the same module. Its code stays loaded as long as one of them, or of its functions and variables, is
/// held; after the last one it is unloaded when the device has done all work.
#[derive(Clone)]
pub struct Module {
    /// The stream that it was loaded for, with its kernels.
    stream: Stream,
}

impl Module {
    /// Loads PTX for the device of a stream or [`Gpu`]. The driver compiles all of it now.
    ///
    /// # Errors
    /// What the driver's compiler says of a text that it does not take; its line, and the column where the compiler
    /// names one, are in [`DriverError::ptx_position`](crate::error::DriverError::ptx_position).
    /// [`UnsupportedArch`](GpuError::UnsupportedArch) for PTX of a newer architecture.
    #[doc(alias = "load_ptx")]
    #[doc(alias = "cuModuleLoadData")]
    pub fn from_ptx(on: &impl AsStream, ptx: impl Into<String>) -> GpuResult<Self> {
        let (stream, text) = (on.as_stream(), Text::new(ptx.into()));
        let arch = target(text.ptx()).to_owned();
        let module = KernelModule::from_ptx(stream.inner().context(), &arch, &text, &[]);
        if let Err(error) = module.look_up_all() {
            module.unload_unused();
            return Err(error);
        }
        Ok(Self { stream: stream.with_module(Arc::new(module)) })
    }

    /// Loads a PTX file for the device of a stream or [`Gpu`].
    ///
    /// # Errors
    /// [`Unreadable`](GpuError::Unreadable) for a file that is not there or is not text; as
    /// [`from_ptx`](Self::from_ptx), with the file's name.
    #[doc(alias = "cuModuleLoad")]
    pub fn from_file(on: &impl AsStream, path: impl AsRef<Path>) -> GpuResult<Self> {
        let path = path.as_ref();
        let failed = |source| GpuError::Unreadable { path: path.to_owned(), source };
        let text = fs::read_to_string(path).map_err(failed)?;
        Self::from_ptx(on, text).with_gpu_context(|| format!("loading {}", path.display()))
    }

    /// The kernels that `on` launches: those of a [`Gpu`] or of a
    /// [`ModuleVersion`](crate::reload::ModuleVersion).
    #[must_use]
    pub fn of(on: &impl AsStream) -> Self {
        Self { stream: on.as_stream().clone() }
    }

    /// The kernel of that name, to be launched with arguments that are checked against its parameters in the PTX.
    ///
    /// # Errors
    /// [`NotFound`](GpuError::NotFound) with the kernels that there are, the nearest name first;
    /// [`Unsupported`](GpuError::Unsupported) for one with textures or surfaces as parameters.
    #[doc(alias = "get_function")]
    #[doc(alias = "load_function")]
    #[doc(alias = "cuModuleGetFunction")]
    pub fn function(&self, name: &str) -> GpuResult<ModuleFunction> {
        ModuleFunction::new(&self.stream, name)
    }

    /// The names of its kernels.
    ///
    /// # Errors
    /// [`NoKernels`](GpuError::NoKernels) and [`UnsupportedArch`](GpuError::UnsupportedArch), for the kernels of a
    /// [`Gpu`] that has none for its device.
    pub fn function_names(&self) -> GpuResult<Vec<String>> {
        self.stream.module().kernels()
    }

    /// The variable of that name in global or constant memory: a `static` of the kernel crate that bears its own name
    /// (`#[unsafe(no_mangle)]`), a `__device__` or `__constant__` variable of CUDA C++ (`extern "C"`).
    ///
    /// PTX of `cuda_builder` is loaded in parts. Kernels that share a variable are in one part, which is loaded by this
    /// call if it was not. A variable that no kernel uses is in none, and is not found.
    ///
    /// # Errors
    /// [`NoGlobal`](GpuError::NoGlobal) with the variables that there are, the nearest name first;
    /// [`WrongGlobal`](GpuError::WrongGlobal) if its size is not that of a `T`, or its address is not aligned for one.
    #[doc(alias = "get_global")]
    #[doc(alias = "symbol")]
    #[doc(alias = "cuModuleGetGlobal")]
    pub fn global<T: Pod>(&self, name: &str) -> GpuResult<Global<T>> {
        Global::new(&self.stream, name)
    }
}

impl Gpu {
    /// The variable of that name of this `Gpu`'s kernels: see [`Module::global`].
    ///
    /// # Errors
    /// As [`Module::global`].
    pub fn global<T: Pod>(&self, name: &str) -> GpuResult<Global<T>> {
        Module::of(self).global(name)
    }
}

impl fmt::Debug for Module {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.function_names().unwrap_or_default();
        f.debug_struct("Module").field("functions", &names).finish_non_exhaustive()
    }
}
