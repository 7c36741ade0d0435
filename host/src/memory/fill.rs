//! Filling memory with one value, and copies between memory of the device on a stream of one's choice.

use std::sync::Arc;

use bytemuck::Pod;
use cuda_driver::sys;
use cuda_std::launch::Access;

use super::buffer::DeviceBuffer;
use super::slice::{DeviceSlice, DeviceSliceMut};
use super::transfer::check_len;
use crate::error::{GpuError, GpuResult};
use crate::recorder::{self, Bytes};
use crate::stream::{AsStream, HomeUse, Stream, StreamInner};

/// A value that the driver can repeat.
#[derive(Clone, Copy)]
enum Pattern {
    Bits8(u8),
    Bits16(u16),
    Bits32(u32),
}

impl Pattern {
    /// The bits of a value of 1, 2 or 4 bytes; `None` for no bytes.
    fn of(value: &[u8]) -> Option<Self> {
        match *value {
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

/// Fails to compile unless the driver can repeat a value of that size.
const fn assert_fills<T>() {
    assert!(matches!(size_of::<T>(), 0 | 1 | 2 | 4), "`fill` takes values of 1, 2 or 4 bytes");
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
        const { assert_fills::<T>() };
        self.fill_bytes(self.home(), bytemuck::bytes_of(&value))
    }

    /// As [`fill`](Self::fill), on a stream of your choice.
    ///
    /// # Errors
    /// As there, and [`GpuError::WrongDevice`] unless stream and memory are of one device.
    pub fn fill_on(&mut self, on: &impl AsStream, value: T) -> GpuResult<()> {
        const { assert_fills::<T>() };
        self.fill_bytes_on(on.as_stream(), bytemuck::bytes_of(&value))
    }

    /// Fills the memory with a value of 1, 2 or 4 bytes, which are bytes of a `T` or zeros.
    pub(crate) fn fill_bytes_on(&mut self, on: &Stream, value: &[u8]) -> GpuResult<()> {
        self.fill_bytes(on.inner(), value)
    }

    fn fill_bytes(&mut self, stream: &Arc<StreamInner>, value: &[u8]) -> GpuResult<()> {
        let (address, bytes) = (self.as_device_ptr().address(), self.len() * size_of::<T>());
        let Some(pattern) = Pattern::of(value).filter(|_| bytes > 0) else { return Ok(()) };
        if !address.is_multiple_of(value.len() as u64) {
            let target = ["u8", "u16", "u32"][value.len() / 2];
            return Err(GpuError::InvalidCast { address, bytes, target });
        }
        let home = self.home();
        home.check_device(stream.context(), "the memory to fill")?;
        if let Some(graph) = recorder::current() {
            return graph.fill(Bytes { home: Some(home), address, len: bytes }, value);
        }
        let uses = [HomeUse::new(home, address, bytes, Access::Write)];
        stream.ordered_uses(&uses, |handle| {
            stream.context().call("cuMemsetAsync", || {
                // SAFETY: the borrow is exclusive, every bit pattern is a value of `T`, and all uses are in order.
                unsafe { pattern.fill(address, bytes / value.len(), handle) }
            })
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
        let uses = [
            HomeUse::new(self.home(), to, bytes, Access::Write),
            HomeUse::new(source.home(), from, bytes, Access::Read),
        ];
        stream.ordered_uses(&uses, |handle| {
            stream.context().call("cuMemcpyDtoDAsync", || {
                // SAFETY: the borrows keep others away, the lengths are equal, and later uses are
                // ordered behind the copy.
                unsafe { sys::cuMemcpyDtoDAsync_v2(to, from, bytes, handle) }
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

    /// As [`fill`](Self::fill), on a stream of your choice: see [`DeviceSliceMut::fill_on`].
    ///
    /// # Errors
    /// As there.
    pub fn fill_on(&mut self, on: &impl AsStream, value: T) -> GpuResult<()> {
        self.as_mut_slice().fill_on(on, value)
    }
}
