//! [`Tile`]: 2 to 32 neighbouring lanes of a warp, and [`Warp`], all 32.

use super::{Bits, Coalesced, Number, Plain};
use crate::block::Block;
use core::marker::PhantomData;
use cuda_std_macros::gpu_only;

#[cfg(target_os = "cuda")]
use super::{WarpReductionOp, lane_id, raw, words};
#[cfg(target_os = "cuda")]
use crate::{arch, thread};

/// `N` neighbouring lanes of a warp that do everything here together: 2, 4, 8, 16 or all 32.
///
/// The first lane's number is a multiple of `N`. A tile is a handle without a size, of which each
/// lane holds its own; [`Warp::current`] and [`Warp::tile`] make it.
///
/// **All lanes of the tile call the same function together.** Different tiles of a warp may go
/// different ways. Where a branch keeps a lane of the tile away from a call, the call waits for it:
/// the kernel hangs, or the call meets another one elsewhere in the program and gives values of
/// that. The emulator reports such a call.
///
/// # Why the functions are safe
///
/// 1. The mask that each instruction gets is the tile's own lanes. The calling lane is one of them.
/// 2. All of these lanes exist, since [`Warp::current`] refuses a block that is not a multiple of 32
///    threads. Those that have ended are no longer waited for.
/// 3. The values that travel are [`Plain`]: whatever bits arrive, from a lane that has ended or that
///    is in another call, are a value of the type.
/// 4. So a wrong use gives a wrong value or no end, and no undefined behaviour. No unsafe code here
///    relies on a value that arrives, and none elsewhere may.
///
/// ```compile_fail,E0277
/// fn share<T: Send>(_: T) {}
/// fn to_another_thread(warp: cuda_std::warp::Warp) {
///     share(warp);
/// }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tile<const N: u32> {
    not_send: PhantomData<*const ()>,
}

/// All 32 lanes of a warp.
pub type Warp = Tile<32>;

/// Says, as `TileSize<N>: Lanes`, that tiles of `N` lanes exist.
#[derive(Clone, Copy, Debug)]
pub struct TileSize<const N: u32>;

/// Implemented for the sizes of tiles: 2, 4, 8, 16 and 32.
#[diagnostic::on_unimplemented(
    message = "a warp has no tiles of this size: `{Self}`",
    label = "a tile has 2, 4, 8, 16 or 32 lanes"
)]
pub trait Lanes {}

impl Lanes for TileSize<2> {}
impl Lanes for TileSize<4> {}
impl Lanes for TileSize<8> {}
impl Lanes for TileSize<16> {}
impl Lanes for TileSize<32> {}

impl Warp {
    /// The warp of the calling thread, all of whose lanes call this together.
    ///
    /// Panics if the block's number of threads is not a multiple of 32: its last warp would lack
    /// lanes. The test costs a few instructions, once; [`assume_full`](Self::assume_full) has none.
    #[gpu_only]
    #[inline(always)]
    #[track_caller]
    pub fn current() -> Self {
        assert!(
            thread::threads_in_block().is_multiple_of(32),
            "a warp needs all its lanes: the block's number of threads is a multiple of 32"
        );
        // SAFETY: just checked.
        unsafe { Self::assume_full() }
    }

    /// The warp of the calling thread of a block whose contract says its number of threads, a
    /// multiple of 32: that is checked when the kernel is compiled. All lanes call this together.
    #[inline(always)]
    pub fn of<const X: usize, const Y: usize, const Z: usize>(_block: &Block<X, Y, Z>) -> Self {
        const {
            let threads = Block::<X, Y, Z>::THREADS;
            assert!(
                threads.is_multiple_of(32),
                "a warp needs all its lanes: the block's number of threads is a multiple of 32"
            );
        }
        // SAFETY: just checked; a `Block` says what the launch has.
        unsafe { Self::assume_full() }
    }

