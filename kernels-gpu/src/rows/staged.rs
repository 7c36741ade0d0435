//! Long rows in shared memory: bulk copies bring the next ones while one is written (`sm_90`).
//!
//! * [`staged`]: a row in the shared memory of one block or two, with some of the next one. Learnt, then written.
//! * [`pipelined`]: in that of a larger cluster, with several of the next ones. While a row is written the next one is
//!   learnt already, and what the blocks know of it is on the way to one another: no thread waits for that. A thread has so
//!   few columns that it keeps what these have in all rows, such as weights, in registers. (Which norms need: read again
//!   for each row, weights and bias are twice as many bytes as the row.)

use crate::prelude::*;
use cuda_std::cluster;
use cuda_std::mbarrier::Mbarrier;
use cuda_std::unroll::build;
use cuda_std::unrolled;

use super::group::{Butterfly, WARP};
use super::known::{Known, KnownMemory, places};
use super::stages::{MAX_STAGES, Stages};
use super::{Pack, Place, RowOp, Shape, Summary, Value, write};

/// Threads of a block that compute.
pub const WORKERS: u32 = 512;
/// Threads in a block: a warp more, of which one thread starts the copies.
pub const THREADS: u32 = WORKERS + WARP;
/// Vectors of a stage that a thread takes.
const PACKS: usize = 2;
/// Bytes of a stage.
pub const STAGE_BYTES: u32 = WORKERS * PACKS as u32 * 16;

/// Shared memory that [`staged`] and [`pipelined`] declare themselves, in bytes, in clusters of `blocks` blocks.
#[must_use]
pub const fn static_bytes(blocks: u32) -> u32 {
    (places(blocks, WORKERS / WARP) * size_of::<Vec4<f32>>() + (2 * MAX_STAGES + 2) * 8) as u32
}

/// Shared memory of [`staged`] and [`pipelined`].
#[derive(Clone, Copy)]
pub struct StagedMemory {
    /// For what is known of rows.
    pub known: KnownMemory,
    /// For the stages to fill.
    pub full: SharedArray<u64, MAX_STAGES>,
    /// For the stages to be read.
    pub free: SharedArray<u64, MAX_STAGES>,
}

/// A block's columns of the rows of its cluster, which takes every row whose number is its own modulo the number of
/// clusters. One row after the other goes through the stages.
#[derive(Clone, Copy)]
struct Part<Op, const V: usize, const BLOCKS: u32> {
    op: Op,
    shape: Shape,
    /// The stage of the next chunk to write.
    stages: Stages,
    free: SharedArray<u64, MAX_STAGES>,
    /// The columns.
    begin: u32,
    end: u32,
}

impl<Op: RowOp<V, 1>, const V: usize, const BLOCKS: u32> Part<Op, V, BLOCKS> {
    const PER_STAGE: u32 = STAGE_BYTES / size_of::<Op::Element>() as u32;

    /// # Safety
    /// As [`staged`]. All threads of the block call it; a barrier of the cluster stands before anything else.
    #[inline(always)]
    unsafe fn new(op: Op, shape: Shape, memory: StagedMemory) -> Self {
        let rank = if BLOCKS > 1 { cluster::rank() } else { 0 };
        let columns = shape.columns.div_ceil(BLOCKS * V as u32) * V as u32;
        let begin = (rank * columns).min(shape.columns);
        let end = (begin + columns).min(shape.columns);
        // SAFETY: the caller's promise.
        let stages = unsafe { Stages::new(memory.full, STAGE_BYTES) };
        let part = Self { op, shape, stages, free: memory.free, begin, end };
        if thread::thread_idx_x() == 0 {
            let mut stage = 0;
            while stage < stages.count() {
                // SAFETY: one thread does it, before the barrier that is still to come.
                unsafe { part.free(stage).init(WORKERS) };
                stage += 1;
            }
        }
        part
    }

    #[inline(always)]
    fn free(self, stage: u32) -> Mbarrier {
        Mbarrier::new(self.free, stage as usize % MAX_STAGES)
    }

