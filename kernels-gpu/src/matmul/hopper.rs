//! The fastest product on Hopper: tiles by the copy engine, multiplied by warpgroups, on a grid that stays.
//!
//! A block computes 128 × `N` of D at a time. One warpgroup, the producer, copies tiles of 128 × 64 of A and 64 × `N` of B into
//! [`STAGES`] stages of shared memory; two consumers multiply 64 rows each (`wgmma`), and write their sums through shared
//! memory, which the copy engine stores. The producer does not wait for that: while a tile is stored, the first stages
//! of the next tile are filled.
//!
//! | what | why |
//! |---|---|
//! | the grid has as many blocks as the device runs at once, each of which takes tile after tile | no gap between tiles |
//! | tiles are taken in groups of [`Schedule::group`] rows | blocks that run together share what the L2 cache has of A and B |
//! | registers move from the producer to the consumers (`setmaxnreg`) | 64 × 256 sums are 128 registers of each thread |
//! | operands in both orders: `wgmma` reads 16-bit elements along K or across | nothing is transposed |
//! | tensor maps are parameters of the launch ([`GridConstant`]) | no copy to the device before a launch, and graphs can have it |
//!
//! Operands that the copy engine cannot address (rows that are no multiple of 16 bytes) are not for this kernel. D may be
//! anywhere: where the copy engine cannot store it, the threads do.

#![cfg_attr(not(target_os = "cuda"), allow(dead_code, unused_imports))]

use super::beside::Beside;
use super::form::take_turn;
use super::{Epilogue, Problem, Value};
use crate::prelude::*;
use bytemuck::{Pod, Zeroable};
use cuda_std::copy::*;
use cuda_std::grid_constant::{GridConstant, MapWords};
use cuda_std::matrix::*;
use cuda_std::{bf16, gpu_only, unrolled};

/// Rows of D that a block computes at a time.
pub const ROWS_OF_TILE: usize = 2 * ROWS;
/// Elements along K of a stage: 128 bytes.
pub const DEPTH: usize = 64;
/// Stages between copies and products.
pub const STAGES: usize = 4;
/// Threads: a producer and two consumers.
pub const BLOCK: usize = 3 * WARPGROUP;
/// Bytes of a row of a box of A, B and D in shared memory: the span of the swizzle.
const SPAN: usize = 128;
/// Elements of 16 bits in a span.
const SPAN_ELEMENTS: usize = SPAN / 2;
/// Boxes of D in shared memory for each consumer: one is stored while the next one is written.
const STAGED: usize = 2;

/// A box of A whose rows are contiguous along K.
pub type RowsOfA<T> = [[[T; DEPTH]; ROWS_OF_TILE]; 1];
/// A box of Bᵀ whose rows are contiguous along K.
pub type RowsOfB<T, const N: usize> = [[[T; DEPTH]; N]; 1];
/// A box of A or B whose columns of 64 are contiguous: `DEPTH` rows along K.
pub type Across<T> = [[[T; SPAN_ELEMENTS]; DEPTH]; 1];
/// A box of D: 64 rows of 128 bytes.
pub type Stored<D> = Tile<StoredRows<D>, Swizzle128>;
/// The bytes of [`Stored`], as the copy engine sees them, by the size of D's elements.
pub type StoredRows<D> = <D as Output>::Rows;

/// An element of D.
pub trait Output: Value {
    /// 64 rows of 128 bytes.
    type Rows: Extents<Element = Self>;
}

impl Output for bf16 {
    type Rows = [[[Self; 64]; ROWS]; 1];
}

impl Output for f16 {
    type Rows = [[[Self; 64]; ROWS]; 1];
}

impl Output for f32 {
    type Rows = [[[Self; 32]; ROWS]; 1];
}

/// Columns of a box of D.
#[must_use]
pub const fn stored_columns<D>() -> usize {
    SPAN / size_of::<D>()
}

/// The tiles of a launch, and how the matrices lie.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct Schedule {
    /// Tiles along the rows of D.
    pub tile_rows: u32,
    /// Tiles along the columns of D.
    pub tile_columns: u32,
    /// Rows of tiles in a group: tiles are taken group by group, down the columns of each.
    pub group: u32,
    /// Not 0: columns of A are contiguous, not rows.
    pub a_across: u32,
    /// Not 0: rows of B are contiguous, not columns.
    pub b_across: u32,
    /// Not 0: the copy engine stores D.
    pub d_mapped: u32,
    /// 1, or 0 if all matrices of a batch have the same A.
    pub a_batches: u32,
    /// 1, or 0 if all matrices of a batch have the same B.
    pub b_batches: u32,
}

