//! The first `k` keys in order, and where they stand, without sorting the others.
//!
//! 1. [`top_k_count`](fn@top_k_count), a round for each eleven bits from the highest down: counts the digits of the keys that begin as
//!    the key number `k` does, as far as it is known, and so finds its next eleven bits. Behind the last round that key is
//!    known, and how many of those equal to it are wanted.
//! 2. [`top_k_collect`](fn@top_k_collect): writes the keys before it, and the first of the equal ones, in the order in which they
//!    came; tiles look back on the counts of those before them, as in a [scan](crate::scan).
//!
//! The `k` keys are then few enough to sort. All keys are read once a round, and once more. (T. Alabi, J. D. Blanchard, B. Gordon and
//! R. Steinbach, "Fast k-Selection Algorithms for Graphics Processing Units", 2012.)

use core::sync::atomic::{AtomicU32, AtomicU64};

use crate::prelude::*;
use cuda_std::atomic::{self, Scope};
use cuda_std::unroll::{build, each};
use cuda_std::warp::Warp;

use super::key::{Order, Word};
use super::walk::each_key;

/// Threads in a block.
pub const THREADS: usize = 512;
/// Keys of a thread of [`top_k_collect`](fn@top_k_collect).
const ITEMS: usize = 8;
/// Keys of a tile of [`top_k_collect`](fn@top_k_collect).
pub const TILE: usize = THREADS * ITEMS;
/// Bits of a digit.
const DIGIT_BITS: u32 = 11;
const DIGITS: usize = 1 << DIGIT_BITS;
/// Most keys that can be asked for.
pub const MAX_K: usize = (1 << 31) - 1;

/// Rounds for keys of `bits` bits.
#[must_use]
pub const fn rounds(bits: u32) -> u32 {
    bits.div_ceil(DIGIT_BITS)
}

/// Words at the front: the key as far as it is known, how many equal ones are wanted, the next tile, the blocks that
/// have finished each round.
const KEY: usize = 0;
const WANTED: usize = 1;
const TICKET: usize = 2;
const FINISHED: usize = 3;
const COUNTS: usize = 16;

/// Words of 8 bytes for a search among `n_elems` keys of `bits` bits, all 0 before the first round.
#[must_use]
pub const fn state_words(n_elems: usize, bits: u32) -> usize {
    tile_states(bits) + n_elems.div_ceil(TILE)
}

/// Where the states of the tiles begin.
const fn tile_states(bits: u32) -> usize {
    COUNTS + rounds(bits) as usize * DIGITS
}

