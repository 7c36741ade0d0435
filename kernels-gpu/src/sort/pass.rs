//! One pass of the sort: every key moves behind those with a smaller digit, and behind the equal ones before it.
//!
//! A block takes a tile of the keys. What each step buys over the [plain form](super::plain):
//!
//! 1. All digits were counted [before the first pass](super::histogram), so a pass reads each key once.
//! 2. A tile counts its digits early and says the counts at once; tiles behind it find what lies before them by
//!    looking back, digit by digit, and wait for no tile to finish (Merrill and Garland, 2016).
//! 3. Ranks come from ballots: eight of them tell each lane which other lanes hold its digit. So a digit has eight
//!    bits instead of four, and there are half as many passes.
//! 4. Keys go to their place in the tile in shared memory first: keys of one digit then leave side by side, in
//!    whole sectors.

use crate::prelude::*;
use bytemuck::{NoUninit, Zeroable};
use cuda_std::shared::dynamic_shared_mem;
use cuda_std::unroll::{build, each};
use cuda_std::warp::Warp;

use super::control::{COUNT_BITS, States};
pub use super::control::{Control, GROUP_BITS, Known, Place, Step, control_words, words};
use super::key::{Digit, NoValue, Order, Payload, RADIX, Word};

/// Threads in a block.
pub const THREADS: usize = 256;
const WARPS: usize = THREADS / 32;
/// Keys of a thread if the elements are short: neither keys nor values have more than 4 bytes. As many as its registers hold: the
/// keys of a digit leave a tile side by side, so a longer tile writes longer runs.
pub const SHORT: usize = 56;
/// Keys of a thread if the elements are long: keys or values have 8 bytes. They take twice the registers, so there are half as many.
pub const LONG: usize = 28;

/// Keys of a thread if both the elements and the array are short. All tiles of such an array run at once, and a tile of few keys
/// is finished soonest.
pub const FEW_SHORT: usize = 16;
/// Keys of a thread if the elements are long and the array is short.
pub const FEW_LONG: usize = 8;
/// Most tiles of `FEW_SHORT` or `FEW_LONG` keys a thread: about two to a multiprocessor. More keys are sorted in longer tiles.
pub const FEW_TILES: usize = 256;

/// How an array is cut into tiles.
#[derive(Clone, Copy, Debug)]
pub struct Tiling {
    /// Bytes of a key.
    pub key_bytes: usize,
    /// Bytes of its value.
    pub value_bytes: usize,
    /// The most tiles of few keys: [`FEW_TILES`], or less to have long ones earlier.
    pub few_tiles: usize,
}

impl Tiling {
    const fn is_long(self) -> bool {
        self.key_bytes > 4 || self.value_bytes > 4
    }

    /// The most keys that are sorted in tiles of few; none of less than 4 bytes, which take one pass or two.
    const fn few_elems(self) -> usize {
        let few = if self.is_long() { FEW_LONG } else { FEW_SHORT };
        if self.key_bytes < 4 { 0 } else { self.few_tiles * THREADS * few }
    }

    /// Keys of a thread of [`sort_pass`](fn@sort_pass) in a sort of `n_elems` keys: its last parameter.
    #[must_use]
    pub const fn items(self, n_elems: usize) -> usize {
        match (n_elems <= self.few_elems(), self.is_long()) {
            (true, true) => FEW_LONG,
            (true, false) => FEW_SHORT,
            (false, true) => LONG,
            (false, false) => SHORT,
        }
    }

    /// Tiles of a sort of `n_elems` keys.
    #[must_use]
    pub const fn tiles(self, n_elems: usize) -> usize {
        n_elems.div_ceil(THREADS * self.items(n_elems))
    }

    /// The most tiles of a sort of at most `n_elems` keys.
    #[must_use]
    pub const fn most_tiles(self, n_elems: usize) -> usize {
        let (tiles, few_elems) = (self.tiles(n_elems), self.few_elems());
        if n_elems > few_elems && tiles < self.tiles(few_elems) {
            self.tiles(few_elems)
        } else {
            tiles
        }
    }
}

