//! Kernels that go over the rows of a matrix: read a row, learn something of all of it, write a row.
//!
//! Softmax, the norms and their backward passes are each a [`RowOp`]; what moves the rows is written once.
//!
//! | form | a row is held by | read | row of at most |
//! |---|---|---|---|
//! | [`in_registers`], `threads` of 1 to 32 | lanes of a warp, in registers; many rows a block | once | 1,024 elements |
//! | [`in_registers`], a block | the registers of a block | once | 32,768 (16,384 backward) |
//! | [`in_registers`], `CLUSTERED` | the registers of eight blocks (`sm_90`) | once | 262,144 |
//! | [`streamed`] | shared memory, as far as it goes | what is not held: twice | any |
//!
//! Each step buys something. Registers: one read in place of two or three. One [`Summary`] in place of two
//! reductions (first the maximum, then the sum): one barrier. Loads of 16 bytes, all before the first use:
//! enough bytes in flight. Clusters: rows that no block can hold, still read once.
//!
//! A row that begins at no multiple of 16 bytes takes the same way, element by element.

pub mod group;
pub mod registers;
pub mod value;

use core::mem::MaybeUninit;

use cuda_std::shared::{dynamic_shared_bytes, dynamic_shared_mem};
use cuda_std::warp::sync_warp;

pub use group::{Butterfly, CLUSTER, Exchange, Group, Lanes, Summary, WARP};
pub use value::{Reuse, Value};

use registers::{build, each, unrolled};

/// Most threads in a block.
pub const MAX_THREADS: u32 = 1024;
/// Threads in a block of [`streamed`]: few, so that each has many registers.
pub const STREAM_THREADS: u32 = 512;
/// Elements of a row that a thread holds, of all inputs together.
pub const HELD: usize = 32;
/// Longest row: the number of an element in it, and of those one step further, fits into 32 bits.
pub const MAX_COLUMNS: u32 = i32::MAX as u32;
/// Bytes of a load.
const VECTOR_BYTES: usize = 16;

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

/// Neighbouring elements of a row.
#[derive(Clone, Copy)]
pub struct Place {
    /// The first one's number in the matrix.
    pub at: usize,
    /// Its number in the row.
    pub column: u32,
    /// How many of them the row has: all, or fewer at its end, or none.
    pub count: u32,
    /// Whether they are moved by one instruction: all vectors of all rows are aligned and complete.
    pub whole: bool,
}

impl Place {
    /// Whether the row has the `i`th of the elements.
    #[inline(always)]
    pub fn has(self, i: usize) -> bool {
        if self.whole { self.count != 0 } else { (i as u32) < self.count }
    }
}

/// What is done with rows: `I` inputs of the same shape, of which a vector has `V` elements.
///
/// The inputs, the outputs and what else it needs are pointers in it: the functions say what must be there.
pub trait RowOp<const V: usize, const I: usize>: Copy {
    /// What is learnt of a row.
    type Summary: Summary;
    /// The row's own constants, computed from it.
    type Constants: Copy;

    /// The addresses of all that is moved in vectors, or-ed, and the size of an element: how well it is aligned.
    fn alignment(self) -> (usize, usize);

    /// Whether [`apply`](Self::apply) loads: then the vectors' loads are kept apart, lest they fill the registers.
    const PAUSES: bool = false;

    /// Loads elements of each input; those outside of the row are [`RowOp`]'s own neutral value. Nothing is computed
    /// with them yet: that would wait for the first load before the second one.
    ///
    /// # Safety
    /// The elements of `place` exist, and are aligned if it is whole.
    unsafe fn load(self, place: Place) -> [[f32; V]; I];

    /// What is computed with each vector, once it is there and before anything is learnt of it.
    ///
    /// # Safety
    /// As [`load`](Self::load).
    #[inline(always)]
    unsafe fn prepare<const K: usize>(
        self,
        loaded: [[[f32; V]; I]; K],
        _places: [Place; K],
    ) -> [[[f32; V]; I]; K] {
        loaded
    }

    /// What `K` vectors add to the summary, and what is to be kept of them.
    fn digest<const K: usize>(
        self,
        kept: [[[f32; V]; I]; K],
        places: [Place; K],
    ) -> ([[[f32; V]; I]; K], Self::Summary);

    /// The constants, from what this thread's vectors gave and what the whole row gave.
    fn constants(self, own: Self::Summary, row: Self::Summary) -> Self::Constants;

    /// The results for one vector.
    ///
    /// # Safety
    /// As [`load`](Self::load).
    unsafe fn apply(
        self,
        kept: [[f32; V]; I],
        constants: Self::Constants,
        place: Place,
    ) -> [f32; V];

