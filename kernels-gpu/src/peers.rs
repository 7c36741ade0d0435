//! The sum over the devices of one host (all-reduce), by a kernel on each of them that writes into the others' memory.
//!
//! For small messages, where the time is that of a few messages between devices and not that of their bytes. Each device has
//! an [`Exchange`]: memory that all others can reach. What a device has to say is always written there by its peers, since a store
//! to another device goes its way once, and a load there and back. There are two kernels:
//!
//! * [`all_reduce_lines`](fn@all_reduce_lines), up to [`lines_bytes`]: each word goes to all peers together with the number of
//!   the call, in one atomic store of 8 bytes. The reader polls the word itself: no flag, no fence and no barrier.
//! * [`all_reduce`](fn@all_reduce) beyond: plain 16-byte stores, and a flag for each block. Of two devices each sends all it has
//!   to the other (one shot). Of more, each sends every other one that one's part, adds up its own part, and sends the sums to
//!   all (two shots): each device sends two times what it gives at most, however many devices there are.
//!
//! Sums are made in the order of the ranks, so all devices get the same bits, in every run.
//!
//! # Why a call needs no end of its own
//!
//! The host numbers the calls, and the memory that a call uses is that of its number's parity. Let rank A write, in call *k* + 2,
//! what rank B has read in call *k*. A's kernels run in the order of the calls, so its call *k* + 1 has ended. That call has waited
//! for something which B has written in call *k* + 1; so B had begun that call, and had ended call *k*. It holds for calls of both
//! kernels, of any sizes, and whichever blocks have something to do, as long as a call of no elements is not made at all.
//!
//! What a call waits for is never mistaken for an older call's: words and flags bear the number of the call, and there are less
//! than [`CALLS`] calls.
//!
//! Source: the one-shot and two-shot all-reduces of the inference libraries (TensorRT-LLM's and vLLM's custom all-reduce, 2023), and
//! NCCL's low-latency protocol, which sends a flag with each word.

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
/// The most blocks of a launch: all of them have to run at once, on every device.
pub const MOST_BLOCKS: u32 = 128;
/// Threads in a block.
pub const BLOCK: usize = 512;
/// The numbers of calls are less than this, and not 0.
pub const CALLS: u32 = 1 << 31;

/// A line: what a thread of [`all_reduce_lines`](fn@all_reduce_lines) sends and receives, as two words.
const LINE_BYTES: usize = 8;
/// The largest message in lines: a thread has a line, and all blocks run at once.
const MOST_IN_LINES: usize = MOST_BLOCKS as usize * BLOCK * LINE_BYTES;
/// The most that a device sends of a message in lines, to all others together; beyond, two words for one take longer than the second
/// shot of [`all_reduce`](fn@all_reduce) and its flags.
const SENT_IN_LINES: usize = 2 * MOST_IN_LINES;

/// Flags of a shot: one for each block and rank.
const SHOT_FLAGS: usize = MOST_BLOCKS as usize * MAX_RANKS;
/// Where the lines begin, behind the flags.
const LINES: usize = 2 * SHOT_FLAGS * size_of::<u32>();
/// The lines of one parity: two words for each word of the messages of all ranks, which are 512 KiB each of three, and less altogether of
/// other numbers.
const LINES_SPAN: usize = 2 * 3 * MOST_IN_LINES;
/// Where the quads begin.
const QUADS: usize = LINES + 2 * LINES_SPAN;
/// Parts of a message begin at quads, so that all of them may take a little more than the message.
const SLACK: usize = MAX_RANKS * QUAD_BYTES;

/// What a device's exchange memory takes, in bytes, for messages of up to `slot_bytes`, a multiple of 16. It begins as zeros.
#[must_use]
pub const fn exchange_bytes(slot_bytes: usize) -> usize {
    QUADS + 4 * (slot_bytes + SLACK)
}

/// Up to this many bytes a message among `ranks` devices goes in lines.
#[must_use]
pub const fn lines_bytes(ranks: usize) -> usize {
    let others = if ranks < 2 { 1 } else { ranks - 1 };
    let bytes = SENT_IN_LINES / others / LINE_BYTES * LINE_BYTES;
    if bytes < MOST_IN_LINES { bytes } else { MOST_IN_LINES }
}

/// The blocks of a launch of [`all_reduce_lines`](fn@all_reduce_lines) for a message of `bytes` bytes.
#[must_use]
pub const fn line_blocks(bytes: usize) -> u32 {
    bytes.div_ceil(LINE_BYTES).div_ceil(BLOCK) as u32
}

