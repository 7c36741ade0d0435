//! Sorts each segment of an array by itself.
//!
//! A block takes as many segments as it has warps. Up to 32 keys are sorted by one warp in its registers (K. E. Batcher, "Sorting
//! Networks and Their Applications", 1968), up to a tile by the block in shared memory, digit by digit. Longer ones go through
//! memory a tile at a time, as in [`pass`](super::pass), but one block does all of a segment: a few very long ones are sorted sooner as
//! [`groups`](super::groups).

use crate::prelude::*;
use cuda_std::unroll::{build, each};

use super::key::{Digit, NoValue, Order, Payload, RADIX, Word};
use super::pass::{Arrays, opaque, rank};

/// Threads in a block.
pub const THREADS: usize = 384;
const WARPS: usize = THREADS / 32;
/// Keys of a thread if the elements are short: neither keys nor values have more than 4 bytes.
pub const SHORT: usize = 20;
/// Keys of a thread if the elements are long: keys or values have 8 bytes.
pub const LONG: usize = 10;

/// The block's shared memory.
type Memory = super::memory::Memory<THREADS, { THREADS * SHORT }>;

/// The block's shared memory: one array, however often this is called.
#[inline(always)]
fn memory() -> Memory {
    Memory::new(shared_array![u32; Memory::WORDS].as_mut_ptr())
}

/// Segments that a block takes at a time: one for each warp.
pub const SEGMENTS: usize = WARPS;
/// Most blocks: three for each of 132 multiprocessors, and as many that wait.
const MAX_BLOCKS: usize = 6 * 132;

/// Blocks to launch for a number of segments.
#[must_use]
pub const fn blocks(n_segments: usize) -> u32 {
    let blocks = n_segments.div_ceil(SEGMENTS);
    if blocks < MAX_BLOCKS { blocks as u32 } else { MAX_BLOCKS as u32 }
}

/// Sorts `keys[offsets[i]..offsets[i + 1]]` for each `i` into the same places of `out`, and the values with them; the values are
/// `0, 1, 2, …` where `numbered` is not 0. Places outside all segments are not written.
///
/// An offset past the end counts as the end, and a segment that ends before it begins is empty. Where segments overlap, keys may
/// get lost.
///
/// # Safety
/// All arrays have as many elements as `keys`; those of [`NoValue`] may be empty. They are fewer than 2³². `begin < end <= K::BITS`.
#[kernel(
    (u8, NoValue, SHORT), (u16, NoValue, SHORT), (u32, NoValue, SHORT), (u64, NoValue, LONG),
    (u8, u32, SHORT), (u16, u32, SHORT), (u32, u32, SHORT), (u64, u32, LONG),
    (u8, u64, LONG), (u16, u64, LONG), (u32, u64, LONG), (u64, u64, LONG),
    max_registers = 80
)]
pub unsafe fn sort_segments<K: Word, V: Payload, const ITEMS: usize>(
    mut block: Block<THREADS>,
    keys: &[K],
    values: &[V],
    offsets: &[u64],
    order: Order,
    begin: u32,
    end: u32,
    numbered: u32,
    mut out: DisjointSlice<K>,
    mut spare: DisjointSlice<K>,
    mut out_values: DisjointSlice<V>,
    mut spare_values: DisjointSlice<V>,
) {
    let task = Segments {
        input: Arrays {
            from: keys.as_ptr(),
            to: out.as_mut_ptr(),
            from_values: values.as_ptr(),
            to_values: out_values.as_mut_ptr(),
            room: keys.len(),
        },
        spare: spare.as_mut_ptr(),
        spare_values: spare_values.as_mut_ptr(),
        order,
        bits: (begin, end),
        numbered: numbered != 0,
    };
    let n_segments = offsets.len().saturating_sub(1);
    let place = |segment: usize| {
        let at =
            |i: usize| offsets.get(i).map_or(0, |&offset| offset.min(keys.len() as u64) as usize);
        let (begin, end) = (at(segment), at(segment + 1));
        (begin, end.max(begin) - begin)
    };
    let mut first = thread::block_idx_x() as usize * SEGMENTS;
    while first < n_segments {
        let own = first + block.warp();
        let (start, len) = if own < n_segments { place(own) } else { (0, 0) };
        // SAFETY: a segment of the arrays.
        unsafe { task.by_warp(block.whole_warp(), start, len) };
        for segment in first..n_segments.min(first + SEGMENTS) {
            let (start, len) = place(segment);
            // SAFETY: a segment of the arrays.
            unsafe {
                if len > THREADS * ITEMS {
                    task.by_tiles::<ITEMS>(&mut block, start, len);
                } else if len > 32 {
                    task.by_block::<ITEMS>(&mut block, start, len);
                }
            }
        }
        first += thread::grid_dim_x() as usize * SEGMENTS;
    }
}

