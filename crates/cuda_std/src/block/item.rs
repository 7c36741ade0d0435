//! What collectives hand from thread to thread.

use crate::shared::Element;
use crate::warp::Plain;
use core::mem::MaybeUninit;

/// A value that the collectives of a block hand from thread to thread, of at most 16 bytes: every
/// [`bytemuck::Pod`] type is one.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot travel between the threads of a block",
    label = "a thread may receive any bits, and sends all of its own",
    note = "derive `bytemuck::Pod` on a `#[repr(C)]` struct of plain numbers without padding"
)]
pub trait Item: Element + Plain {}

impl<T: Element + Plain> Item for T {}

/// Calls `f` with 0, 1, … `K - 1`, each a constant once inlined: then an array that is indexed by them stays
/// in registers. A loop would leave that to what the compiler is willing to unroll.
#[inline(always)]
pub(super) fn each<const K: usize>(mut f: impl FnMut(usize)) {
    macro_rules! step {
        ($($k:literal)*) => {$(
            if const { $k < K } {
                f($k);
            }
        )*};
    }
    step!(0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31);
    step!(32 33 34 35 36 37 38 39 40 41 42 43 44 45 46 47 48 49 50 51 52 53 54 55 56 57 58 59 60);
    step!(61 62 63);
    for k in 64..K {
        f(k);
    }
}

/// The array of `f(0)`, `f(1)`, … in registers; see [`each`].
#[inline(always)]
pub(super) fn build<T: Copy, const K: usize>(mut f: impl FnMut(usize) -> T) -> [T; K] {
    let mut items = MaybeUninit::<[T; K]>::uninit();
    let first = items.as_mut_ptr().cast::<T>();
    // SAFETY: `k < K`.
    each::<K>(|k| unsafe { first.add(k).write(f(k)) });
    // SAFETY: every element was written.
    unsafe { items.assume_init() }
}

/// Each item through `f`, in registers.
#[inline(always)]
pub(super) fn map<T: Copy, U: Copy, const K: usize>(
    items: [T; K],
    mut f: impl FnMut(T) -> U,
) -> [U; K] {
    build(|k| f(items[k]))
}

#[cfg(test)]
mod tests {
    use super::{build, each, map};

    fn counted<const K: usize>() -> Vec<usize> {
        let mut seen = Vec::new();
        each::<K>(|k| seen.push(k));
        seen
    }

    #[test]
    fn each_index_comes_once_in_order() {
        assert_eq!(counted::<0>(), []);
        assert_eq!(counted::<1>(), [0]);
        assert_eq!(counted::<63>(), (0..63).collect::<Vec<_>>());
        assert_eq!(counted::<70>(), (0..70).collect::<Vec<_>>());
    }

    #[test]
    fn arrays_are_built_and_mapped() {
        assert_eq!(build::<_, 3>(|k| 10 * k), [0, 10, 20]);
        assert_eq!(map([1u8, 2, 3], |item| f32::from(item) / 2.0), [0.5, 1.0, 1.5]);
    }
}