/// Registers of a thread. A multiprocessor has 65,536, so it holds two blocks: while one ranks its keys, the other moves them.
pub(super) const REGISTERS: u32 = 128;

/// What all blocks of a pass know.
#[repr(C)]
#[derive(Clone, Copy, Debug, NoUninit, Zeroable)]
pub struct Task {
    /// How raw bits become words in order.
    pub order: Order,
    /// The number of the pass.
    pub pass: u32,
    /// The first of the bits to sort by.
    pub begin: u32,
    /// The bit behind the last.
    pub end: u32,
    /// A group has 2 to the power of this tiles: at most [`GROUP_BITS`].
    pub group_bits: u32,
    /// Not 0 where the values are `0, 1, 2, …`, whatever the input holds.
    pub numbered: u32,
    /// Nothing: it fills up the last 8 bytes.
    pub reserved: u32,
}

/// The block's shared memory.
type Memory = super::memory::Memory<THREADS, { THREADS * SHORT }>;

/// Bytes of it that a tile's keys need, and their values, which come after them.
pub(super) const fn shared_bytes<K, V, const ITEMS: usize>() -> usize {
    let (key, value) = (size_of::<K>(), size_of::<V>());
    Memory::bytes(THREADS * ITEMS * if key > value { key } else { value })
}

/// One pass over `input: [n]`, or over what the pass before wrote of it; `values` follow their keys. Each of the arrays has `n`
/// elements; those of [`NoValue`] may be empty. So may be `input` and `values` if the plan is to sort in place: what `out` and
/// `out_values` hold. These may have more than `n` elements, if the plan is one pass, to places that are apart.
///
/// Afterwards `out` holds the sorted keys if the pass is the last one; how often a pass goes to `spare` and back is planned by
/// [`sort_histogram`](fn@super::histogram::sort_histogram).
///
/// # Safety
/// - `n > 0`, and the launch has a block for each `THREADS * ITEMS` keys.
/// - `control` was planned for these keys, this order and these bits, and all passes before have run.
/// - `task.pass` is one of the plan's, and `task.group_bits` is what the control was made for, at most [`GROUP_BITS`].
#[kernel(
    (u8, NoValue, SHORT), (u16, NoValue, SHORT), (u32, NoValue, SHORT), (u64, NoValue, LONG),
    (u8, u32, SHORT), (u16, u32, SHORT), (u32, u32, SHORT), (u64, u32, LONG),
    (u8, u64, LONG), (u16, u64, LONG), (u32, u64, LONG), (u64, u64, LONG),
    (u32, NoValue, FEW_SHORT), (u64, NoValue, FEW_LONG), (u32, u32, FEW_SHORT), (u64, u32, FEW_LONG),
    (u32, u64, FEW_LONG), (u64, u64, FEW_LONG),
    max_registers = REGISTERS, dynamic_shared = shared_bytes::<K, V, ITEMS>()
)]
pub unsafe fn sort_pass<K: Word, V: Payload, const ITEMS: usize>(
    mut block: Block<THREADS>,
    input: &[K],
    mut out: DisjointSlice<K>,
    mut spare: DisjointSlice<K>,
    values: &[V],
    mut out_values: DisjointSlice<V>,
    mut spare_values: DisjointSlice<V>,
    control: AtomicSlice<u32>,
    task: Task,
) {
    let control = Control::new(control.as_mut_ptr());
    // SAFETY: the plan has this pass.
    let step = unsafe { control.step(task.pass) };
    if !step.runs() {
        return;
    }
    let (n, room) = (spare.len(), out.len());
    let memory = SortMemory {
        input: (input.as_ptr(), values.as_ptr()),
        out: (out.as_mut_ptr(), out_values.as_mut_ptr()),
        spare: (spare.as_mut_ptr(), spare_values.as_mut_ptr()),
    };
    let cut = EvenGroups { n, group_bits: task.group_bits };
    // SAFETY: the caller's promise.
    unsafe {
        sweep::<K, V, ITEMS>(&mut block, memory.arrays(step, room), control, task, step, cut)
    };
}

