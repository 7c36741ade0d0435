//! Which element of a shared array belongs to which thread: [`Layout`].

use crate::block::Block;
use bytemuck::AnyBitPattern;
use core::fmt;
use core::mem::MaybeUninit;
use core::ops::{Deref, Index};
use core::ptr::NonNull;

/// A value that shared memory may hold: plain bits that mean the same in every thread. Every
/// [`bytemuck::Pod`] type that is `Send` and `Sync` is one.
///
/// A thread that panics, or returns before a barrier, leaves its elements as they were, and the others
/// read what some earlier block left there. So every bit pattern is a value of the type
/// ([`bytemuck::AnyBitPattern`]): references, function pointers, `bool`, `char` and enums are refused.
/// `Send` and `Sync` keep out what belongs to one thread, such as a
/// [`ThreadIndex`](crate::index::ThreadIndex).
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be in shared memory",
    label = "threads may read it before it is written: every bit pattern must be a value",
    note = "a thread that panics or returns before a barrier leaves its elements unwritten",
    note = "instead of `bool`, `char` or an enum, use an integer such as `u8`; instead of a reference, the index of \
            its target",
    note = "derive `bytemuck::AnyBitPattern` on a struct of plain numbers; it must be `Send` and `Sync` too"
)]
pub trait Element: AnyBitPattern + Send + Sync {}

#[diagnostic::do_not_recommend]
impl<T: AnyBitPattern + Send + Sync> Element for T {}

/// An array in shared memory, and the elements of it that each thread of a block owns.
///
/// | layout | place of an element | thread `t` of `THREADS` owns |
/// |---|---|---|
/// | `[T; N]`, `[T]` | `i` | `t`, `t + THREADS`, … below the length |
/// | [`Blocked<T, N, K>`](Blocked) | `i` | `t * K` to `t * K + K - 1` |
/// | [`PerWarp<T, WARPS>`](PerWarp) | warp | the element of its warp, if it is lane 0 |
/// | [`Tile<T, ROWS, COLS>`](Tile) | `(row, column)` | every `Y`th row from `y` on, of it every `X`th column from `x` on |
///
/// # Safety
/// - [`visit`](Self::visit) hands each element that safe code can read through `&Self` to exactly
///   one thread of the block, exactly once.
/// - To whom depends on the type and the length alone.
pub unsafe trait Layout {
    /// What it holds.
    type Element: Element;
    /// What names an element.
    type Place: Copy;

    /// Calls `f` with the place and the address of each element that the calling thread owns.
    ///
    /// # Safety
    /// `this` leads to memory of this layout.
    #[doc(hidden)]
    unsafe fn visit<const X: usize, const Y: usize, const Z: usize>(
        this: NonNull<Self>,
        block: &Block<X, Y, Z>,
        f: impl FnMut(Self::Place, NonNull<Self::Element>),
    );
}

// SAFETY: an index below `N` is `k * THREADS + t` for one `k` and one thread `t < THREADS`.
unsafe impl<T: Element, const N: usize> Layout for [T; N] {
    type Element = T;
    type Place = usize;

    #[inline(always)]
    unsafe fn visit<const X: usize, const Y: usize, const Z: usize>(
        this: NonNull<Self>,
        block: &Block<X, Y, Z>,
        mut f: impl FnMut(usize, NonNull<T>),
    ) {
        let threads = Block::<X, Y, Z>::THREADS;
        // SAFETY: both loops stay below `N`.
        let mut own = |i: usize| f(i, unsafe { this.cast::<T>().add(i) });
        let full = const { N / Block::<X, Y, Z>::THREADS };
        for k in 0..full {
            own(k * threads + block.thread());
        }
        let rest = const { N % Block::<X, Y, Z>::THREADS };
        if rest > 0 && block.thread() < rest {
            own(full * threads + block.thread());
        }
    }
}

// SAFETY: as for arrays.
unsafe impl<T: Element> Layout for [T] {
    type Element = T;
    type Place = usize;

    #[inline(always)]
    unsafe fn visit<const X: usize, const Y: usize, const Z: usize>(
        this: NonNull<Self>,
        block: &Block<X, Y, Z>,
        mut f: impl FnMut(usize, NonNull<T>),
    ) {
        let mut i = block.thread();
        while i < this.len() {
            // SAFETY: in bounds.
            f(i, unsafe { this.cast::<T>().add(i) });
            i += Block::<X, Y, Z>::THREADS;
        }
    }
}

/// `N` values of which each thread owns `K` in a row. A block has at least `N / K` threads, else the
/// kernel does not compile.
///
/// With an even `K` the threads of a warp meet in the same banks; an odd one is free of conflicts.
#[repr(transparent)]
pub struct Blocked<T, const N: usize, const K: usize>([T; N]);

impl<T, const N: usize, const K: usize> Deref for Blocked<T, N, K> {
    type Target = [T; N];

    #[inline(always)]
    fn deref(&self) -> &[T; N] {
        &self.0
    }
}

