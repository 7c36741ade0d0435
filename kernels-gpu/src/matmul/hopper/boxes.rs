//! From a consumer's sums to D by the copy engine.

#![cfg_attr(not(target_os = "cuda"), allow(dead_code, unused_imports))]

use core::mem;

use super::super::beside::{Beside, OfLine};
use super::super::scaling::{Scaling, Unscaled};
use super::super::{Epilogue, Problem};
use super::schedule::{Schedule, Work};
use super::tile::*;
use crate::prelude::*;
use cuda_std::copy::*;
use cuda_std::grid_constant::{GridConstant, MapWords};
use cuda_std::matrix::*;
use cuda_std::{gpu_only, unrolled};

/// A consumer's way from sums to D: boxes of 64 rows of 128 bytes in shared memory, of which one is stored while the next
/// one is written.
pub struct BoxWriter<'a, D, E, V = Unscaled> {
    beside: Beside<'a, D, E, V>,
    pub(super) problem: &'a Problem,
    pub(super) schedule: &'a Schedule,
    maps: GridConstant<'a, [MapWords; 3]>,
    d: *mut D,
    /// [`STAGED`] boxes.
    boxes: *mut u8,
    /// How many were written before, modulo their number.
    boxes_before: usize,
    pub(super) thread: usize,
    /// The matrix of D, the first row of this consumer and the first column of the tile.
    output: usize,
    row: usize,
    column: usize,
    /// The row behind the last one that is written.
    end: usize,
}

/// What is loaded for the columns of eight sums: those of two groups of 8 columns, two neighbours each.
type OfColumns = [[OfLine; 2]; 2];

impl<'a, D: Output, E: Epilogue, V: Scaling> BoxWriter<'a, D, E, V> {
    /// Of this consumer, with its `boxes`; the place in D is set before each tile.
    #[gpu_only]
    #[inline(always)]
    pub fn new(
        beside: Beside<'a, D, E, V>,
        problem: &'a Problem,
        schedule: &'a Schedule,
        maps: GridConstant<'a, [MapWords; 3]>,
        d: *mut D,
        boxes: *mut u8,
    ) -> Self {
        Self {
            beside,
            problem,
            schedule,
            maps,
            d,
            boxes,
            boxes_before: 0,
            thread: thread_in_warpgroup(),
            output: 0,
            row: 0,
            column: 0,
            end: 0,
        }
    }

    /// Elements of a row of a box.
    const COLUMNS: usize = stored_columns::<D>();
    /// Registers of a thread that belong to a box: 64 rows of it are 128 threads' sums.
    const SUMS: usize = Self::COLUMNS / 2;
    /// Elements that one thread moves at a time: 16 bytes.
    const VECTOR: usize = 16 / size_of::<D>();

    #[inline(always)]
    fn staged(&self, index: usize) -> *mut u8 {
        self.boxes.wrapping_add((self.boxes_before + index) % STAGED * size_of::<Stored<D>>())
    }

    /// Writes the sums of consumer `own`'s half of the tile of `work`.
    ///
    /// # Safety
    /// All threads of the consumer together.
    #[gpu_only]
    #[inline(always)]
    pub(super) unsafe fn write_tile<const N: usize>(
        &mut self,
        sums: &Accumulator<f32, N>,
        work: &Work,
        own: usize,
    ) where
        Columns<N>: Width<f32>,
    {
        self.output = work.output as usize;
        self.row = work.rows.0 as usize + own * ROWS;
        self.end = work.rows.1 as usize;
        self.column = work.column as usize * N;
        // SAFETY: the caller's promise.
        unsafe { self.write(sums) };
        self.boxes_before = (self.boxes_before + N / Self::COLUMNS) % STAGED;
    }

    /// After the last tile.
    ///
    /// # Safety
    /// All threads of the consumer together.
    #[gpu_only]
    #[inline(always)]
    pub(super) unsafe fn finish(self) {
        // SAFETY: the caller's promise.
        unsafe { self.beside.end() };
        if self.thread == 0 {
            // The block's shared memory stays until the last store has read it.
            wait_bulk_groups_read::<0>();
        }
    }

