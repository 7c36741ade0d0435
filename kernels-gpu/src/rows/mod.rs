//! Kernels that go over the rows of a matrix: read a row, learn something of all of it, write a row.
//!
//! Softmax, the norms and their backward passes are each a [`RowOp`]; what moves the rows is written once.
//!
//! | form | a row is held by | read | row of at most |
//! |---|---|---|---|
//! | [`in_registers`], `threads` of 1 to 32 | lanes of a warp, in registers; many rows a block | once | 1,024 elements |
//! | [`in_registers`], a block | the registers of a block | once | 32,768 (16,384 backward, and norms of `f32`) |
//! | [`staged`](staged::staged) | the shared memory of one or two blocks, with some of the next row (`sm_90`) | once | what 400 KB hold |
//! | [`pipelined`](staged::pipelined) | that of four or eight blocks, with several of the next rows (`sm_90`) | once | 65,536 of `f32`, 131,072 else |
//! | [`in_registers`], `CLUSTERED` | the registers of eight blocks (`sm_90`) | once | 262,144 (as above: half) |
//! | [`streamed`] | shared memory, as far as it goes | what is not held: twice | any |
//!
//! Each step buys something. Registers: one read in place of two or three. One [`Summary`] in place of two
//! reductions (first the maximum, then the sum): one barrier. Loads of 16 bytes, all before the first use:
//! enough bytes in flight. Stages: copies that go on while a row is written. Clusters: rows that no block can hold,
//! still read once.
//!
//! A thread's elements stay packed, as they lay in memory, where they are looked at more than once: half of the
//! registers, for a shift at each look.
//!
//! Rows that do not all begin at multiples of 16 bytes take the same way, element by element, with neighbouring
//! threads at neighbouring elements.

// The host's compiler does not know `compute_90`.
#![allow(unexpected_cfgs)]

pub mod group;
#[cfg(any(not(target_os = "cuda"), target_feature = "compute_90"))]
pub mod known;
pub mod norm;
pub mod norm_backward;
pub mod norm_weights;
pub mod registers;
pub mod softmax;
#[cfg(any(not(target_os = "cuda"), target_feature = "compute_90"))]
pub mod staged;
#[cfg(any(not(target_os = "cuda"), target_feature = "compute_90"))]
pub mod stages;
pub mod value;

use cuda_std::shared::{dynamic_shared_bytes, dynamic_shared_mem};

pub use group::{Butterfly, CLUSTER, Exchange, Group, Lanes, SMALL_CLUSTER, Summary, WARP};
pub use norm::{norm_plain, norm_registers, norm_streamed, norm_sum_registers, norm_sum_streamed};
pub use norm_backward::{norm_backward_registers, norm_backward_streamed};
pub use norm_weights::{norm_weights_finish, norm_weights_partial};
pub use softmax::{
    softmax_backward_registers, softmax_backward_streamed, softmax_plain, softmax_registers,
    softmax_streamed,
};
pub use value::{Pack, Reuse, Value, anew};
#[cfg(any(not(target_os = "cuda"), target_feature = "compute_90"))]
pub use {
    norm::{norm_clusters, norm_pipelined, norm_pipelined_small, norm_sum_clusters},
    norm_backward::norm_backward_fused,
    softmax::{softmax_clusters, softmax_staged, softmax_staged_pairs},
};

use registers::{build, each, unrolled};
use value::{load_16, store_16};

/// Most threads in a block.
pub const MAX_THREADS: u32 = 1024;
/// Threads in a block of [`streamed`]: few, so that each has many registers.
pub const STREAM_THREADS: u32 = 512;
/// Elements of a row that a thread holds as `f32`, of all inputs together.
const HELD: usize = 32;

/// Vectors of `v` elements of each of `inputs` that a thread holds.
#[must_use]
pub const fn packs_held(v: usize, inputs: usize) -> usize {
    HELD / (v * inputs)
}

