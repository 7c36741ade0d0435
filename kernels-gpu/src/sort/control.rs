//! What the kernels of a sort tell one another, in words of device memory that are 0 before the first.

use core::ops::Range;
use core::sync::atomic::AtomicU64;

use crate::prelude::*;
use cuda_std::atomic::{self, Scope};
use cuda_std::thread;
use cuda_std::unroll::{build, each};

use super::histogram::MAX_PASSES;
use super::key::RADIX;

/// Words at the front: finished blocks, the next tile of each pass, the [`Step`] of each.
const HEADER: usize = 32;
const TICKETS: usize = 1;
const STEPS: usize = TICKETS + MAX_PASSES;
/// Words of the counts of all digits, 8 bytes each.
const COUNTS: usize = 2 * MAX_PASSES * RADIX;

/// 2 to the power of this tiles are a group, whose keys are counted in the 30 bits of a [`Known`] word. Groups
/// follow one another by sums of 64 bits.
pub const GROUP_BITS: u32 = 16;

/// Words of device memory for the control of a sort of `tiles` tiles, in groups of 2 to the power of `group_bits`.
/// All are 0 before the first kernel.
#[must_use]
pub const fn control_words(tiles: usize, group_bits: u32) -> usize {
    words(tiles, tiles.div_ceil(1 << group_bits))
}

/// Words of device memory for the control of a sort of `tiles` tiles in as many groups. All are 0 before the first kernel.
#[must_use]
pub const fn words(tiles: usize, groups: usize) -> usize {
    states(groups) + tiles * RADIX
}

/// The words in which [`sort_histogram`](fn@super::sort_histogram) leaves how many keys have each value of the first digit, 8 bytes each.
pub const FIRST_COUNTS: Range<usize> = HEADER..HEADER + 2 * RADIX;

/// Words before the states of tiles that a pass reads, if it is the only one.
pub const PLANNED_WORDS: usize = HEADER + COUNTS + 2 * RADIX;

/// The first words of the control of one pass, which moves the keys with each value of its digit to the place that `places` says, in
/// elements, and on. The words behind them are 0.
#[must_use]
pub fn planned_words(places: &[u64; RADIX]) -> [u32; PLANNED_WORDS] {
    let mut words = [0; PLANNED_WORDS];
    words[STEPS] = Step::of(1, 0, false).0;
    let of_group = words[HEADER + COUNTS..].as_chunks_mut::<2>().0;
    for (words, place) in of_group.iter_mut().zip(places) {
        let place = place | IS_KNOWN;
        *words = [place as u32, (place >> 32) as u32];
    }
    words
}

/// Where the states of the tiles begin.
const fn states(groups: usize) -> usize {
    HEADER + COUNTS + groups * COUNTS
}

/// What a pass does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step(u32);

/// Where keys are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// What the caller sorts, which is not changed.
    Input,
    /// Where the caller wants the result.
    Out,
    /// Scratch memory.
    Spare,
}

impl Step {
    const RUNS: u32 = 1;
    const FIRST: u32 = 2;
    const LAST: u32 = 4;
    const ODD: u32 = 8;
    const FROM_SPARE: u32 = 16;
    const IN_PLACE: u32 = 32;

    /// Which of the first `passes` run, bit for bit, where `moves` are those whose digit tells keys apart.
    ///
    /// Sorted in place, keys come back after an even number of passes, so `passes` are one: if need be, another pass
    /// moves all keys and leaves their order. Otherwise at least one pass runs, which copies.
    #[must_use]
    pub const fn plan(moves: u32, passes: usize, in_place: bool) -> u32 {
        if !in_place {
            return if moves == 0 { 1 << (passes - 1) } else { moves };
        }
        let idle = !moves & ((1 << passes) - 1);
        if moves.count_ones() % 2 == 1 { moves | idle & idle.wrapping_neg() } else { moves }
    }

