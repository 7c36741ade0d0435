//! What a scan hands from lane to lane, from warp to warp and from tile to tile.

use cuda_std::thread;
use cuda_std::unroll::{build, each_below};
use cuda_std::warp::{Plain, Warp};

/// The most words of a [`Carry`]: 16 bytes, and whether a segment begins there.
pub const MOST_WORDS: usize = 5;

/// A value as 32-bit words: what shuffles move, and what the state of a tile holds.
///
/// More words than [`MOST_WORDS`] do not compile, and any words may arrive: those of a thread that has ended early.
pub trait Carry: Copy {
    /// How many words there are, at most [`MOST_WORDS`].
    const WORDS: usize;

    /// How many of them, the first ones, a single tile's elements join to: the others are 0.
    const TILE_WORDS: usize = Self::WORDS;

    /// Whether it says where segments begin.
    const IS_SEGMENTED: bool = false;

    /// The value's words, then zeros.
    fn to_words(self) -> [u32; MOST_WORDS];

    /// The value of these words.
    fn from_words(words: [u32; MOST_WORDS]) -> Self;
}

impl<T: Plain> Carry for T {
    const WORDS: usize = {
        assert!(size_of::<T>() <= 16, "a scan carries values of at most 16 bytes");
        size_of::<T>().div_ceil(4)
    };

    #[inline(always)]
    fn to_words(self) -> [u32; MOST_WORDS] {
        let mut words = [0; MOST_WORDS];
        // SAFETY: the value has no more than 16 bytes, all initialised.
        unsafe { words.as_mut_ptr().cast::<T>().write_unaligned(self) };
        words
    }

    #[inline(always)]
    fn from_words(words: [u32; MOST_WORDS]) -> Self {
        // SAFETY: the value has no more than 16 bytes, and a meaning for all bits.
        unsafe { words.as_ptr().cast::<T>().read_unaligned() }
    }
}

/// The value whose words are those of `value` through `word`, all of it in registers.
#[inline(always)]
pub fn map_words<C: Carry>(value: C, mut word: impl FnMut(u32) -> u32) -> C {
    let mut words = value.to_words();
    each_below::<MOST_WORDS>(C::WORDS, |k| words[k] = word(words[k]));
    C::from_words(words)
}

/// The values of the lanes up to this one, joined in order; right in the first `lanes` lanes, a power of two.
#[inline(always)]
pub fn scan_lanes<C: Carry>(warp: Warp, lanes: usize, mut value: C, join: impl Fn(C, C) -> C) -> C {
    let lane = warp.thread_rank();
    each_below::<5>(lanes.ilog2() as usize, |k| {
        let before = map_words(value, |word| warp.shuffle_up(word, 1 << k));
        if lane >= 1 << k {
            value = join(before, value);
        }
    });
    value
}

/// Each value of all lanes, joined in order as `((v0 v1) (v2 v3)) …`; every lane gets the results. The values do not wait
/// for one another. A loop, for its instructions have to be fetched, and of few elements a scan runs through them once.
#[inline(always)]
pub fn join_lanes<C: Carry, const N: usize>(
    warp: Warp,
    mut values: [C; N],
    join: impl Fn(C, C) -> C,
) -> [C; N] {
    let lane = warp.thread_rank();
    let mut distance = 1;
    while distance < thread::warp_size() {
        let is_first = lane & distance == 0;
        values = build(|k| {
            let own = values[k];
            let other = map_words(own, |word| warp.shuffle_xor(word, distance));
            let (a, b) = if is_first { (own, other) } else { (other, own) };
            join(a, b)
        });
        distance *= 2;
    }
    values
}

/// Values in shared memory, by words.
#[derive(Clone, Copy)]
pub struct Slots(*mut u32);

impl Slots {
    /// # Safety
    /// `words` leads to shared memory that has [`MOST_WORDS`] words for each slot that is used.
    #[inline(always)]
    pub unsafe fn new(words: *mut u32) -> Self {
        Self(words)
    }

    /// # Safety
    /// The memory has such a slot, and no other thread uses it until a barrier.
    #[inline(always)]
    pub unsafe fn put<C: Carry>(self, slot: usize, value: C) {
        const { assert!(C::WORDS <= MOST_WORDS) };
        let words = value.to_words();
        // SAFETY: the caller's promise.
        each_below::<MOST_WORDS>(C::WORDS, |k| unsafe {
            self.0.add(slot * MOST_WORDS + k).write(words[k])
        });
    }

    /// # Safety
    /// The slot was put before a barrier, by a value of this type.
    #[inline(always)]
    pub unsafe fn get<C: Carry>(self, slot: usize) -> C {
        const { assert!(C::WORDS <= MOST_WORDS) };
        let mut words = [0; MOST_WORDS];
        each_below::<MOST_WORDS>(C::WORDS, |k| {
            // SAFETY: the caller's promise.
            words[k] = unsafe { self.0.add(slot * MOST_WORDS + k).read() };
        });
        C::from_words(words)
    }
}

/// A joined value of a segment: `head` says that a segment begins among the elements, of which `value`
/// then joins those from the last beginning on.
#[derive(Clone, Copy, Debug)]
pub struct Segmented<S> {
    /// The elements, joined.
    pub value: S,
    /// Whether a segment begins among them.
    pub head: bool,
}

impl<S: Plain> Carry for Segmented<S> {
    const WORDS: usize = S::WORDS + 1;
    const IS_SEGMENTED: bool = true;

    #[inline(always)]
    fn to_words(self) -> [u32; MOST_WORDS] {
        let value = self.value.to_words();
        build(|k| if k == S::WORDS { self.head.into() } else { value[k] })
    }

    #[inline(always)]
    fn from_words(words: [u32; MOST_WORDS]) -> Self {
        Self { value: S::from_words(words), head: words[S::WORDS] != 0 }
    }
}
