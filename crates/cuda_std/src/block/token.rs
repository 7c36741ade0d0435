//! [`Block`]: the token that stands for the block in barriers and collectives.

use crate::shared::Phase;
use crate::thread;
use crate::warp::Warp;
use core::marker::PhantomData;

/// The block of the calling thread, of `X * Y * Z` threads: a kernel parameter, `mut block: Block<256>`.
///
/// Barriers and collectives take it by `&mut`. All threads of the block call them together: the same
/// calls in the same order. A kernel has at most one token; it can be lent to a function, but neither
/// copied nor sent, nor used inside a closure that a collective runs:
///
/// ```compile_fail,E0499
/// # use cuda_std::block::Block;
/// fn nested(block: &mut Block<256>) {
///     block.each(|thread| {
///         if thread.index < 32 {
///             block.sync(()); // the other 224 threads would never come
///         }
///     });
/// }
/// ```
///
/// ```compile_fail,E0277
/// # use cuda_std::block::Block;
/// fn send<T: Send>(_: T) {}
/// fn away(block: Block<256>) {
///     send(block); // the token belongs to its thread
/// }
/// ```
///
/// The shape is part of the kernel's [contract](crate::contract): a launch says how many blocks, and
/// no other shape can be launched.
///
/// # What it is a proof of
///
/// It is made only by the entry that `#[kernel]` writes, for a kernel whose contract says that its
/// blocks have this shape. So [`thread`](Self::thread) is below [`THREADS`](Self::THREADS), and
/// different in each thread of the block.
#[derive(Debug)]
pub struct Block<const X: usize, const Y: usize = 1, const Z: usize = 1> {
    /// Which half of its own memory the next collective uses: 0 or 1.
    pub(super) turn: usize,
    not_send: PhantomData<*mut ()>,
}

/// A thread's position in its block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Thread {
    /// Its number in the block, x fastest.
    pub index: usize,
    /// Its place along x.
    pub x: usize,
    /// Its place along y.
    pub y: usize,
    /// Its place along z.
    pub z: usize,
}

impl<const X: usize, const Y: usize, const Z: usize> Block<X, Y, Z> {
    /// The threads of the block.
    pub const THREADS: usize = {
        assert!(X > 0 && Y > 0 && Z > 0, "a block has at least one thread");
        assert!(X <= 1024 && Y <= 1024 && Z <= 64, "a block has at most 1024 × 1024 × 64 threads");
        assert!(X * Y * Z <= 1024, "a block has at most 1024 threads");
        X * Y * Z
    };

    /// The warps of the block, the last one perhaps with fewer than 32 threads.
    pub const WARPS: usize = Self::THREADS.div_ceil(32);

    /// The token.
    ///
    /// # Safety
    /// The launch has blocks of this shape, and the thread makes no other token.
    #[cfg(target_os = "cuda")]
    #[doc(hidden)]
    #[inline(always)]
    pub unsafe fn from_hardware() -> Self {
        const { assert!(Self::THREADS > 0) };
        Self { turn: 0, not_send: PhantomData }
    }

    /// The thread's number in the block, below [`THREADS`](Self::THREADS), x fastest.
    #[inline(always)]
    pub fn thread(&self) -> usize {
        if const { Y == 1 && Z == 1 } {
            return self.x();
        }
        let index = (self.z() * Y + self.y()) * X + self.x();
        // SAFETY: each coordinate is below its extent.
        unsafe { core::hint::assert_unchecked(index < Self::THREADS) };
        index
    }

    /// The thread's place along x, below `X`.
    #[inline(always)]
    pub fn x(&self) -> usize {
        below::<X>(thread::thread_idx_x())
    }

    /// The thread's place along y, below `Y`.
    #[inline(always)]
    pub fn y(&self) -> usize {
        below::<Y>(thread::thread_idx_y())
    }

    /// The thread's place along z, below `Z`.
    #[inline(always)]
    pub fn z(&self) -> usize {
        below::<Z>(thread::thread_idx_z())
    }

    /// The number of the thread's warp, below [`WARPS`](Self::WARPS).
    #[inline(always)]
    pub fn warp(&self) -> usize {
        self.thread() / 32
    }

    /// The thread's lane in its warp, below 32.
    #[inline(always)]
    pub fn lane(&self) -> usize {
        self.thread() % 32
    }

    /// The thread's warp, with all its lanes, whose shuffles and votes are safe. In a block without whole
    /// warps the kernel does not compile.
    #[inline(always)]
    pub fn whole_warp(&self) -> Warp {
        const { assert!(Self::THREADS.is_multiple_of(32), "the block's last warp lacks lanes") };
        // SAFETY: just checked.
        unsafe { Warp::assume_full() }
    }

    /// The thread's position in its block.
    #[inline(always)]
    pub fn place(&self) -> Thread {
        Thread { index: self.thread(), x: self.x(), y: self.y(), z: self.z() }
    }

    /// Waits until every thread of the block is here, makes their writes visible to one another, and
    /// takes shared arrays to their next phase: `let tile = block.sync(tile)`, or
    /// `let (a, b) = block.sync((a, b))`. `block.sync(())` only waits.
    #[inline(always)]
    pub fn sync<P: Phase>(&mut self, phases: P) -> P::Next {
        thread::sync_threads();
        // SAFETY: this is the barrier.
        unsafe { phases.next() }
    }

    /// Waits for the block, and gives each thread the number of threads whose `predicate` holds.
    #[inline(always)]
    pub fn count(&mut self, predicate: bool) -> usize {
        thread::sync_threads_count(u32::from(predicate)) as usize
    }

    /// Waits for the block, and returns to each thread whether `predicate` holds in all.
    #[inline(always)]
    pub fn all(&mut self, predicate: bool) -> bool {
        thread::sync_threads_and(u32::from(predicate)) != 0
    }

    /// Waits for the block, and returns to each thread whether `predicate` holds in any.
    #[inline(always)]
    pub fn any(&mut self, predicate: bool) -> bool {
        thread::sync_threads_or(u32::from(predicate)) != 0
    }

    /// Runs `f` in every thread, with the token out of reach: what differs from thread to thread
    /// stands in here, and no barrier can.
    #[inline(always)]
    pub fn each<R>(&mut self, f: impl FnOnce(Thread) -> R) -> R {
        f(self.place())
    }

    /// Runs `f` in thread 0 alone, with the token out of reach.
    #[inline(always)]
    pub fn once<R>(&mut self, f: impl FnOnce() -> R) -> Option<R> {
        (self.thread() == 0).then(f)
    }
}

/// A coordinate of the thread, of which the token says that it is below `N`.
#[inline(always)]
fn below<const N: usize>(coordinate: u32) -> usize {
    if N == 1 {
        return 0;
    }
    // SAFETY: the launch has blocks of the token's shape.
    unsafe { core::hint::assert_unchecked((coordinate as usize) < N) };
    coordinate as usize
}
