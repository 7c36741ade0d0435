//! A result for each segment of an array, or for each row of a row-major matrix.

use crate::prelude::*;
use bytemuck::{Pod, Zeroable};
use cuda_std::number::bf16;

use super::operator::{Extreme, Number, Operator, Ordered, Sum};
use super::partials::{Partials, Team, is_last, put};
use super::{BLOCK, REGISTERS};
use crate::dependent::let_next_start;
use crate::quads::{Quad, each, each_lane, load_once, split_quads};

/// Up to so many parts one thread joins them; beyond it, a warp.
const FEW_PARTS: u32 = 16;

/// Who reduces a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct Split {
    /// Elements of each segment, where there are no offsets.
    pub width: u64,
    /// Threads that take a segment together: 1, 32 or [`BLOCK`].
    pub team: u32,
    /// Blocks that share a segment, if `team` is [`BLOCK`]; then the grid has that many for each segment.
    pub parts: u32,
}

impl Split {
    /// Mean length up to which a thread takes a segment by itself.
    const THREAD: u64 = 16;
    /// Mean length up to which a warp does.
    const WARP: u64 = 2048;
    /// Elements that are worth a block of their own.
    const PART: u64 = 8192;

    /// What suits `segments` segments of `n_elems` elements together; with `width` if all are equal.
    #[must_use]
    pub const fn of(segments: u64, n_elems: u64, width: u64) -> Self {
        let Some(mean) = n_elems.checked_div(segments) else {
            return Self { width, team: 1, parts: 1 };
        };
        if mean <= Self::THREAD {
            return Self { width, team: 1, parts: 1 };
        }
        if mean <= Self::WARP {
            return Self { width, team: 32, parts: 1 };
        }
        let (wanted, useful) = (super::MAX_BLOCKS as u64 / segments, mean / Self::PART);
        let parts = if wanted < useful { wanted } else { useful };
        Self { width, team: BLOCK, parts: if parts == 0 { 1 } else { parts as u32 } }
    }

    /// Blocks to launch.
    #[must_use]
    pub const fn blocks(self, segments: u64) -> u32 {
        let threads = segments.saturating_mul((self.team * self.parts) as u64);
        let blocks = threads.div_ceil(BLOCK as u64);
        // Where there are more, each takes several.
        if blocks > 1 << 30 { 1 << 30 } else { blocks as u32 }
    }

    /// Partial values that the blocks hand over.
    #[must_use]
    pub const fn partials(self, segments: u64) -> usize {
        if self.parts == 1 { 0 } else { segments as usize * self.parts as usize }
    }
}

/// An array cut in segments.
#[derive(Clone, Copy, Debug)]
pub struct Segments<'a, T> {
    x: &'a [T],
    offsets: &'a [u64],
    width: u64,
}

impl<'a, T> Segments<'a, T> {
    /// Segment `s` is `offsets[s]..offsets[s + 1]`; without offsets, `s * width..(s + 1) * width`. What of it lies
    /// outside of `x` is left out.
    #[inline(always)]
    pub fn new(x: &'a [T], offsets: &'a [u64], width: u64) -> Self {
        Self { x, offsets, width }
    }

    /// The elements of a segment.
    #[inline(always)]
    fn get(self, segment: usize) -> &'a [T] {
        let (start, end) = if self.offsets.is_empty() {
            let start = (segment as u64).saturating_mul(self.width);
            (start, start.saturating_add(self.width))
        } else {
            let at = |i: usize| self.offsets.get(i).copied().unwrap_or(0);
            (at(segment), at(segment + 1))
        };
        part(self.x, start, end)
    }
}

/// `x[start..end]`, as far as it is inside.
#[inline(always)]
fn part<T>(x: &[T], start: u64, end: u64) -> &[T] {
    let end = end.min(x.len() as u64) as usize;
    let start = (start.min(end as u64)) as usize;
    // SAFETY: `start <= end <= x.len()`.
    unsafe { x.get_unchecked(start..end) }
}

/// What the thread of rank `rank` among `team` threads joins of `x`: the elements of quads in turn, four loads under
/// way at a time, and those outside of quads.
#[inline(always)]
fn of_rank<O: Operator>(operator: O, x: &[O::Input], rank: usize, team: usize) -> O::Value {
    let (head, quads, tail) = split_quads(x);
    let mut value = operator.identity();
    let mut at = rank;
    let take = |value: &mut O::Value, quad: Quad| {
        each_lane(quad, |_, element| *value = operator.join(*value, operator.value(element)));
    };
    while at < quads.len() {
        // SAFETY: the last quad, where the thread has none.
        let of = |k: usize| unsafe {
            load_once(quads.as_ptr().add((at + k * team).min(quads.len() - 1)))
        };
        let loaded = [of(0), of(1), of(2), of(3)];
        each::<4>(|k| {
            if at + k * team < quads.len() {
                take(&mut value, loaded[k]);
            }
        });
        at += 4 * team;
    }
    let mut take_ragged = |ragged: &[O::Input]| {
        let mut i = rank;
        while let Some(element) = ragged.get(i) {
            value = operator.join(value, operator.value(*element));
            i += team;
        }
    };
    take_ragged(head);
    take_ragged(tail);
    value
}

