//! The fast transpose: 16-byte loads and stores, squares of elements turned in registers, and squares turned through
//! shared memory without bank conflicts.
//!
//! What each step buys over [`transpose_tiled`](fn@super::transpose_tiled):
//! 1. A thread moves a square of vectors, 4 × 4 of 4-byte elements: a quarter of the instructions, and
//!    64 bytes a thread in flight. Rows of a tile have 256 bytes, of which memory has more in a second than of shorter ones.
//! 2. It turns its square in registers, so that shared memory moves vectors too; the places of a row's vectors are
//!    exchanged by an exclusive or with the row's number, so that 8 lanes always meet 8 different bank groups.
//! 3. Blocks go down the matrix, one column of tiles after the other, so that rows of the result are written in order.
//!    On an H200 that is 1 to 15% faster than groups of tiles that keep reads and writes both near each other.

use crate::prelude::*;
use bytemuck::{Pod, Zeroable};
use core::ops::Range;
use cuda_std::access::{self, Access, ReadOnlyHint, StoreHint};
use cuda_std::intrinsics::byte_perm;
use cuda_std::shared::dynamic_shared_mem;

/// Squares along each side of a tile, and threads along each side of a block.
pub const SIDE: usize = 16;

/// An element by its size: `u8`, `u16`, `u32` or `u64`.
///
/// # Safety
/// [`LANES`](Self::LANES) elements are a vector.
pub unsafe trait Element: Pod {
    /// Elements along the side of a square: as many as a vector has.
    const LANES: usize;
    /// A vector for each row of a square.
    type Square: Copy;

    /// The square of the rows that `row(0)`, `row(1)` … give.
    fn square(row: impl FnMut(usize) -> Words) -> Self::Square;

    /// The square with rows and columns exchanged.
    fn turned(square: Self::Square) -> Self::Square;

    /// Hands each row of a square to `to`, with its number.
    fn each(square: Self::Square, to: impl FnMut(usize, Words));
}

/// A vector.
pub type Words = Vec4<u32>;

/// What the elements share.
macro_rules! vectors {
    ($lanes:literal, [$($i:literal $name:ident)+]) => {
        const LANES: usize = $lanes;
        type Square = [Words; $lanes];

        #[inline(always)]
        fn square(mut row: impl FnMut(usize) -> Words) -> Self::Square {
            [$(row($i)),+]
        }

        #[inline(always)]
        fn each(square: Self::Square, mut to: impl FnMut(usize, Words)) {
            let [$($name),+] = square;
            $(to($i, $name);)+
        }
    };
}

// SAFETY: whole vectors.
unsafe impl Element for u64 {
    vectors!(2, [0 a 1 b]);

    #[inline(always)]
    fn turned([a, b]: Self::Square) -> Self::Square {
        [Vec4::new(a.x, a.y, b.x, b.y), Vec4::new(a.z, a.w, b.z, b.w)]
    }
}

// SAFETY: whole vectors.
unsafe impl Element for u32 {
    vectors!(4, [0 a 1 b 2 c 3 d]);

    #[inline(always)]
    fn turned([a, b, c, d]: Self::Square) -> Self::Square {
        [
            Vec4::new(a.x, b.x, c.x, d.x),
            Vec4::new(a.y, b.y, c.y, d.y),
            Vec4::new(a.z, b.z, c.z, d.z),
            Vec4::new(a.w, b.w, c.w, d.w),
        ]
    }
}

/// The bytes of two words that a selector names: digit `k` of it, from the right, is the source of byte `k`.
#[inline(always)]
fn bytes_of(a: u32, b: u32, selector: u32) -> u32 {
    byte_perm(a as i32, b as i32, selector as i32) as u32
}

/// The lower halves of two words, and the upper ones.
#[inline(always)]
fn halves(a: u32, b: u32) -> [u32; 2] {
    [bytes_of(a, b, 0x5410), bytes_of(a, b, 0x7632)]
}

