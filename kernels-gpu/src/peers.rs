//! The sum over the devices of one host (all-reduce), by a kernel on each of them that reads the others' memory.
//!
//! For small messages, where the time is that of a few messages between devices and not that of their bytes. Each device has
//! an [`Exchange`]: memory that all others can reach, with two slots for data and flags. A call of
//! [`all_reduce`](fn@all_reduce)
//!
//! 1. copies what the device gives to a slot of its own, and tells all others so by a flag in their memory;
//! 2. up to [`ONCE_BYTES`]: waits for the flags of all others, then adds up all slots (one shot);
//! 3. beyond: adds up its own part of all slots, puts the sums back into its own slot, tells that by a second flag, and
//!    copies the parts of the others from theirs (two shots): each device reads two times what it gives, however many
//!    devices there are.
//!
//! Sums are made in the order of the ranks, so all devices get the same bits, in every run.
//!
//! A call needs no end of its own: a slot is written again by the call after the next, which begins after all others
//! have begun the next one, and so have ended this one. That needs all calls to have the same number of blocks, each of
//! which counts its calls by itself; so calls can be nodes of graphs.
//!
//! Source: the one-shot and two-shot all-reduces of the inference libraries (TensorRT-LLM's and vLLM's custom all-reduce, 2023).

use crate::prelude::*;
use bytemuck::{Pod, Zeroable};
use core::mem::MaybeUninit;
use core::ptr;
use cuda_std::atomic::{self, Ordering, Scope};
use cuda_std::number::{Half, bf16, f16};
use cuda_std::panic::leave_after_panic;
use cuda_std::unroll::{each, each_below};

use crate::quads::{QUAD_BYTES, Quad, per_quad};
use crate::reduce::operator::Number;

/// The most devices.
pub const MAX_RANKS: usize = 8;
/// Blocks of each launch, on every device.
pub const BLOCKS: u32 = 32;
/// Threads in a block.
pub const BLOCK: usize = 512;
/// Up to this many bytes one shot is faster than two.
pub const ONCE_BYTES: usize = 256 << 10;

/// Where the flags begin, behind the blocks' counts of their calls.
const FLAGS: usize = 1024;
/// Where the slots begin.
const SLOTS: usize = 4096;
/// Flags of a shot: one for each block and rank.
const SHOT_FLAGS: usize = BLOCKS as usize * MAX_RANKS;

const _: () = assert!(BLOCKS as usize * size_of::<u32>() <= FLAGS);
const _: () = assert!(FLAGS + 2 * SHOT_FLAGS * size_of::<u32>() <= SLOTS);

/// What a device's exchange memory takes, in bytes, for messages of up to `slot_bytes`, a multiple of 16. It begins as zeros.
#[must_use]
pub const fn exchange_bytes(slot_bytes: usize) -> usize {
    SLOTS + 2 * slot_bytes
}

/// The memory by which the devices exchange what they add up.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
pub struct Exchange {
    /// Of each rank its exchange memory, by the address at which this device reaches it; aligned to 16 bytes.
    pub memory: [u64; MAX_RANKS],
    /// A `u32` that the host sets to something else than 0 to end waits for other devices, or 0.
    pub given_up: u64,
    /// The most bytes of a message.
    pub slot_bytes: u64,
    /// The number of this device.
    pub rank: u32,
    /// How many devices there are.
    pub ranks: u32,
}

/// A number that devices add up: halves in f32, rounded once.
pub trait Summand: Number {
    /// The nearest number of this type.
    fn narrow(sum: Self::Wide) -> Self;
}

macro_rules! summands {
    ($($ty:ty: $narrow:expr),*) => {$(
        impl Summand for $ty {
            #[inline(always)]
            fn narrow(sum: Self::Wide) -> Self {
                $narrow(sum)
            }
        }
    )*};
}

summands! { f32: |x| x, f64: |x| x, i32: |x| x, u64: |x| x, f16: Half::nearest, bf16: Half::nearest }