/// Where the keys of a sort are, and their values.
#[derive(Clone, Copy)]
pub(super) struct SortMemory<K, V> {
    pub input: (*const K, *const V),
    pub out: (*mut K, *mut V),
    pub spare: (*mut K, *mut V),
}

impl<K, V> SortMemory<K, V> {
    /// What a pass reads and writes.
    #[inline(always)]
    pub fn arrays(self, step: Step, room: usize) -> Arrays<K, V> {
        let read = |(keys, values): (*mut K, *mut V)| (keys.cast_const(), values.cast_const());
        let (from, from_values) = match step.from() {
            Place::Input => self.input,
            Place::Out => read(self.out),
            Place::Spare => read(self.spare),
        };
        let (to, to_values) = match step.to() {
            Place::Spare => self.spare,
            _ => self.out,
        };
        Arrays { from, to, from_values, to_values, room }
    }
}

/// What a pass reads and writes.
#[derive(Clone, Copy)]
pub(super) struct Arrays<K, V> {
    pub from: *const K,
    pub to: *mut K,
    pub from_values: *const V,
    pub to_values: *mut V,
    /// The elements of where it writes: no place is behind them.
    pub room: usize,
}

/// How the keys of a pass are cut into groups of tiles.
pub(super) trait Cut: Copy {
    /// How many groups there are, of so many tiles in all.
    fn groups(self, tiles: usize) -> usize;

    /// The group of a tile.
    fn group(self, tile: usize, tile_keys: usize) -> Group;

    /// Whether a tile tells the group behind its own where its keys go.
    fn begins_next(self, tile: Tile, tiles: usize) -> bool;
}

/// A group of tiles.
#[derive(Clone, Copy)]
pub(super) struct Group {
    pub number: usize,
    /// Its first tile, and the first key of that.
    pub first_tile: usize,
    pub first_key: usize,
    /// The key behind the last one.
    pub end: usize,
}

/// All `n` keys in one order: each group but the last one has 2 to the power of `group_bits` tiles, and the keys of all follow one
/// another.
#[derive(Clone, Copy)]
struct EvenGroups {
    n: usize,
    group_bits: u32,
}

impl Cut for EvenGroups {
    #[inline(always)]
    fn groups(self, tiles: usize) -> usize {
        tiles.div_ceil(1 << self.group_bits)
    }

    #[inline(always)]
    fn group(self, tile: usize, tile_keys: usize) -> Group {
        let number = tile >> self.group_bits;
        let first_tile = number << self.group_bits;
        Group { number, first_tile, first_key: first_tile * tile_keys, end: self.n }
    }

    #[inline(always)]
    fn begins_next(self, tile: Tile, tiles: usize) -> bool {
        tile.number + 1 == (tile.group.number + 1) << self.group_bits && tile.number + 1 < tiles
    }
}

/// A block's tile of a pass.
#[derive(Clone, Copy)]
pub(super) struct Tile {
    number: usize,
    /// The tile's first key.
    start: usize,
    /// The calling lane's first key; it has every 32nd from there on.
    first: usize,
    is_full: bool,
    group: Group,
}

impl Tile {
    #[inline(always)]
    fn new<const ITEMS: usize>(block: &Block<THREADS>, number: usize, group: Group) -> Self {
        let start = group.first_key + (number - group.first_tile) * (THREADS * ITEMS);
        let first = start + block.warp() * (32 * ITEMS) + block.lane();
        let is_full = start + THREADS * ITEMS <= group.end;
        Self { number, start, first, is_full, group }
    }