// SAFETY: whole vectors.
unsafe impl Element for u16 {
    vectors!(8, [0 a 1 b 2 c 3 d 4 e 5 f 6 g 7 h]);

    #[inline(always)]
    fn turned([a, b, c, d, e, f, g, h]: Self::Square) -> Self::Square {
        // Two rows of the result from each column of words.
        let pair = |[a, b, c, d, e, f, g, h]: [u32; 8]| {
            let ([ab, ab2], [cd, cd2]) = (halves(a, b), halves(c, d));
            let ([ef, ef2], [gh, gh2]) = (halves(e, f), halves(g, h));
            [Vec4::new(ab, cd, ef, gh), Vec4::new(ab2, cd2, ef2, gh2)]
        };
        let [r0, r1] = pair([a.x, b.x, c.x, d.x, e.x, f.x, g.x, h.x]);
        let [r2, r3] = pair([a.y, b.y, c.y, d.y, e.y, f.y, g.y, h.y]);
        let [r4, r5] = pair([a.z, b.z, c.z, d.z, e.z, f.z, g.z, h.z]);
        let [r6, r7] = pair([a.w, b.w, c.w, d.w, e.w, f.w, g.w, h.w]);
        [r0, r1, r2, r3, r4, r5, r6, r7]
    }
}

/// Four words of bytes with rows and columns exchanged.
#[inline(always)]
fn turned_bytes([a, b, c, d]: [u32; 4]) -> [u32; 4] {
    let (ab, ab2) = (bytes_of(a, b, 0x5140), bytes_of(a, b, 0x7362));
    let (cd, cd2) = (bytes_of(c, d, 0x5140), bytes_of(c, d, 0x7362));
    let ([r0, r1], [r2, r3]) = (halves(ab, cd), halves(ab2, cd2));
    [r0, r1, r2, r3]
}

// SAFETY: whole vectors.
unsafe impl Element for u8 {
    vectors!(16, [
        0 a 1 b 2 c 3 d 4 e 5 f 6 g 7 h 8 i 9 j 10 k 11 l 12 m 13 n 14 o 15 p
    ]);

    #[inline(always)]
    fn turned(rows: Self::Square) -> Self::Square {
        // Four rows of the result from each column of words.
        let four = |word: fn(Words) -> u32| {
            let turned = |k| {
                turned_bytes([
                    word(rows[k]),
                    word(rows[k + 1]),
                    word(rows[k + 2]),
                    word(rows[k + 3]),
                ])
            };
            let (a, b, c, d) = (turned(0), turned(4), turned(8), turned(12));
            let row = |k: usize| Vec4::new(a[k], b[k], c[k], d[k]);
            [row(0), row(1), row(2), row(3)]
        };
        let [r0, r1, r2, r3] = four(|row| row.x);
        let [r4, r5, r6, r7] = four(|row| row.y);
        let [r8, r9, r10, r11] = four(|row| row.z);
        let [r12, r13, r14, r15] = four(|row| row.w);
        [r0, r1, r2, r3, r4, r5, r6, r7, r8, r9, r10, r11, r12, r13, r14, r15]
    }
}

/// How rows of vectors are aligned in memory, which says how a vector is moved.
trait Alignment {
    /// Loads a vector.
    ///
    /// # Safety
    /// `from` is valid for a read, and so aligned.
    unsafe fn load(from: *const Words) -> Words;

    /// Stores a vector.
    ///
    /// # Safety
    /// `to` is valid for a write, and so aligned.
    unsafe fn store(to: *mut Words, vector: Words);
}

/// Aligned to a vector: one instruction moves it.
struct Whole;
/// Aligned to half a vector, as the rows of an image of bytes that is 1080 wide: two instructions move it.
struct Halves;

/// The two words of a half.
type Half = Vec2<u32>;

impl Alignment for Whole {
    #[inline(always)]
    unsafe fn load(from: *const Words) -> Words {
        // SAFETY: the caller's promise.
        let from = unsafe { &*from };
        Vec4::new(from.x, from.y, from.z, from.w)
    }