/// The blocks of a launch of [`all_reduce`](fn@all_reduce) for a message of `bytes` bytes: one for as many quads as it has threads,
/// until there are as many as run at once.
#[must_use]
pub const fn quad_blocks(bytes: usize) -> u32 {
    let blocks = bytes.div_ceil(QUAD_BYTES).div_ceil(BLOCK);
    if blocks < MOST_BLOCKS as usize { blocks as u32 } else { MOST_BLOCKS }
}

/// The memory by which the devices exchange what they add up, and which call this is.
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
    /// The number of the call, from 1: the same on all devices, one more for each call of either kernel.
    pub call: u32,
    /// Not used.
    pub padding: u32,
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
/// `n` is not 0, and `n` elements are at most [`lines_bytes`]. The grid has [`line_blocks`] blocks.
///
/// # Safety
/// - All ranks of `exchange` make the same calls, of this kernel and of [`all_reduce`](fn@all_reduce), with the same numbers, the
///   same `n` and the same type; each on another device, or at least so that all their blocks run at once. On each device each
///   call begins after the one before has ended.
/// - The exchange memory is as [`exchange_bytes`] says, and nothing else uses it. `given_up` is a word that the host writes
///   atomically, or 0.
/// - After waits have been given up, `out` holds anything, and no further call is made.
#[kernel(f32, f64, f16, bf16, i32, u64, block = BLOCK)]
pub unsafe fn all_reduce_lines<T: Summand>(exchange: Exchange, x: &[T], mut out: DisjointSlice<T>) {
    let member = Member { exchange };
    let (rank, ranks) = (exchange.rank as usize, exchange.ranks as usize);
    let n = out.len();
    let bytes = n * size_of::<T>();
    assert!(x.is_empty() || x.len() == n, "input and output have different lengths");
    assert!(bytes <= lines_bytes(ranks), "the message is larger than lines take");
    let lines = bytes.div_ceil(LINE_BYTES);
    let i = thread::block_idx_x() as usize * BLOCK + thread::thread_idx_x() as usize;
    if i >= lines {
        return;
    }
    let message = Message::new(x, &mut out);
    // SAFETY: the message has the line, of which this thread alone writes the result.
    let own: u64 = unsafe { message.read(i) };
    each::<MAX_RANKS>(|peer| {
        if peer < ranks && peer != rank {
            // SAFETY: the line is this rank's in the peer's memory, and the peer does not read it any more: see the module.
            unsafe { member.send_line(peer, lines, i, own) };
        }
    });
    // All words are waited for before the first addition. What was given up is added up, too, and means nothing.
    let mut all = [0u64; MAX_RANKS];
    each::<MAX_RANKS>(|peer| {
        if peer < ranks {
            all[peer] = if peer == rank { own } else { member.receive_line(peer, lines, i) };
        }
    });
    // SAFETY: as above.
    unsafe { message.write(i, sum_units::<T, u64>(&all, ranks)) };
}

/// As [`all_reduce_lines`](fn@all_reduce_lines), for messages of up to `slot_bytes` of the exchange. The grid has
/// [`quad_blocks`] blocks.
///
/// # Safety
/// As [`all_reduce_lines`](fn@all_reduce_lines).
#[kernel(f32, f64, f16, bf16, i32, u64)]
pub unsafe fn all_reduce<T: Summand>(
    mut block: Block<BLOCK>,
    exchange: Exchange,
    x: &[T],
    mut out: DisjointSlice<T>,
) {
    let n = out.len();
    assert!(x.is_empty() || x.len() == n, "input and output have different lengths");
    assert!(
        (n * size_of::<T>()) as u64 <= exchange.slot_bytes,
        "the message is larger than a slot"
    );
    let (member, message) = (Member { exchange }, Message::new(x, &mut out));
    let is_once = exchange.ranks <= 2;
    let parts = Parts::new::<T>(n, if is_once { 1 } else { exchange.ranks as usize });
    // On all ranks the same blocks have something to do.
    if parts.is_empty() {
        return;
    }
    // SAFETY: the caller's promise.
    unsafe {
        match is_once {
            true => member.sum_once(&mut block, message, parts),
            false => member.sum_twice(&mut block, message, parts),
        }
    }
}