/// The part of the work that one pass of a block does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Work {
    /// The matrix of the batch.
    pub batch: u32,
    /// The matrix of D: that of the batch, or one for each part of the sums.
    pub output: u32,
    /// The tile's row of tiles.
    pub row: u32,
    /// The tile's column of tiles.
    pub column: u32,
    /// The first step along K, and the one after the last, in units of [`DEPTH`].
    pub steps: (u32, u32),
}

impl Schedule {
    /// All passes: the tiles of all matrices, and of all parts of their sums.
    #[inline(always)]
    #[must_use]
    pub const fn len(&self, problem: &Problem) -> u32 {
        self.tile_rows * self.tile_columns * problem.batches * problem.splits
    }

    /// Pass `index` of them, in an order in which neighbours share rows and columns of tiles: groups of rows of tiles, down
    /// the columns of a group.
    #[inline(always)]
    #[must_use]
    pub const fn work(&self, problem: &Problem, index: u32) -> Work {
        let (output, tile) = divide(index, self.tile_rows * self.tile_columns);
        let (batch, split) = divide(output, problem.splits);
        let (group, inside) = divide(tile, self.group * self.tile_columns);
        let first = group * self.group;
        let left = self.tile_rows - first;
        let height = if left < self.group { left } else { self.group };
        let (column, row) = divide(inside, height);
        let steps = problem.k.div_ceil(DEPTH as u32);
        Work {
            batch,
            output,
            row: first + row,
            column,
            steps: (part(steps, split, problem.splits), part(steps, split + 1, problem.splits)),
        }
    }
}

/// Quotient and remainder, 0 for a divisor of 0: a kernel that cannot panic has no calls, across which `wgmma` would not
/// be asynchronous.
#[inline(always)]
pub(super) const fn divide(a: u32, b: u32) -> (u32, u32) {
    match (a.checked_div(b), a.checked_rem(b)) {
        (Some(quotient), Some(remainder)) => (quotient, remainder),
        _ => (0, 0),
    }
}

/// Where part `index` of `parts` of `all` begins: the first ones are one longer, where they are not all equal.
#[inline(always)]
pub(super) const fn part(all: u32, index: u32, parts: u32) -> u32 {
    let (each, more) = divide(all, parts);
    index * each + if index < more { index } else { more }
}

/// One stage: boxes of A and B, in either order.
#[repr(C, align(1024))]
pub struct Stage<const N: usize> {
    a: [[u8; SPAN]; ROWS_OF_TILE],
    b: [[u8; SPAN]; N],
}

/// Dynamic shared memory of a block.
#[repr(C)]
struct Memory<const N: usize> {
    stages: [Stage<N>; STAGES],
    /// Boxes of D, of each consumer.
    stored: [[[[u8; SPAN]; ROWS]; STAGED]; 2],
    /// Of the stages. (Declared as a static array, they would tie all kernels of a crate into one part of the module.)
    barriers: [u64; 2 * STAGES],
}

/// Its size in bytes.
#[must_use]
pub const fn shared_bytes<const N: usize>() -> usize {
    size_of::<Memory<N>>()
}

/// Boxes of 64 columns that a copy across brings of `rows` rows.
const fn boxes(rows: usize) -> usize {
    rows / SPAN_ELEMENTS
}

/// Copies the tiles of one pass.
///
/// # Safety
/// One thread of the block calls this, and the maps are what the schedule says.
#[gpu_only]
#[inline(always)]
unsafe fn produce<T: TensorElement, const N: usize>(
    producer: &mut TileProducer<Stage<N>, STAGES>,
    maps: GridConstant<'_, [MapWords; 3]>,
    schedule: &Schedule,
    work: Work,
) {
    let (row, column) =
        ((work.row as usize * ROWS_OF_TILE) as i32, (work.column as usize * N) as i32);
    let (batch_a, batch_b) =
        ((work.batch * schedule.a_batches) as i32, (work.batch * schedule.b_batches) as i32);
    for step in work.steps.0..work.steps.1 {
        let depth = (step as usize * DEPTH) as i32;
        let fill = |slot: &Slot<Stage<N>>| {
            // SAFETY: the boxes are the stage's parts, each as large as the copies into it; the slot's barrier expects the bytes
            // of the stage, which they are together.
            unsafe {
                let (a, b) = (&raw mut (*slot.as_mut_ptr()).a, &raw mut (*slot.as_mut_ptr()).b);
                if schedule.a_across == 0 {
                    let map = maps.map::<RowsOfA<T>, Swizzle128>(0);
                    map.load(a.cast(), [batch_a, row, depth], slot.barrier());
                } else {
                    let map = maps.map::<Across<T>, Swizzle128>(0);
                    for part in 0..boxes(ROWS_OF_TILE) {
                        let to = a.cast::<Tile<Across<T>, Swizzle128>>().add(part);
                        map.load(
                            to,
                            [batch_a, depth, row + (part * SPAN_ELEMENTS) as i32],
                            slot.barrier(),
                        );
                    }
                }
                if schedule.b_across == 0 {
                    let map = maps.map::<RowsOfB<T, N>, Swizzle128>(1);
                    map.load(b.cast(), [batch_b, column, depth], slot.barrier());
                } else {
                    let map = maps.map::<Across<T>, Swizzle128>(1);
                    for part in 0..boxes(N) {
                        let to = b.cast::<Tile<Across<T>, Swizzle128>>().add(part);
                        map.load(
                            to,
                            [batch_b, depth, column + (part * SPAN_ELEMENTS) as i32],
                            slot.barrier(),
                        );
                    }
                }
            }
        };
        // SAFETY: every byte of the stage is filled, once.
        unsafe { producer.fill(fill) };
    }
}

