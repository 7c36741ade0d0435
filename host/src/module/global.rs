//! Variables of a module, which the host reads and writes.

use std::any::type_name;
use std::fmt;
use std::marker::PhantomData;
use std::slice;

use bytemuck::Pod;
use cuda_std::launch::DevicePtr;

use crate::error::{GpuError, GpuResult};
use crate::memory::{download, upload};
use crate::stream::{AsStream, Stream};

/// A variable of a [`Module`](super::Module) in the device's global or constant memory, which it keeps loaded.
///
/// Kernels read variables in constant memory through a cache that gives one word to all threads of a warp at once: for
/// small tables that every thread reads in the same order. Kernels do not write constant memory.
///
/// ```no_run
/// # use ferrowarp::{Gpu, GpuResult};
/// # fn example(gpu: &Gpu, weights: &[f32; 64]) -> GpuResult<()> {
/// // In the kernel crate:
/// //     #[address_space(constant)]
/// //     #[externally_visible]
/// //     #[unsafe(no_mangle)]
/// //     static mut WEIGHTS: [f32; 64] = [0.0; 64];
/// let own = gpu.global::<[f32; 64]>("WEIGHTS")?;
/// // SAFETY: the static has this type and is `mut`, and its kernels run on this stream alone.
/// unsafe { own.copy_from(weights)? };
/// assert_eq!(own.get()?, *weights);
/// # Ok(())
/// # }
/// ```
///
/// Copies are in the order of the stream of the [`Gpu`](crate::Gpu) or [`Module`](super::Module) that it came from, or
/// of [`on`](Self::on)'s, and are waited for. A launch does not name the variables that its kernel uses: uses on other
/// streams are in no order with the copies unless the program makes one.
///
/// A clone is the same variable.
#[doc(alias = "Symbol")]
#[doc(alias = "__constant__")]
#[doc(alias = "cudaMemcpyToSymbol")]
pub struct Global<T: Pod> {
    /// The stream that orders the copies; it has the module.
    stream: Stream,
    address: u64,
    name: String,
    value: PhantomData<fn() -> T>,
}

impl<T: Pod> Global<T> {
    pub(super) fn new(stream: &Stream, name: &str) -> GpuResult<Self> {
        let (address, bytes) = stream.module().variable(name)?;
        if bytes != size_of::<T>() || !address.is_multiple_of(align_of::<T>() as u64) {
            let (target, size, align) = (type_name::<T>(), size_of::<T>(), align_of::<T>());
            return Err(GpuError::WrongGlobal {
                name: name.to_owned(),
                address,
                bytes,
                target,
                size,
                align,
            });
        }
        Ok(Self { stream: stream.clone(), address, name: name.to_owned(), value: PhantomData })
    }

    /// This variable, with copies in the order of another stream.
    ///
    /// # Errors
    /// [`WrongDevice`](GpuError::WrongDevice) for a stream of another device.
    pub fn on(&self, stream: &impl AsStream) -> GpuResult<Self> {
        let stream = stream.as_stream();
        stream.inner().check_device(self.stream.inner().context(), "the stream")?;
        let stream = stream.with_module(self.stream.module().clone());
        Ok(Self { stream, ..self.clone() })
    }

    /// Its name in the PTX.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its address, for a kernel that takes a pointer to a variable in global memory.
    #[must_use]
    pub fn as_device_ptr(&self) -> DevicePtr<T> {
        DevicePtr::from_raw(self.address)
    }

    /// Writes it, after the stream's work so far and before its later work. Waits for the copy.
    ///
    /// # Errors
    /// The fault of a kernel; in a capture [`NotCapturable`](crate::error::GraphError::NotCapturable).
    ///
    /// # Safety
    /// - No kernel that uses the variable runs on another stream meanwhile, nor a graph that has such a kernel.
    /// - The value is one of the type that the kernels' source gives the variable, which may be another one of that size.
    /// - The variable may change: a `static mut` that is exported, or one with interior mutability. Of a plain `static`
    ///   the compiler may have put the initial value into the kernels.
    #[doc(alias = "cudaMemcpyToSymbol")]
    pub unsafe fn copy_from(&self, value: &T) -> GpuResult<()> {
        // SAFETY: the variable has the size of a `T`, and is loaded as long as the stream has its module; nothing
        // else uses it meanwhile, as the caller promises.
        unsafe { upload(self.stream.inner(), self.address, slice::from_ref(value)) }
    }

    /// Reads it after the stream's work so far. Where a kernel on another stream writes it meanwhile, the value is
    /// partly the old one and partly the new one.
    ///
    /// # Errors
    /// The fault of a kernel; in a capture [`NotCapturable`](crate::error::GraphError::NotCapturable).
    #[doc(alias = "cudaMemcpyFromSymbol")]
    pub fn copy_to(&self, value: &mut T) -> GpuResult<()> {
        // SAFETY: the variable has the size of a `T` and is loaded; every bit pattern is a value of a `T`, so that a
        // write meanwhile makes another value of it and nothing worse.
        unsafe { download(self.stream.inner(), self.address, value, 1) }
    }

    /// Its value, as [`copy_to`](Self::copy_to) reads it.
    ///
    /// # Errors
    /// As [`copy_to`](Self::copy_to).
    pub fn get(&self) -> GpuResult<T> {
        let mut value = T::zeroed();
        self.copy_to(&mut value).map(|()| value)
    }
}

impl<T: Pod> Clone for Global<T> {
    fn clone(&self) -> Self {
        let Self { stream, address, name, value } = self;
        Self { stream: stream.clone(), address: *address, name: name.clone(), value: *value }
    }
}

impl<T: Pod> fmt::Debug for Global<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Global({}: {} at {:#x})", self.name, type_name::<T>(), self.address)
    }
}