/// Adds up `x: [n]` of all ranks, element by element, to `out: [n]` of each; with an empty `x`, `out` in its place. Integers wrap.
/// `n` elements are at most as many bytes as a slot has. The grid has [`BLOCKS`] blocks.
///
/// # Safety
/// - All ranks of `exchange` launch the kernel the same number of times with the same `n` and the same type, each on another
///   device or at least so that all their kernels run at once, and in one order on each device.
/// - The exchange memory is as [`exchange_bytes`] says, and nothing else uses it. `given_up` is a word that the host writes
///   atomically, or 0.
/// - After waits have been given up, `out` holds anything.
#[kernel(f32, f64, f16, bf16, i32, u64)]
pub unsafe fn all_reduce<T: Summand>(
    mut block: Block<BLOCK>,
    exchange: Exchange,
    x: &[T],
    mut out: DisjointSlice<T>,
) {
    let n = out.len();
    if n == 0 {
        // Not counted: it would not wait for the other ranks to end the call before.
        return;
    }
    assert!(x.is_empty() || x.len() == n, "input and output have different lengths");
    assert!(
        (n * size_of::<T>()) as u64 <= exchange.slot_bytes,
        "the message is larger than a slot"
    );
    let to = out.as_mut_ptr();
    let from = if x.is_empty() { to.cast_const() } else { x.as_ptr() };
    let member = Member::begin(exchange);
    let is_aligned = (from.addr() | to.addr()).is_multiple_of(QUAD_BYTES);
    let message = Message { from, to, n, is_aligned };
    let once = n * size_of::<T>() <= ONCE_BYTES;
    let parts = Parts::new::<T>(n, if once { 1 } else { exchange.ranks as usize });
    // On all ranks the same blocks have something to do.
    if !parts.is_empty() {
        // SAFETY: the caller's promise.
        unsafe { message.sum(&mut block, member, parts, once) };
    }
    member.end();
}

/// What one device's block of a call knows.
#[derive(Clone, Copy)]
struct Member {
    exchange: Exchange,
    /// The number of this call, from 1, as the block has counted.
    call: u32,
}

impl Member {
    #[inline(always)]
    fn begin(exchange: Exchange) -> Self {
        let mut own = Self { exchange, call: 0 };
        // SAFETY: the block's own count, which no other code writes while this kernel runs.
        own.call = unsafe { own.count().read_volatile() }.wrapping_add(1);
        own
    }

    /// Counts the call. All threads of the block call it together: a barrier is inside, after which all have read the count.
    #[inline(always)]
    fn end(self) {
        thread::sync_threads();
        if thread::thread_idx_x() == 0 {
            // SAFETY: as above; the others do not read it any more.
            unsafe { self.count().write_volatile(self.call) };
        }
    }

    /// The exchange memory of a rank.
    #[inline(always)]
    fn memory(&self, rank: usize) -> *mut u8 {
        // A loop over constants, so that the addresses stay in registers.
        let mut address = self.exchange.memory[0];
        each::<MAX_RANKS>(|k| {
            if k == rank {
                address = self.exchange.memory[k];
            }
        });
        ptr::with_exposed_provenance_mut(address as usize)
    }

    #[inline(always)]
    fn count(&self) -> *mut u32 {
        let own = self.memory(self.exchange.rank as usize).cast::<u32>();
        // SAFETY: there is a count for each block.
        unsafe { own.add(thread::block_idx_x() as usize) }
    }

    /// The flag at rank `at` by which rank `from` tells this block that it has come to the end of a shot.
    #[inline(always)]
    fn flag(&self, at: usize, shot: usize, from: usize) -> *mut u32 {
        let index = shot * SHOT_FLAGS + thread::block_idx_x() as usize * MAX_RANKS + from;
        // SAFETY: there are as many flags.
        unsafe { self.memory(at).add(FLAGS).cast::<u32>().add(index) }
    }

    /// A rank's slot of this call.
    #[inline(always)]
    fn slot(&self, rank: usize) -> *mut Quad {
        let slot = (self.call as usize & 1) * self.exchange.slot_bytes as usize;
        // SAFETY: there are two slots.
        unsafe { self.memory(rank).add(SLOTS + slot).cast() }
    }

