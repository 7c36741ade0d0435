//! One result for a whole array.

use crate::prelude::*;
use cuda_std::block::Item;
use cuda_std::number::bf16;
use cuda_std::unroll::each;

use super::operator::{Element, Extreme, Found, Number, Operator, Ordered, Product, Sum};
use super::partials::{ReductionBlock, join_grid, put};
use super::{BLOCK, REGISTERS, TILE};
use crate::dependent::let_next_start;
use crate::quads::{Quad, each_lane, load_once, per_quad, split_quads};

/// Threads of a block, as a length.
const THREADS: usize = BLOCK as usize;

/// What [`whole`] does with elements: every [`Operator`], and the search for a place.
pub trait Reduction: Copy {
    /// What the array holds.
    type Input: Element;
    /// What a thread keeps while it goes through quads.
    type Running: Copy;
    /// What threads and blocks exchange.
    type Value: Item;

    /// The running value before any element.
    fn init(self) -> Self::Running;
    /// Folds in an element. `at` is its number among the elements of this running value, which ascends.
    fn fold(self, running: Self::Running, element: Self::Input, at: u32) -> Self::Running;
    /// The value of the elements so far; `place` maps an `at` to the position in the array.
    fn finish(self, running: Self::Running, place: impl Fn(u32) -> u64) -> Self::Value;
    /// The value of no element.
    fn identity(self) -> Self::Value;
    /// The value of the element at a position.
    fn value(self, element: Self::Input, position: u64) -> Self::Value;
    /// Two values as one.
    fn join(self, a: Self::Value, b: Self::Value) -> Self::Value;
}

impl<O: Operator> Reduction for O {
    type Input = O::Input;
    type Running = O::Value;
    type Value = O::Value;

    #[inline(always)]
    fn init(self) -> O::Value {
        Operator::identity(self)
    }

    #[inline(always)]
    fn fold(self, running: O::Value, element: O::Input, _at: u32) -> O::Value {
        Operator::join(self, running, Operator::value(self, element))
    }

    #[inline(always)]
    fn finish(self, running: O::Value, _place: impl Fn(u32) -> u64) -> O::Value {
        running
    }

    #[inline(always)]
    fn identity(self) -> O::Value {
        Operator::identity(self)
    }

    #[inline(always)]
    fn value(self, element: O::Input, _position: u64) -> O::Value {
        Operator::value(self, element)
    }

    #[inline(always)]
    fn join(self, a: O::Value, b: O::Value) -> O::Value {
        Operator::join(self, a, b)
    }
}

/// Where the first extreme is.
#[derive(Clone, Copy)]
struct Place<T: Ordered> {
    mask: T::Mask,
}

impl<T: Ordered> Reduction for Place<T> {
    type Input = T;
    type Running = (T::Key, u32);
    type Value = Found<T::Key>;

    #[inline(always)]
    fn init(self) -> Self::Running {
        // If all elements are the worst integer, none is before this key: then the first element is the result.
        (T::WORST, 0)
    }

    #[inline(always)]
    fn fold(self, best: Self::Running, element: T, at: u32) -> Self::Running {
        let key = element.key(self.mask);
        // Of equal keys the first stays.
        if T::is_before(key, best.0) { (key, at) } else { best }
    }

    #[inline(always)]
    fn finish(self, (key, at): Self::Running, place: impl Fn(u32) -> u64) -> Self::Value {
        if T::is_number(key) { Found::new(key, place(at)) } else { Reduction::identity(self) }
    }

    #[inline(always)]
    fn identity(self) -> Self::Value {
        Found::new(T::WORST, Found::<T::Key>::NOWHERE)
    }

    #[inline(always)]
    fn value(self, element: T, position: u64) -> Self::Value {
        self.finish((element.key(self.mask), 0), |_| position)
    }

