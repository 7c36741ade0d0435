//! Device memory as another plain type than the one that its owner has it as.

use std::marker::PhantomData;
use std::ops::Range;

use bytemuck::Pod;
use cuda_std::launch::{DeviceRead, DeviceWrite, DeviceWritePitched, RawSlice};

/// Borrowed device memory, read as elements of `To`, or no memory at all.
pub struct As<'a, To> {
    raw: RawSlice<'a>,
    borrow: PhantomData<&'a [To]>,
}

/// Borrowed device memory, written and read as elements of `To`, or no memory at all.
pub struct AsMut<'a, To> {
    raw: RawSlice<'a>,
    borrow: PhantomData<&'a mut [To]>,
}

/// No elements: an address that is not null and that suits every type.
const NOTHING: RawSlice<'static> = RawSlice { address: 256, len: 0, home: None };

/// Memory of `From` as memory of `To`.
///
/// # Panics
/// If the bytes are not a whole number of aligned `To`: the operation chose a kernel for another type.
fn recast<From: Pod, To: Pod>(raw: RawSlice<'_>) -> RawSlice<'_> {
    let bytes = raw.len * size_of::<From>();
    let fits = bytes.is_multiple_of(size_of::<To>())
        && (bytes == 0 || raw.address.is_multiple_of(align_of::<To>() as u64));
    assert!(fits, "an operation takes units that fit its arrays");
    RawSlice { len: bytes / size_of::<To>(), ..raw }
}

impl<'a, To> As<'a, To> {
    /// All of `memory`.
    ///
    /// # Panics
    /// If its bytes are not a whole number of aligned `To`.
    pub fn new<From: Pod>(memory: &'a impl DeviceRead<From>) -> Self
    where
        To: Pod,
    {
        Self { raw: recast::<From, To>(memory.raw()), borrow: PhantomData }
    }

    /// All of `memory`, where there is any.
    pub fn optional<From: Pod>(memory: Option<&'a impl DeviceRead<From>>) -> Self
    where
        To: Pod,
    {
        memory.map_or_else(Self::none, Self::new)
    }

    /// No elements.
    pub fn none() -> Self {
        Self { raw: NOTHING, borrow: PhantomData }
    }

    /// Some elements of the memory; of no memory none.
    ///
    /// # Panics
    /// If they are not in it.
    pub fn part(&self, range: Range<usize>) -> Self {
        Self { raw: part::<To>(self.raw, range), borrow: PhantomData }
    }
}

/// Some elements of memory; of no memory none.
fn part<To>(raw: RawSlice<'_>, range: Range<usize>) -> RawSlice<'_> {
    if raw.len == 0 {
        return raw;
    }
    assert!(range.start <= range.end && range.end <= raw.len, "an operation uses its own memory");
    let address = raw.address + (range.start * size_of::<To>()) as u64;
    RawSlice { address, len: range.len(), ..raw }
}

impl<'a, To> AsMut<'a, To> {
    /// All of `memory`.
    ///
    /// # Panics
    /// As [`As::new`].
    pub fn new<From: Pod>(memory: &'a mut impl DeviceWrite<From>) -> Self
    where
        To: Pod,
    {
        Self { raw: recast::<From, To>(memory.raw_mut()), borrow: PhantomData }
    }

    /// All of `memory`, where there is any.
    pub fn optional<From: Pod>(memory: Option<&'a mut impl DeviceWrite<From>>) -> Self
    where
        To: Pod,
    {
        memory.map_or_else(Self::none, Self::new)
    }

    /// No elements.
    pub fn none() -> Self {
        Self { raw: NOTHING, borrow: PhantomData }
    }

    /// Some elements, as memory of its own; of no memory none.
    ///
    /// # Safety
    /// A kernel that is given both uses one of them alone.
    ///
    /// # Panics
    /// If they are not in it.
    pub unsafe fn part(&self, range: Range<usize>) -> Self {
        Self { raw: part::<To>(self.raw, range), borrow: PhantomData }
    }

    /// The memory, to be read.
    pub fn as_read(&self) -> As<'_, To> {
        As { raw: self.raw, borrow: PhantomData }
    }
}

// SAFETY: either there are no elements, or the memory is what the `DeviceRead` or `DeviceWrite` promises that is still
// borrowed, and any bytes of it are values of the plain `To`, whose size and alignment `recast` compared.
unsafe impl<To> DeviceRead<To> for As<'_, To> {
    fn raw(&self) -> RawSlice<'_> {
        self.raw
    }

    fn len(&self) -> usize {
        self.raw.len
    }
}

// SAFETY: as for `As`; the borrow is exclusive, and the owner's type is plain: it takes any bytes that a kernel writes.
unsafe impl<To> DeviceWrite<To> for AsMut<'_, To> {
    fn raw_mut(&mut self) -> RawSlice<'_> {
        self.raw
    }

    fn len(&self) -> usize {
        self.raw.len
    }
}

/// Pitched memory of `From`, written as pitched memory of another plain type.
pub struct AsPitched<'a, M: ?Sized, From> {
    memory: &'a mut M,
    from: PhantomData<From>,
}