    /// The number of the cluster's first row, and of all clusters.
    #[inline(always)]
    fn rows() -> (usize, usize) {
        let cluster = |block: u32| (block / BLOCKS) as usize;
        (cluster(thread::block_idx_x()), cluster(thread::grid_dim_x()))
    }

    /// Chunks of a row: what a stage holds of it.
    #[inline(always)]
    fn chunks(self) -> u32 {
        (self.end - self.begin).div_ceil(Self::PER_STAGE)
    }

    /// Starts all copies, each as soon as its stage is free.
    ///
    /// # Safety
    /// One thread calls it, and [`WORKERS`] others learn and write all rows.
    #[inline(always)]
    unsafe fn copy(mut self) {
        let ([matrix], (mut row, step)) = (self.op.inputs(), Self::rows());
        while row < self.shape.rows {
            let of_row = matrix.wrapping_add(row * self.shape.columns as usize);
            let mut column = self.begin;
            while column < self.end {
                let bytes =
                    (self.end - column).min(Self::PER_STAGE) * size_of::<Op::Element>() as u32;
                let (stages, from) = (self.stages, of_row.wrapping_add(column as usize).cast());
                // SAFETY: the elements exist. All have read the stage, or it was empty: then the phase before its first one
                // counts as over.
                unsafe {
                    self.free(stages.current()).wait_parity(stages.parity() ^ 1);
                    stages.fill(stages.current(), [from], bytes);
                }
                self.stages.advance();
                column += Self::PER_STAGE;
            }
            row += step;
        }
    }

    /// The calling thread's `k`th vector of a row.
    #[inline(always)]
    fn place(self, row: usize, k: u32) -> Place {
        let column = self.begin + (k * WORKERS + thread::thread_idx_x()) * V as u32;
        let row = row * self.shape.columns as usize;
        Place { row, column, columns: self.end, stride: 1, whole: true }
    }

    /// The calling thread's vectors of a chunk.
    #[inline(always)]
    fn places(self, row: usize, chunk: u32) -> [Place; PACKS] {
        build(|k| self.place(row, chunk * PACKS as u32 + k as u32))
    }

    /// The calling thread's `k`th vector of a stage, which is at `place` in its row.
    ///
    /// # Safety
    /// The stage is full, of that row, if the row has the place.
    #[inline(always)]
    unsafe fn read(self, full: *const Pack, place: Place, k: usize) -> [Pack; 1] {
        if !place.has(0) {
            return [Op::Element::filled(Op::ABSENT)];
        }
        let at = k * WORKERS as usize + thread::thread_idx_x() as usize;
        // SAFETY: inside of the stage.
        [unsafe { full.add(at).read() }]
    }

    /// What the calling thread's elements tell of a row, whose stages are those from `ahead` on. A chunk at a time.
    ///
    /// # Safety
    /// Rows are learnt in order, each before it is written.
    #[inline(always)]
    unsafe fn learn(self, ahead: &mut Stages, row: usize) -> Op::Summary {
        let (mut known, mut chunk) = (Op::Summary::EMPTY, 0);
        while chunk < self.chunks() {
            let here = self.places(row, chunk);
            // SAFETY: the chunk's turn, and the elements exist.
            let kept: [Op::Kept; PACKS] = unsafe {
                let full = ahead.wait();
                let loaded: [[Pack; 1]; PACKS] = build(|k| self.read(full, here[k], k));
                build(|k| self.op.prepare(loaded[k], here[k]))
            };
            known = known.merge(self.op.digest(kept, here).1);
            ahead.advance();
            chunk += 1;
        }
        known
    }

    /// As [`learn`](Self::learn), all `K` vectors that a thread has of a row at once.
    ///
    /// # Safety
    /// As [`learn`](Self::learn).
    #[inline(always)]
    unsafe fn learn_whole<const K: usize>(self, ahead: &mut Stages, row: usize) -> Op::Summary {
        let here: [Place; K] = build(|k| self.place(row, k as u32));
        let mut full = core::ptr::null();
        let loaded: [[Pack; 1]; K] = build(|k| {
            if k % PACKS == 0 && ((k / PACKS) as u32) < self.chunks() {
                // SAFETY: the chunk's turn.
                full = unsafe { ahead.wait() };
                ahead.advance();
            }
            // SAFETY: it is full, unless the row has no such chunk.
            unsafe { self.read(full, here[k], k % PACKS) }
        });
        // SAFETY: the elements of the places exist.
        let kept: [Op::Kept; K] = build(|k| unsafe { self.op.prepare(loaded[k], here[k]) });
        self.op.digest(kept, here).1
    }