/// A round of the search for the key number `k`, from 1, of `keys: [n]` in order.
///
/// # Safety
/// `state` has [`state_words`] words, as the rounds before left them, and `1 <= k <= n`.
#[kernel(u8, u16, u32, u64)]
pub unsafe fn top_k_count<K: Word>(
    mut block: Block<THREADS>,
    keys: &[K],
    order: Order,
    k: u64,
    round: u32,
    state: AtomicSlice<u64>,
) {
    let counters = shared_array![u32; DIGITS].as_mut_ptr();
    let state = state.as_mut_ptr();
    let first_bit = K::BITS - round * DIGIT_BITS;
    let width = first_bit.min(DIGIT_BITS);
    let (shift, thread) = (first_bit - width, block.thread());
    // SAFETY: the counters are reached atomically, or behind barriers by their owners; of the state only the last
    // block changes what the others read, after they have finished.
    unsafe {
        each::<{ DIGITS / THREADS }>(|i| counters.add(thread + i * THREADS).write(0));
        let known = K::of(state.add(KEY).read());
        // Every counter is 0 before any thread counts.
        block.sync(());
        each_key(keys, THREADS, |key| {
            let digit = key.ordered(order).apart(known, shift) as usize;
            if digit < 1 << width {
                AtomicU32::from_ptr(counters.add(digit)).fetch_add(1, Relaxed);
            }
        });
        // Every key is counted.
        block.sync(());
        let counts = state.add(COUNTS + round as usize * DIGITS);
        each::<{ DIGITS / THREADS }>(|i| {
            let digit = thread + i * THREADS;
            let count = counters.add(digit).read();
            if count > 0 {
                AtomicU64::from_ptr(counts.add(digit)).fetch_add(count.into(), Relaxed);
            }
        });
        // The counts of all threads are in global memory before the block says that it has finished.
        block.sync(());
        let finished = state.add(FINISHED + round as usize);
        let is_last = |before| before == u64::from(thread::grid_dim_x() - 1);
        let last = block.once(|| is_last(atomic::fetch_add(finished, 1, AcqRel, Scope::Device)));
        if !block.any(last.unwrap_or(false)) {
            return;
        }
        let own: [u64; DIGITS / THREADS] = build(|i| {
            let count = counts.add(thread * (DIGITS / THREADS) + i);
            atomic::load(count, Relaxed, Scope::Device)
        });
        let wanted = if round == 0 { k } else { state.add(WANTED).read() };
        // The number that is wanted is read before it is changed: the barrier in it.
        let (before, _) = block.exclusive_scan(own, 0, u64::wrapping_add);
        each::<{ DIGITS / THREADS }>(|i| {
            if before[i] < wanted && wanted <= before[i] + own[i] {
                let digit = (thread * (DIGITS / THREADS) + i) as u64;
                state.add(KEY).write(known.word() | digit << shift);
                state.add(WANTED).write(wanted - before[i]);
            }
        });
    }
}

/// Keys of a tile: those before the key that was found, and those equal to it.
#[derive(Clone, Copy)]
struct Found {
    before: u64,
    equal: u64,
}

impl Found {
    /// As one word, in which 31 bits each suffice: more than [`MAX_K`] of either are never asked for.
    #[inline(always)]
    fn word(self) -> u64 {
        self.before << 31 | self.equal
    }

    #[inline(always)]
    fn of(word: u64) -> Self {
        let mask = (1 << 31) - 1;
        Self { before: word >> 31 & mask, equal: word & mask }
    }

    /// Both together, of the equal ones no more than are wanted.
    #[inline(always)]
    fn and(self, other: Self, wanted: u64) -> Self {
        let equal = self.equal + other.equal;
        Self { before: self.before + other.before, equal: equal.min(wanted) }
    }
}

/// Bits of a tile's state that say what it tells: of itself, or of all up to it.
const OWN: u64 = 1 << 62;
const UP_TO: u64 = 2 << 62;