    #[inline(always)]
    fn join(self, a: Self::Value, b: Self::Value) -> Self::Value {
        let (before, behind) = (T::is_before(a.key(), b.key()), T::is_before(b.key(), a.key()));
        if before | (!behind & (a.at() <= b.at())) { a } else { b }
    }
}

/// The thread's loads of four quads from a tile, all under way before the first is used.
///
/// # Safety
/// `tile` begins [`TILE`] quads, and `thread` is below [`BLOCK`].
#[inline(always)]
unsafe fn load_tile(tile: *const Quad, thread: usize) -> [Quad; 4] {
    // SAFETY: `k * THREADS + thread` is below `TILE`.
    let at = |k| unsafe { load_once(tile.add(k * THREADS + thread)) };
    [at(0), at(1), at(2), at(3)]
}

/// The running values of a thread, one for each of its quads of a tile.
#[derive(Clone, Copy)]
struct Lanes<R: Reduction> {
    reduction: R,
    running: [R::Running; 4],
}

impl<R: Reduction> Lanes<R> {
    #[inline(always)]
    fn new(reduction: R) -> Self {
        let init = || reduction.init();
        Self { reduction, running: [init(), init(), init(), init()] }
    }

    /// Folds in the quads of the thread's tile number `tile`.
    #[inline(always)]
    fn fold(&mut self, quads: [Quad; 4], tile: u32) {
        let first = tile.wrapping_mul(per_quad::<R::Input>() as u32);
        each::<4>(|k| {
            each_lane(quads[k], |lane, element| {
                let running = self.running[k];
                self.running[k] = self.reduction.fold(running, element, first + lane as u32);
            });
        });
    }

    /// All of them as one value; `position(k, tile)` is that of the first element of quad `k` of a tile.
    #[inline(always)]
    fn finish(self, position: impl Fn(usize, usize) -> usize) -> R::Value {
        let per = per_quad::<R::Input>().max(1) as u32;
        let of = |k: usize| {
            let place = |at| (position(k, (at / per) as usize) + (at % per) as usize) as u64;
            self.reduction.finish(self.running[k], place)
        };
        let join = |a, b| self.reduction.join(a, b);
        join(join(of(0), of(1)), join(of(2), of(3)))
    }
}

/// An array as the quads in it and the elements before and after them, and the thread that reduces its share.
#[derive(Clone, Copy)]
struct Share<'a, R: Reduction> {
    reduction: R,
    x: &'a [R::Input],
    /// Elements before the first quad.
    head: usize,
    quads: &'a [Quad],
    /// The thread in its block and in the grid.
    thread: usize,
    index: ThreadIndex,
    /// Tiles that each block has.
    rounds: usize,
    blocks: usize,
}

impl<'a, R: Reduction> Share<'a, R> {
    #[inline(always)]
    fn new(block: &ReductionBlock, index: ThreadIndex, reduction: R, x: &'a [R::Input]) -> Self {
        let (head, quads, _) = split_quads(x);
        // At least 1, which spares a test for a division by 0.
        let blocks = thread::grid_dim_x().max(1) as usize;
        let (head, rounds) = (head.len(), quads.len() / TILE / blocks);
        Self { reduction, x, head, quads, thread: block.thread(), index, rounds, blocks }
    }

    /// The first quad of the block's tile of a round.
    #[inline(always)]
    fn tile(&self, round: usize) -> usize {
        (round * self.blocks + thread::block_idx_x() as usize) * TILE
    }

    /// The position in the array of a quad's first element.
    #[inline(always)]
    fn position(&self, quad: usize) -> usize {
        self.head + quad * per_quad::<R::Input>()
    }

