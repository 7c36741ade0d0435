//! Device memory of one type as another of the same size, for kernels that only look at bits.

use bytemuck::Pod;
use cuda_std::launch::{DeviceRead, DeviceWrite, RawSlice};

/// Memory of a type `T` as a kernel's of `U`, while the borrow it was made from lasts.
#[derive(Debug)]
pub struct Recast {
    raw: RawSlice,
    /// The size of `T`.
    elem_bytes: usize,
}

impl Recast {
    /// # Safety
    /// The result is gone before the borrow ends.
    pub unsafe fn read<T: Pod>(x: &impl DeviceRead<T>) -> Self {
        Self { raw: x.raw(), elem_bytes: size_of::<T>() }
    }

    /// # Safety
    /// As for [`read`](Self::read).
    pub unsafe fn write<T: Pod>(out: &mut impl DeviceWrite<T>) -> Self {
        Self { raw: out.raw_mut(), elem_bytes: size_of::<T>() }
    }

    /// The memory as elements of `U`.
    ///
    /// # Panics
    /// If `U` has another size than the elements that it was made of, or a stricter alignment than their address: the
    /// operation chose a kernel for another type.
    fn of<U>(&self) -> RawSlice {
        let RawSlice { address, len, .. } = self.raw;
        let fits = size_of::<U>() == self.elem_bytes
            && (len == 0 || address.is_multiple_of(align_of::<U>() as u64));
        assert!(fits, "an operation's kernel takes elements of the size that its arrays have");
        self.raw.clone()
    }
}

// SAFETY: made of memory that is lent for reading, of plain values of the same size and alignment.
unsafe impl<U: Pod> DeviceRead<U> for Recast {
    fn raw(&self) -> RawSlice {
        self.of::<U>()
    }

    fn len(&self) -> usize {
        self.raw.len
    }
}

// SAFETY: where it is used so, made of memory that is lent for writing, of plain values of the same size and alignment.
unsafe impl<U: Pod> DeviceWrite<U> for Recast {
    fn raw_mut(&mut self) -> RawSlice {
        self.of::<U>()
    }

    fn len(&self) -> usize {
        self.raw.len
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{DeviceBuffer, Gpu};

    #[test]
    fn memory_is_lent_as_elements_of_its_own_size() {
        let gpu = Gpu::new().unwrap();
        let x = DeviceBuffer::from_slice(&gpu, &[1.0_f32, 2.0]).unwrap();
        // SAFETY: used while `x` is borrowed.
        let recast = unsafe { Recast::read(&x) };
        assert_eq!(DeviceRead::<u32>::raw(&recast).len, 2);
    }

    #[test]
    #[should_panic(expected = "elements of the size that its arrays have")]
    fn memory_is_not_lent_as_larger_elements() {
        let gpu = Gpu::new().unwrap();
        let x = DeviceBuffer::from_slice(&gpu, &[1_u8; 8]).unwrap();
        // SAFETY: used while `x` is borrowed.
        let recast = unsafe { Recast::read(&x) };
        DeviceRead::<f64>::raw(&recast);
    }
}