    /// Writes the sums of the consumer's half of a tile, box by box.
    ///
    /// # Safety
    /// All threads of the consumer together.
    #[gpu_only]
    #[inline(always)]
    unsafe fn write<const N: usize>(&self, sums: &Accumulator<f32, N>)
    where
        Columns<N>: Width<f32>,
    {
        // SAFETY: the caller's promise; the sums are written in their order.
        unsafe {
            let of_rows = self.of_rows();
            let mut of_next = self.of_columns(0);
            unrolled!(N / 16, |eight| {
                let pair = |pair: usize| sums.pair(8 * eight + 2 * pair);
                let of_columns = of_next;
                // On their way while these are written. The last ones are loaded again.
                of_next =
                    self.of_columns(if eight + 1 < N / 16 { 8 * eight + 8 } else { 8 * eight });
                let sums = [pair(0), pair(1), pair(2), pair(3)];
                self.write_eight(8 * eight, sums, (of_rows, of_columns));
            });
        }
    }

    /// Writes eight sums, those from `sum` on, which is a constant: pairs of two rows and 16 columns. A box is begun before its first sums, and
    /// stored behind its last.
    ///
    /// # Safety
    /// All threads of the consumer together, for all sums of a box in their order.
    #[gpu_only]
    #[inline(always)]
    unsafe fn write_eight(
        &self,
        sum: usize,
        sums: [[f32; 2]; 4],
        (of_rows, of_columns): ([OfLine; 2], OfColumns),
    ) {
        let (of, in_box) = (sum / Self::SUMS, sum % Self::SUMS);
        // SAFETY: the caller's promise; all is put between `begin` and `end` of its box.
        unsafe {
            if in_box == 0 {
                self.begin(of);
            }
            if self.beside.reads_c() {
                self.put_with_c(sum, sums[0], (of_rows[0], of_columns[0]));
                self.put_with_c(sum + 2, sums[1], (of_rows[1], of_columns[0]));
                self.put_with_c(sum + 4, sums[2], (of_rows[0], of_columns[1]));
                self.put_with_c(sum + 6, sums[3], (of_rows[1], of_columns[1]));
            } else {
                self.put_eight(sum, sums, (of_rows, of_columns));
            }
            if in_box == Self::SUMS - 8 {
                self.end(of);
            }
        }
    }

    /// What the epilogue has of this thread's two rows.
    #[gpu_only]
    #[inline(always)]
    fn of_rows(&self) -> [OfLine; 2] {
        let (in_box, _) = Accumulator::<f32, 8>::position(self.thread, 0);
        let (first, last) = (self.row + in_box, self.problem.m as usize - 1);
        // SAFETY: rows of D.
        [0, 8].map(|further| unsafe { self.beside.of_row((first + further).min(last)) })
    }

    /// Where an element of a box is in it: the 16-byte units of a row are exchanged as the swizzle has it.
    #[inline(always)]
    fn offset(row: usize, column: usize) -> usize {
        row * SPAN + ((column * size_of::<D>()) ^ (row % 8 * 16))
    }

    /// Waits until a box may be written, and fills it with C if that is read.
    ///
    /// # Safety
    /// All threads of the consumer together, before each box.
    #[gpu_only]
    #[inline(always)]
    unsafe fn begin(&self, index: usize) {
        // SAFETY: whole warpgroups; the barrier is their own.
        unsafe {
            if self.thread == 0 {
                // The store from this box, the one before the youngest, has read it.
                wait_bulk_groups_read::<{ STAGED - 1 }>();
            }
            // No thread writes to the box before that, or while another one still copies from it.
            sync_warpgroup();
            if self.beside.reads_c() {
                self.load_c(index);
                // Each thread finds C where another one put it.
                sync_warpgroup();
            }
        }
    }

