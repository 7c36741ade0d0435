//! Memory of the host that MPI reads and writes in the device's place.

use bytemuck::Pod;
use cuda_driver::{pageable_on_purpose, sys};
use cuda_std::half::{bf16, f16};
use ferrowarp::memory::resource::StreamRef;

use crate::driver::check;
use crate::element::{ElementKind, Reduction};
use crate::error::DistError;

/// Bytes, aligned for all elements.
#[derive(Debug)]
pub(super) struct HostMemory {
    words: Vec<u64>,
    bytes: usize,
}

impl HostMemory {
    pub(super) fn zeroed(bytes: usize) -> Self {
        Self { words: vec![0; bytes.div_ceil(8)], bytes }
    }

    pub(super) fn as_mut_ptr(&mut self) -> *mut std::ffi::c_void {
        self.words.as_mut_ptr().cast()
    }

    /// The values.
    fn values<T: Pod>(&self) -> &[T] {
        bytemuck::cast_slice(&bytemuck::cast_slice::<u64, u8>(&self.words)[..self.bytes])
    }

    fn values_mut<T: Pod>(&mut self) -> &mut [T] {
        let bytes = bytemuck::cast_slice_mut::<u64, u8>(&mut self.words);
        bytemuck::cast_slice_mut(&mut bytes[..self.bytes])
    }

    /// Copies memory of the device, in the order of the stream. It is here when the stream is done.
    ///
    /// # Safety
    /// As many bytes are at the address, and this lives until then.
    pub(super) unsafe fn load(
        &mut self,
        stream: StreamRef<'_>,
        from: u64,
    ) -> Result<(), DistError> {
        let (to, bytes) = (self.as_mut_ptr(), self.bytes);
        // SAFETY: the caller's promise; the memory here has as many bytes.
        let copied = pageable_on_purpose(|| unsafe {
            sys::cuMemcpyDtoHAsync_v2(to, from, bytes, stream.as_raw().cast())
        });
        check("cuMemcpyDtoHAsync", copied)
    }

    /// Copies this to the device, in the order of the stream.
    ///
    /// # Safety
    /// As many bytes are at the address, and this lives until the stream is done.
    pub(super) unsafe fn store(&mut self, stream: StreamRef<'_>, to: u64) -> Result<(), DistError> {
        let (from, bytes) = (self.as_mut_ptr(), self.bytes);
        // SAFETY: as above.
        let copied = pageable_on_purpose(|| unsafe {
            sys::cuMemcpyHtoDAsync_v2(to, from, bytes, stream.as_raw().cast())
        });
        check("cuMemcpyHtoDAsync", copied)
    }

    /// Floats of 16 bits as `f32`; all else as it is.
    pub(super) fn widened(self, kind: ElementKind) -> Self {
        match kind {
            ElementKind::F16 => self.mapped(|value: f16| value.to_f32()),
            ElementKind::BF16 => self.mapped(|value: bf16| value.to_f32()),
            _ => self,
        }
    }

    /// The other way.
    pub(super) fn narrowed(self, kind: ElementKind) -> Self {
        match kind {
            ElementKind::F16 => self.mapped(f16::from_f32),
            ElementKind::BF16 => self.mapped(bf16::from_f32),
            _ => self,
        }
    }

    fn mapped<A: Pod, B: Pod>(self, map: impl Fn(A) -> B) -> Self {
        let values = self.values::<A>();
        let mut mapped = Self::zeroed(size_of_val(values) / size_of::<A>() * size_of::<B>());
        let pairs = mapped.values_mut::<B>().iter_mut().zip(values);
        pairs.for_each(|(to, from)| *to = map(*from));
        mapped
    }

    /// Makes an average of a sum over so many ranks. The elements are [widened](Self::widened).
    pub(super) fn finish(&mut self, kind: ElementKind, reduction: Reduction, ranks: u32) {
        if reduction != Reduction::Average {
            return;
        }
        match kind {
            ElementKind::I8 => self.each(|value: i8| (i64::from(value) / i64::from(ranks)) as i8),
            ElementKind::U8 => self.each(|value: u8| (u64::from(value) / u64::from(ranks)) as u8),
            ElementKind::I32 => {
                self.each(|value: i32| (i64::from(value) / i64::from(ranks)) as i32)
            }
            ElementKind::U32 => self.each(|value: u32| value / ranks),
            ElementKind::I64 => self.each(|value: i64| value / i64::from(ranks)),
            ElementKind::U64 => self.each(|value: u64| value / u64::from(ranks)),
            ElementKind::F16 | ElementKind::BF16 | ElementKind::F32 => {
                self.each(|value: f32| value / ranks as f32);
            }
            ElementKind::F64 => self.each(|value: f64| value / f64::from(ranks)),
        }
    }

    fn each<T: Pod>(&mut self, map: impl Fn(T) -> T) {
        self.values_mut::<T>().iter_mut().for_each(|value| *value = map(*value));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of<T: Pod>(values: &[T]) -> HostMemory {
        let mut memory = HostMemory::zeroed(size_of_val(values));
        memory.values_mut().copy_from_slice(values);
        memory
    }

    #[test]
    fn floats_of_16_bits_come_back_as_they_were() {
        let values = [0.0, -1.5, 65504.0, 6.0e-8].map(f16::from_f32);
        let wide = of(&values).widened(ElementKind::F16);
        assert_eq!(wide.values::<f32>()[2], 65504.0);
        assert_eq!(wide.narrowed(ElementKind::F16).values::<f16>(), values);
        let values = [1.0, -3.0e38, 7.0].map(bf16::from_f32);
        let same = of(&values).widened(ElementKind::BF16).narrowed(ElementKind::BF16);
        assert_eq!(same.values::<bf16>(), values);
    }

    #[test]
    fn averages_of_integers_are_rounded_towards_zero() {
        let mut memory = of(&[-7i32, 7, 8]);
        memory.finish(ElementKind::I32, Reduction::Average, 4);
        assert_eq!(memory.values::<i32>(), [-1, 1, 2]);
        memory.finish(ElementKind::I32, Reduction::Sum, 4);
        assert_eq!(memory.values::<i32>(), [-1, 1, 2]);
    }
}
