//! Stores of a block's tiles of matrices.

use super::token::Block;
use crate::shared::own_places;
use crate::view::Shape;
use core::marker::PhantomData;

/// A row-major matrix in device memory, of which each block writes a tile of `ROWS` by `COLS`: a kernel
/// parameter, for which the launch gives a device grid.
///
/// The block at `(x, y)` of the launch's grid has the tile that begins at row `y * ROWS` and column
/// `x * COLS`. In it a thread owns the places that it owns in a [`Tile`](crate::shared::Tile). What lies
/// outside of the matrix is not written.
///
/// # Why `fill` is safe
///
/// 1. The view is made by the entry that `#[kernel]` writes, from memory that the host borrowed mutably
///    for the launch.
/// 2. Two blocks with `z = 0` differ in x or in y, so they have different tiles; others have none.
/// 3. Which places of the tile a thread owns depends on the types alone, and no two threads own the
///    same place.
/// 4. Every place is compared with the width and the height.
#[derive(Debug)]
pub struct DisjointTiles2<'a, T, const ROWS: usize, const COLS: usize> {
    ptr: *mut T,
    width: usize,
    height: usize,
    borrow: PhantomData<&'a mut [T]>,
}

impl<T: Copy, const ROWS: usize, const COLS: usize> DisjointTiles2<'_, T, ROWS, COLS> {
    /// Makes the view from a pointer, a width and a height in elements.
    ///
    /// # Safety
    /// As [`DisjointGrid::from_raw_parts`](crate::disjoint::DisjointGrid::from_raw_parts).
    #[inline(always)]
    pub unsafe fn from_raw_parts(ptr: *mut T, width: usize, height: usize) -> Self {
        const { assert!(ROWS > 0 && COLS > 0, "a tile has at least one element") };
        Self { ptr, width, height, borrow: PhantomData }
    }

    /// Elements in a row.
    #[inline(always)]
    pub fn width(&self) -> usize {
        self.width
    }

    /// The number of rows.
    #[inline(always)]
    pub fn height(&self) -> usize {
        self.height
    }

    /// The number of rows and columns.
    #[inline(always)]
    pub fn shape(&self) -> Shape {
        // SAFETY: the view lies in memory.
        unsafe { Shape::new_unchecked(self.height, self.width) }
    }

    /// The row and the column at which the block's tile begins, perhaps outside of the matrix.
    #[inline(always)]
    pub fn origin(&self) -> (usize, usize) {
        let (x, y) = (crate::thread::block_idx_x(), crate::thread::block_idx_y());
        (y as usize * ROWS, x as usize * COLS)
    }

    /// The block's tile, if it lies wholly in the matrix; it is filled without a comparison. All threads
    /// of the block get the same answer.
    #[inline(always)]
    pub fn whole(&mut self) -> Option<WholeTile<'_, T, ROWS, COLS>> {
        let (top, left) = self.origin();
        // `&`, not `&&`: one branch for all three.
        let is_whole = (top + ROWS <= self.height)
            & (left + COLS <= self.width)
            & (crate::thread::block_idx_z() == 0);
        let first = self.ptr.wrapping_add(top.wrapping_mul(self.width).wrapping_add(left));
        is_whole.then_some(WholeTile { first, pitch: self.width, borrow: PhantomData })
    }

    /// Writes `value((row, column))`, counted from the tile's [`origin`](Self::origin), to each place
    /// that the calling thread owns and the matrix has. Where there is a [`whole`](Self::whole) tile, its
    /// `fill` is faster.
    #[inline(always)]
    pub fn fill<const X: usize, const Y: usize, const Z: usize>(
        &mut self,
        block: &Block<X, Y, Z>,
        mut value: impl FnMut((usize, usize)) -> T,
    ) {
        let (top, left) = self.origin();
        if crate::thread::block_idx_z() != 0 {
            return;
        }
        own_places::<X, Y, Z, ROWS, COLS>(block, |row, column| {
            if top + row < self.height && left + column < self.width {
                let place = (top + row) * self.width + left + column;
                // SAFETY: inside the matrix; the block owns the tile, and the thread the place in it.
                unsafe { self.ptr.add(place).write(value((row, column))) };
            }
        });
    }
}

/// The tile of a block that lies wholly in its matrix. See [`DisjointTiles2::whole`].
#[derive(Debug)]
pub struct WholeTile<'a, T, const ROWS: usize, const COLS: usize> {
    first: *mut T,
    pitch: usize,
    borrow: PhantomData<&'a mut T>,
}

impl<T: Copy, const ROWS: usize, const COLS: usize> WholeTile<'_, T, ROWS, COLS> {
    /// Writes `value((row, column))`, counted from the tile's first place, to each place that the calling
    /// thread owns.
    #[inline(always)]
    pub fn fill<const X: usize, const Y: usize, const Z: usize>(
        &mut self,
        block: &Block<X, Y, Z>,
        mut value: impl FnMut((usize, usize)) -> T,
    ) {
        own_places::<X, Y, Z, ROWS, COLS>(block, |row, column| {
            let place = row * self.pitch + column;
            // SAFETY: the tile is inside the matrix; the block owns it, and the thread the place in it.
            unsafe { self.first.add(place).write(value((row, column))) };
        });
    }
}