/// Writes the keys that the rounds have found, and their places, in the order in which they came.
///
/// # Safety
/// `state` is what the last round left, the launch has a block for each [`TILE`] keys, and both results have `k`
/// elements.
#[kernel(u8, u16, u32, u64)]
pub unsafe fn top_k_collect<K: Word>(
    mut block: Block<THREADS>,
    keys: &[K],
    order: Order,
    state: AtomicSlice<u64>,
    mut out: DisjointSlice<K>,
    mut places: DisjointSlice<u32>,
) {
    let state = state.as_mut_ptr();
    let (out, places) = (out.as_mut_ptr(), places.as_mut_ptr());
    let (warp, lane) = (block.whole_warp(), block.lane() as u32);
    // SAFETY: the state is as the kernel asks; places in the results are ranks among those that are wanted.
    unsafe {
        let ticket = state.add(TICKET);
        let take = || atomic::fetch_add(ticket, 1, Relaxed, Scope::Device);
        let ticket = block.once(take).unwrap_or(0);
        let tile = block.broadcast(ticket, 0) as usize;
        let (known, wanted) = (K::of(state.add(KEY).read()), state.add(WANTED).read());
        let first = tile * TILE + block.warp() * (32 * ITEMS) + block.lane();
        let own: [Option<K>; ITEMS] = build(|k| keys.get(first + 32 * k).copied());
        let is =
            |k: usize, wanted| own[k].is_some_and(|key| key.ordered(order).cmp(&known) == wanted);
        let before: [u32; ITEMS] = build(|k| warp.ballot(is(k, core::cmp::Ordering::Less)));
        let equal: [u32; ITEMS] = build(|k| warp.ballot(is(k, core::cmp::Ordering::Equal)));
        let mut of_warp = Found { before: 0, equal: 0 };
        each::<ITEMS>(|k| {
            of_warp.before += u64::from(before[k].count_ones());
            of_warp.equal += u64::from(equal[k].count_ones());
        });
        let of_lane = if lane == 0 { of_warp.word() } else { 0 };
        let join = |a, b| Found::of(a).and(Found::of(b), wanted).word();
        let states = state.add(tile_states(K::BITS));
        let look = |total| look_back(warp, states, tile, Found::of(total), wanted).word();
        let ([sum], _) = block.scan_with_prefix([of_lane], join, look);
        let mut sum = Found::of(warp.broadcast(sum, 0));
        let below = (1u32 << lane) - 1;
        each::<ITEMS>(|k| {
            let mine = Found {
                before: u64::from((before[k] & below).count_ones()),
                equal: u64::from((equal[k] & below).count_ones()),
            };
            let equal_before = sum.equal + mine.equal;
            let is_wanted =
                before[k] >> lane & 1 == 1 || (equal[k] >> lane & 1 == 1 && equal_before < wanted);
            if let Some(key) = own[k].filter(|_| is_wanted) {
                let place = (sum.before + mine.before + equal_before.min(wanted)) as usize;
                out.add(place).write(key);
                places.add(place).write((first + 32 * k) as u32);
            }
            sum.before += u64::from(before[k].count_ones());
            sum.equal += u64::from(equal[k].count_ones());
        });
    }
}

/// Says what this tile found, and gives what all tiles before it found. All lanes of one warp call it.
///
/// # Safety
/// `states` has a word for each tile, 0 before the kernel.
#[inline(always)]
unsafe fn look_back(warp: Warp, states: *mut u64, tile: usize, own: Found, wanted: u64) -> Found {
    let lane = warp.thread_rank() as usize;
    let publish = |kind: u64, found: Found| {
        if lane == 0 {
            // SAFETY: the tile's own word.
            unsafe { atomic::store(states.add(tile), kind | found.word(), Relaxed, Scope::Device) };
        }
    };
    if tile > 0 {
        publish(OWN, Found { before: 0, equal: 0 }.and(own, wanted));
    }
    let mut sum = Found { before: 0, equal: 0 };
    // The tiles from `first` to this one are in `sum`.
    let mut first = tile;
    loop {
        // Lane 0 looks at the nearest of 32 tiles. What comes before tile 0 is known to be nothing.
        let seen = match first.checked_sub(1 + lane) {
            // SAFETY: a tile before this one.
            Some(other) => unsafe { wait_for(states.add(other)) },
            None => UP_TO,
        };
        let known = warp.ballot(seen >> 62 == UP_TO >> 62);
        let found = Found::of(if lane as u32 <= known.trailing_zeros() { seen } else { 0 });
        let all = Found { before: warp.sum(found.before), equal: warp.sum(found.equal) };
        sum = sum.and(all, wanted);
        if known != 0 {
            break;
        }
        first -= 32;
    }
    publish(UP_TO, sum.and(own, wanted));
    sum
}

/// The state of a tile, once it says anything.
///
/// # Safety
/// `state` is a tile's word.
#[inline(always)]
unsafe fn wait_for(state: *const u64) -> u64 {
    loop {
        // SAFETY: the caller's promise.
        let seen = unsafe { atomic::load(state, Relaxed, Scope::Device) };
        if seen != 0 {
            return seen;
        }
        super::control::wait();
    }
}