    /// The step of `pass` if the passes that run are those whose bits are set in `moves`.
    ///
    /// The last one writes the result, and each reads what the one before has written.
    #[must_use]
    pub const fn of(moves: u32, pass: u32, in_place: bool) -> Self {
        let (before, behind) = (moves & ((1 << pass) - 1), moves >> pass >> 1);
        let mut bits = if in_place { Self::IN_PLACE } else { 0 };
        if moves >> pass & 1 == 1 {
            bits |= Self::RUNS;
        }
        if before == 0 {
            bits |= Self::FIRST;
        }
        if behind == 0 {
            bits |= Self::LAST;
        }
        if before.count_ones() % 2 == 1 {
            bits |= Self::ODD;
        }
        if behind.count_ones() % 2 == 0 {
            bits |= Self::FROM_SPARE;
        }
        Self(bits)
    }

    /// Whether it does anything.
    #[must_use]
    pub const fn runs(self) -> bool {
        self.0 & Self::RUNS != 0
    }

    /// Whether it reads the input: raw bits.
    #[must_use]
    pub const fn is_first(self) -> bool {
        self.0 & Self::FIRST != 0
    }

    /// Whether it writes the result: raw bits.
    #[must_use]
    pub const fn is_last(self) -> bool {
        self.0 & Self::LAST != 0
    }

    /// Where the keys are read.
    #[must_use]
    pub const fn from(self) -> Place {
        match (self.is_first(), self.0 & Self::FROM_SPARE != 0) {
            (true, _) if self.0 & Self::IN_PLACE == 0 => Place::Input,
            (_, true) => Place::Spare,
            (_, false) => Place::Out,
        }
    }

    /// Where they are written.
    #[must_use]
    pub const fn to(self) -> Place {
        if self.0 & Self::FROM_SPARE != 0 { Place::Out } else { Place::Spare }
    }

    /// The word that says [`Known::UpTo`] in this pass. It differs from that of the pass before, whose words are
    /// still there and say nothing now.
    const fn up_to(self) -> u32 {
        if self.0 & Self::ODD != 0 { 3 } else { 2 }
    }
}

/// What a tile says about the number of its keys with one digit: a word, so that all of it is seen together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Known {
    /// Nothing yet.
    Nothing,
    /// The number of the tile's own.
    Own(u32),
    /// The number in the tile and all before it in its group.
    UpTo(u32),
}

/// Bits of a number in a word.
pub(super) const COUNT_BITS: u32 = 30;
const OWN: u32 = 1;

impl Known {
    #[inline(always)]
    fn of(word: u32, step: Step) -> Self {
        let count = word & ((1 << COUNT_BITS) - 1);
        match word >> COUNT_BITS {
            OWN => Self::Own(count),
            kind if kind == step.up_to() => Self::UpTo(count),
            _ => Self::Nothing,
        }
    }

    #[inline(always)]
    fn word(self, step: Step) -> u32 {
        match self {
            Self::Nothing => 0,
            Self::Own(count) => OWN << COUNT_BITS | count,
            Self::UpTo(count) => step.up_to() << COUNT_BITS | count,
        }
    }
}

/// The bit of a group's place that says that the place is known.
const IS_KNOWN: u64 = 1 << 63;

/// The control words of a sort.
///
/// Every function wants what [`new`](Self::new) wants, digits below [`RADIX`], and passes, tiles and groups that the sort has.
#[derive(Clone, Copy)]
pub struct Control {
    words: *mut u32,
}

#[allow(clippy::missing_safety_doc)]
impl Control {
    /// `words` leads to [`control_words`], which nothing reaches but a `Control`.
    #[inline(always)]
    pub fn new(words: *mut u32) -> Self {
        Self { words }
    }

    #[inline(always)]
    unsafe fn add(self, word: usize, n: u32, order: core::sync::atomic::Ordering) -> u32 {
        // SAFETY: the caller's promise.
        unsafe { atomic::fetch_add(self.words.add(word), n, order, Scope::Device) }
    }

    #[inline(always)]
    fn count_at(self, pass: usize, digit: usize) -> *mut u64 {
        self.words.wrapping_add(HEADER).cast::<u64>().wrapping_add(pass * RADIX + digit)
    }

    #[inline(always)]
    fn group_at(self, group: usize, pass: usize, digit: usize) -> *mut u64 {
        let groups = self.words.wrapping_add(HEADER + COUNTS).cast::<u64>();
        groups.wrapping_add((group * MAX_PASSES + pass) * RADIX + digit)
    }