    /// Stores the results of one vector.
    ///
    /// # Safety
    /// As [`load`](Self::load); no other thread reaches them.
    unsafe fn store(self, results: [f32; V], place: Place);

    /// Called by one thread of each row.
    ///
    /// # Safety
    /// The row exists.
    unsafe fn note(self, _constants: Self::Constants, _row: usize) {}
}

/// The group's vectors in turn: `vector` is the calling thread's `vector`th.
#[inline(always)]
fn place<const V: usize>(group: Group, shape: Shape, vector: u32, whole: bool) -> Place {
    // Below 2^31 and what one step reaches beyond the row's end.
    let column = (vector * group.threads + group.rank) * V as u32;
    // A row that does not exist has no columns.
    let columns = if group.row < shape.rows { shape.columns } else { 0 };
    let count = columns.saturating_sub(column).min(V as u32);
    let at = group.row * shape.columns as usize + column as usize;
    Place { at, column, count, whole }
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

/// Loads vectors, all loads before the first use, and prepares them.
///
/// # Safety
/// As [`RowOp::load`].
#[inline(always)]
unsafe fn load<Op: RowOp<V, I>, const V: usize, const I: usize, const K: usize>(
    op: Op,
    places: [Place; K],
) -> [[[f32; V]; I]; K] {
    let mut loaded = MaybeUninit::<[[[f32; V]; I]; K]>::uninit();
    let first = loaded.as_mut_ptr().cast::<[[f32; V]; I]>();
    // SAFETY: in bounds; the rest is the caller's promise.
    unrolled!(K, |k| unsafe { first.add(k).write(op.load(places[k])) });
    // SAFETY: every element was written; the caller's promise.
    unsafe { op.prepare(loaded.assume_init(), places) }
}

/// Computes the results of vectors and stores them.
///
/// # Safety
/// As [`RowOp::store`]. All lanes of the warp call it.
#[inline(always)]
unsafe fn write<Op: RowOp<V, I>, const V: usize, const I: usize, const K: usize>(
    op: Op,
    kept: [[[f32; V]; I]; K],
    constants: Op::Constants,
    places: [Place; K],
) {
    unrolled!(K, |k| {
        // SAFETY: the caller's promise.
        unsafe {
            op.store(op.apply(kept[k], constants, places[k]), places[k]);
            if Op::PAUSES && ((k + 1) * V).is_multiple_of(PAUSE) {
                pause();
            }
        }
    });
}

/// Elements between two pauses.
pub const PAUSE: usize = 8;

/// Keeps the loads behind it from being moved before it. Without it the assembler gathers the loads of all weights,
/// and the row's own registers go to memory.
///
/// # Safety
/// All lanes of the warp call it.
#[inline(always)]
pub unsafe fn pause() {
    // SAFETY: the caller's promise.
    unsafe { sync_warp(u32::MAX) };
}

/// Whether every vector of every row is aligned and complete.
#[inline(always)]
fn is_whole<Op: RowOp<V, I>, const V: usize, const I: usize>(op: Op, shape: Shape) -> bool {
    let (addresses, size) = op.alignment();
    (addresses | (shape.columns as usize * size)).is_multiple_of(VECTOR_BYTES)
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
    let whole = is_whole(op, shape);
    // SAFETY: every place lies in the row, and the vectors are as aligned as they were found to be.
    let (kept, own) = unsafe {
        if whole {
            let places = places::<V, K>(group, shape, 0, true);
            op.digest(load(op, places), places)
        } else {
            let places = places::<V, K>(group, shape, 0, false);
            op.digest(load(op, places), places)
        }
    };
    let row = group.join::<_, CLUSTERED>(own, exchange);
    let constants = op.constants(own, row);
    let group = group.anew();
    // SAFETY: as for the loads; each thread has elements of its own.
    unsafe {
        if whole {
            write(op, kept, constants, places::<V, K>(group, shape, 0, true));
        } else {
            write(op, kept, constants, places::<V, K>(group, shape, 0, false));
        }
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
    let cache = Cache::<V, I>::new(group);
    let vectors = (shape.columns as usize).div_ceil(V * group.threads as usize) as u32;

    let mut known = Op::Summary::EMPTY;
    let mut first = 0;
    while first < vectors {
        let places = places::<V, K>(group, shape, first, whole);
        // SAFETY: every place lies in the row, and the vectors are as aligned as they were found to be.
        let loaded = unsafe { load(op, places) };
        each::<K>(|k| cache.keep(first + k as u32, loaded[k]));
        known = known.merge(op.digest(loaded, places).1);
        first += K as u32;
    }
    let row = group.join::<_, false>(known, exchange);

    let mut first = 0;
    while first < vectors {
        let places = places::<V, K>(group, shape, first, whole);
        let mut again = MaybeUninit::<[[[f32; V]; I]; K]>::uninit();
        let to = again.as_mut_ptr().cast::<[[f32; V]; I]>();
        unrolled!(K, |k| {
            let kept = match cache.kept(first + k as u32) {
                Some(kept) => kept,
                // SAFETY: as above.
                None => unsafe { load(op, [places[k]])[0] },
            };
            // SAFETY: in bounds.
            unsafe { to.add(k).write(kept) };
        });
        // SAFETY: every element was written.
        let (kept, own) = op.digest(unsafe { again.assume_init() }, places);
        // SAFETY: as above; each thread has elements of its own.
        unsafe { write(op, kept, op.constants(own, row), places) };
        first += K as u32;
    }
    if group.rank == 0 && group.row < shape.rows {
        // SAFETY: the row exists, and this is its first thread.
        unsafe { op.note(op.constants(known, row), group.row) };
    }
}

/// The block's dynamic shared memory, in which each thread keeps vectors of its own: no barrier is needed.
/// Neighbouring threads have neighbouring words, so no two lanes meet in a bank.
#[derive(Clone, Copy)]
struct Cache<const V: usize, const I: usize> {
    words: *mut f32,
    threads: usize,
    rank: usize,
    /// Vectors that each thread keeps.
    vectors: u32,
}

impl<const V: usize, const I: usize> Cache<V, I> {
    #[inline(always)]
    fn new(group: Group) -> Self {
        let threads = group.threads as usize;
        let vectors = dynamic_shared_bytes() / (size_of::<[[f32; V]; I]>() * threads);
        let (words, rank) = (dynamic_shared_mem(), group.rank as usize);
        Self { words, threads, rank, vectors: vectors as u32 }
    }

    /// Where a value of a vector lies.
    #[inline(always)]
    fn word(self, vector: u32, input: usize, i: usize) -> *mut f32 {
        let before = (vector as usize * I + input) * V + i;
        self.words.wrapping_add(before * self.threads + self.rank)
    }

    #[inline(always)]
    fn keep(self, vector: u32, values: [[f32; V]; I]) {
        if vector < self.vectors {
            each::<I>(|input| {
                // SAFETY: inside of the dynamic shared memory, since the vector is among those that fit; the
                // thread's own word.
                each::<V>(|i| unsafe { self.word(vector, input, i).write(values[input][i]) });
            });
        }
    }

    #[inline(always)]
    fn kept(self, vector: u32) -> Option<[[f32; V]; I]> {
        if vector >= self.vectors {
            return None;
        }
        // SAFETY: as above, and written by `keep`.
        Some(build(|input| build(|i| unsafe { self.word(vector, input, i).read() })))
    }
}

/// Loads one vector of a matrix or of a row that all share: by one instruction, or its elements one by one
/// with `absent` for those outside.
///
/// # Safety
/// `from` has the elements at `at`, as many as `place` counts, aligned if it is whole.
#[inline(always)]
pub unsafe fn load_vector<T: Value<V>, const V: usize>(
    from: *const T,
    at: usize,
    place: Place,
    absent: f32,
    reuse: Reuse,
) -> [f32; V] {
    if place.whole {
        if place.count == 0 {
            return [absent; V];
        }
        // SAFETY: the caller's promise.
        return unsafe { T::load(from.wrapping_add(at), reuse) };
    }
    build(|i| {
        if place.has(i) {
            // SAFETY: the caller's promise.
            unsafe { from.wrapping_add(at + i).read() }.widen()
        } else {
            absent
        }
    })
}

/// A vector of a matrix that is read once, with 0 for what is outside.
///
/// # Safety
/// As [`load_vector`].
#[inline(always)]
pub unsafe fn load_row<T: Value<V>, const V: usize>(from: *const T, place: Place) -> [f32; V] {
    // SAFETY: the caller's promise.
    unsafe { load_vector(from, place.at, place, 0.0, Reuse::Once) }
}

/// Stores one vector of a matrix, as [`load_vector`] loads it.
///
/// # Safety
/// As [`load_vector`], of elements that no other thread reaches.
#[inline(always)]
pub unsafe fn store_vector<T: Value<V>, const V: usize>(
    to: *mut T,
    place: Place,
    values: [f32; V],
) {
    if place.whole {
        if place.count != 0 {
            // SAFETY: the caller's promise.
            unsafe { T::store(to.wrapping_add(place.at), values) };
        }
        return;
    }
    each::<V>(|i| {
        if place.has(i) {
            // SAFETY: the caller's promise.
            unsafe { to.wrapping_add(place.at + i).write(T::narrow(values[i])) };
        }
    });
}