/// Multiplies the tiles of one pass: 64 rows, from row `first` of the tile on.
///
/// # Safety
/// All threads of a consumer call this together; `A_ACROSS` and `B_ACROSS` are what the producer copied.
#[gpu_only]
#[inline(always)]
unsafe fn consume<T, const N: usize, const A_ACROSS: bool, const B_ACROSS: bool>(
    consumer: &mut TileConsumer<Stage<N>, STAGES>,
    sums: &mut Accumulator<f32, N>,
    own: usize,
    thread: usize,
    steps: u32,
) where
    T: TensorElement,
    Columns<N>: Instruction<T, T, f32>,
{
    for step in 0..steps {
        let stage = consumer.wait();
        // SAFETY: the stage is full; its boxes are as `produce` copied them, and stay until the release below, after the wait.
        unsafe {
            let (a, b) = (&raw const (*stage).a, &raw const (*stage).b);
            let a = if A_ACROSS {
                // Columns of 64: this consumer's rows are one box.
                let of_own = a.cast::<Tile<[[T; SPAN_ELEMENTS]; DEPTH], Swizzle128>>().add(own);
                Descriptor::of_columns(of_own, 0)
            } else {
                Descriptor::of_rows(
                    a.cast::<Tile<[[T; DEPTH]; ROWS_OF_TILE], Swizzle128>>(),
                    own * ROWS,
                )
            };
            let b = if B_ACROSS {
                Descriptor::of_columns(b.cast::<Tile<[[T; SPAN_ELEMENTS]; DEPTH], Swizzle128>>(), 0)
            } else {
                Descriptor::of_rows(b.cast::<Tile<[[T; DEPTH]; N], Swizzle128>>(), 0)
            };
            sums.multiply_operands::<T, T, 4, A_ACROSS, B_ACROSS>([a, b], step > 0);
            consumer.step();
            if step > 0 {
                // The product before is done with its stage.
                sums.wait::<1>();
                if thread == 0 {
                    consumer.release(2);
                }
            }
        }
    }
    // SAFETY: all threads together; after the wait the last product is done with its stage, which is the one before.
    unsafe {
        sums.wait::<0>();
        if thread == 0 {
            consumer.release(1);
        }
    }
}

/// A consumer's way from sums to D: boxes of 64 rows of 128 bytes in shared memory, of which one is stored while the next
/// one is written.
struct Writer<'a, D, E> {
    beside: Beside<'a, D, E>,
    problem: &'a Problem,
    schedule: &'a Schedule,
    maps: GridConstant<'a, [MapWords; 3]>,
    d: *mut D,
    /// [`STAGED`] boxes.
    boxes: *mut u8,
    /// How many were written before, modulo their number.
    boxes_before: usize,
    thread: usize,
    /// The matrix of D, the first row of this consumer and the first column of the tile.
    output: usize,
    row: usize,
    column: usize,
}