    /// Tells the blocks of this number of all ranks that this one has written its slot, and waits until they have. Whether they
    /// have, and were not given up. All threads of the block call it together.
    #[inline(always)]
    fn meet(&self, block: &mut Block<BLOCK>, shot: usize) -> bool {
        // Before the flags: all threads have written.
        thread::sync_threads();
        let peer = thread::thread_idx_x() as usize;
        let mut is_there = true;
        if peer < self.exchange.ranks as usize {
            let told = self.flag(peer, shot, self.exchange.rank as usize);
            // SAFETY: the flag is one of all ranks' memory; all accesses are atomic, of the whole system.
            unsafe { atomic::store(told, self.call, Ordering::Release, Scope::System) };
            is_there = self.wait(self.flag(self.exchange.rank as usize, shot, peer));
        }
        // With the barrier in it: what any thread has acquired, all read.
        block.all(is_there)
    }

    /// Waits for a flag; `false` if that was given up.
    #[inline(always)]
    fn wait(&self, flag: *const u32) -> bool {
        let mut rounds = 0u32;
        // A rank that has gone on to the next call has told that already. Counts wrap.
        // SAFETY: as above.
        let told = || unsafe { atomic::load(flag, Ordering::Acquire, Scope::System) };
        while (told().wrapping_sub(self.call) as i32) < 0 {
            rounds = rounds.wrapping_add(1);
            if rounds.is_multiple_of(1024) {
                leave_after_panic();
                if self.is_given_up() {
                    return false;
                }
            }
        }
        true
    }

    #[inline(always)]
    fn is_given_up(&self) -> bool {
        let word = ptr::with_exposed_provenance::<u32>(self.exchange.given_up as usize);
        // SAFETY: a word that the host writes atomically, unless there is none.
        !word.is_null() && unsafe { atomic::load(word, Ordering::Relaxed, Scope::System) } != 0
    }
}

/// How a message is cut: into parts, one for all ranks or one for each, and those into a stretch for each block.
#[derive(Clone, Copy)]
struct Parts {
    /// How many.
    count: usize,
    /// All quads.
    quads: usize,
    /// Quads of a part.
    part: usize,
    /// Quads of a block's stretch of a part.
    stretch: usize,
    /// Elements behind the last quad, which the last block adds up in one shot.
    rest: usize,
}

impl Parts {
    #[inline(always)]
    fn new<T>(n: usize, count: usize) -> Self {
        let quads = n / per_quad::<T>();
        let part = quads.div_ceil(count);
        let stretch = part.div_ceil(BLOCKS as usize);
        Self { count, quads, part, stretch, rest: n % per_quad::<T>() }
    }

    /// The quads of this block's stretch of a part.
    #[inline(always)]
    fn of(&self, part: usize) -> (usize, usize) {
        let (begin, end) = (part * self.part, ((part + 1) * self.part).min(self.quads));
        let first = begin + thread::block_idx_x() as usize * self.stretch;
        (first.min(end), (first + self.stretch).min(end))
    }

    /// Whether this block adds up the rest.
    #[inline(always)]
    fn has_rest(&self) -> bool {
        self.rest > 0 && thread::block_idx_x() == BLOCKS - 1
    }

    /// Whether this block has nothing to do, on any rank.
    #[inline(always)]
    fn is_empty(&self) -> bool {
        thread::block_idx_x() as usize * self.stretch >= self.part && !self.has_rest()
    }
}

/// What a device gives and gets.
#[derive(Clone, Copy)]
struct Message<T> {
    from: *const T,
    to: *mut T,
    n: usize,
    /// Whether both are aligned to quads.
    is_aligned: bool,
}