    /// Writes the results of a row's next chunk, and frees its stage.
    ///
    /// # Safety
    /// Chunks are written in order, each after its row was learnt, and the columns are those of the chunk.
    #[inline(always)]
    unsafe fn write(
        &mut self,
        here: [Place; PACKS],
        of_row: Op::Summary,
        constants: Op::Constants,
        columns: impl Fn(usize) -> Op::Columns,
    ) {
        let op = self.op;
        // SAFETY: the chunk's turn, and this thread's own elements. All have arrived, when they have read.
        unsafe {
            let full = self.stages.wait();
            let loaded: [[Pack; 1]; PACKS] = build(|k| self.read(full, here[k], k));
            let _ = self.free(self.stages.current()).arrive();
            let kept = build(|k| op.finish(op.prepare(loaded[k], here[k]), of_row));
            write::<_, V, 1, PACKS>(op, kept, constants, columns, here);
        }
        self.stages.advance();
    }
}

/// One row after the other by each cluster of `BLOCKS` blocks (by each block, if that is 1), of which each keeps a part of the
/// row in its stages.
///
/// # Safety
/// - The matrices of `op` have `shape.rows` rows of `shape.columns` elements, all of which begin at multiples of 16 bytes, and
///   so does what else is moved in vectors.
/// - Launched with blocks of [`THREADS`] in clusters of `BLOCKS`, and dynamic shared memory for `1 / BLOCKS` of a row: that of
///   [`shared_bytes`](super::stages::shared_bytes) for whole stages of [`STAGE_BYTES`].
#[inline(always)]
pub unsafe fn staged<Op: RowOp<V, 1>, const V: usize, const BLOCKS: u32>(
    op: Op,
    shape: Shape,
    memory: StagedMemory,
) {
    // SAFETY: the caller's promise.
    let (mut part, known) = unsafe { begin::<Op, V, BLOCKS>(op, shape, memory) };
    if thread::thread_idx_x() < WORKERS {
        let ((mut row, step), mut ahead, mut turn) =
            (Part::<Op, V, BLOCKS>::rows(), part.stages, 0);
        let lanes = Butterfly::WHOLE_WARP;
        while row < shape.rows {
            // SAFETY: turns and rows come in order.
            let parts: [Op::Summary; _] = unsafe {
                known.publish(turn, part.learn(&mut ahead, row).join(lanes));
                known.observe(turn)
            };
            let of_row = Op::Summary::join_parts(parts, lanes);
            let constants = op.constants(of_row, of_row);
            let mut chunk = 0;
            while chunk < part.chunks() {
                let here = part.places(row, chunk);
                // SAFETY: chunks come in order.
                unsafe { part.write(here, of_row, constants, |k| op.columns(here[k])) };
                chunk += 1;
            }
            // SAFETY: the row exists.
            unsafe { note::<Op, V, BLOCKS>(op, constants, row) };
            row += step;
            turn += 1;
        }
    } else if thread::thread_idx_x() == WORKERS {
        // SAFETY: one thread; the others do the rest.
        unsafe { part.copy() };
    }
    end::<BLOCKS>();
}