/// Sets a flag of another rank, then waits for one of this rank's; either is left out if its address is 0. Counts wrap. One thread.
///
/// All that was enqueued on the stream before is seen by what comes after a wait for the flag, and what is enqueued afterwards
/// sees all that came before the flag which was waited for.
///
/// # Safety
/// The addresses are those of aligned `u32`, in memory that this device reaches, which all access atomically. `given_up` is a word
/// that the host sets to something else than 0 to end the wait, or 0.
#[kernel]
pub unsafe fn pass(flag: u64, value: u32, awaited: u64, least: u32, given_up: u64) {
    if (thread::block_idx_x() | thread::thread_idx_x()) != 0 {
        return;
    }
    let at = |address: u64| ptr::with_exposed_provenance_mut::<u32>(address as usize);
    if flag != 0 {
        // SAFETY: the caller's promise.
        unsafe { atomic::store(at(flag), value, Ordering::Release, Scope::System) };
    }
    if awaited != 0 {
        // SAFETY: the caller's promise.
        let load = || unsafe { atomic::load(at(awaited), Ordering::Acquire, Scope::System) };
        wait_until(|| load().wrapping_sub(least) as i32 >= 0, given_up);
    }
}

/// Polls until `is_there`; `false` if that was given up.
#[inline(always)]
fn wait_until(mut is_there: impl FnMut() -> bool, given_up: u64) -> bool {
    let mut rounds = 0u32;
    while !is_there() {
        rounds = rounds.wrapping_add(1);
        if rounds.is_multiple_of(1024) {
            leave_after_panic();
            let word = ptr::with_exposed_provenance::<u32>(given_up as usize);
            // SAFETY: a word that the host writes atomically, unless there is none.
            let word = || unsafe { atomic::load(word, Ordering::Relaxed, Scope::System) };
            if given_up != 0 && word() != 0 {
                return false;
            }
        }
    }
    true
}

/// What one device's block of a call knows.
#[derive(Clone, Copy)]
struct Member {
    exchange: Exchange,
}

impl Member {
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

    /// 0 or 1: which half of the memory this call uses.
    #[inline(always)]
    fn parity(&self) -> usize {
        self.exchange.call as usize & 1
    }

    /// The two words at rank `at` of the line `i` of rank `from`, of `lines`: the first words of all lines lie one behind the
    /// other, so that neighbouring threads write neighbouring words, and so do the second ones.
    #[inline(always)]
    fn words(&self, at: usize, from: usize, lines: usize, i: usize) -> [*mut u64; 2] {
        let first = LINES + self.parity() * LINES_SPAN;
        // SAFETY: a message takes at most two times [`lines_bytes`], and `ranks` of them are no more than the span.
        unsafe {
            let of_rank = self.memory(at).add(first).cast::<u64>().add(from * 2 * lines);
            [of_rank.add(i), of_rank.add(lines + i)]
        }
    }

    /// Writes a line to a peer's memory, with the number of the call in each word.
    ///
    /// # Safety
    /// No rank reads what the line's words hold.
    #[inline(always)]
    unsafe fn send_line(&self, peer: usize, lines: usize, i: usize, line: u64) {
        let marked = |half: u32| u64::from(half) | u64::from(self.exchange.call) << 32;
        let [low, high] = self.words(peer, self.exchange.rank as usize, lines, i);
        // SAFETY: words of the peer's memory, which all access atomically.
        unsafe {
            atomic::store(low, marked(line as u32), Ordering::Relaxed, Scope::System);
            atomic::store(high, marked((line >> 32) as u32), Ordering::Relaxed, Scope::System);
        }
    }

    /// Waits for a peer's line; anything if that was given up.
    #[inline(always)]
    fn receive_line(&self, peer: usize, lines: usize, i: usize) -> u64 {
        let words = self.words(self.exchange.rank as usize, peer, lines, i);
        let (mut low, mut high) = (0u64, 0u64);
        let is_there = || {
            // SAFETY: words of this rank's memory, which all access atomically.
            unsafe {
                low = atomic::load(words[0], Ordering::Relaxed, Scope::System);
                high = atomic::load(words[1], Ordering::Relaxed, Scope::System);
            }
            ((low >> 32) as u32 == self.exchange.call) & ((high >> 32) as u32 == self.exchange.call)
        };
        wait_until(is_there, self.exchange.given_up);
        u64::from(low as u32) | high << 32
    }

    /// What rank `at` receives of the ranks' messages, or, with `sums`, of their sums.
    #[inline(always)]
    fn quads(&self, at: usize, sums: bool) -> *mut Quad {
        let span = self.exchange.slot_bytes as usize + SLACK;
        let begin = QUADS + (2 * self.parity() + usize::from(sums)) * span;
        // SAFETY: there are four spans.
        unsafe { self.memory(at).add(begin).cast() }
    }

