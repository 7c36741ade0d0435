//! Filling memory with one value, and copies between memory of the device on a stream of one's choice.

use bytemuck::Pod;
use cuda_driver::sys;

use super::buffer::DeviceBuffer;
use super::slice::{DeviceSlice, DeviceSliceMut};
use super::transfer::check_len;
use crate::error::{GpuError, GpuResult};
use crate::recorder::{self, Bytes};
use crate::stream::AsStream;

/// A value that the driver can repeat.
#[derive(Clone, Copy)]
enum Pattern {
    Bits8(u8),
    Bits16(u16),
    Bits32(u32),
}

impl Pattern {
    /// The bits of a value of 1, 2 or 4 bytes; `None` for no bytes.
    fn of<T: Pod>(value: &T) -> Option<Self> {
        match *bytemuck::bytes_of(value) {
            [a] => Some(Self::Bits8(a)),
            [a, b] => Some(Self::Bits16(u16::from_ne_bytes([a, b]))),
            [a, b, c, d] => Some(Self::Bits32(u32::from_ne_bytes([a, b, c, d]))),
            _ => None,
        }
    }

    /// # Safety
    /// Memory of `len` such values lies at `address`, aligned, is in the stream's order and nobody
    /// else's.
    unsafe fn fill(self, address: u64, len: usize, stream: sys::CUstream) -> sys::CUresult {
        match self {
            // SAFETY: the caller's promise.
            Self::Bits8(bits) => unsafe { sys::cuMemsetD8Async(address, bits, len, stream) },
            // SAFETY: the caller's promise.
            Self::Bits16(bits) => unsafe { sys::cuMemsetD16Async(address, bits, len, stream) },
            // SAFETY: the caller's promise.
            Self::Bits32(bits) => unsafe { sys::cuMemsetD32Async(address, bits, len, stream) },
        }
    }
}

impl<T: Pod> DeviceSliceMut<'_, T> {
    /// Fills the memory with `value`, which has 1, 2 or 4 bytes. Does not wait.
    ///
    /// ```no_run
    /// # let gpu = ferrowarp::Gpu::new()?;
    /// let mut buffer = ferrowarp::DeviceBuffer::<f32>::zeroed(&gpu, 5)?;
    /// buffer.slice_mut(1..3).fill(0.5)?;
    /// assert_eq!(buffer.to_vec()?, [0.0, 0.5, 0.5, 0.0, 0.0]);
    /// # Ok::<(), ferrowarp::GpuError>(())
    /// ```
    ///
    /// A value of another size does not compile:
    ///
    /// ```compile_fail
    /// # let gpu = ferrowarp::Gpu::new()?;
    /// ferrowarp::DeviceBuffer::<f64>::zeroed(&gpu, 5)?.fill(0.5)?;
    /// # Ok::<(), ferrowarp::GpuError>(())
    /// ```
    ///
    /// # Errors
    /// [`GpuError::InvalidCast`] if the memory is not aligned to the size of a value, which can be so
    /// for an array like `[u8; 4]`; a driver's refusal.
    pub fn fill(&mut self, value: T) -> GpuResult<()> {
        const {
            let size = size_of::<T>();
            assert!(matches!(size, 0 | 1 | 2 | 4), "`fill` takes values of 1, 2 or 4 bytes");
        }
        let (address, len) = (self.as_device_ptr().address(), self.len());
        let Some(pattern) = Pattern::of(&value).filter(|_| len > 0) else { return Ok(()) };
        if !address.is_multiple_of(size_of::<T>() as u64) {
            let target = ["u8", "u16", "u32"][size_of::<T>() / 2];
            return Err(GpuError::InvalidCast { address, bytes: len * size_of::<T>(), target });
        }
        let home = self.home();
        if let Some(graph) = recorder::current() {
            let to = Bytes { home: Some(home), address, len: len * size_of::<T>() };
            return graph.fill(to, bytemuck::bytes_of(&value));
        }
        home.context().call("cuMemsetAsync", || {
            // SAFETY: the borrow is exclusive, every bit pattern is a value of `T`, and the home
            // orders all uses.
            unsafe { pattern.fill(address, len, home.handle()) }
        })
    }

    /// Copies `source` on the device, on a stream of your choice, for instance to run beside a kernel on
    /// the home. Does not wait.
    ///
    /// # Errors
    /// [`GpuError::SizeMismatch`] if `source` has another length, [`GpuError::WrongDevice`] unless
    /// stream and memory are of one device.
    pub fn copy_from_device_on<'s>(
        &mut self,
        on: &impl AsStream,
        source: impl Into<DeviceSlice<'s, T>>,
    ) -> GpuResult<()> {
        let source = source.into();
        check_len("copying on the device", self.len(), source.len())?;
        let stream = on.as_stream().inner();
        self.home().check_device(stream.context(), "the target of the copy")?;
        source.home().check_device(stream.context(), "the source of the copy")?;
        let bytes = self.len() * size_of::<T>();
        if bytes == 0 {
            return Ok(());
        }
        let (to, from) = (self.as_device_ptr().address(), source.as_device_ptr().address());
        if let Some(graph) = recorder::current() {
            let bytes_at = |home, address| Bytes { home: Some(home), address, len: bytes };
            return graph.copy(bytes_at(source.home(), from), bytes_at(self.home(), to));
        }
        stream.ordered(&[self.home(), source.home()], || {
            stream.context().call("cuMemcpyDtoDAsync", || {
                // SAFETY: the borrows keep others away, the lengths are equal, and later uses are
                // ordered behind the copy.
                unsafe { sys::cuMemcpyDtoDAsync_v2(to, from, bytes, stream.handle()) }
            })
        })
    }
}

impl<T: Pod> DeviceBuffer<T> {
    /// Fills the array with `value`, which has 1, 2 or 4 bytes: see [`DeviceSliceMut::fill`].
    ///
    /// # Errors
    /// As there.
    pub fn fill(&mut self, value: T) -> GpuResult<()> {
        self.as_mut_slice().fill(value)
    }
}