/// Longest row: the number of an element in it, and of those one step further, fits into 32 bits.
pub const MAX_COLUMNS: u32 = i32::MAX as u32;
/// Bytes of a load.
pub const VECTOR_BYTES: usize = 16;

/// The matrix, and how many threads share a row: a power of two up to 32, or 0 for the whole block.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// Rows.
    pub rows: usize,
    /// Elements of a row, at most [`MAX_COLUMNS`].
    pub columns: u32,
    /// Threads of a row, as in [`Group::of_thread`].
    pub threads: u32,
}

/// Elements of a row that a thread takes at once: neighbours, if the rows are aligned.
#[derive(Clone, Copy)]
pub struct Place {
    /// The number of the row's first element in the matrix.
    pub row: usize,
    /// The number in the row of the first of the elements.
    pub column: u32,
    /// Elements of the row; none if it does not exist.
    pub columns: u32,
    /// From one of the elements to the next.
    pub stride: u32,
    /// Whether they are moved by one instruction: all vectors of all rows are aligned and complete.
    pub whole: bool,
}

impl Place {
    /// Whether the row has the `i`th of the elements.
    #[inline(always)]
    pub fn has(self, i: usize) -> bool {
        (if self.whole { self.column } else { self.column_of(i) }) < self.columns
    }

    /// How many of `V` elements the row has.
    #[inline(always)]
    pub fn count<const V: usize>(self) -> u32 {
        if self.whole {
            return if self.has(0) { V as u32 } else { 0 };
        }
        let mut count = 0;
        each::<V>(|i| count += u32::from(self.has(i)));
        count
    }

    /// The number in the row of the `i`th of the elements.
    #[inline(always)]
    fn column_of(self, i: usize) -> u32 {
        self.column + i as u32 * self.stride
    }
}

/// What is done with rows: `I` inputs of the same shape, of which a vector has `V` elements.
///
/// The inputs, the output and what else it needs are pointers in it: the functions say what must be there.
pub trait RowOp<const V: usize, const I: usize>: Copy {
    /// The elements of the inputs and the output.
    type Element: Value<V>;
    /// What is learnt of a row.
    type Summary: Summary;
    /// The row's own constants, computed from it.
    type Constants: Copy;
    /// What is kept of a vector of each input until its results are written.
    type Kept: Copy;
    /// What a vector's columns have in all rows.
    type Columns: Copy;

    /// What stands for an element outside of the row.
    const ABSENT: f32 = 0.0;

    /// The matrices that are read.
    fn inputs(self) -> [*const Self::Element; I];

    /// The matrix that is written.
    fn output(self) -> *mut Self::Element;

    /// The addresses of all else that is moved in vectors, or-ed: how well it is aligned.
    fn others(self) -> usize {
        0
    }

    /// What is to be kept of a vector.
    ///
    /// # Safety
    /// The elements of `place` exist, and are aligned if it is whole.
    unsafe fn prepare(self, loaded: [Pack; I], place: Place) -> Self::Kept;

    /// Called once with each vector: stores what is known before anything is learnt of the row.
    ///
    /// # Safety
    /// As [`prepare`](Self::prepare); no other thread reaches the elements.
    #[inline(always)]
    unsafe fn pass_on(self, _kept: Self::Kept, _place: Place) {}

    /// What `K` vectors add to the summary, and what is to be kept of them from now on.
    fn digest<const K: usize>(
        self,
        kept: [Self::Kept; K],
        places: [Place; K],
    ) -> ([Self::Kept; K], Self::Summary);

    /// What [`digest`](Self::digest) keeps of a vector, where the whole row is known already: then the row's summary
    /// stands for this thread's in [`constants`](Self::constants).
    #[inline(always)]
    fn settle(self, kept: Self::Kept, _row: Self::Summary) -> Self::Kept {
        kept
    }

