//! Sorts each of a few long groups of an array by itself, all of them at once.
//!
//! As [`histogram`](super::histogram) and [`pass`](super::pass) sort an array, with two differences: digits are counted for each
//! group, and a tile has keys of one group and looks back to the first tile of that. So a pass goes through all groups in one launch, and its
//! last blocks run beside the first ones of the next group. There is a launch more than digits, however many groups there are.

use crate::prelude::*;
use bytemuck::{NoUninit, Zeroable};
use cuda_std::shared::dynamic_shared_mem;
use cuda_std::unroll::each;

use super::control::{COUNT_BITS, Control};
use super::histogram::{COUNTERS, THREADS as COUNT_THREADS, clear, count, sum_of_copies};
use super::key::{NoValue, Order, Payload, RADIX, Word};
use super::pass::{
    Cut, Group, LONG, REGISTERS, SHORT, SortMemory, Step, THREADS, Task, Tile, shared_bytes, sweep,
};

/// The most groups of a sort. They are parameters of its kernels.
pub const MOST_GROUPS: usize = 8;
/// The keys of a group are fewer than this: they are counted in some of the bits of a word.
pub const GROUP_KEYS: usize = 1 << COUNT_BITS;

/// Registers of a thread that counts: as many as leave a multiprocessor room for three blocks, like the counters, and for two where keys have
/// eight digits, whose addresses need more.
const fn count_registers<K: Word>() -> u32 {
    if K::BITS > 32 { 64 } else { 40 }
}

/// Groups that follow one another.
#[repr(C)]
#[derive(Clone, Copy, Debug, NoUninit, Zeroable)]
pub struct Groups {
    /// The first key of each, and the one behind the last key of the last group, which those that are not there begin at, too.
    keys: [u64; MOST_GROUPS + 1],
    /// The first tile of each, and the number of all tiles.
    tiles: [u32; MOST_GROUPS + 1],
    count: u32,
}

impl Groups {
    /// Groups of these numbers of keys, in tiles of `tile_keys`.
    ///
    /// # Panics
    /// If there are more than [`MOST_GROUPS`].
    #[must_use]
    pub fn new(lens: &[usize], tile_keys: usize) -> Self {
        assert!(lens.len() <= MOST_GROUPS, "a sort of groups has at most {MOST_GROUPS}");
        let mut groups = Self::zeroed();
        groups.count = lens.len() as u32;
        for group in 0..MOST_GROUPS {
            let len = lens.get(group).copied().unwrap_or(0);
            groups.keys[group + 1] = groups.keys[group] + len as u64;
        }
        groups.in_tiles(tile_keys)
    }

    /// The same groups in tiles of another number of keys.
    #[must_use]
    pub fn in_tiles(mut self, tile_keys: usize) -> Self {
        for group in 0..MOST_GROUPS {
            let len = self.keys[group + 1] - self.keys[group];
            let tiles = len.div_ceil(tile_keys as u64) as u32;
            self.tiles[group + 1] = self.tiles[group] + tiles;
        }
        self
    }

    /// How many tiles all of them have.
    #[must_use]
    pub fn tiles(&self) -> u32 {
        self.tiles[MOST_GROUPS]
    }

    /// How many tiles the group of a tile has.
    #[inline(always)]
    fn tiles_of(&self, tile: usize) -> usize {
        let mut tiles = self.tiles[1];
        // A loop over constants, so that the parameters need no memory.
        each::<MOST_GROUPS>(|k| {
            if k > 0 && tile >= self.tiles[k] as usize {
                tiles = self.tiles[k + 1] - self.tiles[k];
            }
        });
        tiles as usize
    }
}

impl Cut for Groups {
    #[inline(always)]
    fn groups(self, _: usize) -> usize {
        self.count as usize
    }

    #[inline(always)]
    fn group(self, tile: usize, _: usize) -> Group {
        let mut found =
            Group { number: 0, first_tile: 0, first_key: 0, end: self.keys[1] as usize };
        // As above. A group without tiles is passed over.
        each::<MOST_GROUPS>(|k| {
            if k > 0 && tile >= self.tiles[k] as usize {
                found = Group {
                    number: k,
                    first_tile: self.tiles[k] as usize,
                    first_key: self.keys[k] as usize,
                    end: self.keys[k + 1] as usize,
                };
            }
        });
        found
    }

    #[inline(always)]
    fn begins_next(self, _: Tile, _: usize) -> bool {
        false
    }
}

