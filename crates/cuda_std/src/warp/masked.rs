//! rust-cuda's warp functions, each with the mask of the participating lanes.

#[cfg(target_os = "cuda")]
use super::{lane_id, raw::*};
use cuda_std_macros::gpu_only;
use half::{bf16, f16};

/// Waits for the lanes in `mask`, and makes their writes visible to one another.
///
/// # Safety
/// See the [module](super).
#[gpu_only]
#[inline(always)]
pub unsafe fn sync_warp(mask: u32) {
    // SAFETY: the caller's promise.
    unsafe { bar_warp_sync(mask) }
}

/// Whether `predicate` holds in every lane of `mask`.
///
/// # Safety
/// See the [module](super).
#[gpu_only]
#[inline(always)]
pub unsafe fn warp_vote_all(mask: u32, predicate: bool) -> bool {
    // SAFETY: the caller's promise.
    unsafe { vote_all(mask, predicate) }
}

/// Whether `predicate` holds in any lane of `mask`.
///
/// # Safety
/// See the [module](super).
#[gpu_only]
#[inline(always)]
pub unsafe fn warp_vote_any(mask: u32, predicate: bool) -> bool {
    // SAFETY: the caller's promise.
    unsafe { vote_any(mask, predicate) }
}

/// The lanes of `mask` in which `predicate` holds.
///
/// # Safety
/// See the [module](super).
#[gpu_only]
#[inline(always)]
pub unsafe fn warp_vote_ballot(mask: u32, predicate: bool) -> u32 {
    // SAFETY: the caller's promise.
    unsafe { vote_ballot(mask, predicate) }
}

/// The lanes of `mask` whose `value` has the same bits as the caller's.
///
/// # Safety
/// See the [module](super).
#[gpu_only]
#[inline(always)]
pub unsafe fn warp_match_any<T: WarpMatchValue>(mask: u32, value: T) -> u32 {
    let bits = value.to_bits_64();
    // SAFETY: the caller's promise.
    unsafe {
        match size_of::<T>() {
            8 => match_any_64(mask, bits),
            _ => match_any_32(mask, bits as u32),
        }
    }
}

/// `Some(mask)` if `value` has the same bits in every lane of `mask`, else `None`.
///
/// # Safety
/// See the [module](super).
#[gpu_only]
#[inline(always)]
pub unsafe fn warp_match_all<T: WarpMatchValue>(mask: u32, value: T) -> Option<u32> {
    let bits = value.to_bits_64();
    // SAFETY: the caller's promise.
    let (_, same) = unsafe {
        match size_of::<T>() {
            8 => match_all_64(mask, bits),
            _ => match_all_32(mask, bits as u32),
        }
    };
    same.then_some(mask)
}

/// How [`warp_reduce`] joins two values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WarpReductionOp {
    /// The sum, wrapping.
    Add,
    /// The smaller.
    Min,
    /// The larger.
    Max,
    /// Bit by bit and.
    And,
    /// Bit by bit or.
    Or,
    /// Bit by bit exclusive or.
    Xor,
}

/// Joins the values of all lanes in `mask`; every one of them gets the result. One instruction, on
/// `sm_80` and later.
///
/// # Safety
/// See the [module](super).
#[gpu_only]
#[inline(always)]
pub unsafe fn warp_reduce<T: WarpReduceValue>(mask: u32, value: T, op: WarpReductionOp) -> T {
    // SAFETY: the caller's promise.
    unsafe { value.reduce(mask, op) }
}

/// The value of the lane `b` below this one in its group of `width` lanes; see [`warp_shuffle_idx`].
///
/// # Safety
/// See the [module](super).
#[gpu_only]
#[inline(always)]
pub unsafe fn warp_shuffle_up<T: WarpShuffleValue>(
    mask: u32,
    value: T,
    b: u32,
    width: u32,
) -> (T, bool) {
    // SAFETY: the caller's promise.
    unsafe { shuffle(WarpShuffleMode::Up, mask, value, b, width) }
}

/// The value of the lane `b` above this one in its group of `width` lanes; see [`warp_shuffle_idx`].
///
/// # Safety
/// See the [module](super).
#[gpu_only]
#[inline(always)]
pub unsafe fn warp_shuffle_down<T: WarpShuffleValue>(
    mask: u32,
    value: T,
    b: u32,
    width: u32,
) -> (T, bool) {
    // SAFETY: the caller's promise.
    unsafe { shuffle(WarpShuffleMode::Down, mask, value, b, width) }
}