/// What all segments have in common.
struct Segments<K, V> {
    input: Arrays<K, V>,
    spare: *mut K,
    spare_values: *mut V,
    order: Order,
    bits: (u32, u32),
    numbered: bool,
}

impl<K: Word, V: Payload> Segments<K, V> {
    /// The value of the key at a place of the input.
    #[inline(always)]
    unsafe fn value(&self, place: usize) -> V {
        if self.numbered || const { size_of::<V>() == 0 } {
            return V::numbered(place);
        }
        // SAFETY: a place in the input.
        unsafe { self.input.from_values.add(place).read() }
    }

    /// Sorts up to 32 keys, one to a lane. All lanes of the warp call it together.
    ///
    /// # Safety
    /// The segment is in the arrays; a longer one is left alone.
    #[inline(always)]
    unsafe fn by_warp(&self, warp: cuda_std::warp::Warp, start: usize, len: usize) {
        if len == 0 || len > 32 {
            return;
        }
        let lane = warp.thread_rank();
        let is_key = (lane as usize) < len;
        let Arrays { from, to, to_values, .. } = self.input;
        // SAFETY: in the segment.
        let raw = if is_key { unsafe { from.add(start + lane as usize).read() } } else { K::LAST };
        let (begin, end) = self.bits;
        let mask = u64::MAX >> (64 - (end - begin));
        let seen = if is_key { raw.ordered(self.order).word() >> begin & mask } else { u64::MAX };
        // The lane as the last bits keeps equal keys in order, and those that are none behind all.
        let (mut high, mut low) = (seen, lane + if is_key { 0 } else { 32 });
        for size in [2u32, 4, 8, 16, 32] {
            let mut distance = size / 2;
            while distance > 0 {
                let other = (warp.shuffle_xor(high, distance), warp.shuffle_xor(low, distance));
                let takes_less = (lane & size == 0) == (lane & distance == 0);
                if (other < (high, low)) == takes_less {
                    (high, low) = other;
                }
                distance /= 2;
            }
        }
        let key = warp.shuffle(raw, low & 31);
        if is_key {
            let place = start + lane as usize;
            // SAFETY: in the segment; every lane writes a place of its own.
            unsafe {
                to.add(place).write(key);
                if const { size_of::<V>() > 0 } {
                    to_values.add(place).write(self.value(start + low as usize));
                }
            }
        }
    }

    /// Sorts up to a tile in shared memory.
    ///
    /// # Safety
    /// The segment is in the arrays.
    #[inline(always)]
    unsafe fn by_block<const ITEMS: usize>(
        &self,
        block: &mut Block<THREADS>,
        start: usize,
        len: usize,
    ) {
        let memory = memory();
        let first = block.warp() * (32 * ITEMS) + block.lane();
        let (begin, end) = self.bits;
        // SAFETY: in the segment, or in shared memory, in the order that the barriers of each step give.
        unsafe {
            let mut keys: [K; ITEMS] = build(|k| {
                let i = first + 32 * k;
                if i < len {
                    self.input.from.add(start + i).read().ordered(self.order)
                } else {
                    K::LAST
                }
            });
            let mut values: [V; ITEMS] = build(|k| {
                let i = first + 32 * k;
                if i < len { self.value(start + i) } else { V::numbered(0) }
            });
            for pass in 0..super::passes(begin, end) as u32 {
                let digit = Digit::of(pass, begin, end);
                let (ranks, ..) = stage::<K, ITEMS>(block, memory, &keys, digit);
                let staged = memory.staged::<K, ITEMS>();
                // The keys are staged.
                block.sync(());
                keys = build(|k| staged.add(first + 32 * k).read());
                // The keys are read, and others take their place.
                block.sync(());
                if const { size_of::<V>() > 0 } {
                    let staged = memory.staged::<V, ITEMS>();
                    each::<ITEMS>(|k| {
                        staged.add(ranks[k] as usize / size_of::<K>()).write(values[k]);
                    });
                    // The values are staged.
                    block.sync(());
                    values = build(|k| staged.add(first + 32 * k).read());
                    // The values are read, and keys take their place.
                    block.sync(());
                }
            }
            each::<ITEMS>(|k| {
                let i = first + 32 * k;
                if i < len {
                    self.input.to.add(start + i).write(keys[k].raw(self.order));
                    if const { size_of::<V>() > 0 } {
                        self.input.to_values.add(start + i).write(values[k]);
                    }
                }
            });
        }
    }