    /// The constants, from what this thread's vectors gave and what the whole row gave.
    fn constants(self, own: Self::Summary, row: Self::Summary) -> Self::Constants;

    /// What the columns of `place` have in all rows.
    ///
    /// # Safety
    /// As [`prepare`](Self::prepare).
    unsafe fn columns(self, place: Place) -> Self::Columns;

    /// The results for one vector.
    ///
    /// # Safety
    /// As [`prepare`](Self::prepare).
    unsafe fn apply(
        self,
        kept: Self::Kept,
        constants: Self::Constants,
        columns: Self::Columns,
        place: Place,
    ) -> [f32; V];

    /// Called by one thread of each row.
    ///
    /// # Safety
    /// The row exists.
    #[inline(always)]
    unsafe fn note(self, _constants: Self::Constants, _row: usize) {}
}

/// The group's vectors in turn: `vector` is the calling thread's `vector`th.
#[inline(always)]
fn place<const V: usize>(group: Group, shape: Shape, vector: u32, whole: bool) -> Place {
    // Below 2^31 and what one step reaches beyond the row's end.
    let column = match whole {
        true => (vector * group.threads + group.rank) * V as u32,
        false => vector * group.threads * V as u32 + group.rank,
    };
    // A row that does not exist has no columns.
    let columns = if group.row < shape.rows { shape.columns } else { 0 };
    let row = group.row * shape.columns as usize;
    Place { row, column, columns, stride: if whole { 1 } else { group.threads }, whole }
}

/// The calling thread's vectors from its `first` one on.
#[inline(always)]
fn places<const V: usize, const K: usize>(
    group: Group,
    shape: Shape,
    first: u32,
    whole: bool,
) -> [Place; K] {
    build(|k| place::<V>(group, shape, first + k as u32, whole))
}

/// Loads a vector of each input.
///
/// # Safety
/// As [`RowOp::prepare`].
#[inline(always)]
unsafe fn load<Op: RowOp<V, I>, const V: usize, const I: usize>(op: Op, place: Place) -> [Pack; I] {
    let inputs = op.inputs();
    // SAFETY: the caller's promise.
    build(|i| unsafe {
        load_vector(inputs[i].wrapping_add(place.row), place, Op::ABSENT, Reuse::Once)
    })
}

/// Computes the results of vectors and stores them. `columns(k)` is what the columns of vector `k` have in all rows.
///
/// # Safety
/// As [`RowOp::pass_on`].
#[inline(always)]
unsafe fn write<Op: RowOp<V, I>, const V: usize, const I: usize, const K: usize>(
    op: Op,
    kept: [Op::Kept; K],
    constants: Op::Constants,
    columns: impl Fn(usize) -> Op::Columns,
    places: [Place; K],
) {
    unrolled!(K, |k| {
        let place = places[k];
        if !place.whole || place.has(0) {
            // SAFETY: the caller's promise.
            unsafe {
                let results = op.apply(kept[k], constants, columns(k), place);
                store_vector(op.output().wrapping_add(place.row), place, results);
            }
        }
    });
}

/// Whether every vector of every row is aligned and complete.
#[inline(always)]
fn is_whole<Op: RowOp<V, I>, const V: usize, const I: usize>(op: Op, shape: Shape) -> bool {
    let mut addresses = op.others() | op.output().addr();
    let inputs = op.inputs();
    each::<I>(|i| addresses |= inputs[i].addr());
    (addresses | (shape.columns as usize * size_of::<Op::Element>())).is_multiple_of(VECTOR_BYTES)
}

/// One row by each group, held in registers: `K` vectors a thread. Launched with a group for each row.
///
/// # Safety
/// - The matrices of `op` have `shape.rows` rows of `shape.columns` elements.
/// - The group's threads hold a row: `threads * K * V >= columns`. A block has whole warps, at most 32.
/// - With `CLUSTERED` the launch has clusters of [`CLUSTER`] blocks, and else none.
#[inline(always)]
pub unsafe fn in_registers<
    Op: RowOp<V, I>,
    const V: usize,
    const I: usize,
    const K: usize,
    const CLUSTERED: bool,