    /// What the tile publishes as soon as it has counted a digit. The tiles after it need that soonest.
    #[inline(always)]
    fn known(self, of_tile: u32) -> Known {
        if self.number == self.group.first_tile {
            Known::UpTo(of_tile)
        } else {
            Known::Own(of_tile)
        }
    }
}

/// The pass of one block.
///
/// # Safety
/// As for [`sort_pass`](fn@sort_pass).
#[inline(always)]
pub(super) unsafe fn sweep<K: Word, V: Payload, const ITEMS: usize>(
    block: &mut Block<THREADS>,
    arrays: Arrays<K, V>,
    control: Control,
    task: Task,
    step: Step,
    cut: impl Cut,
) {
    let thread = block.thread();
    let memory = Memory::new(dynamic_shared_mem());
    let digit = Digit::of(task.pass, task.begin, task.end);
    let tiles = thread::grid_dim_x() as usize;
    let states = control.states(cut.groups(tiles), step);

    // SAFETY: nothing else is in the shared memory yet.
    unsafe { memory.clear(thread) };
    // SAFETY: the control was made for this pass.
    let ticket = block.once(|| unsafe { control.ticket(task.pass) }).unwrap_or(0);
    // The barrier in it: the counters are clear.
    let number = block.broadcast(ticket, 0) as usize;
    let tile = Tile::new::<ITEMS>(block, number, cut.group(number, THREADS * ITEMS));

    // SAFETY: the caller's promise; the keys are those of the tile.
    let keys: [K; ITEMS] = unsafe { load(arrays.from, tile, task.order, step) };
    let own = thread % RADIX;
    // SAFETY: the tile is one of the pass, and the digit this thread's.
    let publish = |of_tile| unsafe { states.publish(tile.number, own, tile.known(of_tile)) };
    let counters = memory.counters(block.warp());
    // SAFETY: the counters are clear.
    let (of_tile, begin) =
        unsafe { memory.count_tile::<K, ITEMS, WARPS>(block, counters, &keys, digit, publish) };

    let staged = memory.staged::<K, ITEMS>();
    // The digits are cut out again: kept since they were counted, they would take a register each.
    let digit = Digit { shift: opaque(digit.shift), ..digit };
    // SAFETY: the counters are the warp's places of its keys of each digit; the tile has room for them.
    let ranks = Halves::of(unsafe { rank(block.whole_warp(), counters, &keys, digit, staged) });
    if thread < RADIX {
        // SAFETY: the digit is this thread's, and the tile one of the pass.
        let next = cut.begins_next(tile, tiles);
        // SAFETY: as above.
        let place = unsafe { place_of_digit(control, states, task, tile, next, own, of_tile) };
        // A digit's keys stand in the tile from `begin` on. No more stand before them there than in the result.
        // SAFETY: no thread reads the places before the barrier, and the digit is this thread's.
        unsafe { memory.write_place(own, place - u64::from(begin), is_wide(arrays.room)) };
    }
    // The keys are staged, and every digit's place is known.
    block.sync(());
    let used = (tile.group.end - tile.start).min(THREADS * ITEMS);
    let leave = Leave { memory, digit, room: arrays.room, used, thread };
    // SAFETY: as the barrier says.
    let digits = unsafe { leave.keys::<K, V, ITEMS>(arrays.to, task.order, step) };
    if const { size_of::<V>() > 0 } {
        // SAFETY: the caller's promise; the values are those of the tile's keys.
        unsafe {
            let values = load_values(arrays.from_values, tile, task, step);
            move_values::<K, V, ITEMS>(block, leave, values, ranks, arrays.to_values, digits);
        }
    }
}