    /// Sorts a longer segment, a tile after the other.
    ///
    /// # Safety
    /// The segment is in the arrays.
    #[inline(always)]
    unsafe fn by_tiles<const ITEMS: usize>(
        &self,
        block: &mut Block<THREADS>,
        start: usize,
        len: usize,
    ) {
        // Overlapping segments change one another's keys between their count and their move: places are compared with `len`.
        let (begin, end) = self.bits;
        let passes = super::passes(begin, end) as u32;
        for pass in 0..passes {
            let (is_first, is_last) = (pass == 0, pass + 1 == passes);
            let to_out = (passes - 1 - pass).is_multiple_of(2);
            let Arrays { to, to_values, .. } = self.input;
            let (other, other_values) = (self.spare, self.spare_values);
            let (to, from) = if to_out { (to, other) } else { (other, to) };
            let (to_values, from_values) =
                if to_out { (to_values, other_values) } else { (other_values, to_values) };
            let from = if is_first { self.input.from } else { from.cast_const() };
            // SAFETY: in the segment; the pass before wrote what this one reads, in front of a barrier.
            let key = |i: usize| unsafe {
                let key = from.add(start + i).read();
                if is_first { key.ordered(self.order) } else { key }
            };
            // SAFETY: as above.
            let value = |i: usize| unsafe {
                if is_first { self.value(start + i) } else { from_values.add(start + i).read() }
            };
            let write = |i: usize, item: K| {
                let item = if is_last { item.raw(self.order) } else { item };
                if i < len {
                    // SAFETY: in the segment.
                    unsafe { to.add(start + i).write(item) };
                }
            };
            let write_value = |i: usize, item: V| {
                if i < len {
                    // SAFETY: in the segment.
                    unsafe { to_values.add(start + i).write(item) };
                }
            };
            let digit = Digit::of(pass, begin, end);
            // SAFETY: the promise of this function.
            unsafe {
                pass_of_tiles::<K, V, ITEMS>(block, len, digit, key, value, write, write_value)
            };
            // All of the segment is written, and will be read.
            block.sync(());
        }
    }
}

/// Moves the `len` keys of a segment behind those with a smaller digit.
///
/// # Safety
/// All threads of the block call it; the shared memory is free.
#[inline(always)]
unsafe fn pass_of_tiles<K: Word, V: Payload, const ITEMS: usize>(
    block: &mut Block<THREADS>,
    len: usize,
    digit: Digit,
    key: impl Fn(usize) -> K,
    value: impl Fn(usize) -> V,
    write: impl Fn(usize, K),
    write_value: impl Fn(usize, V),
) {
    let memory = memory();
    let (thread, own) = (block.thread(), block.thread() % RADIX);
    let counters = memory.counters(block.warp());
    // SAFETY: the shared memory is reached in the order of the barriers, which say what they are for.
    unsafe {
        memory.clear(thread);
        // The counters are clear.
        block.sync(());
        let mut i = thread;
        while i < len {
            Memory::count(counters, key(i), digit);
            i += THREADS;
        }
        // All of the segment is counted.
        block.sync(());
        let (_, all) = memory.counts::<WARPS>(own);
        let all = if thread < RADIX { all } else { 0 };
        // The barrier in it: the counters are read.
        let ([mut next], _) = block.exclusive_scan([all], 0, u32::wrapping_add);
        let mut tile = 0;
        while tile < len {
            let first = tile + block.warp() * (32 * ITEMS) + block.lane();
            let keys: [K; ITEMS] = build(|k| {
                let i = first + 32 * k;
                if i < len { key(i) } else { K::LAST }
            });
            let (ranks, begin, of_tile) = stage::<K, ITEMS>(block, memory, &keys, digit);
            if thread < RADIX {
                memory.places::<u32>().add(own).write(next.wrapping_sub(begin));
            }
            next += of_tile;
            // The keys are staged, and every digit's place is known.
            block.sync(());
            let (from, to) = ((tile, first), (&write, &write_value));
            move_tile::<K, V, ITEMS>(block, len, digit, from, ranks, &value, to);
            tile += THREADS * ITEMS;
        }
    }
}