    #[inline(always)]
    unsafe fn store(to: *mut Words, vector: Words) {
        // SAFETY: the caller's promise.
        let to = unsafe { &mut *to };
        (to.x, to.y, to.z, to.w) = (vector.x, vector.y, vector.z, vector.w);
    }
}

impl Alignment for Halves {
    #[inline(always)]
    unsafe fn load(from: *const Words) -> Words {
        // SAFETY: the caller's promise, for both halves.
        let (low, high) = unsafe { (&*from.cast::<Half>(), &*from.cast::<Half>().add(1)) };
        Vec4::new(low.x, low.y, high.x, high.y)
    }

    #[inline(always)]
    unsafe fn store(to: *mut Words, vector: Words) {
        // SAFETY: the caller's promise, for both halves.
        let (low, high) = unsafe { (&mut *to.cast::<Half>(), &mut *to.cast::<Half>().add(1)) };
        (low.x, low.y) = (vector.x, vector.y);
        (high.x, high.y) = (vector.z, vector.w);
    }
}

/// Rows or columns of a tile for elements of `T`.
#[must_use]
pub const fn tile_side<T: Element>() -> usize {
    SIDE * T::LANES
}

/// Bytes of shared memory that a tile takes.
const fn tile_bytes<T: Element>() -> usize {
    tile_side::<T>() * tile_side::<T>() * size_of::<T>()
}

/// Blocks for `planes` matrices of `rows` by `cols`.
#[must_use]
pub const fn blocks<T: Element>(rows: usize, cols: usize, planes: usize) -> usize {
    rows.div_ceil(tile_side::<T>()) * cols.div_ceil(tile_side::<T>()) * planes
}

/// The matrices of an array: how far apart their rows are, and the matrices themselves, in elements.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
pub struct Layout {
    /// From a row to the next.
    pub pitch: usize,
    /// From a matrix to the next.
    pub plane: usize,
}

impl Layout {
    /// Matrices of `rows` by `cols`, one after the other, without gaps.
    #[must_use]
    pub const fn dense(rows: usize, cols: usize) -> Self {
        Self { pitch: cols, plane: rows * cols }
    }

    /// The elements from the first one to the end of the last one of `planes` matrices of `rows` by `cols`.
    #[must_use]
    pub const fn extent(self, [rows, cols, planes]: [usize; 3]) -> usize {
        if rows == 0 || cols == 0 || planes == 0 {
            return 0;
        }
        let last = (planes - 1).saturating_mul(self.plane);
        last.saturating_add((rows - 1).saturating_mul(self.pitch)).saturating_add(cols)
    }
}

/// A block's tile: which matrix, and the place of its first row and column among the matrix's tiles.
struct Place {
    plane: usize,
    row: usize,
    column: usize,
}

impl Place {
    /// The tile of this block, of `rows` by `cols` tiles in each matrix: one column of tiles after the other.
    #[inline(always)]
    fn of_block(rows: u32, cols: u32) -> Self {
        let block = thread::block_idx_x();
        let (plane, tile) = (block / (rows * cols), block % (rows * cols));
        let (row, column) = (tile % rows, tile / rows);
        Self { plane: plane as usize, row: row as usize, column: column as usize }
    }
}

