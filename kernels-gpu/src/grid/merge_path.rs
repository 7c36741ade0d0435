//! Where a merge of two sequences is after so many steps.
//!
//! A merge walks through a grid whose sides are the two sequences, one step an element. All walks cross the
//! diagonal of `d` steps at one point, which a binary search finds: so each thread takes as many steps as any
//! other, however the elements are spread (Odeh, Green, Mwassi, Shmueli and Birk, "Merge Path - Parallel Merging
//! Made Simple", 2012).

/// How many of the first `steps` elements of a merge come from the first of two sequences of these lengths.
///
/// `first_goes(i, j)`: whether element `i` of the first sequence goes before element `j` of the second. It is
/// called for `i` and `j` below the lengths.
#[inline(always)]
pub fn merge_path(
    steps: usize,
    (first_len, second_len): (usize, usize),
    first_goes: impl Fn(usize, usize) -> bool,
) -> usize {
    let mut low = steps.saturating_sub(second_len);
    let mut high = steps.min(first_len);
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
        }
    }
}