/// Writes the staged keys of the tile that begins at `tile` to their places, and their values, by way of the shared memory.
/// `first` is the lane's first key, and `ranks` are those of its keys in the tile, in bytes of keys.
///
/// # Safety
/// All threads of the block call it, after a barrier; the shared memory holds the places of all digits and the staged keys.
#[inline(always)]
unsafe fn move_tile<K: Word, V: Payload, const ITEMS: usize>(
    block: &mut Block<THREADS>,
    len: usize,
    digit: Digit,
    (tile, first): (usize, usize),
    ranks: [u32; ITEMS],
    value: &impl Fn(usize) -> V,
    (write, write_value): (&impl Fn(usize, K), &impl Fn(usize, V)),
) {
    let (memory, thread) = (memory(), block.thread());
    let used = (len - tile).min(THREADS * ITEMS);
    let place = |key: K, i: usize| {
        // SAFETY: a digit's place.
        let shift = unsafe { memory.places::<u32>().byte_add(key.digit(digit, 2) as usize).read() };
        shift.wrapping_add(i as u32) as usize
    };
    let staged = memory.staged::<K, ITEMS>();
    // SAFETY: inside of the tile.
    let sorted: [K; ITEMS] = build(|k| unsafe { staged.add(thread + k * THREADS).read() });
    each::<ITEMS>(|k| {
        let i = thread + k * THREADS;
        if i < used {
            write(place(sorted[k], i), sorted[k]);
        }
    });
    // The keys are read, and values or others take their place.
    block.sync(());
    if const { size_of::<V>() == 0 } {
        return;
    }
    let staged = memory.staged::<V, ITEMS>();
    each::<ITEMS>(|k| {
        let i = first + 32 * k;
        let value = if i < len { value(i) } else { V::numbered(0) };
        // SAFETY: ranks are different, and below the tile's length.
        unsafe { staged.add(ranks[k] as usize / size_of::<K>()).write(value) };
    });
    // The values are staged.
    block.sync(());
    each::<ITEMS>(|k| {
        let i = thread + k * THREADS;
        if i < used {
            // SAFETY: inside of the tile.
            write_value(place(sorted[k], i), unsafe { staged.add(i).read() });
        }
    });
    // The values are read, and keys take their place.
    block.sync(());
}

/// Ranks a tile by a digit and stages its keys in that order: the rank of each key in bytes of keys, and for each of the first threads
/// where its digit begins in the tile and how many keys have it. A barrier must follow before the staged keys are read.
///
/// # Safety
/// All threads of the block call it; the shared memory is free.
#[inline(always)]
unsafe fn stage<K: Word, const ITEMS: usize>(
    block: &mut Block<THREADS>,
    memory: Memory,
    keys: &[K; ITEMS],
    digit: Digit,
) -> ([u32; ITEMS], u32, u32) {
    // SAFETY: the caller's promise; the shared memory is reached in the order of the barriers.
    unsafe {
        memory.clear(block.thread());
        // The counters are clear.
        block.sync(());
        let counters = memory.counters(block.warp());
        let (of_tile, begin) =
            memory.count_tile::<K, ITEMS, WARPS>(block, counters, keys, digit, |_| ());
        let digit = Digit { shift: opaque(digit.shift), ..digit };
        let staged = memory.staged::<K, ITEMS>();
        (rank(block.whole_warp(), counters, keys, digit, staged), begin, of_tile)
    }
}
