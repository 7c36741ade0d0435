//! Where a merge of two sequences is after a number of steps.
//!
//! A merge walks through a grid whose sides are the two sequences, one step an element. All walks cross the
//! diagonal of `d` steps at one point, which a binary search finds: so each thread takes as many steps as any
//! other, however the elements are spread (Odeh, Green, Mwassi, Shmueli and Birk, "Merge Path - Parallel Merging
//! Made Simple", 2012).

use cuda_std::warp::{Lanes, Tile, TileSize};

macro_rules! merge_paths {
    ($($(#[$doc:meta])* $name:ident, $within:ident($number:ident);)*) => {$(
        $(#[$doc])*
        ///
        /// `first_goes(i, j)`: whether element `i` of the first sequence goes before element `j` of the second. It is
        /// called for `i` and `j` below the lengths.
        #[inline(always)]
        pub fn $name(
            steps: $number,
            (first_len, second_len): ($number, $number),
            first_goes: impl Fn($number, $number) -> bool,
        ) -> $number {
            $within(steps, (steps.saturating_sub(second_len), steps.min(first_len)), first_goes)
        }

        #[doc = concat!("[`", stringify!($name), "`] whose result is known to be in `low..=high`.")]
        #[inline(always)]
        pub fn $within(
            steps: $number,
            (mut low, mut high): ($number, $number),
            first_goes: impl Fn($number, $number) -> bool,
        ) -> $number {
            while low < high {
                let middle = low + (high - low) / 2;
                if first_goes(middle, steps - 1 - middle) {
                    low = middle + 1;
                } else {
                    high = middle;
                }
            }
            low
        }
    )*};
}

merge_paths! {
    /// How many of the first `steps` elements of a merge come from the first of two sequences of these lengths.
    merge_path, merge_path_within(usize);
    /// [`merge_path`] of sequences in shared memory, whose numbers take one register.
    merge_path_short, merge_path_short_within(u32);
}

/// [`merge_path_within`] that looks first in the neighbourhood of a guess, `reach` to either side: if the result is there,
/// which two looks tell, half of all steps are saved where the neighbourhood is the root of the range.
///
/// The guess is in `low..=high`. Of arrays that are not sorted `low` may be past `high`: then it is the result, and nothing is
/// looked at.
#[inline(always)]
pub fn merge_path_near(
    steps: usize,
    (low, high): (usize, usize),
    (guess, reach): (usize, usize),
    first_goes: impl Fn(usize, usize) -> bool,
) -> usize {
    let (from, to) = (low.max(guess.saturating_sub(reach)), high.min(guess + reach));
    let is_behind = from == low || first_goes(from - 1, steps - from);
    let is_before = to == high || !first_goes(to, steps - 1 - to);
    let range = match (is_behind, is_before) {
        (true, true) => (from, to),
        (true, false) => (to + 1, high),
        (false, _) => (low, from - 1),
    };
    merge_path_within(steps, range, first_goes)
}

/// [`merge_path`] by `LANES` lanes, all of which call it alike and get the result. In each step they try as many places
/// side by side: a search in device memory waits for one after the other.
///
/// The result is known to be in `low..=high`.
#[inline(always)]
pub fn merge_path_by<const LANES: u32>(
    lanes: Tile<LANES>,
    steps: usize,
    (mut low, mut high): (usize, usize),
    first_goes: impl Fn(usize, usize) -> bool,
) -> usize
where
    TileSize<LANES>: Lanes,
{
    while low < high {
        let stride = (high - low).div_ceil(LANES as usize);
        let own = low + stride * (lanes.thread_rank() as usize + 1) - 1;
        let goes = own < high && first_goes(own, steps - 1 - own);
        // The first of them go, the others do not.
        low += stride * lanes.ballot(goes).count_ones() as usize;
        high = high.min(low + stride - 1);
    }
    low
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_the_stable_merge() {
        let (first, second) = ([1, 3, 3, 5, 9], [0, 3, 3, 4, 9, 9, 9]);
        let mut merged: Vec<(i32, bool)> = first.iter().map(|&x| (x, false)).collect();
        merged.extend(second.iter().map(|&x| (x, true)));
        merged.sort();
        for steps in 0..=merged.len() {
            let goes = |i: usize, j: usize| first[i] <= second[j];
            let found = merge_path(steps, (first.len(), second.len()), goes);
            let expected = merged[..steps].iter().filter(|(_, is_second)| !is_second).count();
            assert_eq!(found, expected, "{steps} steps");
            let range = (steps.saturating_sub(second.len()), steps.min(first.len()));
            for guess in range.0..=range.1 {
                for reach in 0..4 {
                    let found = merge_path_near(steps, range, (guess, reach), goes);
                    assert_eq!(found, expected, "{steps} steps from {guess}, reach {reach}");
                }
            }
        }
    }
}
