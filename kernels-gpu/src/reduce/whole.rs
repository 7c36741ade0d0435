//! One result for a whole array.

use crate::prelude::*;
use cuda_std::block::Item;
use cuda_std::number::bf16;

use super::operator::{Element, Extreme, Found, Number, Operator, Ordered, Product, Sum};
use super::partials::{Team, join_grid, put};
use super::{BLOCK, REGISTERS, TILE};
use crate::dependent::let_next_start;
use crate::quads::{Quad, each, each_lane, load_once, per_quad, split_quads};

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

    /// Nothing seen yet.
    fn start(self) -> Self::Running;
    /// An element more, whose number among those that this value is given is `at`: ever greater.
    fn take(self, running: Self::Running, element: Self::Input, at: u32) -> Self::Running;
    /// What has been seen; `place` tells the position in the array that `at` stands for.
    fn settle(self, running: Self::Running, place: impl Fn(u32) -> u64) -> Self::Value;
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
    fn start(self) -> O::Value {
        Operator::identity(self)
    }

    #[inline(always)]
    fn take(self, running: O::Value, element: O::Input, _at: u32) -> O::Value {
        Operator::join(self, running, Operator::value(self, element))
    }

    #[inline(always)]
    fn settle(self, running: O::Value, _place: impl Fn(u32) -> u64) -> O::Value {
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
    flip: T::Flip,
}

impl<T: Ordered> Reduction for Place<T> {
    type Input = T;
    type Running = (T::Key, u32);
    type Value = Found<T::Key>;

    #[inline(always)]
    fn start(self) -> Self::Running {
        // Of integers that all are the worst, the first is the right one.
        (T::WORST, 0)
    }

    #[inline(always)]
    fn take(self, best: Self::Running, element: T, at: u32) -> Self::Running {
        let key = element.key(self.flip);
        // Of equal ones the first stays.
        if T::is_before(key, best.0) { (key, at) } else { best }
    }

    #[inline(always)]
    fn settle(self, (key, at): Self::Running, place: impl Fn(u32) -> u64) -> Self::Value {
        if T::is_number(key) { Found::new(key, place(at)) } else { Reduction::identity(self) }
    }

    #[inline(always)]
    fn identity(self) -> Self::Value {
        Found::new(T::WORST, Found::<T::Key>::NOWHERE)
    }

    #[inline(always)]
    fn value(self, element: T, position: u64) -> Self::Value {
        self.settle((element.key(self.flip), 0), |_| position)
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
        let start = || reduction.start();
        Self { reduction, running: [start(), start(), start(), start()] }
    }

    /// Takes the quads of the thread's tile number `tile`.
    #[inline(always)]
    fn take(&mut self, quads: [Quad; 4], tile: u32) {
        let first = tile.wrapping_mul(per_quad::<R::Input>() as u32);
        each::<4>(|k| {
            each_lane(quads[k], |lane, element| {
                let running = self.running[k];
                self.running[k] = self.reduction.take(running, element, first + lane as u32);
            });
        });
    }

    /// All of them as one value; `position(k, tile)` is that of the first element of quad `k` of a tile.
    #[inline(always)]
    fn settle(self, position: impl Fn(usize, usize) -> usize) -> R::Value {
        let per = per_quad::<R::Input>().max(1) as u32;
        let of = |k: usize| {
            let place = |at| (position(k, (at / per) as usize) + (at % per) as usize) as u64;
            self.reduction.settle(self.running[k], place)
        };
        let join = |a, b| self.reduction.join(a, b);
        join(join(of(0), of(1)), join(of(2), of(3)))
    }
}

