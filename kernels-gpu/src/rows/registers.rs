//! Arrays that stay in registers: each index is a constant once this is inlined.

use core::mem::MaybeUninit;

/// Writes a body once for each index below `$n`, at most 8. Where a body is long, the compiler might not inline
/// the closures of [`each`], and what they borrow would go to memory.
macro_rules! unrolled {
    ($n:expr, |$k:ident| $body:expr) => {
        $crate::rows::registers::unrolled!(@each $n, $k, $body, 0 1 2 3 4 5 6 7)
    };
    (@each $n:expr, $k:ident, $body:expr, $($index:literal)*) => {
        const { assert!($n <= 8, "write more steps") };
        $(if const { $index < $n } {
            let $k: usize = $index;
            $body
        })*
    };
}
pub(crate) use unrolled;

/// Calls `f` with 0, 1, … `N - 1`, for `N` up to 8, without a loop that the compiler might keep.
#[inline(always)]
pub fn each<const N: usize>(mut f: impl FnMut(usize)) {
    const { assert!(N <= 8, "write more steps") };
    macro_rules! step {
        ($($k:literal)*) => {$(
            if const { $k < N } {
                f($k);
            }
        )*};
    }
    step!(0 1 2 3 4 5 6 7);
}

/// The array of `f(0)`, `f(1)`, …; see [`each`].
#[inline(always)]
pub fn build<T: Copy, const N: usize>(mut f: impl FnMut(usize) -> T) -> [T; N] {
    let mut items = MaybeUninit::<[T; N]>::uninit();
    let first = items.as_mut_ptr().cast::<T>();
    // SAFETY: `k < N`.
    each::<N>(|k| unsafe { first.add(k).write(f(k)) });
    // SAFETY: every element was written.
    unsafe { items.assume_init() }
}

#[cfg(test)]
mod tests {
    use super::{build, each};

    #[test]
    fn indices_come_once_and_in_order() {
        let mut seen = Vec::new();
        each::<5>(|k| seen.push(k));
        assert_eq!(seen, [0, 1, 2, 3, 4]);
        assert_eq!(build::<_, 3>(|k| 10 * k), [0, 10, 20]);
    }
}