    /// Counts this block as finished; returns how many were before. Acquires what they counted.
    #[inline(always)]
    pub unsafe fn finish(self) -> u32 {
        // SAFETY: the caller's promise.
        unsafe { self.add(0, 1, AcqRel) }
    }

    /// The next tile of a pass.
    #[inline(always)]
    pub unsafe fn ticket(self, pass: u32) -> u32 {
        // SAFETY: the caller's promise.
        unsafe { self.add(TICKETS + pass as usize, 1, Relaxed) }
    }

    /// Adds to the number of keys with a digit.
    #[inline(always)]
    pub unsafe fn count(self, pass: usize, digit: usize, n: u32) {
        // SAFETY: the caller's promise. Relaxed ones of `core` are right on the device.
        unsafe { AtomicU64::from_ptr(self.count_at(pass, digit)) }.fetch_add(n.into(), Relaxed);
    }

    /// The number of keys with a digit.
    #[inline(always)]
    pub unsafe fn counted(self, pass: usize, digit: usize) -> u64 {
        // SAFETY: the caller's promise.
        unsafe { atomic::load(self.count_at(pass, digit), Relaxed, Scope::Device) }
    }

    /// Sets what a pass does.
    #[inline(always)]
    pub unsafe fn set_step(self, pass: usize, step: Step) {
        // SAFETY: the caller's promise.
        unsafe { self.words.add(STEPS + pass).write(step.0) };
    }

    /// What a pass does: an earlier launch has set it.
    #[inline(always)]
    pub unsafe fn step(self, pass: u32) -> Step {
        // SAFETY: the caller's promise.
        Step(unsafe { self.words.add(STEPS + pass as usize).read() })
    }

    /// Publishes where the keys of a group with a digit begin in the result.
    #[inline(always)]
    pub unsafe fn begin_group(self, group: usize, pass: usize, digit: usize, place: u64) {
        let at = self.group_at(group, pass, digit);
        // SAFETY: the caller's promise.
        unsafe { atomic::store(at, place | IS_KNOWN, Relaxed, Scope::Device) };
    }

    /// Where the keys of a group with a digit begin in the result, once it is known.
    #[inline(always)]
    pub unsafe fn group(self, group: usize, pass: usize, digit: usize) -> u64 {
        loop {
            let at = self.group_at(group, pass, digit);
            // SAFETY: the caller's promise.
            let place = unsafe { atomic::load(at, Relaxed, Scope::Device) };
            if place & IS_KNOWN != 0 {
                return place & !IS_KNOWN;
            }
            wait();
        }
    }

    /// Adds to the number of keys of a group with a digit, in the word that [`begin_group`](Self::begin_group) sets when all are
    /// counted.
    #[inline(always)]
    pub unsafe fn count_in_group(self, group: usize, pass: usize, digit: usize, n: u32) {
        let at = self.group_at(group, pass, digit);
        // SAFETY: the caller's promise. Relaxed ones of `core` are right on the device.
        unsafe { AtomicU64::from_ptr(at) }.fetch_add(n.into(), Relaxed);
    }

    /// The number of keys of a group with a digit.
    #[inline(always)]
    pub unsafe fn counted_in_group(self, group: usize, pass: usize, digit: usize) -> u64 {
        // SAFETY: the caller's promise.
        unsafe { atomic::load(self.group_at(group, pass, digit), Relaxed, Scope::Device) }
    }

    /// Counts this block as finished with its group; returns how many were before. Acquires what they counted.
    #[inline(always)]
    pub unsafe fn finish_in_group(self, group: usize) -> u64 {
        let at = self.count_at(0, group);
        // SAFETY: the caller's promise.
        unsafe { atomic::fetch_add(at, 1, AcqRel, Scope::Device) }
    }

    /// The states of all tiles of all groups, of which there are `groups`.
    #[inline(always)]
    pub fn states(self, groups: usize, step: Step) -> States {
        States { words: self.words.wrapping_add(states(groups)), step }
    }
}

/// What the tiles of a pass publish.
#[derive(Clone, Copy)]
pub struct States {
    words: *mut u32,
    step: Step,
}

/// States that a thread loads at a time.
const AHEAD: usize = 4;