    /// The thread's quads of its block's tiles.
    #[inline(always)]
    fn of_tiles(&self) -> R::Value {
        let mut lanes = Lanes::new(self.reduction);
        // SAFETY: `(rounds - 1) * blocks + block` is the number of a whole tile.
        let quads_of =
            |round| unsafe { load_tile(self.quads.as_ptr().add(self.tile(round)), self.thread) };
        let mut round = 0;
        while round + 1 < self.rounds {
            let (a, b) = (quads_of(round), quads_of(round + 1));
            lanes.fold(a, round as u32);
            lanes.fold(b, round as u32 + 1);
            round += 2;
        }
        if round < self.rounds {
            lanes.fold(quads_of(round), round as u32);
        }
        if self.rounds == 0 {
            return self.reduction.identity();
        }
        lanes.finish(|k, round| self.position(self.tile(round) + k * THREADS + self.thread))
    }

    /// `value` and the thread's quads after the last whole round of tiles. They are less than a tile for each block, so a
    /// thread has at most four.
    #[inline(always)]
    fn of_quads_left(&self, value: R::Value) -> R::Value {
        let (per, quads) = (per_quad::<R::Input>(), self.quads);
        let (first, threads) = (self.index.get(), self.index.total());
        let left = self.rounds * self.blocks * TILE;
        if left + first >= quads.len() {
            return value;
        }
        let at = |k: usize| left + first + k * threads;
        // SAFETY: the last quad, where the thread has none.
        let load_at = |k| unsafe { load_once(quads.as_ptr().add(at(k).min(quads.len() - 1))) };
        let loaded = [load_at(0), load_at(1), load_at(2), load_at(3)];
        let mut running = self.reduction.init();
        each::<4>(|k| {
            if at(k) < quads.len() {
                each_lane(loaded[k], |lane, element| {
                    running = self.reduction.fold(running, element, (k * per + lane) as u32);
                });
            }
        });
        let position = |number: u32| {
            let (k, lane) = (number as usize / per.max(1), number as usize % per.max(1));
            (self.position(at(k)) + lane) as u64
        };
        self.reduction.join(value, self.reduction.finish(running, position))
    }

    /// `value` and the thread's elements of `from..to`, one by one.
    #[inline(always)]
    fn of_elements(&self, value: R::Value, from: usize, to: usize) -> R::Value {
        let (mut value, mut i) = (value, from + self.index.get());
        while i < to {
            // SAFETY: `i < to`, which is at most the length.
            let element = unsafe { *self.x.get_unchecked(i) };
            value = self.reduction.join(value, self.reduction.value(element, i as u64));
            i += self.index.total();
        }
        value
    }
}

/// This thread's share of the whole input.
///
/// Each block takes as many tiles as every other, in turn over the grid; the quads that are left are distributed over the
/// threads of the grid one by one, and so are the elements outside of quads.
#[inline(always)]
fn of_thread<R: Reduction>(
    block: &ReductionBlock,
    index: ThreadIndex,
    reduction: R,
    x: &[R::Input],
) -> R::Value {
    let share = Share::new(block, index, reduction, x);
    let value = share.of_quads_left(share.of_tiles());
    let value = share.of_elements(value, 0, share.head);
    share.of_elements(value, share.position(share.quads.len()), x.len())
}

/// Reduces `x: [n]` over the whole grid: `Some` in one thread of it, and `None` in all others.
///
/// * All threads of all blocks call it once. Launch [`blocks`](super::blocks)`(n * size_of::<Input>())` blocks, or any
///   other number; the index says that the grid has one dimension.
/// * `partials:` [`partial_words`](super::partial_words)`::<Value>(blocks)` words of scratch; too few panic.
///   `finished: [1 or more]`: element 0 is 0 before and afterwards.
/// * Order: a thread joins the elements of its quads in ascending order, then the threads of a block and the
///   blocks of the grid are joined in their order.
#[inline(always)]
pub fn whole<R: Reduction>(
    block: &mut ReductionBlock,
    index: ThreadIndex,
    reduction: R,
    x: &[R::Input],
    partials: AtomicSlice<u32>,
    finished: AtomicSlice<u32>,
) -> Option<R::Value> {
    // Small arrays are reduced in less time than a launch takes.
    let_next_start(x);
    let own = of_thread(block, index, reduction, x);
    let join = |a, b| reduction.join(a, b);
    join_grid(block, own, reduction.identity(), join, partials, finished)
}