/// Reduces each segment into its element of `out: [segments]`; an empty one gives the operator's identity.
///
/// * All threads of all blocks call it once. Launch [`Split::blocks`] blocks.
/// * Scratch as for [`whole`](super::whole): words for [`Split::partials`] values.
/// * Order: fixed by the segment's length and its address modulo 16, and by `split`.
/// * A segment is one team's work: it should not be much longer than the mean that `split` was chosen for.
#[inline(always)]
#[allow(clippy::too_many_arguments)]
pub fn segments<O: Operator>(
    block: &mut Team,
    index: ThreadIndex,
    operator: O,
    segments: Segments<O::Input>,
    split: Split,
    partials: AtomicSlice<u32>,
    finished: AtomicSlice<u32>,
    out: &mut DisjointSlice<O::Output>,
) {
    let_next_start(segments.x);
    let join = |a, b| operator.join(a, b);
    if split.team == 1 {
        for i in index.grid_stride(out.len()) {
            let value = of_rank(operator, segments.get(i.get()), 0, 1);
            if let Some(out) = out.get_mut(i) {
                *out = operator.finish(value);
            }
        }
    } else if split.team == 32 {
        let warp = block.whole_warp();
        let mut segment = index.get() / 32;
        while segment < out.len() {
            let value = of_rank(operator, segments.get(segment), block.lane(), 32);
            let value = warp.reduce(value, join);
            if block.lane() == 0 {
                // SAFETY: the warp's own segment.
                unsafe { put(out, segment, operator.finish(value)) };
            }
            segment += index.total() / 32;
        }
    } else if split.parts > 1 {
        shared_segments(block, operator, segments, split.parts, partials, finished, out);
    } else {
        let mut segment = thread::block_idx_x() as usize;
        while segment < out.len() {
            let value = of_rank(operator, segments.get(segment), block.thread(), BLOCK as usize);
            if let Some(value) = block.reduce_to_first(value, join) {
                // SAFETY: the block's own segment.
                unsafe { put(out, segment, operator.finish(value)) };
            }
            segment += thread::grid_dim_x() as usize;
        }
    }
}

/// As [`segments`], with `parts` blocks for each segment; the last of the grid joins the parts.
#[inline(always)]
fn shared_segments<O: Operator>(
    block: &mut Team,
    operator: O,
    segments: Segments<O::Input>,
    parts: u32,
    partials: AtomicSlice<u32>,
    finished: AtomicSlice<u32>,
    out: &mut DisjointSlice<O::Output>,
) {
    let join = |a, b| operator.join(a, b);
    let (own, blocks) = (thread::block_idx_x(), thread::grid_dim_x());
    let partials = Partials::new::<O::Value>(partials, blocks as usize);
    let x = segments.get((own / parts) as usize);
    let chunk = (x.len() as u64).div_ceil(u64::from(parts));
    let start = u64::from(own % parts) * chunk;
    let value = of_rank(operator, part(x, start, start + chunk), block.thread(), BLOCK as usize);
    if let Some(value) = block.reduce_to_first(value, join) {
        // SAFETY: a block's number is below their count.
        unsafe { partials.store(own as usize, value) };
    }
    if !is_last(block, finished, 0, blocks) {
        return;
    }
    // A team for each segment: its number, its size, and the place of the thread in it.
    let team = if parts <= FEW_PARTS { 1 } else { 32 };
    let (mut segment, rank) = (block.thread() / team, block.thread() % team);
    while segment < out.len().min((blocks / parts) as usize) {
        let mut value = operator.identity();
        let mut k = rank;
        while k < parts as usize {
            // SAFETY: below `blocks`.
            value = join(value, unsafe { partials.load(segment * parts as usize + k) });
            k += team;
        }
        if team == 32 {
            value = block.whole_warp().reduce(value, join);
        }
        if rank == 0 {
            // SAFETY: the team's own segment.
            unsafe { put(out, segment, operator.finish(value)) };
        }
        segment += BLOCK as usize / team;
    }
}

/// Sums of the segments of `x` into `out: [segments]`: see [`segments`] and [`Segments::new`].
#[kernel(f32, i32, f64, f16, bf16, dependent, max_registers = REGISTERS)]
pub fn segment_sum<T: Number>(
    mut block: Block<{ BLOCK as usize }>,
    index: ThreadIndex,
    split: Split,
    x: &[T],
    offsets: &[u64],
    partials: AtomicSlice<u32>,
    finished: AtomicSlice<u32>,
    mut out: DisjointSlice<<T as Number>::Wide>,
) {
    let of_x = Segments::new(x, offsets, split.width);
    segments(&mut block, index, Sum::<T>::new(), of_x, split, partials, finished, &mut out);
}

/// Extremes of the segments of `x` into `out: [segments]`: see [`segments`], [`Segments::new`] and [`Ordered`].
#[kernel(f32, u32, dependent, max_registers = REGISTERS)]
pub fn segment_extreme<T: Ordered>(
    mut block: Block<{ BLOCK as usize }>,
    index: ThreadIndex,
    flip: <T as Ordered>::Flip,
    split: Split,
    x: &[T],
    offsets: &[u64],
    partials: AtomicSlice<u32>,
    finished: AtomicSlice<u32>,
    mut out: DisjointSlice<T>,
) {
    let of_x = Segments::new(x, offsets, split.width);
    segments(&mut block, index, Extreme::<T> { flip }, of_x, split, partials, finished, &mut out);
}