    /// [`current`](Self::current) without the test.
    ///
    /// # Safety
    /// The number of threads of the block is a multiple of 32.
    #[inline(always)]
    pub const unsafe fn assume_full() -> Self {
        Self { not_send: PhantomData }
    }

    /// The tile of `N` lanes in which this lane is.
    #[inline(always)]
    pub const fn tile<const N: u32>(self) -> Tile<N>
    where
        TileSize<N>: Lanes,
    {
        Tile { not_send: PhantomData }
    }
}

impl<const N: u32> Tile<N> {
    /// The number of lanes, `N`.
    #[inline(always)]
    pub const fn size(self) -> u32 {
        N
    }

    /// The number of this lane in the tile, 0 to `N - 1`.
    #[gpu_only]
    #[inline(always)]
    pub fn thread_rank(self) -> u32 {
        lane_id() & (N - 1)
    }

    /// The number of this tile among those of the block.
    #[gpu_only]
    #[inline(always)]
    pub fn meta_group_rank(self) -> u32 {
        thread::index_in_block() / N
    }

    /// How many tiles of this size the block has.
    #[gpu_only]
    #[inline(always)]
    pub fn meta_group_size(self) -> u32 {
        thread::threads_in_block() / N
    }

    /// The tile's lanes: bit `i` stands for lane `i` of the warp.
    #[gpu_only]
    #[inline(always)]
    pub fn mask(self) -> u32 {
        if N == 32 { !0 } else { ((1 << (N & 31)) - 1) << self.first_lane() }
    }

    /// The lane of the warp that has rank 0.
    #[cfg(target_os = "cuda")]
    #[inline(always)]
    fn first_lane(self) -> u32 {
        if N == 32 { 0 } else { lane_id() & (32 - N) }
    }

    /// True in one lane, the same one for all lanes of the tile, and false in the others.
    ///
    /// For a warp on `sm_90` and later one instruction, with which the assembler knows that the
    /// branch is one thread's.
    #[gpu_only]
    #[inline(always)]
    pub fn elect(self) -> bool {
        if N == 32 && arch::compute_capability() >= 900 {
            // SAFETY: the mask is the tile's; see the type.
            unsafe { raw::elect_sync(self.mask()).1 }
        } else {
            self.thread_rank() == 0
        }
    }

    #[cfg(target_os = "cuda")]
    #[inline(always)]
    fn is_first(self) -> bool {
        self.thread_rank() == 0
    }

    /// The value of the tile's last lane.
    #[cfg(target_os = "cuda")]
    #[inline(always)]
    fn from_last<T: Plain>(self, value: T) -> T {
        self.shuffle(value, N - 1)
    }

    /// The value of the lane with number `rank`, which counts modulo `N`.
    #[gpu_only]
    #[inline(always)]
    pub fn shuffle<T: Plain>(self, value: T, rank: u32) -> T {
        let mask = self.mask();
        // SAFETY: the mask is the tile's; see the type.
        words::map_words(value, |word| unsafe {
            raw::shfl_idx(mask, word, rank, Self::SEGMENT | 31)
        })
    }

    /// The value of the lane whose rank is less by `delta` (below 32); its own where there is none.
    #[gpu_only]
    #[inline(always)]
    pub fn shuffle_up<T: Plain>(self, value: T, delta: u32) -> T {
        let mask = self.mask();
        // SAFETY: the mask is the tile's; see the type.
        words::map_words(value, |word| unsafe { raw::shfl_up(mask, word, delta, Self::SEGMENT) })
    }

    /// The value of the lane whose rank is more by `delta` (below 32); its own where there is none.
    #[gpu_only]
    #[inline(always)]
    pub fn shuffle_down<T: Plain>(self, value: T, delta: u32) -> T {
        let mask = self.mask();
        // SAFETY: the mask is the tile's; see the type.
        words::map_words(value, |word| unsafe {
            raw::shfl_down(mask, word, delta, Self::SEGMENT | 31)
        })
    }

