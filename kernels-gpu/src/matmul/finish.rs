//! The end of a product that was split along K: partial sums to D, in a fixed order.
//!
//! Where D has fewer tiles than the device runs blocks, several blocks each add a part of a tile's K and store f32 sums; this kernel
//! adds the parts in an order that their number fixes, so that the result is the same bits from run to run, and applies the
//! epilogue. With no parts at all it is a product whose K is 0: `epilogue(beta · C)`.
//!
//! A thread adds four neighbours, 16 bytes of each part. Where there are many parts, D is small, and a thread for each four of its
//! elements would wait for one load after the other: so the warps of a block divide the parts among them.

#![cfg_attr(not(target_os = "cuda"), allow(dead_code, unused_imports))]

use super::output::Output;
use super::{Epilogue, Problem, Value};
use crate::prelude::*;
use crate::quads::{self, Quad};
use cuda_std::gpu_only;
use cuda_std::unroll::{build, each};

/// Threads of a block.
pub const BLOCK: usize = 256;
/// Neighbours that a thread adds.
const LANES: usize = 4;
/// From this many parts on, warps divide them.
const MANY: u32 = 16;
/// Threads that share the sums of one place where there are [`MANY`].
const SHARERS: usize = BLOCK / 32;
/// The sums of a thread.
type Sums = [f32; LANES];
/// Dynamic shared memory of a block, in bytes.
pub const SHARED_BYTES: usize = BLOCK * size_of::<Sums>();

/// Threads that share the sums of one place.
#[inline(always)]
const fn sharers(splits: u32) -> usize {
    if splits >= MANY { SHARERS } else { 1 }
}

/// Quads of D, those of all rows.
const fn quads_of(problem: &Problem) -> u64 {
    problem.n.div_ceil(LANES as u32) as u64 * problem.m as u64 * problem.batches as u64
}

/// Blocks that have one round of work each.
#[must_use]
pub const fn blocks(problem: &Problem) -> u64 {
    quads_of(problem).div_ceil((BLOCK / sharers(problem.splits)) as u64)
}

/// `D = epilogue(alpha · Σ partials + beta · C)`: `partials: [batches, splits, m, n]`, with `problem.a` as their strides. Any grid. D and C
/// may have any strides.
///
/// # Safety
/// - All threads of a block of [`BLOCK`] call this together, with [`SHARED_BYTES`] of dynamic shared memory that nothing else uses.
/// - `partials` has every value that the strides lead to, each row at a multiple of 16 bytes, and the rest is as
///   [`multiply`](super::hopper::multiply) has it.
#[gpu_only]
#[inline(always)]
pub unsafe fn finish<D: Value, E: Epilogue>(
    problem: &Problem,
    partials: *const f32,
    c: *const D,
    vectors: [*const D; 2],
    d: *mut D,
    epilogue: E,
) {
    // SAFETY: the caller's promise.
    let output = unsafe { Output::new(problem, c, vectors, d, epilogue) };
    let thread = thread::thread_idx_x() as usize;
    let sharers = sharers(problem.splits);
    let at_once = BLOCK / sharers;
    let (own, share) = (thread % at_once, thread / at_once);
    let (quads, per_row) = (quads_of(problem), u64::from(problem.n.div_ceil(LANES as u32)));
    let stride = u64::from(thread::grid_dim_x()) * at_once as u64;
    let mut first = u64::from(thread::block_idx_x()) * at_once as u64;
    // The same number of rounds for all threads of a block, which meet at barriers.
    while first < quads {
        let quad = first + own as u64;
        let place = Place::of(problem, quad, per_row);
        // SAFETY: the caller's promise; only quads of D are read and written.
        unsafe {
            let mut sums = [0.0; LANES];
            if quad < quads {
                sums = place.sums(problem, partials, (share, sharers));
            }
            if sharers > 1 {
                sums = sums_of_sharers(sums, (own, share));
            }
            if quad < quads && share == 0 {
                let Place { batch, row, column, .. } = place;
                output.write_pair([sums[0], sums[1]], batch, row, [column, column + 1]);
                output.write_pair([sums[2], sums[3]], batch, row, [column + 2, column + 3]);
            }
        }
        first += stride;
    }
}

/// Four neighbours of D.
#[derive(Clone, Copy)]
struct Place {
    batch: usize,
    row: usize,
    column: usize,
}

impl Place {
    #[inline(always)]
    fn of(problem: &Problem, quad: u64, per_row: u64) -> Self {
        let divide =
            |a: u64, b: u64| (a.checked_div(b).unwrap_or(0), a.checked_rem(b).unwrap_or(0));
        let (line, column) = divide(quad, per_row);
        let (batch, row) = divide(line, u64::from(problem.m));
        Self { batch: batch as usize, row: row as usize, column: column as usize * LANES }
    }

    /// The sums of every `sharers`-th part from `share` on.
    ///
    /// # Safety
    /// The place is in D, and the rest is as [`finish`] has it.
    #[inline(always)]
    unsafe fn sums(
        self,
        problem: &Problem,
        partials: *const f32,
        (share, sharers): (usize, usize),
    ) -> Sums {
        let splits = problem.splits as usize;
        let n = problem.n as usize;
        let mut sums = [0.0; LANES];
        for split in (share..splits).step_by(sharers) {
            let index = problem.a.index(self.batch * splits + split, self.row, self.column);
            let from = partials.wrapping_add(index);
            // SAFETY: inside of the partial sums.
            let part: Sums = unsafe {
                if self.column + LANES <= n {
                    let quad = quads::load(from.cast());
                    build(|i| quads::lane(quad, i))
                } else {
                    build(|i| if self.column + i < n { *from.add(i) } else { 0.0 })
                }
            };
            each::<LANES>(|i| sums[i] += part[i]);
        }
        sums
    }
}

/// The sums of all sharers of a place, for the first of them.
///
/// # Safety
/// All threads of the block call this together; nothing else uses the dynamic shared memory.
#[gpu_only]
#[inline(always)]
unsafe fn sums_of_sharers(sums: Sums, (own, share): (usize, usize)) -> Sums {
    const AT_ONCE: usize = BLOCK / SHARERS;
    let memory = DynamicSharedArray::<Sums>::get();
    let mut all = sums;
    // SAFETY: each thread writes its own place; the first sharers read between two barriers.
    unsafe {
        memory.add(share * AT_ONCE + own).write(sums);
        // The sums are there.
        thread::sync_threads();
        if share == 0 {
            for other in 1..SHARERS {
                let part = memory.add(other * AT_ONCE + own).read();
                each::<LANES>(|i| all[i] += part[i]);
            }
        }
        // They were read, before the next round writes.
        thread::sync_threads();
    }
    all
}