    /// The flag at rank `at` by which rank `from` tells this block that it has come to the end of a shot.
    #[inline(always)]
    fn flag(&self, at: usize, shot: usize, from: usize) -> *mut u32 {
        let index = shot * SHOT_FLAGS + thread::block_idx_x() as usize * MAX_RANKS + from;
        // SAFETY: there are as many flags.
        unsafe { self.memory(at).cast::<u32>().add(index) }
    }

    /// Tells the blocks of this number of all ranks that this one has written what they read next, and waits until they have
    /// done so, too. Whether they have, and were not given up. All threads of the block call it together.
    #[inline(always)]
    fn meet(&self, block: &mut Block<BLOCK>, shot: usize) -> bool {
        // Before the flags: all threads have written.
        thread::sync_threads();
        let (peer, rank) = (thread::thread_idx_x() as usize, self.exchange.rank as usize);
        let mut is_there = true;
        if peer < self.exchange.ranks as usize {
            let call = self.exchange.call;
            // SAFETY: flags of the ranks' memory; all accesses are atomic, of the whole system.
            unsafe {
                atomic::store(self.flag(peer, shot, rank), call, Ordering::Release, Scope::System);
            }
            let flag = self.flag(rank, shot, peer);
            // SAFETY: as above.
            let load = || unsafe { atomic::load(flag, Ordering::Acquire, Scope::System) };
            // A rank that has gone on to the next call has set it further.
            is_there = wait_until(|| load() >= call, self.exchange.given_up);
        }
        // With the barrier in it: what any thread has acquired, all read.
        block.all(is_there)
    }

    /// One shot, between two ranks: each sends all of its message.
    ///
    /// # Safety
    /// As [`all_reduce`](fn@all_reduce).
    #[inline(always)]
    unsafe fn sum_once<T: Summand>(
        self,
        block: &mut Block<BLOCK>,
        message: Message<T>,
        parts: Parts,
    ) {
        let (rank, ranks) = (self.exchange.rank as usize, self.exchange.ranks as usize);
        let other = 1 - rank;
        if ranks == 2 {
            let to = self.quads(other, false);
            // SAFETY: the other rank reads what lies there no more: see the module.
            each_of(parts.of(0), |i| unsafe { to.add(i).write(message.read(i)) });
        }
        if !self.meet(block, 0) {
            return;
        }
        let from = self.quads(rank, false);
        each_of(parts.of(0), |i| {
            let mut all = [Quad::new(0, 0, 0, 0); MAX_RANKS];
            each::<2>(|r| {
                if r < ranks {
                    // SAFETY: the other rank has written its message. The quad of this one is written by this thread alone, below.
                    all[r] =
                        unsafe { if r == rank { message.read(i) } else { from.add(i).read() } };
                }
            });
            // SAFETY: as above.
            unsafe { message.write(i, sum_units::<T, Quad>(&all, ranks)) };
        });
    }

    /// Two shots: parts to their ranks, and sums to all.
    ///
    /// # Safety
    /// As [`all_reduce`](fn@all_reduce).
    #[inline(always)]
    unsafe fn sum_twice<T: Summand>(
        self,
        block: &mut Block<BLOCK>,
        message: Message<T>,
        parts: Parts,
    ) {
        let (rank, ranks) = (self.exchange.rank as usize, self.exchange.ranks as usize);
        let own = parts.of(rank);
        for peer in (0..ranks).filter(|peer| *peer != rank) {
            // Parts of one rank from all ranks lie one behind the other there.
            // SAFETY: all parts together are no more than the span.
            let to = unsafe { self.quads(peer, false).add(rank * parts.part) };
            let begin = peer * parts.part;
            // SAFETY: no rank reads what lies there: see the module.
            each_of(parts.of(peer), |i| unsafe { to.add(i - begin).write(message.read(i)) });
        }
        if !self.meet(block, 0) {
            return;
        }
        let (from, begin) = (self.quads(rank, false), rank * parts.part);
        each_of(own, |i| {
            let mut all = [Quad::new(0, 0, 0, 0); MAX_RANKS];
            // All loads before the first addition.
            each::<MAX_RANKS>(|r| {
                if r < ranks {
                    // SAFETY: all ranks have written their parts. The quad of this one is written by this thread alone, below.
                    all[r] = unsafe {
                        if r == rank {
                            message.read(i)
                        } else {
                            from.add(r * parts.part + i - begin).read()
                        }
                    };
                }
            });
            let sum = sum_units::<T, Quad>(&all, ranks);
            each::<MAX_RANKS>(|r| {
                if r < ranks && r != rank {
                    // SAFETY: the quad is this block's; no rank reads what lies there.
                    unsafe { self.quads(r, true).add(i).write(sum) };
                }
            });
            // SAFETY: as above.
            unsafe { message.write(i, sum) };
        });
        if !self.meet(block, 1) {
            return;
        }
        let sums = self.quads(rank, true);
        for part in (0..ranks).filter(|part| *part != rank) {
            // SAFETY: its rank has written the sums of this stretch, and this block has read its own quads of it.
            each_of(parts.of(part), |i| unsafe { message.write(i, sums.add(i).read()) });
        }
    }
}