/// The fast form, for matrices of any number, in arrays where rows and matrices are as far apart as `from` and `to` say:
/// `out[p * to.plane + c * to.pitch + r] = input[p * from.plane + r * from.pitch + c]`, for `dims`: rows and columns of a matrix of
/// `input`, and the number of matrices. No two elements of `out` are at one place.
///
/// Launch [`blocks`]`(rows, cols, planes)` blocks.
#[kernel(u8, u16, u32, u64, block = (SIDE, SIDE), dynamic_shared = tile_bytes::<T>())]
pub fn transpose_vectors<T: Element>(
    input: &[T],
    dims: [usize; 3],
    from: Layout,
    to: Layout,
    mut out: DisjointSlice<T>,
) {
    let [rows, cols, planes] = dims;
    assert!(
        from.extent(dims) <= input.len() && to.extent([cols, rows, planes]) <= out.len(),
        "the matrices are larger than their memory"
    );
    let side = tile_side::<T>();
    let tiles = |len: usize| len.div_ceil(side) as u32;
    let blocks = blocks::<T>(rows, cols, planes);
    assert!(u32::try_from(blocks).is_ok(), "there are more tiles than a grid has blocks");
    // A block too many. `|`, not `||`: one branch.
    let aside = thread::block_idx_y() | thread::block_idx_z();
    if (thread::block_idx_x() as usize >= blocks) | (aside != 0) {
        return;
    }
    let place = Place::of_block(tiles(rows), tiles(cols));
    let (top, left) = (place.row * side, place.column * side);
    // SAFETY: the tile's first element is inside both arrays: its matrix, row and column exist, and all matrices are
    // inside, by the assertion.
    let (first, first_out) = unsafe {
        (
            input.as_ptr().add(place.plane * from.plane + top * from.pitch + left),
            out.as_mut_ptr().add(place.plane * to.plane + left * to.pitch + top),
        )
    };
    // (The distance of two matrices needs no look: a first element that is aligned says enough.)
    let ends = first.addr() | first_out.addr() | ((from.pitch | to.pitch) * size_of::<T>());
    // `&`, not `&&`: one branch. All threads of the block take the same.
    let is_whole = (top + side <= rows) & (left + side <= cols);
    if is_whole & ends.is_multiple_of(size_of::<Words>()) {
        // SAFETY: the tile is wholly inside both, its rows are aligned to vectors; no other block has it.
        unsafe { turn_whole::<T, Whole>(first, from.pitch, first_out, to.pitch) };
    } else if const { size_of::<T>() == 1 } & is_whole & ends.is_multiple_of(size_of::<Half>()) {
        // Of bytes alone: where the kernel of `f32` had this form, too, its partial tiles were a tenth slower on an H200.
        // SAFETY: as above, but aligned to halves.
        unsafe { turn_whole::<T, Halves>(first, from.pitch, first_out, to.pitch) };
    } else {
        let (height, width) = ((rows - top).min(side), (cols - left).min(side));
        // SAFETY: so many rows and columns of the tile are inside both; no other block has them.
        unsafe { turn_ragged::<T>(first, from.pitch, height, width, first_out, to.pitch) };
    }
}

/// Turns a whole tile. All threads of the block call it.
///
/// # Safety
/// - `from` leads to [`tile_side`] rows of as many elements, `pitch` apart, to read; `to` likewise, to write, and
///   no other thread accesses those.
/// - Every row is aligned as `A` says.
#[inline(always)]
unsafe fn turn_whole<T: Element, A: Alignment>(
    from: *const T,
    pitch: usize,
    to: *mut T,
    to_pitch: usize,
) {
    let (x, y) = (thread::thread_idx_x() as usize, thread::thread_idx_y() as usize);
    let tile = dynamic_shared_mem::<Words>();
    // Slot `y` of row `x * LANES + k`, moved to another slot of the row.
    let slot = |row: usize, slot: usize| row * SIDE + (slot ^ (row / T::LANES));

    // SAFETY: row and column are inside the tile.
    let first = unsafe { from.add(y * T::LANES * pitch + x * T::LANES) };
    // All loads are under way before the first store.
    // SAFETY: the caller's promise.
    let square = T::square(|k| unsafe { A::load(first.add(k * pitch).cast()) });
    T::each(T::turned(square), |k, vector| {
        // SAFETY: `x * LANES + k` is a row of the tile, `y < SIDE` a slot, and so is its exclusive or with `x < SIDE`. It
        // differs for each thread and `k`.
        unsafe { Whole::store(tile.add(slot(x * T::LANES + k, y)), vector) };
    });
    // The tile is read by other threads than wrote it.
    thread::sync_threads();
    for k in 0..T::LANES {
        let row = k * SIDE + y;
        // SAFETY: inside the tile, as above, and written before the barrier; the place in `to` is this thread's alone.
        unsafe {
            let vector = Whole::load(tile.add(slot(row, x)));
            A::store(to.add(row * to_pitch + x * T::LANES).cast(), vector);
        }
    }
}