/// Where the keys of the tile with digit `own` go in the result: the number of such keys in the tiles before it, which the
/// calling thread looks back for, after the place of their group. Publishes what the tiles after this one look for, and, with
/// `begins_next`, where the keys of the group behind go.
///
/// # Safety
/// As for [`sort_pass`](fn@sort_pass). `own < RADIX` is the digit of the calling thread alone; the tile has `of_tile` such keys.
#[inline(always)]
unsafe fn place_of_digit(
    control: Control,
    states: States,
    task: Task,
    tile: Tile,
    begins_next: bool,
    own: usize,
    of_tile: u32,
) -> u64 {
    let pass = task.pass as usize;
    // SAFETY: the caller's promise.
    unsafe {
        let (group, first) = (tile.group.number, tile.group.first_tile);
        let before = states.before(first, tile.number, own);
        if tile.number > first {
            states.publish(tile.number, own, Known::UpTo(before + of_tile));
        }
        let place = control.group(group, pass, own) + u64::from(before);
        if begins_next {
            control.begin_group(group + 1, pass, own, place + u64::from(of_tile));
        }
        place
    }
}

/// Writes the values of a tile after their keys, by way of the shared memory.
///
/// # Safety
/// As for [`sort_pass`](fn@sort_pass). All threads of the block call it; `ranks` and `digits` are those of the tile's keys, which
/// have been written.
#[inline(always)]
unsafe fn move_values<K: Word, V: Payload, const ITEMS: usize>(
    block: &mut Block<THREADS>,
    leave: Leave,
    values: [V; ITEMS],
    ranks: Halves,
    to: *mut V,
    digits: Quarters,
) {
    // The keys are read, and values take their place.
    block.sync(());
    let staged = leave.memory.staged::<V, ITEMS>();
    // SAFETY: ranks are different, and below the tile's length.
    each::<ITEMS>(|k| unsafe { staged.add(ranks.get(k) / size_of::<K>()).write(values[k]) });
    // The values are staged.
    block.sync(());
    // SAFETY: as the barrier says.
    unsafe { leave.values::<V, ITEMS>(to, digits) };
}

// Each of the first threads looks after a digit, and the keys of a group are counted in the bits of a `Known` word.
const _: () = assert!(THREADS >= RADIX && (THREADS * SHORT) << GROUP_BITS < 1 << COUNT_BITS);

/// Numbers below 65,536, two to a register. They are kept while others need the registers more.
#[derive(Clone, Copy)]
struct Halves {
    words: [u32; SHORT / 2],
}

impl Halves {
    #[inline(always)]
    fn of<const ITEMS: usize>(numbers: [u32; ITEMS]) -> Self {
        const { assert!(ITEMS.is_multiple_of(2) && ITEMS <= SHORT) };
        let pair = |i: usize| numbers[i] | numbers[i + 1] << 16;
        Self { words: build(|i| if 2 * i < ITEMS { opaque(pair(2 * i)) } else { 0 }) }
    }

    #[inline(always)]
    fn get(self, i: usize) -> usize {
        (self.words[i / 2] >> (16 * (i % 2)) & 0xffff) as usize
    }
}

/// Digits, four to a register.
#[derive(Clone, Copy)]
struct Quarters {
    words: [u32; SHORT / 4],
}

impl Quarters {
    /// The digits of the keys.
    #[inline(always)]
    fn of<K: Word, const ITEMS: usize>(keys: &[K; ITEMS], digit: Digit) -> Self {
        const { assert!(SHORT.is_multiple_of(4) && ITEMS <= SHORT) };
        let part = |i: usize, place: u32| {
            if i < ITEMS { keys[i].digit(digit, 8 * place) } else { 0 }
        };
        let word = |i: usize| part(i, 0) | part(i + 1, 1) | part(i + 2, 2) | part(i + 3, 3);
        Self { words: build(|i| opaque(word(4 * i))) }
    }

    /// A digit times 4.
    #[inline(always)]
    fn get(self, i: usize) -> u32 {
        let (word, place) = (self.words[i / 4], 8 * (i % 4) as u32);
        word.rotate_right(place.wrapping_sub(2) & 31) & (4 * (RADIX as u32 - 1))
    }
}

/// Whether places in so many elements do not fit into 32 bits.
#[inline(always)]
fn is_wide(room: usize) -> bool {
    room > u32::MAX as usize
}