/// As [`staged`], with two rows in the stages at a time and more on the way: a thread has `K` vectors of a row.
///
/// # Safety
/// As [`staged`], with dynamic shared memory for two rows and a stage more; and `BLOCKS * WORKERS * K` vectors hold a row.
#[inline(always)]
pub unsafe fn pipelined<Op: RowOp<V, 1>, const V: usize, const K: usize, const BLOCKS: u32>(
    op: Op,
    shape: Shape,
    memory: StagedMemory,
) {
    // SAFETY: the caller's promise.
    let (mut part, known) = unsafe { begin::<Op, V, BLOCKS>(op, shape, memory) };
    if thread::thread_idx_x() < WORKERS {
        // SAFETY: the columns exist.
        let columns: [Op::Columns; K] = build(|k| unsafe { op.columns(part.place(0, k as u32)) });
        let ((mut row, step), mut ahead, mut turn) =
            (Part::<Op, V, BLOCKS>::rows(), part.stages, 0);
        let lanes = Butterfly::WHOLE_WARP;
        if row < shape.rows {
            // SAFETY: the first turn and row.
            unsafe { known.publish(turn, part.learn_whole::<K>(&mut ahead, row).join(lanes)) };
        }
        while row < shape.rows {
            let (next, mut own) = (row + step, Op::Summary::EMPTY);
            if next < shape.rows {
                // SAFETY: rows come in order.
                own = unsafe { part.learn_whole::<K>(&mut ahead, next) };
            }
            // SAFETY: told in the step before.
            let parts: [Op::Summary; _] = unsafe { known.observe(turn) };
            // One beside the other: neither waits for the other one's shuffles.
            let (own, of_row) = (own.join(lanes), Op::Summary::join_parts(parts, lanes));
            if next < shape.rows {
                // SAFETY: turns come in order.
                unsafe { known.publish(turn + 1, own) };
            }
            let constants = op.constants(of_row, of_row);
            unrolled!(K / PACKS, |chunk| {
                if (chunk as u32) < part.chunks() {
                    let here = part.places(row, chunk as u32);
                    // SAFETY: chunks come in order.
                    unsafe { part.write(here, of_row, constants, |k| columns[chunk * PACKS + k]) };
                }
            });
            // SAFETY: the row exists.
            unsafe { note::<Op, V, BLOCKS>(op, constants, row) };
            row = next;
            turn += 1;
        }
    } else if thread::thread_idx_x() == WORKERS {
        // SAFETY: one thread; the others do the rest.
        unsafe { part.copy() };
    }
    end::<BLOCKS>();
}

/// The block's part, and the exchange with the others.
///
/// # Safety
/// As [`staged`]. All threads call it.
#[inline(always)]
unsafe fn begin<Op: RowOp<V, 1>, const V: usize, const BLOCKS: u32>(
    op: Op,
    shape: Shape,
    memory: StagedMemory,
) -> (Part<Op, V, BLOCKS>, Known<BLOCKS>) {
    // SAFETY: the caller's promise.
    let all = unsafe { (Part::new(op, shape, memory), Known::new(memory.known, WORKERS / WARP)) };
    // The barriers of all blocks are there before one of them is used.
    if BLOCKS > 1 {
        cluster::sync()
    } else {
        thread::sync_threads()
    }
    all
}

/// Ends a kernel: no block is gone while another one stores into its memory. (By then each has observed the last value that is sent
/// to it; the barrier keeps that true of whatever else they may come to exchange.) All threads call it.
#[inline(always)]
fn end<const BLOCKS: u32>() {
    if BLOCKS > 1 {
        cluster::sync();
    }
}

/// [`RowOp::note`] by one thread of the cluster.
///
/// # Safety
/// The row exists. All workers call it.
#[inline(always)]
unsafe fn note<Op: RowOp<V, 1>, const V: usize, const BLOCKS: u32>(
    op: Op,
    constants: Op::Constants,
    row: usize,
) {
    if thread::thread_idx_x() == 0 && (BLOCKS == 1 || cluster::rank() == 0) {
        // SAFETY: the caller's promise, and this is the first thread.
        unsafe { op.note(constants, row) };
    }
}

/// The shared memory of [`staged`] and [`pipelined`] with so many blocks in a cluster.
macro_rules! staged_memory {
    ($blocks:expr) => {
        $crate::rows::staged::StagedMemory {
            known: $crate::rows::known::known_memory!(
                $blocks,
                $crate::rows::staged::WORKERS / $crate::rows::WARP
            ),
            full: shared_array![u64; $crate::rows::stages::MAX_STAGES],
            free: shared_array![u64; $crate::rows::stages::MAX_STAGES],
        }
    };
}
pub(crate) use staged_memory;