/// [`whole`] with an operator, whose result goes to `out[0]`.
#[inline(always)]
pub fn whole_to<O: Operator>(
    block: &mut ReductionBlock,
    index: ThreadIndex,
    operator: O,
    x: &[O::Input],
    partials: AtomicSlice<u32>,
    finished: AtomicSlice<u32>,
    out: &mut DisjointSlice<O::Output>,
) {
    if let Some(all) = whole(block, index, operator, x, partials, finished) {
        // SAFETY: one thread of the grid comes here.
        unsafe { put(out, 0, Operator::finish(operator, all)) };
    }
}

/// Sum of `x: [n]` into `out[0]`: in f32 for halves, wrapping for integers, 0 of nothing. Launch
/// [`blocks`](super::blocks)`(bytes of x)` blocks.
///
/// `partials` is scratch, [`partial_words`](super::partial_words) long; `finished: [1]` must be 0 and is 0 again afterwards.
#[kernel(f32, i32, f64, u64, f16, bf16, dependent, max_registers = REGISTERS)]
pub fn reduce_sum<T: Number>(
    mut block: Block<{ BLOCK as usize }>,
    index: ThreadIndex,
    x: &[T],
    partials: AtomicSlice<u32>,
    finished: AtomicSlice<u32>,
    mut out: DisjointSlice<<T as Number>::Wide>,
) {
    whole_to(&mut block, index, Sum::<T>::new(), x, partials, finished, &mut out);
}

/// Product of `x: [n]` into `out[0]`, 1 of nothing; launch and scratch as for [`reduce_sum`](fn@reduce_sum).
#[kernel(f32, i32, f64, u64, dependent, max_registers = REGISTERS)]
pub fn reduce_product<T: Number>(
    mut block: Block<{ BLOCK as usize }>,
    index: ThreadIndex,
    x: &[T],
    partials: AtomicSlice<u32>,
    finished: AtomicSlice<u32>,
    mut out: DisjointSlice<<T as Number>::Wide>,
) {
    whole_to(&mut block, index, Product::<T>::new(), x, partials, finished, &mut out);
}

/// The smallest element of `x: [n]`, or with inverted bits another extreme, into `out[0]`: see [`Ordered`]. NaN is
/// left out; of nothing it is infinity, or the last integer. Launch and scratch as for [`reduce_sum`](fn@reduce_sum).
#[kernel(f32, u32, f64, u64, f16, bf16, dependent, max_registers = REGISTERS)]
pub fn reduce_extreme<T: Ordered>(
    mut block: Block<{ BLOCK as usize }>,
    index: ThreadIndex,
    mask: <T as Ordered>::Mask,
    x: &[T],
    partials: AtomicSlice<u32>,
    finished: AtomicSlice<u32>,
    mut out: DisjointSlice<T>,
) {
    whole_to(&mut block, index, Extreme::<T> { mask }, x, partials, finished, &mut out);
}

/// Where that extreme is first, into `out[0]`; `u64::MAX` where no element is a number. Launch and scratch as for
/// [`reduce_sum`](fn@reduce_sum), with partial values of 16 bytes.
#[kernel(f32, u32, f64, u64, f16, bf16, dependent, max_registers = REGISTERS)]
pub fn reduce_place<T: Ordered>(
    mut block: Block<{ BLOCK as usize }>,
    index: ThreadIndex,
    mask: <T as Ordered>::Mask,
    x: &[T],
    partials: AtomicSlice<u32>,
    finished: AtomicSlice<u32>,
    mut out: DisjointSlice<u64>,
) {
    if let Some(found) = whole(&mut block, index, Place::<T> { mask }, x, partials, finished) {
        // SAFETY: one thread of the grid comes here.
        unsafe { put(&mut out, 0, found.at()) };
    }
}