/// This lane's keys in the order of the array: 32 neighbours to a warp and load. Behind the end of the
/// group are last keys, which stay behind all others with their digit.
///
/// # Safety
/// As for [`sort_pass`](fn@sort_pass).
#[inline(always)]
unsafe fn load<K: Word, const ITEMS: usize>(
    from: *const K,
    tile: Tile,
    order: Order,
    step: Step,
) -> [K; ITEMS] {
    let raw = step.is_first() && !order.is_none();
    let keys: [K; ITEMS] = if tile.is_full {
        // SAFETY: keys of the group, for the tile is full.
        build(|k| unsafe { from.add(tile.first + 32 * k).read() })
    } else {
        let last = if raw { K::LAST.raw(order) } else { K::LAST };
        build(|k| {
            let i = tile.first + 32 * k;
            // SAFETY: a key of the group.
            if i < tile.group.end { unsafe { from.add(i).read() } } else { last }
        })
    };
    if raw { build(|k| keys[k].ordered(order)) } else { keys }
}

/// The values of this lane's keys.
///
/// # Safety
/// As for [`sort_pass`](fn@sort_pass).
#[inline(always)]
unsafe fn load_values<V: Payload, const ITEMS: usize>(
    from: *const V,
    tile: Tile,
    task: Task,
    step: Step,
) -> [V; ITEMS] {
    if const { size_of::<V>() == 0 } || (step.is_first() && task.numbered != 0) {
        return build(|k| V::numbered(tile.first + 32 * k));
    }
    if tile.is_full {
        // SAFETY: keys of the group, for the tile is full.
        return build(|k| unsafe { from.add(tile.first + 32 * k).read() });
    }
    build(|k| {
        let i = tile.first + 32 * k;
        // SAFETY: the value of a key of the group.
        if i < tile.group.end { unsafe { from.add(i).read() } } else { V::numbered(0) }
    })
}

/// Writes each key to its place in the tile, which comes back too, in bytes of keys. All lanes call it together.
///
/// # Safety
/// `counters` are the warp's own, the places of its keys of each digit; `staged` has room for the tile.
#[inline(always)]
pub(super) unsafe fn rank<K: Word, const ITEMS: usize>(
    warp: Warp,
    counters: *mut u32,
    keys: &[K; ITEMS],
    digit: Digit,
    staged: *mut K,
) -> [u32; ITEMS] {
    let lane = warp.thread_rank();
    let (below, above) = ((1 << lane) - 1, u32::MAX << lane << 1);
    let size = size_of::<K>() as u32;
    build(|k| {
        let at = keys[k].digit(digit, 2);
        let others = others(warp, at);
        // SAFETY: a counter of the warp; its lanes read before one of those with the digit writes, and the next
        // read comes after. The places of the tile's keys are different and inside.
        unsafe {
            let counter = counters.byte_add(at as usize);
            let place = counter.read() + (!others & below).count_ones() * size;
            // All lanes have read.
            warp.sync();
            if !others & above == 0 {
                counter.write(place + size);
            }
            // The last lane with each digit has written.
            warp.sync();
            staged.byte_add(place as usize).write(keys[k]);
            place
        }
    })
}

/// The lanes with another digit, which stands from bit 2 on.
///
/// Four instructions a bit: test it, vote, spread this lane's own over a word, and join.
#[inline(always)]
fn others(warp: Warp, digit: u32) -> u32 {
    let mut others = 0;
    each::<8>(|bit| {
        let is_set = opaque(digit & (4 << bit)) != 0;
        others |= warp.ballot(is_set) ^ if is_set { u32::MAX } else { 0 };
    });
    others
}

