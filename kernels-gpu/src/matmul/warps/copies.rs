//! Tiles on their way to shared memory.

use super::THREADS;
use super::operand::Operand;
use bytemuck::Pod;
use cuda_std::copy::copy_async_part;
use cuda_std::unroll::each_below;
use cuda_std::vector::Vec4;

/// What one copy moves.
pub type Piece = Vec4<u32>;
/// The bytes of a [`Piece`].
pub const PIECE: usize = size_of::<Piece>();

/// A tile of A or B along K, as one thread copies it: some pieces of 16 bytes, each in a row of its own, all in one column of
/// pieces.
pub struct Tile<O: Operand, const BY_K: bool> {
    /// The thread's first piece in global memory.
    from: *const O::Element,
    /// Elements from a row to the next.
    pitch: usize,
    /// How many rows there are from the thread's first one on, and how many elements of a row from its column on.
    rows: u32,
    len: u32,
    /// Where the first piece goes in the tile; the others follow at equal distances.
    to: usize,
    is_aligned: bool,
}

impl<O: Operand, const BY_K: bool> Tile<O, BY_K> {
    /// Elements of a piece.
    const LANES: usize = PIECE / size_of::<O::Element>();

    /// The thread's share of the tiles that begin at `first`, an index of rows of A or columns of B, in a matrix of `extent` by
    /// `k` with `pitch` elements from one contiguous row to the next.
    #[inline(always)]
    pub fn new(
        matrix: *const O::Element,
        pitch: usize,
        (first, extent): (usize, usize),
        k: usize,
        thread: usize,
    ) -> Self {
        let pieces = O::row_bytes::<BY_K>() / PIECE;
        let (row, column) = (thread / pieces, thread % pieces * Self::LANES);
        let (top, left) = if BY_K { (first, 0) } else { (0, first) };
        let (height, width) = if BY_K { (extent, k) } else { (k, extent) };
        let (y, x) = (top + row, left + column);
        let is_aligned = matrix.addr().is_multiple_of(PIECE) && pitch.is_multiple_of(Self::LANES);
        Self {
            from: matrix.wrapping_add(y * pitch + x),
            pitch,
            rows: height.saturating_sub(y) as u32,
            len: width.saturating_sub(x) as u32,
            to: O::swizzle::<BY_K>()
                .apply(row * O::row_bytes::<BY_K>() + column * size_of::<O::Element>()),
            is_aligned,
        }
    }

    /// Starts to copy the thread's share to `tile`, zeros past the matrix, and goes on along K.
    ///
    /// # Safety
    /// `tile` is a tile in shared memory that no thread uses before a barrier, at which this thread has waited for the copy.
    /// No thread writes the matrix meanwhile.
    #[inline(always)]
    pub unsafe fn copy(&mut self, tile: *mut u8) {
        let rows_apart = THREADS * PIECE / O::row_bytes::<BY_K>();
        let count = if BY_K { super::SIDE } else { O::DEPTH } / rows_apart;
        let piece = |i: usize| {
            let row = i * rows_apart;
            let len = if row < self.rows as usize { self.len.min(Self::LANES as u32) } else { 0 };
            let bytes = len * size_of::<O::Element>() as u32;
            let from = self.from.wrapping_add(row * self.pitch);
            (tile.wrapping_add(self.to + i * THREADS * PIECE).cast::<Piece>(), from, bytes)
        };
        // SAFETY: the bytes of a piece are inside the matrix, and it is inside the tile; the caller's promise.
        unsafe {
            if self.is_aligned {
                each_below::<8>(count, |i| {
                    let (to, from, bytes) = piece(i);
                    copy_async_part(to, from.cast(), bytes);
                });
            } else {
                for i in 0..opaque(count) {
                    let (to, from, bytes) = piece(i);
                    copy_elements::<O::Element>(to, from, bytes as usize);
                }
            }
        }
        if BY_K {
            self.from = self.from.wrapping_add(O::DEPTH);
            self.len = self.len.saturating_sub(O::DEPTH as u32);
        } else {
            self.from = self.from.wrapping_add(O::DEPTH * self.pitch);
            self.rows = self.rows.saturating_sub(O::DEPTH as u32);
        }
    }
}

/// The same number, which the compiler does not know: a loop of so many iterations is not written out.
#[inline(always)]
fn opaque(n: usize) -> usize {
    #[cfg(target_os = "cuda")]
    let n = {
        let same: u64;
        // SAFETY: the assembly copies a number.
        unsafe {
            core::arch::asm!("mov.u64 {same}, {n};", same = out(reg64) same, n = in(reg64) n as u64,
                options(pure, nomem, nostack));
        }
        same as usize
    };
    n
}

/// A piece, element by element: for matrices that are not aligned to 16 bytes.
///
/// # Safety
/// `from` is valid for reads of `bytes`, and `to` for a write.
#[inline(always)]
unsafe fn copy_elements<T: Pod>(to: *mut Piece, from: *const T, bytes: usize) {
    // SAFETY: the caller's promise.
    unsafe {
        to.write(Piece::splat(0));
        // A loop of few instructions, as it is compiled for each piece.
        for lane in 0..bytes / size_of::<T>() {
            to.cast::<T>().add(lane).write(from.add(lane).read());
        }
    }
}