/// This thread's share of the whole input.
///
/// Each block takes as many tiles as every other, in turn over the grid; quads that are left are dealt to the
/// threads of the grid one by one, and so are elements outside of quads.
#[inline(always)]
fn of_thread<R: Reduction>(
    block: &Team,
    index: ThreadIndex,
    reduction: R,
    x: &[R::Input],
) -> R::Value {
    let (head, quads, _) = split_quads(x);
    // At least 1, which spares a test for a division by 0.
    let (blocks, thread) = (thread::grid_dim_x().max(1) as usize, block.thread());
    let own = thread::block_idx_x() as usize;
    let rounds = quads.len() / TILE / blocks;

    let mut lanes = Lanes::new(reduction);
    let mut round = 0;
    let tile = |round: usize| (round * blocks + own) * TILE;
    // SAFETY: `(rounds - 1) * blocks + own` is the number of a whole tile.
    let quads_of = |round| unsafe { load_tile(quads.as_ptr().add(tile(round)), thread) };
    while round + 1 < rounds {
        let (a, b) = (quads_of(round), quads_of(round + 1));
        lanes.take(a, round as u32);
        lanes.take(b, round as u32 + 1);
        round += 2;
    }
    if round < rounds {
        lanes.take(quads_of(round), round as u32);
    }

    let per = per_quad::<R::Input>();
    let position = |quad: usize| head.len() + quad * per;
    let mut value = reduction.identity();
    if rounds > 0 {
        value = lanes.settle(|k, round| position(tile(round) + k * THREADS + thread));
    }

    let (first, threads) = (index.get(), index.total());
    // Fewer than a tile a block: at most four quads.
    let left = rounds * blocks * TILE;
    if left + first < quads.len() {
        let at = |k: usize| left + first + k * threads;
        // SAFETY: the last quad, where the thread has none.
        let load_at = |k| unsafe { load_once(quads.as_ptr().add(at(k).min(quads.len() - 1))) };
        let loaded = [load_at(0), load_at(1), load_at(2), load_at(3)];
        let mut running = reduction.start();
        each::<4>(|k| {
            if at(k) < quads.len() {
                each_lane(loaded[k], |lane, element| {
                    running = reduction.take(running, element, (k * per + lane) as u32);
                });
            }
        });
        let place = |number: u32| {
            let (k, lane) = (number as usize / per.max(1), number as usize % per.max(1));
            (position(at(k)) + lane) as u64
        };
        value = reduction.join(value, reduction.settle(running, place));
    }

    let mut ragged = |from: usize, to: usize| {
        let mut i = from + first;
        while i < to {
            // SAFETY: `i < to`, which is at most the length.
            let element = unsafe { *x.get_unchecked(i) };
            value = reduction.join(value, reduction.value(element, i as u64));
            i += threads;
        }
    };
    ragged(0, head.len());
    ragged(position(quads.len()), x.len());
    value
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
    block: &mut Team,
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
    block: &mut Team,
    index: ThreadIndex,
    operator: O,
    x: &[O::Input],
    partials: AtomicSlice<u32>,
    finished: AtomicSlice<u32>,
    out: &mut DisjointSlice<O::Output>,
) {
    if let Some(all) = whole(block, index, operator, x, partials, finished) {
        // SAFETY: one thread of the grid comes here.
        unsafe { put(out, 0, operator.finish(all)) };
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

/// The smallest element of `x: [n]`, or with flipped bits another extreme, into `out[0]`: see [`Ordered`]. NaN is
/// left out; of nothing it is infinity, or the last integer. Launch and scratch as for [`reduce_sum`](fn@reduce_sum).
#[kernel(f32, u32, f64, u64, f16, bf16, dependent, max_registers = REGISTERS)]
pub fn reduce_extreme<T: Ordered>(
    mut block: Block<{ BLOCK as usize }>,
    index: ThreadIndex,
    flip: <T as Ordered>::Flip,
    x: &[T],
    partials: AtomicSlice<u32>,
    finished: AtomicSlice<u32>,
    mut out: DisjointSlice<T>,
) {
    whole_to(&mut block, index, Extreme::<T> { flip }, x, partials, finished, &mut out);
}

/// Where that extreme is first, into `out[0]`; `u64::MAX` where no element is a number. Launch and scratch as for
/// [`reduce_sum`](fn@reduce_sum), with partial values of 16 bytes.
#[kernel(f32, u32, f64, u64, f16, bf16, dependent, max_registers = REGISTERS)]
pub fn reduce_place<T: Ordered>(
    mut block: Block<{ BLOCK as usize }>,
    index: ThreadIndex,
    flip: <T as Ordered>::Flip,
    x: &[T],
    partials: AtomicSlice<u32>,
    finished: AtomicSlice<u32>,
    mut out: DisjointSlice<u64>,
) {
    if let Some(found) = whole(&mut block, index, Place::<T> { flip }, x, partials, finished) {
        // SAFETY: one thread of the grid comes here.
        unsafe { put(&mut out, 0, found.at()) };
    }
}