    /// Calls `f` with the place in a box, the row and the column in D, and the number of elements inside of D, of each 16 bytes of
    /// the box that this thread moves.
    #[inline(always)]
    fn for_each_vector(&self, index: usize, mut f: impl FnMut(*mut D, usize, usize, usize)) {
        let per_row = SPAN / 16;
        let first = self.column + index * Self::COLUMNS;
        for unit in (self.thread..ROWS * per_row).step_by(WARPGROUP) {
            let (row, column) = (unit / per_row, unit % per_row * Self::VECTOR);
            let place = self.staged(index).wrapping_add(Self::offset(row, column)).cast();
            let (row, column) = (self.row + row, first + column);
            let left = (self.problem.n as usize).saturating_sub(column);
            let elements = if row < self.end { left.min(Self::VECTOR) } else { 0 };
            f(place, row, column, elements);
        }
    }

    /// Copies a box of C, with zeros outside of it.
    ///
    /// # Safety
    /// All threads of the consumer together; nothing else uses the box.
    #[gpu_only]
    #[inline(always)]
    unsafe fn load_c(&self, index: usize) {
        self.for_each_vector(index, |place, row, column, elements| {
            // SAFETY: so many elements exist from there on, in C and in the box.
            unsafe {
                let from = self.beside.c_at(self.output, row, column);
                let columns = self.problem.c.column as usize;
                if elements == Self::VECTOR && columns == 1 && from.addr() % 16 == 0 {
                    copy_16(place, from);
                } else {
                    for k in 0..Self::VECTOR {
                        let value =
                            if k < elements { *from.add(k * columns) } else { D::narrow(0.0) };
                        place.add(k).write(value);
                    }
                }
            }
        });
    }

    /// Writes a pair of sums to its box, which holds C, with what was loaded for the pair's row and columns.
    ///
    /// # Safety
    /// Between `begin` and `end` of the box.
    #[gpu_only]
    #[inline(always)]
    unsafe fn put_with_c(
        &self,
        index: usize,
        sums: [f32; 2],
        (of_row, of_columns): (OfLine, [OfLine; 2]),
    ) {
        // SAFETY: a pair inside the box, which is this thread's alone since `begin`.
        unsafe {
            let place = self.place_of(index);
            let c = D::unpair(*place);
            let finish =
                |k| self.beside.apply(sums[k], c[k], (of_row, of_columns[k]), self.at(index, k));
            place.write(D::pair([finish(0), finish(1)]));
        }
    }

    /// Writes eight sums to their box, where C is not read. Of 16-bit elements a warp stores them as four matrices.
    ///
    /// # Safety
    /// All threads of the consumer together, between `begin` and `end` of the box.
    #[gpu_only]
    #[inline(always)]
    unsafe fn put_eight(
        &self,
        index: usize,
        sums: [[f32; 2]; 4],
        (of_rows, of_columns): ([OfLine; 2], OfColumns),
    ) {
        let finish = |pair: usize, k: usize| {
            let lines = (of_rows[pair % 2], of_columns[pair / 2][k]);
            self.beside.apply_without_c(sums[pair][k], lines, self.at(index + 2 * pair, k))
        };
        let pair = |pair: usize| D::pair([finish(pair, 0), finish(pair, 1)]);
        let pairs = [pair(0), pair(1), pair(2), pair(3)];
        // SAFETY: places inside the box, which are this thread's, or its warp's, alone since `begin`.
        unsafe {
            if size_of::<D>() == 2 {
                // Lanes of the first 16 say where rows of the left matrices are, the others of the right ones.
                let (lane, warp) = (self.thread % 32, self.thread / 32);
                let (row, right) = (warp * 16 + lane % 16, lane / 16);
                let column = index % Self::SUMS * 2 + right * 8;
                let to = self.staged(index / Self::SUMS).wrapping_add(Self::offset(row, column));
                // SAFETY: a pair of 16-bit elements has the bits of a register.
                store_matrices::<4, false>(to, pairs.map(|pair| mem::transmute_copy(&pair)));
            } else {
                self.place_of(index).write(pairs[0]);
                self.place_of(index + 2).write(pairs[1]);
                self.place_of(index + 4).write(pairs[2]);
                self.place_of(index + 6).write(pairs[3]);
            }
        }
    }

