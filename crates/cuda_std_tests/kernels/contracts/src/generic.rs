//! Generic kernels: one source, an entry for each instance.

use cuda_std::prelude::*;

/// A number that these kernels compute with.
pub trait Number: Copy {
    fn times_plus(self, factor: Self, summand: Self) -> Self;
    fn larger(self, other: Self) -> Self;
}

macro_rules! numbers {
    ($($number:ty: |$x:ident, $y:ident, $z:ident| $fused:expr;)*) => {$(
        impl Number for $number {
            #[inline(always)]
            fn times_plus(self, factor: Self, summand: Self) -> Self {
                let ($x, $y, $z) = (self, factor, summand);
                $fused
            }

            #[inline(always)]
            fn larger(self, other: Self) -> Self {
                if self < other { other } else { self }
            }
        }
    )*};
}

numbers! {
    f32: |x, y, z| x * y + z;
    f64: |x, y, z| x * y + z;
    i32: |x, y, z| x.wrapping_mul(y).wrapping_add(z);
}

/// `y = alpha * x + y` for three types.
#[kernel(f32, f64, i32)]
pub fn axpy<T: Number>(index: ThreadIndex, alpha: T, x: &[T], mut y: DisjointSlice<T>) {
    if let Some(y) = y.get_mut(index) {
        *y = x[index.get()].times_plus(alpha, *y);
    }
}

/// A way to combine two values: a type without a size.
pub trait Operator<T> {
    fn apply(a: T, b: T) -> T;
}

pub struct Add;
pub struct Largest;

impl Operator<i32> for Add {
    #[inline(always)]
    fn apply(a: i32, b: i32) -> i32 {
        a.wrapping_add(b)
    }
}

impl<T: Number> Operator<T> for Largest {
    #[inline(always)]
    fn apply(a: T, b: T) -> T {
        a.larger(b)
    }
}

/// Each thread combines `N` neighbours: a type, an operator and a constant.
#[kernel((i32, Largest, 4), (f32, Largest, 3), (i32, crate::generic::Add, { 2 + 3 }), block = 8 * N)]
pub fn combine<T, O, const N: usize>(index: ThreadIndex, x: &[T], mut out: DisjointSlice<T>)
where
    T: Number,
    O: Operator<T>,
{
    let first = index.get() * N;
    let (Some(out), Some(run)) = (out.get_mut(index), x.get(first..first + N)) else { return };
    let mut total = run[0];
    for value in &run[1..] {
        total = O::apply(total, *value);
    }
    *out = total;
}

/// Counts what is at least `limit`: a value and an atomic view of instance types.
#[kernel(u32, u64, block = 64)]
pub fn count_from<T>(index: ThreadIndex, limit: T, x: &[T], counts: AtomicSlice<T>)
where
    T: cuda_std::atomic::AtomicInteger + Ord + From<u8>,
{
    if x.get(index.get()).is_some_and(|x| *x >= limit) {
        counts.fetch_add(0, T::from(1), Relaxed);
    }
}

/// Reverses each block: the token of the block and the shared array depend on the instance.
#[kernel((u32, 64), (f64, 32))]
pub fn reverse<T: cuda_std::shared::Element, const N: usize>(
    index: ThreadIndex,
    mut block: Block<N>,
    tile: Shared<[T; N]>,
    x: &[T],
    mut out: DisjointSlice<T>,
) {
    let tile = tile.put(&block, x[index.get()]);
    let tile = block.sync(tile);
    if let Some(out) = out.get_mut(index) {
        *out = tile[N - 1 - block.thread()];
    }
}