    /// The value of the lane whose rank is this one's, exclusive-or `bits`, which counts modulo `N`.
    #[gpu_only]
    #[inline(always)]
    pub fn shuffle_xor<T: Plain>(self, value: T, bits: u32) -> T {
        let mask = self.mask();
        // SAFETY: the mask is the tile's; see the type.
        words::map_words(value, |word| unsafe {
            raw::shfl_xor(mask, word, bits & (N - 1), Self::SEGMENT | 31)
        })
    }

    /// The segment mask of the shuffle instruction, for tiles of `N` lanes.
    #[cfg(target_os = "cuda")]
    const SEGMENT: u32 = (32 - N) << 8;

    /// The lanes in which `predicate` holds: bit `i` stands for the lane of rank `i`.
    #[gpu_only]
    #[inline(always)]
    pub fn ballot(self, predicate: bool) -> u32 {
        // SAFETY: the mask is the tile's; see the type.
        unsafe { raw::vote_ballot(self.mask(), predicate) >> self.first_lane() }
    }

    /// The lanes whose `value` has the same bits as this one's: bit `i` stands for the lane of rank
    /// `i`. One instruction for up to 8 bytes, one for every 4 of more.
    #[gpu_only]
    #[inline(always)]
    pub fn match_any<T: Plain>(self, value: T) -> u32 {
        // SAFETY: the mask is the tile's; see the type.
        unsafe { words::match_any(self.mask(), value) >> self.first_lane() }
    }

    /// The lanes of the tile whose `key` has the same bits as this one's, as a group.
    #[gpu_only]
    #[inline(always)]
    pub fn partition<T: Plain>(self, key: T) -> Coalesced {
        // SAFETY: the mask is the tile's; see the type. The lanes of the result are those that have
        // the caller's key, and get the same result.
        unsafe { Coalesced::from_mask(words::match_any(self.mask(), key)) }
    }

    /// Joins the values of all lanes by `op`; every lane gets the result.
    ///
    /// `op` is associative; it need not be commutative: the lanes are joined in order, as
    /// `((v0 v1) (v2 v3)) …`. A float sum is therefore the same in every run.
    #[gpu_only]
    #[inline(always)]
    pub fn reduce<T: Plain>(self, value: T, op: impl Fn(T, T) -> T) -> T {
        let (rank, mut joined, mut step) = (self.thread_rank(), value, 1);
        while step < N {
            let other = self.shuffle_xor(joined, step);
            let is_left = rank & step == 0;
            joined = if is_left { op(joined, other) } else { op(other, joined) };
            step *= 2;
        }
        joined
    }

    /// [`reduce`](Self::reduce) by an operation that is commutative too.
    #[cfg(target_os = "cuda")]
    #[inline(always)]
    fn reduce_commutative<T: Plain>(self, value: T, op: impl Fn(T, T) -> T) -> T {
        let (mut joined, mut step) = (value, 1);
        while step < N {
            joined = op(joined, self.shuffle_xor(joined, step));
            step *= 2;
        }
        joined
    }

    /// One `redux` where it exists, else a butterfly of shuffles.
    #[cfg(target_os = "cuda")]
    #[inline(always)]
    fn join<T: Number>(self, value: T, op: WarpReductionOp, otherwise: fn(T, T) -> T) -> T {
        if N == 32 {
            // SAFETY: the mask is the warp's; see the type.
            if let Some(joined) = unsafe { value.redux(self.mask(), op) } {
                return joined;
            }
        }
        self.reduce_commutative(value, otherwise)
    }

    super::group::group_functions!();

    /// The values of the lanes up to this one, joined in order by the associative `op`.
    #[gpu_only]
    #[inline(always)]
    pub fn inclusive_scan<T: Plain>(self, value: T, op: impl Fn(T, T) -> T) -> T {
        let (rank, mut joined, mut step) = (self.thread_rank(), value, 1);
        while step < N {
            let before = self.shuffle_up(joined, step);
            if rank >= step {
                joined = op(before, joined);
            }
            step *= 2;
        }
        joined
    }
}