/// Counts the digits of the bits `begin..end` of each group of `keys`, and where the keys with each digit go in each pass. The
/// launch has as many blocks as the groups have tiles, and each group's keys are counted by as many blocks as it has tiles.
///
/// # Safety
/// - `control` has the words that [`words`](super::pass::words) asks for, all of them 0.
/// - `begin < end <= K::BITS`, `groups` are of all keys, and each has fewer than [`GROUP_KEYS`].
#[kernel(u32, u64, max_registers = count_registers::<K>(), dynamic_shared = 4 * COUNTERS)]
pub unsafe fn sort_groups_histogram<K: Word>(
    mut block: Block<COUNT_THREADS>,
    keys: &[K],
    groups: Groups,
    order: Order,
    begin: u32,
    end: u32,
    control: AtomicSlice<u32>,
) {
    let counters = dynamic_shared_mem::<u32>();
    let control = Control::new(control.as_mut_ptr());
    let thread = block.thread();
    let number = thread::block_idx_x() as usize;
    let (group, blocks) = (groups.group(number, 0), groups.tiles_of(number));
    // SAFETY: the counters are reached atomically, or behind barriers by their owners; the group is within the keys; the rest is the
    // caller's promise.
    unsafe {
        clear(counters, thread);
        // Every counter is 0 before any thread counts.
        block.sync(());
        let len = group.end - group.first_key;
        let own = core::slice::from_raw_parts(keys.as_ptr().add(group.first_key), len);
        let first = (number - group.first_tile) * COUNT_THREADS + thread;
        count(counters, own, (first, blocks * COUNT_THREADS), order, (begin, end));
        // Every key is counted.
        block.sync(());
        let passes = super::passes(begin, end);
        if thread < RADIX {
            for pass in 0..passes {
                let n = sum_of_copies::<K>(counters, pass, thread);
                if n > 0 {
                    control.count_in_group(group.number, pass, thread, n);
                }
            }
        }
        // The counts of all threads are in global memory before the block says that it has finished.
        block.sync(());
        let finish = || control.finish_in_group(group.number) + 1 == blocks as u64;
        let last = block.once(finish).unwrap_or(false);
        if block.any(last) {
            plan(&mut block, control, group, passes);
        }
    }
}

/// Where the keys of a group with each digit go.
///
/// # Safety
/// All keys of the group are counted, which this block has acquired.
#[inline(always)]
unsafe fn plan(block: &mut Block<COUNT_THREADS>, control: Control, group: Group, passes: usize) {
    let thread = block.thread();
    for pass in 0..passes {
        // SAFETY: the caller's promise.
        let counted = || unsafe { control.counted_in_group(group.number, pass, thread) };
        let count = if thread < RADIX { counted() } else { 0 };
        let ([before], _) = block.exclusive_scan([count], 0, u64::wrapping_add);
        if thread < RADIX {
            // SAFETY: the thread alone has read the word.
            unsafe {
                control.begin_group(group.number, pass, thread, group.first_key as u64 + before)
            };
        }
    }
}

/// As [`sort_pass`](fn@super::sort_pass), within each of some groups. All passes run.
///
/// # Safety
/// - Each of the arrays has as many elements as `groups` have keys; those of [`NoValue`] may be empty. The launch has a block for each
///   tile of the groups, which is not 0.
/// - [`sort_groups_histogram`](fn@sort_groups_histogram) has counted these groups by this order and these bits, and all passes before
///   have run.
#[kernel(
    (u32, NoValue, SHORT), (u64, NoValue, LONG), (u32, u32, SHORT), (u64, u32, LONG), (u32, u64, LONG), (u64, u64, LONG),
    max_registers = REGISTERS, dynamic_shared = shared_bytes::<K, V, ITEMS>()
)]
pub unsafe fn sort_groups_pass<K: Word, V: Payload, const ITEMS: usize>(
    mut block: Block<THREADS>,
    input: &[K],
    mut out: DisjointSlice<K>,
    mut spare: DisjointSlice<K>,
    values: &[V],
    mut out_values: DisjointSlice<V>,
    mut spare_values: DisjointSlice<V>,
    control: AtomicSlice<u32>,
    groups: Groups,
    task: Task,
) {
    let control = Control::new(control.as_mut_ptr());
    let passes = super::passes(task.begin, task.end);
    let step = Step::of((1 << passes) - 1, task.pass, false);
    let room = out.len();
    let memory = SortMemory {
        input: (input.as_ptr(), values.as_ptr()),
        out: (out.as_mut_ptr(), out_values.as_mut_ptr()),
        spare: (spare.as_mut_ptr(), spare_values.as_mut_ptr()),
    };
    // SAFETY: the caller's promise.
    unsafe {
        sweep::<K, V, ITEMS>(&mut block, memory.arrays(step, room), control, task, step, groups)
    };
}