impl<D: Output, E: Epilogue> Writer<'_, D, E> {
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
        // SAFETY: the caller's promise; each pair is put between `begin` and `end` of its box.
        unsafe {
            let of_rows = self.of_rows();
            unrolled!(N / 4, |pair| {
                let sum = 2 * pair;
                let (of, in_box) = (sum / Self::SUMS, sum % Self::SUMS);
                if in_box == 0 {
                    self.begin(of);
                }
                self.put(sum, sums.pair(sum), of_rows[sum / 2 % 2]);
                if in_box == Self::SUMS - 2 {
                    self.end(of);
                }
            });
        }
    }

    /// What the epilogue has of this thread's two rows.
    #[gpu_only]
    #[inline(always)]
    fn of_rows(&self) -> [f32; 2] {
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
            let (m, n) = (self.problem.m as usize, self.problem.n as usize);
            let elements = if row < m { n.saturating_sub(column).min(Self::VECTOR) } else { 0 };
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

    /// Writes a pair of sums to its box, with what the epilogue has of the pair's row.
    ///
    /// # Safety
    /// Between `begin` and `end` of the box.
    #[gpu_only]
    #[inline(always)]
    unsafe fn put(&self, index: usize, sums: [f32; 2], of_row: f32) {
        let (row, column) = Accumulator::<f32, 8>::position(self.thread, index % 4);
        let in_tile = index / 4 * 8 + column;
        let place = self
            .staged(index / Self::SUMS)
            .wrapping_add(Self::offset(row, in_tile % Self::COLUMNS))
            .cast::<D::Pair>();
        let column = self.column + in_tile;
        // SAFETY: a pair inside the box, which is this thread's alone since `begin`. Columns past the end are those of the last
        // one: they are not stored.
        unsafe {
            let c = if self.beside.reads_c() { D::unpair(*place) } else { [0.0; 2] };
            let last = self.problem.n as usize - 1;
            let of_columns = [
                self.beside.of_column(column.min(last)),
                self.beside.of_column((column + 1).min(last)),
            ];
            let at = |k| [self.output as u32, (self.row + row) as u32, (column + k) as u32];
            place.write(D::pair([
                self.beside.apply(sums[0], c[0], (of_row, of_columns[0]), at(0)),
                self.beside.apply(sums[1], c[1], (of_row, of_columns[1]), at(1)),
            ]));
        }
    }

    /// Stores a box.
    ///
    /// # Safety
    /// All threads of the consumer together, after all of the box was written.
    #[gpu_only]
    #[inline(always)]
    unsafe fn end(&self, index: usize) {
        let column = self.column + index * Self::COLUMNS;
        let is_inside = self.row < self.problem.m as usize && column < self.problem.n as usize;
        // SAFETY: whole warpgroups; the map is D's; what the box has outside of D is not stored.
        unsafe {
            // The copy engine sees what this thread wrote.
            fence_proxy_async_shared();
            // All of the box is there.
            sync_warpgroup();
            if self.schedule.d_mapped == 0 {
                self.store_by_threads(index);
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
                for k in 0..elements {
                    to.add(k).write(*place.add(k));
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

/// What a kernel of the family is launched with.
///
/// # Safety
/// All threads of a block of [`BLOCK`] call this together, with [`shared_bytes`] of dynamic shared memory that nothing else
/// uses, and:
/// - `maps` are those of A, B and D: boxes of [`RowsOfA`] and [`RowsOfB`], or [`Across`] as the schedule says, and of
///   [`StoredRows`] if `d_mapped`; their batches are outermost.
/// - `d` has every element that `problem.d` leads to, with `column == 1`, and no two of the same; C and the vectors are as
///   [`Beside::new`] has it.
/// - The schedule's tiles are those of `problem`, with `problem.splits` at most the steps along K; with more than one, D has a
///   matrix for each part.
#[gpu_only]
#[inline(always)]
#[allow(clippy::too_many_arguments)]
pub unsafe fn multiply<T, D, E, const N: usize>(
    maps: GridConstant<'_, [MapWords; 3]>,
    schedule: &Schedule,
    problem: &Problem,
    c: *const D,
    per_row: *const D,
    per_column: *const D,
    d: *mut D,
    epilogue: E,
) where
    T: TensorElement,
    D: Output,
    E: Epilogue,
    Columns<N>: Instruction<T, T, f32>,
{
    let memory = DynamicSharedArray::<Memory<N>, 1024>::get();
    let (group, thread) = (warpgroup_id(), thread_in_warpgroup());
    if group == 0 && thread == 0 {
        // SAFETY: a prefetch reads no tile, so that their shapes do not matter.
        unsafe {
            maps.map::<RowsOfA<T>, Swizzle128>(0).prefetch();
            maps.map::<RowsOfB<T, N>, Swizzle128>(1).prefetch();
        }
    }
    // SAFETY: the launch gives the memory; all threads together.
    let pipeline = unsafe { stages_of(memory) };
    // The barriers and maps are ready while the kernel before still runs.
    take_turn();
    // SAFETY: each branch is one of whole warpgroups. 24 and twice 240 registers are the block's 168 each at entry.
    unsafe {
        if group == 0 {
            lower_registers::<24>();
            if thread == 0 {
                produce_all::<T, N>(pipeline.producer(), maps, schedule, problem);
            }
        } else {
            raise_registers::<240>();
            let own = group - 1;
            let writer = Writer {
                beside: Beside::new(problem, c, per_row, per_column, epilogue),
                problem,
                schedule,
                maps,
                d,
                boxes: (&raw mut (*memory).stored[own]).cast(),
                boxes_before: 0,
                thread,
                output: 0,
                row: 0,
                column: 0,
            };
            consume_all::<T, D, E, N>(pipeline.consumer(), writer, own);
        }
    }
}

/// Copies the tiles of all passes of this block.
///
/// # Safety
/// As [`produce`].
#[gpu_only]
#[inline(always)]
unsafe fn produce_all<T: TensorElement, const N: usize>(
    mut producer: TileProducer<Stage<N>, STAGES>,
    maps: GridConstant<'_, [MapWords; 3]>,
    schedule: &Schedule,
    problem: &Problem,
) {
    let (passes, stride) = (schedule.len(problem), thread::grid_dim_x());
    let mut index = thread::block_idx_x();
    while index < passes {
        // SAFETY: the caller's promise.
        unsafe { produce::<T, N>(&mut producer, maps, schedule, schedule.work(problem, index)) };
        index += stride;
    }
}

/// Multiplies the tiles of all passes of this block, and writes the sums of the consumer's half of each. (Written as a loop: as
/// a closure, which is too long to be inlined, its sums are in local memory, and with an iterator ptxas has the multiplications
/// wait for each other.)
///
/// # Safety
/// As [`consume`].
#[gpu_only]
#[inline(always)]
unsafe fn consume_all<T, D, E, const N: usize>(
    mut consumer: TileConsumer<Stage<N>, STAGES>,
    mut writer: Writer<'_, D, E>,
    own: usize,
) where
    T: TensorElement,
    D: Output,
    E: Epilogue,
    Columns<N>: Instruction<T, T, f32>,
{
    let (schedule, problem, thread) = (writer.schedule, writer.problem, writer.thread);
    let (passes, stride) = (schedule.len(problem), thread::grid_dim_x());
    let mut index = thread::block_idx_x();
    // SAFETY: the caller's promise.
    unsafe {
        while index < passes {
            let work = schedule.work(problem, index);
            let mut sums = Accumulator::<f32, N>::zeroed();
            add_steps::<T, N>(&mut consumer, &mut sums, schedule, &work, own, thread);
            writer.output = work.output as usize;
            writer.row = work.row as usize * ROWS_OF_TILE + own * ROWS;
            writer.column = work.column as usize * N;
            writer.write(&sums);
            writer.boxes_before = (writer.boxes_before + N / stored_columns::<D>()) % STAGED;
            index += stride;
        }
        if thread == 0 {
            // The block's shared memory stays until the last store has read it.
            wait_bulk_groups::<0>();
        }
    }
}

/// The stages and barriers of a block.
///
/// # Safety
/// All threads of the block call this together; the memory is the block's, and nothing else uses its stages.
#[gpu_only]
#[inline(always)]
unsafe fn stages_of<const N: usize>(memory: *mut Memory<N>) -> TilePipeline<Stage<N>, STAGES> {
    // SAFETY: the caller's promise; one thread fills a stage, and one of each of two consumers releases it.
    unsafe {
        let stages = SharedArray::<Stage<N>, STAGES>::from_raw((&raw mut (*memory).stages).cast());
        let barriers =
            SharedArray::<u64, { 2 * STAGES }>::from_raw((&raw mut (*memory).barriers).cast());
        TilePipeline::new(stages, barriers, 2)
    }
}

/// Adds the products of a consumer's half of a tile over the steps of `work`.
///
/// # Safety
/// As [`consume`].
#[gpu_only]
#[inline(always)]
unsafe fn add_steps<T: TensorElement, const N: usize>(
    consumer: &mut TileConsumer<Stage<N>, STAGES>,
    to: &mut Accumulator<f32, N>,
    schedule: &Schedule,
    work: &Work,
    own: usize,
    thread: usize,
) where
    Columns<N>: Instruction<T, T, f32>,
{
    let steps = work.steps.1 - work.steps.0;
    // SAFETY: the caller's promise.
    unsafe {
        match (schedule.a_across != 0, schedule.b_across != 0) {
            (false, false) => consume::<T, N, false, false>(consumer, to, own, thread, steps),
            (false, true) => consume::<T, N, false, true>(consumer, to, own, thread, steps),
            (true, false) => consume::<T, N, true, false>(consumer, to, own, thread, steps),
            (true, true) => consume::<T, N, true, true>(consumer, to, own, thread, steps),
        }
    }
}