/// How a message is cut: into parts, one for all ranks or one for each, and those into a stretch for each block.
#[derive(Clone, Copy)]
struct Parts {
    /// All quads, of which the last one may be filled in part.
    quads: usize,
    /// Quads of a part.
    part: usize,
    /// Quads of a block's stretch of a part.
    stretch: usize,
}

impl Parts {
    #[inline(always)]
    fn new<T>(n: usize, count: usize) -> Self {
        let quads = n.div_ceil(per_quad::<T>());
        let part = quads.div_ceil(count);
        Self { quads, part, stretch: part.div_ceil(thread::grid_dim_x() as usize) }
    }

    /// The quads of this block's stretch of a part.
    #[inline(always)]
    fn of(&self, part: usize) -> (usize, usize) {
        let (begin, end) = (part * self.part, ((part + 1) * self.part).min(self.quads));
        let first = begin + thread::block_idx_x() as usize * self.stretch;
        (first.min(end), (first + self.stretch).min(end))
    }

    /// Whether this block has nothing to do, on any rank: the first part is the longest.
    #[inline(always)]
    fn is_empty(&self) -> bool {
        thread::block_idx_x() as usize * self.stretch >= self.part
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
    #[inline(always)]
    fn new(x: &[T], out: &mut DisjointSlice<T>) -> Self {
        let (to, n) = (out.as_mut_ptr(), out.len());
        let from = if x.is_empty() { to.cast_const() } else { x.as_ptr() };
        Self { from, to, n, is_aligned: (from.addr() | to.addr()).is_multiple_of(QUAD_BYTES) }
    }

    /// The `i`th unit of the message, a line or a quad; what is behind the message's end is 0.
    ///
    /// # Safety
    /// The unit begins inside the message.
    #[inline(always)]
    unsafe fn read<U: Pod>(self, i: usize) -> U {
        let per = const { size_of::<U>() / size_of::<T>() };
        // SAFETY: the caller's promise; only elements of the message are read, by themselves where the unit is not whole.
        unsafe {
            if self.is_aligned && (i + 1) * per <= self.n {
                return self.from.cast::<U>().add(i).read();
            }
            let mut unit = MaybeUninit::<U>::zeroed();
            let to = unit.as_mut_ptr().cast::<T>();
            each_below::<8>(per, |k| {
                if i * per + k < self.n {
                    to.add(k).write(self.from.add(i * per + k).read());
                }
            });
            unit.assume_init()
        }
    }

    /// Writes the `i`th unit, as far as it is inside the message.
    ///
    /// # Safety
    /// The unit begins inside the message, and this thread alone writes it.
    #[inline(always)]
    unsafe fn write<U: Pod>(self, i: usize, unit: U) {
        let per = const { size_of::<U>() / size_of::<T>() };
        // SAFETY: the caller's promise; only elements of the message are written.
        unsafe {
            if self.is_aligned && (i + 1) * per <= self.n {
                return self.to.cast::<U>().add(i).write(unit);
            }
            let from = ptr::from_ref(&unit).cast::<T>();
            each_below::<8>(per, |k| {
                if i * per + k < self.n {
                    self.to.add(i * per + k).write(from.add(k).read());
                }
            });
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

/// The sums of the elements of one unit of all ranks, in the order of the ranks.
#[inline(always)]
fn sum_units<T: Summand, U: Pod>(all: &[U; MAX_RANKS], ranks: usize) -> U {
    let mut sums = all[0];
    each_below::<8>(const { size_of::<U>() / size_of::<T>() }, |k| {
        let element = |unit: &U| {
            // SAFETY: a unit has as many elements, which are plain.
            unsafe { ptr::from_ref(unit).cast::<T>().add(k).read() }.wide()
        };
        let mut sum = element(&all[0]);
        each::<MAX_RANKS>(|r| {
            if r > 0 && r < ranks {
                sum = T::plus(sum, element(&all[r]));
            }
        });
        // SAFETY: as above.
        unsafe { ptr::from_mut(&mut sums).cast::<T>().add(k).write(T::narrow(sum)) };
    });
    sums
}