#[allow(clippy::missing_safety_doc)]
impl States {
    #[inline(always)]
    fn at(self, tile: usize, digit: usize) -> *mut u32 {
        self.words.wrapping_add(tile * RADIX + digit)
    }

    /// Publishes what is known of a tile.
    #[inline(always)]
    pub unsafe fn publish(self, tile: usize, digit: usize, known: Known) {
        let word = known.word(self.step);
        // SAFETY: the caller's promise.
        unsafe { atomic::store(self.at(tile, digit), word, Relaxed, Scope::Device) };
    }

    #[inline(always)]
    unsafe fn known(self, tile: usize, digit: usize) -> Known {
        // SAFETY: the caller's promise.
        let word = unsafe { atomic::load(self.at(tile, digit), Relaxed, Scope::Device) };
        Known::of(word, self.step)
    }

    /// The number of keys with the digit in the tiles `first..tile`. Each thread looks back on its own, for its own digit.
    #[inline(always)]
    pub unsafe fn before(self, first: usize, tile: usize, digit: usize) -> u32 {
        let mut sum = 0;
        // The tiles from `next` to this one are in `sum`.
        let mut next = tile;
        while next > first {
            let words = build::<_, AHEAD>(|ahead| {
                if next - first > ahead {
                    // SAFETY: a tile of the group, before this one.
                    unsafe { self.known(next - 1 - ahead, digit) }
                } else {
                    Known::UpTo(0)
                }
            });
            let behind = next;
            let mut goes_on = true;
            each::<AHEAD>(|ahead| match words[ahead] {
                _ if !goes_on => {}
                Known::Own(n) => {
                    sum += n;
                    next -= 1;
                }
                Known::UpTo(n) => {
                    sum += n;
                    next = first;
                    goes_on = false;
                }
                Known::Nothing => goes_on = false,
            });
            if next == behind {
                wait();
            }
        }
        sum
    }
}

/// Gives other blocks time to publish what is awaited.
#[inline(always)]
pub fn wait() {
    thread::nanosleep(20);
    // The block that has not published anything may have panicked.
    cuda_std::panic::leave_after_panic();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passes_hand_the_keys_on_and_the_last_one_writes_the_result() {
        for (moves, in_place) in (0..256).flat_map(|moves| [(moves, false), (moves, true)]) {
            let moves = Step::plan(moves, 8, in_place);
            let mut keys = if in_place { Place::Out } else { Place::Input };
            let mut ran = 0;
            for pass in 0..8 {
                let step = Step::of(moves, pass, in_place);
                assert_eq!(step.runs(), moves >> pass & 1 == 1);
                if !step.runs() {
                    continue;
                }
                assert_eq!((step.from(), step.is_first()), (keys, ran == 0), "{moves:b}, {pass}");
                assert_ne!(step.to(), step.from());
                assert_eq!(step.up_to(), 2 + ran % 2);
                keys = step.to();
                ran += 1;
                assert_eq!(step.is_last(), ran == moves.count_ones());
            }
            assert_eq!(keys, Place::Out, "{moves:b}");
        }
    }

    #[test]
    fn every_pass_that_moves_is_planned_and_one_more_if_need_be() {
        assert_eq!([0b0000, 0b0100, 0b0101].map(|moves| Step::plan(moves, 4, false)), [8, 4, 5]);
        assert_eq!([0b0000, 0b0101, 0b1111].map(|moves| Step::plan(moves, 4, true)), [0, 5, 15]);
        assert_eq!([0b0001, 0b0100, 0b1011].map(|moves| Step::plan(moves, 4, true)), [3, 5, 15]);
    }

    #[test]
    fn words_of_the_pass_before_say_nothing() {
        let (even, odd) = (Step::of(0b11, 0, false), Step::of(0b11, 1, false));
        for known in [Known::Nothing, Known::Own(5), Known::UpTo((1 << 30) - 1), Known::UpTo(0)] {
            assert_eq!(Known::of(known.word(even), even), known);
            assert_eq!(Known::of(known.word(odd), odd), known);
        }
        assert_eq!(Known::of(Known::UpTo(7).word(even), odd), Known::Nothing);
        assert_eq!(Known::of(Known::UpTo(7).word(odd), even), Known::Nothing);
    }
}