>(
    op: Op,
    shape: Shape,
    exchange: Exchange,
) {
    let group = Group::of_thread::<CLUSTERED>(shape.threads);
    // SAFETY: the caller's promise.
    unsafe {
        if is_whole(op, shape) {
            one_row::<_, V, I, K, CLUSTERED, true>(op, shape, group, exchange);
        } else {
            one_row::<_, V, I, K, CLUSTERED, false>(op, shape, group, exchange);
        }
    }
}

/// # Safety
/// As [`in_registers`]; if `WHOLE`, every vector of every row is aligned and complete.
#[inline(always)]
unsafe fn one_row<
    Op: RowOp<V, I>,
    const V: usize,
    const I: usize,
    const K: usize,
    const CLUSTERED: bool,
    const WHOLE: bool,
>(
    op: Op,
    shape: Shape,
    group: Group,
    exchange: Exchange,
) {
    let here = places::<V, K>(group, shape, 0, WHOLE);
    // All loads before the first use.
    // SAFETY: every place lies in the row, and the vectors are as aligned as they were found to be.
    let loaded: [[Pack; I]; K] = build(|k| unsafe { load(op, here[k]) });
    // SAFETY: as above.
    let kept: [Op::Kept; K] = build(|k| unsafe { op.prepare(loaded[k], here[k]) });
    // SAFETY: as above; each thread has elements of its own.
    each::<K>(|k| unsafe { op.pass_on(kept[k], here[k]) });
    let (kept, own) = op.digest(kept, here);
    let row = group.join::<_, CLUSTERED>(own, exchange);
    let constants = op.constants(own, row);
    // SAFETY: as above.
    unsafe {
        let here = places::<V, K>(group.anew(), shape, 0, WHOLE);
        write(op, kept, constants, |k| op.columns(here[k]), here);
    }
    if group.rank == 0 && group.row < shape.rows {
        // SAFETY: the row exists, and this is its first thread.
        unsafe { op.note(constants, group.row) };
    }
}

/// One row by each block, `K` vectors a thread at a time: once to learn, once to write. What fits into the
/// dynamic shared memory is kept there between the two; the rest is read again.
///
/// # Safety
/// As [`in_registers`], for rows of any length, with the block as the group, of [`STREAM_THREADS`].
#[inline(always)]
pub unsafe fn streamed<Op: RowOp<V, I>, const V: usize, const I: usize, const K: usize>(
    op: Op,
    shape: Shape,
    exchange: Exchange,
) {
    let group = Group::of_thread::<false>(0);
    let whole = is_whole(op, shape);
    let cache = Cache::<I>::new(group);
    let vectors = (shape.columns as usize).div_ceil(V * group.threads as usize) as u32;

    let mut known = Op::Summary::EMPTY;
    let mut first = 0;
    while first < vectors {
        let here = places::<V, K>(group, shape, first, whole);
        // SAFETY: every place lies in the row, and the vectors are as aligned as they were found to be.
        let loaded: [[Pack; I]; K] = build(|k| unsafe { load(op, here[k]) });
        each::<K>(|k| cache.keep(first + k as u32, loaded[k]));
        // SAFETY: as above.
        let kept: [Op::Kept; K] = build(|k| unsafe { op.prepare(loaded[k], here[k]) });
        // SAFETY: as above; each thread has elements of its own.
        each::<K>(|k| unsafe { op.pass_on(kept[k], here[k]) });
        known = known.merge(op.digest(kept, here).1);
        first += K as u32;
    }
    let row = group.join::<_, false>(known, exchange);
    let constants = op.constants(row, row);

    let mut first = 0;
    while first < vectors {
        let here = places::<V, K>(group, shape, first, whole);
        let again: [[Pack; I]; K] = build(|k| match cache.kept(first + k as u32) {
            Some(packs) => packs,
            // SAFETY: as above.
            None => unsafe { load(op, here[k]) },
        });
        // SAFETY: as above.
        let kept = build(|k| op.settle(unsafe { op.prepare(again[k], here[k]) }, row));
        // SAFETY: as above; each thread has elements of its own.
        unsafe { write(op, kept, constants, |k| op.columns(here[k]), here) };
        first += K as u32;
    }
    if group.rank == 0 && group.row < shape.rows {
        // SAFETY: the row exists, and this is its first thread.
        unsafe { op.note(constants, group.row) };
    }
}