impl<T: Summand> Message<T> {
    /// Adds up this block's stretches. All threads of the block call it together.
    ///
    /// # Safety
    /// As [`all_reduce`](fn@all_reduce).
    #[inline(always)]
    unsafe fn sum(self, block: &mut Block<BLOCK>, member: Member, parts: Parts, once: bool) {
        let Exchange { rank, ranks, .. } = member.exchange;
        let (rank, ranks) = (rank as usize, ranks as usize);
        let own = member.slot(rank);
        for part in 0..parts.count {
            // SAFETY: the slot is this rank's, and no rank reads it yet: see the module.
            each_of(parts.of(part), |i| unsafe { own.add(i).write(self.read(i)) });
        }
        if parts.has_rest() {
            // SAFETY: as above.
            each_of((self.n - parts.rest, self.n), |i| unsafe {
                own.cast::<T>().add(i).write(self.from.add(i).read());
            });
        }
        if !member.meet(block, 0) {
            return;
        }
        each_of(parts.of(if once { 0 } else { rank }), |i| {
            let sum = sum_quads::<T>(member, ranks, i);
            // SAFETY: the quad is this block's; in the own slot only this rank has read this part.
            unsafe {
                self.write(i, sum);
                if !once {
                    own.add(i).write(sum);
                }
            }
        });
        if parts.has_rest() {
            // SAFETY: the rest is this block's alone, and lies in all slots.
            each_of((self.n - parts.rest, self.n), |i| unsafe {
                self.to.add(i).write(sum_elements::<T>(member, ranks, i));
            });
        }
        if once || !member.meet(block, 1) {
            return;
        }
        for part in (0..parts.count).filter(|part| *part != rank) {
            let its = member.slot(part);
            // SAFETY: its rank has written the sums of this stretch.
            each_of(parts.of(part), |i| unsafe { self.write(i, its.add(i).read()) });
        }
    }

    /// # Safety
    /// The message has that quad.
    #[inline(always)]
    unsafe fn read(self, i: usize) -> Quad {
        // SAFETY: the caller's promise.
        unsafe {
            if self.is_aligned {
                return self.from.cast::<Quad>().add(i).read();
            }
            let mut quad = MaybeUninit::<Quad>::uninit();
            let (per, to) = (per_quad::<T>(), quad.as_mut_ptr().cast::<T>());
            each_below::<8>(per, |k| to.add(k).write(self.from.add(i * per + k).read()));
            quad.assume_init()
        }
    }

    /// # Safety
    /// The message has that quad, and this thread alone writes it.
    #[inline(always)]
    unsafe fn write(self, i: usize, quad: Quad) {
        // SAFETY: the caller's promise.
        unsafe {
            if self.is_aligned {
                return self.to.cast::<Quad>().add(i).write(quad);
            }
            let (per, from) = (per_quad::<T>(), ptr::from_ref(&quad).cast::<T>());
            each_below::<8>(per, |k| self.to.add(i * per + k).write(from.add(k).read()));
        }
    }
}

/// Calls `f` for this thread's share of a range.
#[inline(always)]
fn each_of((first, end): (usize, usize), mut f: impl FnMut(usize)) {
    let mut i = first + thread::thread_idx_x() as usize;
    while i < end {
        f(i);
        i += BLOCK;
    }
}

/// The sums of the elements of one quad of all slots, in the order of the ranks.
#[inline(always)]
fn sum_quads<T: Summand>(member: Member, ranks: usize, i: usize) -> Quad {
    // All loads before the first addition: each takes the way to another device.
    let mut quads = [Quad::new(0, 0, 0, 0); MAX_RANKS];
    each::<MAX_RANKS>(|r| {
        if r < ranks {
            // SAFETY: all ranks have written their slots, and none writes them again before this call ends.
            quads[r] = unsafe { member.slot(r).add(i).read() };
        }
    });
    let mut sums = quads[0];
    each_below::<8>(per_quad::<T>(), |k| {
        let element = |quad: &Quad| {
            // SAFETY: a quad has as many elements, which are plain.
            unsafe { ptr::from_ref(quad).cast::<T>().add(k).read() }.wide()
        };
        let mut sum = element(&quads[0]);
        each::<MAX_RANKS>(|r| {
            if r > 0 && r < ranks {
                sum = T::plus(sum, element(&quads[r]));
            }
        });
        // SAFETY: as above.
        unsafe { ptr::from_mut(&mut sums).cast::<T>().add(k).write(T::narrow(sum)) };
    });
    sums
}

/// The sum of one element of all slots.
#[inline(always)]
fn sum_elements<T: Summand>(member: Member, ranks: usize, i: usize) -> T {
    // SAFETY: as for quads.
    let element = |rank| unsafe { member.slot(rank).cast::<T>().add(i).read() }.wide();
    let mut sum = element(0);
    for rank in 1..ranks {
        sum = T::plus(sum, element(rank));
    }
    T::narrow(sum)
}
