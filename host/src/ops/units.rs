//! Device memory as the plain type that a kernel's instance is for.

use std::marker::PhantomData;

use bytemuck::Pod;
use cuda_std::launch::{DeviceRead, DeviceWrite, DeviceWritePitched, RawSlice};

/// Memory of `From`, to be read as another type: as many bytes, and an alignment that the caller has compared.
pub(super) struct As<'a, M: ?Sized, From> {
    memory: &'a M,
    from: PhantomData<From>,
}

impl<'a, M: ?Sized, From> As<'a, M, From> {
    pub(super) fn new(memory: &'a M) -> Self {
        Self { memory, from: PhantomData }
    }
}

/// The same elements as others of `To`, of the same bytes altogether.
///
/// # Panics
/// If the bytes are not a whole number of aligned `To`.
fn recast<From: Pod, To: Pod>(raw: RawSlice) -> RawSlice {
    let bytes = raw.len * size_of::<From>();
    let fits = bytes.is_multiple_of(size_of::<To>())
        && (bytes == 0 || raw.address.is_multiple_of(align_of::<To>() as u64));
    assert!(fits, "an operation takes units that fit its arrays");
    RawSlice { len: bytes / size_of::<To>(), ..raw }
}

// SAFETY: the memory is what `M` promises, and any bytes of it are values of the plain `To`, to which `recast` compares
// size and alignment.
unsafe impl<M: DeviceRead<From>, From: Pod, To: Pod> DeviceRead<To> for As<'_, M, From> {
    fn raw(&self) -> RawSlice {
        recast::<From, To>(self.memory.raw())
    }

    fn len(&self) -> usize {
        self.memory.len() * size_of::<From>() / size_of::<To>()
    }
}

/// As [`As`], to be written.
pub(super) struct AsMut<'a, M: ?Sized, From> {
    memory: &'a mut M,
    from: PhantomData<From>,
}

impl<'a, M: ?Sized, From> AsMut<'a, M, From> {
    pub(super) fn new(memory: &'a mut M) -> Self {
        Self { memory, from: PhantomData }
    }
}

// SAFETY: as for `As`, and `M` may be written with any bytes, since `From` is plain.
unsafe impl<M: DeviceWrite<From>, From: Pod, To: Pod> DeviceWrite<To> for AsMut<'_, M, From> {
    fn raw_mut(&mut self) -> RawSlice {
        recast::<From, To>(self.memory.raw_mut())
    }

    fn len(&self) -> usize {
        self.memory.len() * size_of::<From>() / size_of::<To>()
    }
}

// SAFETY: as above; each extent in bytes stays the same, so that the rows stay where they are.
unsafe impl<M: DeviceWritePitched<From>, From: Pod, To: Pod> DeviceWritePitched<To>
    for AsMut<'_, M, From>
{
    fn raw_pitched(&mut self) -> (RawSlice, usize, usize, usize) {
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

/// The largest unit of 1, 2, 4, 8 or 16 bytes that divides all of `bytes`: addresses, lengths, distances.
pub(super) fn unit(bytes: &[usize]) -> usize {
    let all = bytes.iter().fold(16, |all, bytes| all | bytes);
    1 << all.trailing_zeros()
}

#[cfg(test)]
mod tests {
    use super::unit;

    #[test]
    fn the_largest_unit_divides_everything() {
        assert_eq!([unit(&[]), unit(&[0, 64]), unit(&[12, 256])], [16, 16, 4]);
        assert_eq!([unit(&[7, 16]), unit(&[48, 10]), unit(&[1 << 40, 8])], [1, 2, 8]);
    }
}