/// The value of the lane `b` in this lane's group of `width` lanes.
///
/// `width` is a power of two up to 32, else the call panics. `b` counts modulo `width` here, and
/// modulo 32 in the other shuffles. The second result says whether the lane asked for is in reach,
/// which here it always is; where it is not, the value is the caller's own.
///
/// # Safety
/// See the [module](super). The lane asked for is in `mask`.
#[gpu_only]
#[inline(always)]
pub unsafe fn warp_shuffle_idx<T: WarpShuffleValue>(
    mask: u32,
    value: T,
    b: u32,
    width: u32,
) -> (T, bool) {
    // SAFETY: the caller's promise.
    unsafe { shuffle(WarpShuffleMode::Idx, mask, value, b, width) }
}

/// The value of the lane whose number is this lane's, exclusive-or `b`; see [`warp_shuffle_idx`].
///
/// A lane of an earlier group can be reached, one of a later group cannot.
///
/// # Safety
/// See the [module](super).
#[gpu_only]
#[inline(always)]
pub unsafe fn warp_shuffle_xor<T: WarpShuffleValue>(
    mask: u32,
    value: T,
    b: u32,
    width: u32,
) -> (T, bool) {
    // SAFETY: the caller's promise.
    unsafe { shuffle(WarpShuffleMode::Xor, mask, value, b, width) }
}

/// Which lane a shuffle reads.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WarpShuffleMode {
    Up,
    Down,
    Idx,
    Xor,
}

impl WarpShuffleMode {
    /// Whether `lane` has a source in its group: the predicate that `shfl` computes.
    #[cfg_attr(not(any(test, target_os = "cuda")), allow(dead_code))]
    #[inline(always)]
    fn is_in_group(self, lane: u32, b: u32, width: u32) -> bool {
        let (b, first) = (b & 31, lane & (32 - width));
        let last = first | (width - 1);
        match self {
            Self::Up => lane as i32 - b as i32 >= first as i32,
            Self::Down => lane + b <= last,
            Self::Idx => true,
            Self::Xor => lane ^ b <= last,
        }
    }
}

#[cfg(target_os = "cuda")]
#[inline(always)]
unsafe fn shuffle<T: WarpShuffleValue>(
    mode: WarpShuffleMode,
    mask: u32,
    value: T,
    b: u32,
    width: u32,
) -> (T, bool) {
    assert!(width.is_power_of_two() && width <= 32, "a shuffle's width is a power of two up to 32");
    let segment = (32 - width) << 8;
    let word = |word: u32| {
        // SAFETY: the caller's promise.
        unsafe {
            match mode {
                WarpShuffleMode::Up => shfl_up(mask, word, b, segment),
                WarpShuffleMode::Down => shfl_down(mask, word, b, segment | 31),
                WarpShuffleMode::Idx => shfl_idx(mask, word, b, segment | 31),
                WarpShuffleMode::Xor => shfl_xor(mask, word, b, segment | 31),
            }
        }
    };
    (value.map_words(word), mode.is_in_group(lane_id(), b, width))
}

/// A value that [`warp_shuffle_idx`] and the other shuffles move.
pub trait WarpShuffleValue: Copy + sealed::Sealed {
    /// Moves the value's 32-bit words one by one.
    #[doc(hidden)]
    fn map_words(self, word: impl FnMut(u32) -> u32) -> Self;
}

/// A value that [`warp_match_any`] and [`warp_match_all`] compare.
pub trait WarpMatchValue: Copy + sealed::Sealed {
    /// The value's bits, the upper ones zero for a 32-bit value.
    #[doc(hidden)]
    fn to_bits_64(self) -> u64;
}

/// A value that [`warp_reduce`] joins.
pub trait WarpReduceValue: Copy + sealed::Sealed {
    /// Joins the lanes' values.
    ///
    /// # Safety
    /// See the [module](super).
    #[cfg(target_os = "cuda")]
    #[doc(hidden)]
    unsafe fn reduce(self, mask: u32, op: WarpReductionOp) -> Self;
}

mod sealed {
    pub trait Sealed {}
}

/// Shuffles of integers: each 32-bit word is cut out, moved and put back.
macro_rules! shuffle_integers {
    ($($ty:ty: $($shift:literal)*;)*) => {$(
        impl sealed::Sealed for $ty {}
        impl WarpShuffleValue for $ty {
            #[inline(always)]
            fn map_words(self, mut word: impl FnMut(u32) -> u32) -> Self {
                0 $(| ((word((self >> $shift) as u32) as Self) << $shift))*
            }
        }
    )*};
}

