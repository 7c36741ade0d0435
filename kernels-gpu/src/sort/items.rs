//! Arrays of a thread's own that stay in registers.

use core::mem::MaybeUninit;

/// Calls `f` with 0, 1, … `K - 1`, at most 64, each a constant once inlined: a loop would leave that to what
/// the compiler is willing to unroll.
#[inline(always)]
pub fn each<const K: usize>(mut f: impl FnMut(usize)) {
    const { assert!(K <= 64, "a thread has at most 64 items") };
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
}

/// The array of `f(0)`, `f(1)`, ….
#[inline(always)]
pub fn build<T: Copy, const K: usize>(mut f: impl FnMut(usize) -> T) -> [T; K] {
    let mut items = MaybeUninit::<[T; K]>::uninit();
    let first = items.as_mut_ptr().cast::<T>();
    // SAFETY: `k < K`.
    each::<K>(|k| unsafe { first.add(k).write(f(k)) });
    // SAFETY: every element was written.
    unsafe { items.assume_init() }
}