    /// Where the pair of this thread's sums at `index` is in its box.
    #[inline(always)]
    fn place_of(&self, index: usize) -> *mut D::Pair {
        let (row, column) = Accumulator::<f32, 8>::position(self.thread, index % 4);
        let in_box = (index / 4 * 8 + column) % Self::COLUMNS;
        self.staged(index / Self::SUMS).wrapping_add(Self::offset(row, in_box)).cast()
    }

    /// What is loaded for the columns of the eight sums from `index` on. Columns past the end have what the last one has: they are not
    /// stored.
    #[gpu_only]
    #[inline(always)]
    fn of_columns(&self, index: usize) -> OfColumns {
        let last = self.problem.n as usize - 1;
        // SAFETY: columns of D.
        let of = |group: usize, k: usize| unsafe {
            let [_, _, column] = self.at(index + 4 * group, k);
            self.beside.of_column((column as usize).min(last))
        };
        [[of(0, 0), of(0, 1)], [of(1, 0), of(1, 1)]]
    }

    /// The place in D of this thread's sum at `index + k`, `index` being even.
    #[inline(always)]
    fn at(&self, index: usize, k: usize) -> [u32; 3] {
        let (row, column) = Accumulator::<f32, 8>::position(self.thread, index % 4);
        let (row, column) = (self.row + row, self.column + index / 4 * 8 + column + k);
        [self.output as u32, row as u32, column as u32]
    }

    /// Stores a box.
    ///
    /// # Safety
    /// All threads of the consumer together, after all of the box was written.
    #[gpu_only]
    #[inline(always)]
    unsafe fn end(&self, index: usize) {
        let column = self.column + index * Self::COLUMNS;
        let is_inside = self.row < self.end && column < self.problem.n as usize;
        // The copy engine stores whole boxes, up to the end of D.
        let ends_inside = self.row + ROWS > self.end && self.end < self.problem.m as usize;
        // SAFETY: whole warpgroups; the map is D's; what the box has outside of D is not stored.
        unsafe {
            // The copy engine sees what this thread wrote.
            fence_proxy_async_shared();
            // All of the box is there.
            sync_warpgroup();
            if self.schedule.d_mapped == 0 || ends_inside {
                self.store_by_threads(index);
                if self.schedule.d_mapped != 0 && self.thread == 0 {
                    commit_bulk_group();
                }
            } else if self.thread == 0 {
                if is_inside {
                    let map = self.maps.map_mut::<StoredRows<D>, Swizzle128>(2);
                    let at = [self.output as i32, self.row as i32, column as i32];
                    map.store(at, self.staged(index).cast::<Stored<D>>());
                }
                // Also where nothing is stored: `begin` counts boxes.
                commit_bulk_group();
            }
        }
    }

    /// # Safety
    /// As [`end`](Self::end), after its barrier.
    #[gpu_only]
    #[inline(always)]
    unsafe fn store_by_threads(&self, index: usize) {
        self.for_each_vector(index, |place, row, column, elements| {
            // SAFETY: so many elements exist from there on, in D and in the box, and no other thread has them.
            unsafe {
                let to = self.d.add(self.problem.d.index(self.output, row, column));
                // Predicates, not a loop of some length: behind that, ptxas has the multiplications wait for each other.
                for k in 0..Self::VECTOR {
                    if k < elements {
                        to.add(k).write(*place.add(k));
                    }
                }
            }
        });
    }
}

/// Sixteen bytes of elements of 2 or 4, by one load and one store.
///
/// # Safety
/// Both are valid for that, and aligned to 16 bytes.
#[inline(always)]
unsafe fn copy_16<D>(to: *mut D, from: *const D) {
    // SAFETY: the caller's promise. Word by word: a copy of the whole would be two of 8 bytes.
    unsafe {
        let from = &*from.cast::<Vec4<u32>>();
        let to = &mut *to.cast::<Vec4<u32>>();
        (to.x, to.y, to.z, to.w) = (from.x, from.y, from.z, from.w);
    }
}