/// Turns a part of a tile, element by element. All threads of the block call it.
///
/// # Safety
/// `from` leads to `height` rows of `width` elements, `pitch` apart, to read; `to` to `width` rows of `height` elements, to
/// write, and no other thread accesses those. Neither is more than [`tile_side`].
#[inline(always)]
unsafe fn turn_ragged<T: Element>(
    from: *const T,
    pitch: usize,
    height: usize,
    width: usize,
    to: *mut T,
    to_pitch: usize,
) {
    let side = const { tile_side::<T>() };
    let tile = dynamic_shared_mem::<T>();
    // A column of the tile lies in different banks, of 4 bytes.
    let per_bank = const { if size_of::<T>() < 4 { 4 / size_of::<T>() } else { 1 } };
    let place = |row: usize, column: usize| row * side + (column ^ (row % 32 * per_bank));
    for i in own(0..side * side) {
        let (row, column) = (i / side, i % side);
        if row < height && column < width {
            // SAFETY: inside `from`. The place is inside the tile, whose side is a power of two above `31 * per_bank`, and the
            // thread's alone.
            unsafe { tile.add(place(row, column)).write(*from.add(row * pitch + column)) };
        }
    }
    // The tile is read by other threads than wrote it.
    thread::sync_threads();
    for i in own(0..side * side) {
        let (column, row) = (i / side, i % side);
        if row < height && column < width {
            // SAFETY: written before the barrier; the place in `to` is inside and this thread's alone.
            unsafe { *to.add(column * to_pitch + row) = tile.add(place(row, column)).read() };
        }
    }
}

/// The numbers of a range that are the calling thread's, neighbours in neighbouring threads.
#[inline(always)]
fn own(range: Range<usize>) -> impl Iterator<Item = usize> {
    let thread = thread::thread_idx_y() as usize * SIDE + thread::thread_idx_x() as usize;
    (range.start + thread..range.end).step_by(SIDE * SIDE)
}

/// The plain form of all permutations of three axes, and the fast one of those that keep the last axis, in units of up to
/// 16 bytes: `out[z][y][x] = input[z * strides[0] + y * strides[1] + x * strides[2]]`, with `out: dims`. Any grid.
#[kernel(u8, u16, u32, u64, u128)]
pub fn permute_elements<T: Access>(
    index: ThreadIndex,
    input: &[T],
    dims: [usize; 3],
    strides: [usize; 3],
    mut out: DisjointSlice<T>,
) {
    let n = dims[0] * dims[1] * dims[2];
    for i in index.grid_stride(n.min(out.len())) {
        let (rest, x) = divide(i.get(), dims[2]);
        let (z, y) = divide(rest, dims[1]);
        let from = input.get(z * strides[0] + y * strides[1] + x * strides[2]);
        if let (Some(from), Some(to)) = (from, out.get_mut(i)) {
            // SAFETY: an input of the kernel, which nobody writes.
            let element = unsafe { access::load_read_only(from, ReadOnlyHint::AllLevels) };
            access::store(to, element, StoreHint::WriteBack);
        }
    }
}

/// Quotient and remainder; in 32 bits where they suffice, which is many times as fast.
#[inline(always)]
fn divide(a: usize, b: usize) -> (usize, usize) {
    match (u32::try_from(a), u32::try_from(b)) {
        (Ok(a), Ok(b)) if b > 0 => ((a / b) as usize, (a % b) as usize),
        _ if b > 0 => (a / b, a % b),
        _ => (0, 0),
    }
}