impl<'a, M: ?Sized, From> AsPitched<'a, M, From> {
    pub fn new(memory: &'a mut M) -> Self {
        Self { memory, from: PhantomData }
    }
}

// SAFETY: as for `AsMut`; each extent in bytes stays as it is, and so the rows stay where they are.
unsafe impl<M: DeviceWritePitched<From>, From: Pod, To: Pod> DeviceWritePitched<To>
    for AsPitched<'_, M, From>
{
    fn raw_pitched(&mut self) -> (RawSlice<'_>, usize, usize, usize) {
        let (raw, width, height, pitch) = self.memory.raw_pitched();
        let units = |len: usize| {
            let bytes = len * size_of::<From>();
            assert!(bytes.is_multiple_of(size_of::<To>()), "a row is a whole number of units");
            bytes / size_of::<To>()
        };
        // The length says only whether there is any element, and the last row may end within a unit of it.
        let any = raw.len > 0;
        let aligned = !any || raw.address.is_multiple_of(align_of::<To>() as u64);
        assert!(aligned, "an operation takes units that fit its arrays");
        (RawSlice { len: usize::from(any), ..raw }, units(width), height, units(pitch))
    }
}

/// An array as rows of one element.
pub struct AsRows<'a, M, T> {
    memory: &'a mut M,
    element: PhantomData<T>,
}

impl<'a, M: DeviceWrite<T>, T> AsRows<'a, M, T> {
    pub fn new(memory: &'a mut M) -> Self {
        Self { memory, element: PhantomData }
    }
}

// SAFETY: rows of one element, one after the other, are the array.
unsafe impl<M: DeviceWrite<T>, T> DeviceWritePitched<T> for AsRows<'_, M, T> {
    fn raw_pitched(&mut self) -> (RawSlice<'_>, usize, usize, usize) {
        let raw = self.memory.raw_mut();
        let len = raw.len;
        (raw, 1, len, 1)
    }
}

/// The largest unit of 1, 2, 4, 8 or 16 bytes that divides all of `bytes`: addresses, lengths, distances.
pub fn unit(bytes: &[usize]) -> usize {
    let all = bytes.iter().fold(16, |all, bytes| all | bytes);
    1 << all.trailing_zeros()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{DeviceBuffer, Gpu};

    #[test]
    fn the_largest_unit_divides_everything() {
        assert_eq!([unit(&[]), unit(&[0, 64]), unit(&[12, 256])], [16, 16, 4]);
        assert_eq!([unit(&[7, 16]), unit(&[48, 10]), unit(&[1 << 40, 8])], [1, 2, 8]);
    }

    #[test]
    fn memory_is_lent_as_elements_of_another_size() {
        let gpu = Gpu::new().unwrap();
        let mut x = DeviceBuffer::from_slice(&gpu, &[1.0_f32, 2.0]).unwrap();
        assert_eq!(As::<u32>::new(&x).len(), 2);
        assert_eq!(AsMut::<u64>::new(&mut x).raw_mut().len, 1);
        assert_eq!(As::<u64>::none().len(), 0);
    }

    #[test]
    #[should_panic(expected = "units that fit its arrays")]
    fn memory_is_not_lent_as_elements_that_it_does_not_end_with() {
        let gpu = Gpu::new().unwrap();
        let x = DeviceBuffer::from_slice(&gpu, &[1_u8; 9]).unwrap();
        As::<u64>::new(&x);
    }
}