/// The same word. The compiler does not see that one bit of it is left, which it would test by a shift more.
#[inline(always)]
pub(super) fn opaque(word: u32) -> u32 {
    #[cfg(target_os = "cuda")]
    {
        let same;
        // SAFETY: it copies a register.
        unsafe {
            core::arch::asm!(
                "mov.b32 {0}, {1};", out(reg32) same, in(reg32) word,
                options(pure, nomem, nostack, preserves_flags),
            );
        }
        same
    }
    #[cfg(not(target_os = "cuda"))]
    word
}

/// How a tile leaves shared memory.
#[derive(Clone, Copy)]
struct Leave {
    memory: Memory,
    digit: Digit,
    room: usize,
    used: usize,
    thread: usize,
}

impl Leave {
    /// Writes the keys, neighbours by neighbouring threads; the digits of this thread's.
    ///
    /// # Safety
    /// Keys and places are in shared memory; `to` has `room` elements.
    #[inline(always)]
    unsafe fn keys<K: Word, V: Payload, const ITEMS: usize>(
        self,
        to: *mut K,
        order: Order,
        step: Step,
    ) -> Quarters {
        let staged = self.memory.staged::<K, ITEMS>();
        let raw = step.is_last() && !order.is_none();
        // SAFETY: every place of the tile was written.
        let keys: [K; ITEMS] = build(|k| unsafe { staged.add(self.thread + k * THREADS).read() });
        let digits = Quarters::of(&keys, self.digit);
        let own = |k: usize| keys[k].digit(self.digit, 2);
        // SAFETY: the caller's promise.
        unsafe {
            if const { size_of::<V>() == 0 } {
                let own: [u32; ITEMS] = build(own);
                let keys = if raw { build(|k| keys[k].raw(order)) } else { keys };
                self.items::<_, ITEMS>(to, |k| keys[k], |k| own[k]);
            } else if raw {
                // Packed digits stay beside the keys: each item's are cut out where they are used.
                self.items::<_, ITEMS>(to, |k| keys[k].raw(order), own);
            } else {
                self.items::<_, ITEMS>(to, |k| keys[k], own);
            }
        }
        digits
    }

    /// Writes the values of the keys whose digits these are.
    ///
    /// # Safety
    /// As for [`keys`](Self::keys).
    #[inline(always)]
    unsafe fn values<V: Payload, const ITEMS: usize>(self, to: *mut V, digits: Quarters) {
        let staged = self.memory.staged::<V, ITEMS>();
        // SAFETY: every place of the tile was written.
        let values: [V; ITEMS] = build(|k| unsafe { staged.add(self.thread + k * THREADS).read() });
        // SAFETY: the caller's promise.
        unsafe { self.items::<_, ITEMS>(to, |k| values[k], |k| digits.get(k)) };
    }

    /// Writes each item as far behind its place in the tile as its digit, times 4, says.
    ///
    /// # Safety
    /// As for [`keys`](Self::keys).
    #[inline(always)]
    unsafe fn items<T: Copy, const ITEMS: usize>(
        self,
        to: *mut T,
        item: impl Fn(usize) -> T,
        digit: impl Fn(usize) -> u32,
    ) {
        let own = to.wrapping_add(self.thread);
        // SAFETY: places of the tile's digits, and below `room`.
        unsafe {
            if is_wide(self.room) {
                let places = self.memory.places::<u64>();
                each::<ITEMS>(|k| {
                    let place = places.byte_add(2 * digit(k) as usize).read() as usize;
                    if self.thread + k * THREADS < self.used {
                        own.add(place).add(k * THREADS).write(item(k));
                    }
                });
                return;
            }
            let places = self.memory.places::<u32>();
            let place = |k: usize| places.byte_add(digit(k) as usize).read() as usize;
            if self.used == THREADS * ITEMS {
                each::<ITEMS>(|k| own.add(place(k)).add(k * THREADS).write(item(k)));
            } else {
                each::<ITEMS>(|k| {
                    if self.thread + k * THREADS < self.used {
                        own.add(place(k)).add(k * THREADS).write(item(k));
                    }
                });
            }
        }
    }
}
