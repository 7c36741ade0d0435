//! Rows of registers, and the slots by which operations name them.

/// Lanes of a warp.
pub const LANES: usize = 32;
/// A register of up to 32 bits, for each lane.
pub type Row32 = [u32; LANES];
/// A register of 64 bits, for each lane.
pub type Row64 = [u64; LANES];

/// Slots with this bit are rows of constants.
pub const CONSTANT: u32 = 1 << 31;
/// Predicate slots with this bit are negated.
pub const NEGATED: u32 = 1 << 31;
/// The predicate that holds in every lane.
pub const ALWAYS: u32 = NEGATED - 1;
/// A destination that is thrown away.
pub const SINK: u32 = u32::MAX;

/// A slot with this bit names a list of registers, by its index in [`Program::lists`].
pub const LISTED: u32 = 1 << 30;
/// All lanes.
pub const FULL: u32 = u32::MAX;

/// The lanes of a mask, lowest first.
#[inline(always)]
pub fn lanes(mut mask: u32) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let lane = mask.trailing_zeros();
        mask &= mask.wrapping_sub(1);
        (lane < 32).then_some(lane as usize)
    })
}