/// The block's dynamic shared memory, in which each thread keeps vectors of its own: no barrier is needed.
#[derive(Clone, Copy)]
struct Cache<const I: usize> {
    packs: *mut Pack,
    threads: usize,
    rank: usize,
    /// Vectors that each thread keeps.
    vectors: u32,
}

impl<const I: usize> Cache<I> {
    #[inline(always)]
    fn new(group: Group) -> Self {
        let threads = group.threads as usize;
        let vectors = dynamic_shared_bytes() / (size_of::<[Pack; I]>() * threads);
        let (packs, rank) = (dynamic_shared_mem(), group.rank as usize);
        Self { packs, threads, rank, vectors: vectors as u32 }
    }

    /// Where a vector of an input lies.
    #[inline(always)]
    fn pack(self, vector: u32, input: usize) -> *mut Pack {
        let before = vector as usize * I + input;
        self.packs.wrapping_add(before * self.threads + self.rank)
    }

    #[inline(always)]
    fn keep(self, vector: u32, packs: [Pack; I]) {
        if vector < self.vectors {
            // SAFETY: inside of the dynamic shared memory, since the vector is among those that fit; the thread's
            // own.
            each::<I>(|input| unsafe { self.pack(vector, input).write(packs[input]) });
        }
    }

    #[inline(always)]
    fn kept(self, vector: u32) -> Option<[Pack; I]> {
        if vector >= self.vectors {
            return None;
        }
        // SAFETY: as above, and written by `keep`.
        Some(build(|input| unsafe { self.pack(vector, input).read() }))
    }
}

/// Loads one vector of a row of a matrix, or of one that all rows share: by one instruction, or its elements one by
/// one with `absent` for those outside.
///
/// # Safety
/// `row` has the elements that `place` has, aligned if it is whole.
#[inline(always)]
pub unsafe fn load_vector<T: Value<V>, const V: usize>(
    row: *const T,
    place: Place,
    absent: f32,
    reuse: Reuse,
) -> Pack {
    if place.whole {
        if !place.has(0) {
            return T::filled(absent);
        }
        // SAFETY: the caller's promise.
        return unsafe { load_16(row.wrapping_add(place.column as usize).cast(), reuse) };
    }
    T::pack(build(|i| {
        if place.has(i) {
            // SAFETY: the caller's promise.
            unsafe { row.wrapping_add(place.column_of(i) as usize).read() }.widen()
        } else {
            absent
        }
    }))
}

/// Stores one vector of a row, as [`load_vector`] loads it.
///
/// # Safety
/// As [`load_vector`], of elements that no other thread reaches.
#[inline(always)]
pub unsafe fn store_vector<T: Value<V>, const V: usize>(
    row: *mut T,
    place: Place,
    values: [f32; V],
) {
    if place.whole {
        if place.has(0) {
            let to = row.wrapping_add(place.column as usize).cast();
            // SAFETY: the caller's promise.
            unsafe { store_16(to, T::pack(values)) };
        }
        return;
    }
    each::<V>(|i| {
        if place.has(i) {
            let to = row.wrapping_add(place.column_of(i) as usize);
            // SAFETY: the caller's promise.
            unsafe { to.write(T::narrow(values[i])) };
        }
    });
}