// SAFETY: an index below `N` is `t * K + k` for one `k < K` and one `t`, which is a thread by the
// assertion.
unsafe impl<T: Element, const N: usize, const K: usize> Layout for Blocked<T, N, K> {
    type Element = T;
    type Place = usize;

    #[inline(always)]
    unsafe fn visit<const X: usize, const Y: usize, const Z: usize>(
        this: NonNull<Self>,
        block: &Block<X, Y, Z>,
        mut f: impl FnMut(usize, NonNull<T>),
    ) {
        const {
            assert!(
                N <= K * Block::<X, Y, Z>::THREADS,
                "a `Blocked` array has more elements than the block's threads own"
            );
        }
        for k in 0..K {
            let i = block.thread() * K + k;
            if i < N {
                // SAFETY: in bounds.
                f(i, unsafe { this.cast::<T>().add(i) });
            }
        }
    }
}

/// A value for each warp of the block, which its first lane owns. A block has `WARPS` warps, else
/// the kernel does not compile.
#[repr(transparent)]
pub struct PerWarp<T, const WARPS: usize>([T; WARPS]);

impl<T, const WARPS: usize> Deref for PerWarp<T, WARPS> {
    type Target = [T; WARPS];

    #[inline(always)]
    fn deref(&self) -> &[T; WARPS] {
        &self.0
    }
}

// SAFETY: each warp has one first lane, and by the assertion each element a warp.
unsafe impl<T: Element, const WARPS: usize> Layout for PerWarp<T, WARPS> {
    type Element = T;
    type Place = usize;

    #[inline(always)]
    unsafe fn visit<const X: usize, const Y: usize, const Z: usize>(
        this: NonNull<Self>,
        block: &Block<X, Y, Z>,
        mut f: impl FnMut(usize, NonNull<T>),
    ) {
        const {
            assert!(
                WARPS == Block::<X, Y, Z>::WARPS,
                "a `PerWarp` has an element for each warp of the block"
            );
        }
        if block.lane() == 0 {
            // SAFETY: the warp's number is below `WARPS`.
            f(block.warp(), unsafe { this.cast::<T>().add(block.warp()) });
        }
    }
}

/// `ROWS` rows of `COLS` values, read as `tile[row][column]`, for blocks of one or two dimensions.
///
/// Behind each row lie `PAD` unused values, so that a column of a 32-wide tile of 32-bit values lies
/// in 32 different banks.
#[repr(C)]
pub struct Tile<T, const ROWS: usize, const COLS: usize, const PAD: usize = 1> {
    rows: [Row<T, COLS, PAD>; ROWS],
}

#[repr(C)]
struct Row<T, const COLS: usize, const PAD: usize> {
    values: [T; COLS],
    pad: [MaybeUninit<T>; PAD],
}

impl<T, const ROWS: usize, const COLS: usize, const PAD: usize> Index<usize>
    for Tile<T, ROWS, COLS, PAD>
{
    type Output = [T; COLS];

    #[inline(always)]
    fn index(&self, row: usize) -> &[T; COLS] {
        &self.rows[row].values
    }
}

// SAFETY: a row is `y + j * Y` for one `j` and one `y < Y`, a column likewise, and blocks have no
// third dimension by the assertion. What pads a row cannot be read.
unsafe impl<T: Element, const ROWS: usize, const COLS: usize, const PAD: usize> Layout
    for Tile<T, ROWS, COLS, PAD>
{
    type Element = T;
    type Place = (usize, usize);

    #[inline(always)]
    unsafe fn visit<const X: usize, const Y: usize, const Z: usize>(
        this: NonNull<Self>,
        block: &Block<X, Y, Z>,
        mut f: impl FnMut((usize, usize), NonNull<T>),
    ) {
        own_places::<X, Y, Z, ROWS, COLS>(block, |row, column| {
            let offset = row * (COLS + PAD) + column;
            // SAFETY: inside the tile, whose rows have `COLS + PAD` values.
            f((row, column), unsafe { this.cast::<T>().add(offset) });
        });
    }
}

/// Calls `f` with each row and column of a tile of `ROWS` by `COLS` that the calling thread owns: no two threads of
/// a block own the same, and all are owned.
#[inline(always)]
pub(crate) fn own_places<
    const X: usize,
    const Y: usize,
    const Z: usize,
    const ROWS: usize,
    const COLS: usize,
>(
    block: &Block<X, Y, Z>,
    mut f: impl FnMut(usize, usize),
) {
    const { assert!(Z == 1, "a tile needs a block of one or two dimensions") };
    for j in 0..ROWS.div_ceil(Y) {
        let row = block.y() + j * Y;
        for i in 0..COLS.div_ceil(X) {
            let column = block.x() + i * X;
            if row < ROWS && column < COLS {
                f(row, column);
            }
        }
    }
}

/// Says of a type only its name and its numbers: nothing is read.
macro_rules! debug {
    ($($name:ident <$($number:ident),*>)*) => {$(
        impl<T, $(const $number: usize),*> fmt::Debug for $name<T, $($number),*> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "{:?}"), [$($number),*])
            }
        }
    )*};
}

debug! { Blocked<N, K> PerWarp<WARPS> Tile<ROWS, COLS, PAD> }
