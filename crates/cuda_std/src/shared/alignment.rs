//! The alignments that shared memory can be given.

/// An alignment in bytes. See [`Alignment`].
#[derive(Clone, Copy, Debug)]
pub struct Align<const BYTES: usize>;

/// What the alignment parameter of [`SharedArray`](super::SharedArray) and
/// [`DynamicSharedArray`](super::DynamicSharedArray) can be: a power of two up to 1,024.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not an alignment of shared memory",
    label = "expected a power of two up to 1024"
)]
pub trait Alignment: sealed::Sealed {
    /// A type without a size that is aligned so.
    #[doc(hidden)]
    type Unit: Copy;
}

mod sealed {
    pub trait Sealed {}
}

macro_rules! alignments {
    ($($bytes:literal)*) => {$(
        const _: () = {
            #[derive(Clone, Copy)]
            #[repr(align($bytes))]
            pub struct Unit;

            impl sealed::Sealed for Align<$bytes> {}
            impl Alignment for Align<$bytes> {
                type Unit = Unit;
            }
        };
    )*};
}

alignments! { 1 2 4 8 16 32 64 128 256 512 1024 }

/// Does not compile for what is not an [`Alignment`], where the compiler cannot ask for the trait.
pub(super) const fn check_alignment(bytes: usize) {
    assert!(
        bytes.is_power_of_two() && bytes <= 1024,
        "an alignment of shared memory is a power of two up to 1024"
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn powers_of_two_up_to_1024_are_alignments() {
        (0..=10).for_each(|power| check_alignment(1 << power));
        for wrong in [0, 3, 96, 1025, 2048, usize::MAX] {
            assert!(std::panic::catch_unwind(|| check_alignment(wrong)).is_err(), "{wrong}");
        }
        assert_eq!(align_of::<<Align<1024> as Alignment>::Unit>(), 1024);
        assert_eq!(size_of::<[<Align<128> as Alignment>::Unit; 0]>(), 0);
    }
}