shuffle_integers! {
    u8: 0;
    u16: 0;
    u32: 0;
    u64: 0 32;
    u128: 0 32 64 96;
}

/// Shuffles of types that have an unsigned integer's bits.
macro_rules! shuffle_as {
    ($($ty:ident as $bits:ident: $to:expr, $from:expr;)*) => {$(
        impl sealed::Sealed for $ty {}
        impl WarpShuffleValue for $ty {
            #[inline(always)]
            fn map_words(self, word: impl FnMut(u32) -> u32) -> Self {
                $from($bits::map_words($to(self), word))
            }
        }
    )*};
}

shuffle_as! {
    i8 as u8: i8::cast_unsigned, u8::cast_signed;
    i16 as u16: i16::cast_unsigned, u16::cast_signed;
    i32 as u32: i32::cast_unsigned, u32::cast_signed;
    i64 as u64: i64::cast_unsigned, u64::cast_signed;
    i128 as u128: i128::cast_unsigned, u128::cast_signed;
    f32 as u32: f32::to_bits, f32::from_bits;
    f64 as u64: f64::to_bits, f64::from_bits;
    f16 as u16: f16::to_bits, f16::from_bits;
    bf16 as u16: bf16::to_bits, bf16::from_bits;
}

/// The bits that a match compares.
macro_rules! match_values {
    ($($ty:ty: $bits:expr;)*) => {$(
        impl WarpMatchValue for $ty {
            #[inline(always)]
            fn to_bits_64(self) -> u64 {
                u64::from($bits(self))
            }
        }
    )*};
}

match_values! {
    u32: u32::from;
    i32: i32::cast_unsigned;
    f32: f32::to_bits;
    u64: u64::from;
    i64: i64::cast_unsigned;
    f64: f64::to_bits;
}

impl WarpReduceValue for u32 {
    #[cfg(target_os = "cuda")]
    #[inline(always)]
    unsafe fn reduce(self, mask: u32, op: WarpReductionOp) -> Self {
        // SAFETY: the caller's promise.
        unsafe {
            match op {
                WarpReductionOp::Add => redux_add(self, mask),
                WarpReductionOp::Min => redux_umin(self, mask),
                WarpReductionOp::Max => redux_umax(self, mask),
                WarpReductionOp::And => redux_and(self, mask),
                WarpReductionOp::Or => redux_or(self, mask),
                WarpReductionOp::Xor => redux_xor(self, mask),
            }
        }
    }
}

impl WarpReduceValue for i32 {
    #[cfg(target_os = "cuda")]
    #[inline(always)]
    unsafe fn reduce(self, mask: u32, op: WarpReductionOp) -> Self {
        // SAFETY: the caller's promise.
        unsafe {
            match op {
                WarpReductionOp::Min => redux_min(self, mask),
                WarpReductionOp::Max => redux_max(self, mask),
                _ => self.cast_unsigned().reduce(mask, op).cast_signed(),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_predicate_says_whether_the_source_is_in_the_group() {
        use WarpShuffleMode::*;
        let cases = [
            (Up, 0, 1, 32, false),
            (Up, 5, 5, 32, true),
            (Up, 8, 1, 8, false),
            (Up, 9, 1, 8, true),
            (Down, 31, 1, 32, false),
            (Down, 15, 16, 32, true),
            (Down, 7, 1, 8, false),
            (Down, 6, 1, 8, true),
            (Idx, 17, 3, 16, true),
            (Idx, 17, 19, 16, true),
            (Xor, 3, 4, 8, true),
            (Xor, 3, 8, 8, false),
            (Xor, 11, 8, 8, true),
        ];
        for (mode, lane, b, width, expected) in cases {
            let found = mode.is_in_group(lane, b, width);
            assert_eq!(found, expected, "{mode:?} lane {lane}, {b} of {width}");
        }
    }

    #[test]
    fn words_come_back_in_their_places() {
        let words = |value: u128| {
            let mut seen = Vec::new();
            let back = value.map_words(|word| {
                seen.push(word);
                word
            });
            (back, seen)
        };
        let value = 0x0011_2233_4455_6677_8899_aabb_ccdd_eeff;
        assert_eq!(words(value), (value, vec![0xccdd_eeff, 0x8899_aabb, 0x4455_6677, 0x0011_2233]));
        assert_eq!((-2i8).map_words(|word| word + 1), -1);
        assert_eq!((-0.5f64).map_words(|word| word), -0.5);
    }
}
