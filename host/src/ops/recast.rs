//! Device memory of one type as another of the same size, for kernels that only look at bits.

use bytemuck::Pod;
use cuda_std::launch::{DeviceRead, DeviceWrite, RawSlice};

/// Memory of a type `T` as a kernel's of `U`, while the borrow it was made from lasts.
#[derive(Debug)]
pub struct Recast(RawSlice);

impl Recast {
    /// # Safety
    /// The result is gone before the borrow ends, and a launch that got it asks for `U`s of `T`'s size.
    pub unsafe fn read<T: Pod>(x: &impl DeviceRead<T>) -> Self {
        Self(x.raw())
    }

    /// # Safety
    /// As for [`read`](Self::read).
    pub unsafe fn write<T: Pod>(out: &mut impl DeviceWrite<T>) -> Self {
        Self(out.raw_mut())
    }
}

// SAFETY: made of memory that is lent for reading, of plain values of the same size.
unsafe impl<U: Pod> DeviceRead<U> for Recast {
    fn raw(&self) -> RawSlice {
        self.0.clone()
    }
}

// SAFETY: where it is used so, made of memory that is lent for writing, of plain values of the same size.
unsafe impl<U: Pod> DeviceWrite<U> for Recast {
    fn raw_mut(&mut self) -> RawSlice {
        self.0.clone()
    }
}
