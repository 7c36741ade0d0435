//! Loops over constants: they are written out, so that arrays which they index stay in registers.
//!
//! Registers have no addresses. An array that a kernel indexes with a loop's counter stays in registers only if the loop is
//! unrolled completely, and otherwise goes to local memory. A `for` loop leaves that to what the compiler is willing to
//! unroll; here the body is called once for each index, a constant once it is inlined.

use core::mem::MaybeUninit;

/// Writes a body once for each index below a constant, at most 64: `unrolled!(N, |k| sums[k] += x[k])`.
///
/// [`each`](crate::unroll::each) does it with a closure. If the closure is long, the compiler might not inline it, and what it
/// borrows would go to memory; the body of this macro stands in the function itself.
#[macro_export]
macro_rules! unrolled {
    ($n:expr, |$k:ident| $body:expr) => {{
        const { assert!($n <= 64, "at most 64 steps are written out") };
        $crate::unrolled!(@steps $n, $k, $body,
            0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31
            32 33 34 35 36 37 38 39 40 41 42 43 44 45 46 47 48 49 50 51 52 53 54 55 56 57 58 59 60 61 62 63
        );
    }};
    (@steps $n:expr, $k:ident, $body:expr, $($index:literal)*) => {
        $(if const { $index < $n } {
            let $k: usize = $index;
            $body
        })*
    };
}

/// Calls `f` with 0, 1, … `N - 1`, for `N` up to 64.
#[inline(always)]
pub fn each<const N: usize>(mut f: impl FnMut(usize)) {
    unrolled!(N, |k| f(k));
}

/// Calls `f` with 0, 1, … `n - 1`. At most `MAX` steps are written out, up to 64; `n` is no larger, and a constant once this is
/// inlined: an associated constant of a type parameter, for example, which cannot be the argument of [`each`].
#[inline(always)]
pub fn each_below<const MAX: usize>(n: usize, mut f: impl FnMut(usize)) {
    debug_assert!(n <= MAX, "more steps than are written out");
    unrolled!(MAX, |k| if k < n {
        f(k)
    });
}

/// The array of `f(0)`, `f(1)`, … in registers; see [`each`].
#[inline(always)]
pub fn build<T: Copy, const N: usize>(mut f: impl FnMut(usize) -> T) -> [T; N] {
    let mut items = MaybeUninit::<[T; N]>::uninit();
    let first = items.as_mut_ptr().cast::<T>();
    // SAFETY: `k < N`.
    each::<N>(|k| unsafe { first.add(k).write(f(k)) });
    // SAFETY: every element was written.
    unsafe { items.assume_init() }
}

/// Each item through `f`, in registers; see [`each`].
#[inline(always)]
pub fn map<T: Copy, U: Copy, const N: usize>(items: [T; N], mut f: impl FnMut(T) -> U) -> [U; N] {
    build(|k| f(items[k]))
}

#[cfg(test)]
mod tests {
    use super::{build, each, each_below, map};

    fn counted<const N: usize>() -> Vec<usize> {
        let mut seen = Vec::new();
        each::<N>(|k| seen.push(k));
        seen
    }

    #[test]
    fn each_index_comes_once_in_order() {
        assert_eq!(counted::<0>(), []);
        assert_eq!(counted::<1>(), [0]);
        assert_eq!(counted::<63>(), (0..63).collect::<Vec<_>>());
        assert_eq!(counted::<64>(), (0..64).collect::<Vec<_>>());
        let mut seen = Vec::new();
        each_below::<16>(5, |k| seen.push(k));
        assert_eq!(seen, [0, 1, 2, 3, 4]);
    }

    #[test]
    #[cfg(debug_assertions)]
    #[should_panic(expected = "more steps than are written out")]
    fn more_steps_than_are_written_out_are_refused() {
        each_below::<4>(5, |_| ());
    }

    #[test]
    fn arrays_are_built_and_mapped() {
        assert_eq!(build::<_, 3>(|k| 10 * k), [0, 10, 20]);
        assert_eq!(map([1u8, 2, 3], |item| f32::from(item) / 2.0), [0.5, 1.0, 1.5]);
    }
}
