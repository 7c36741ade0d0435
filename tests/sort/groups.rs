//! Sorts of a few long groups.

use std::fmt::Debug;
use std::iter;

use ferrowarp::ops::Scratch;
use ferrowarp::ops::sort::{self, SortOptions, SortValue};
use kernels_gpu::sort::groups::MOST_GROUPS;
use rand::rngs::StdRng;

use super::{BOTH, Compared, FEW, LONG_TILE, TILE, expected, random, same};
use crate::support::{gpu, poisoned, rng, upload};

/// The expected keys of groups of these lengths, and the places where they come from.
fn expected_groups<K: Compared>(
    keys: &[K],
    lens: &[usize],
    options: SortOptions,
) -> (Vec<K>, Vec<usize>) {
    let (mut all, mut places, mut first) = (Vec::new(), Vec::new(), 0);
    for len in lens {
        let (sorted, from) = expected(&keys[first..first + len], options);
        all.extend(sorted);
        places.extend(from.into_iter().map(|place| first + place));
        first += len;
    }
    (all, places)
}

#[track_caller]
fn check<K: Compared, V: SortValue + Debug>(
    keys: &[K],
    value: impl Fn(usize) -> V,
    lens: &[usize],
) {
    let (n, what) = (keys.len(), std::any::type_name::<(K, V)>());
    let values: Vec<V> = (0..n).map(&value).collect();
    let (x, y) = (upload(keys), upload(&values));
    // Of the size that is promised to be enough.
    let bytes = sort::group_scratch_bytes::<K>(n, lens.len());
    let alone = &mut Scratch::with_bytes_async(gpu(), bytes).unwrap();
    let bytes = sort::pair_group_scratch_bytes::<K, V>(n, lens.len());
    let both = &mut Scratch::with_bytes_async(gpu(), bytes).unwrap();
    let sizes = [alone.size_bytes(), both.size_bytes()];
    for options in BOTH {
        let (sorted, places) = expected_groups(keys, lens, options);
        let mut out = poisoned(n);
        sort::sort_groups_into(gpu(), &x, lens, &mut out, options, alone).unwrap();
        same(&out, &sorted, what);
        let (mut out, mut moved) = (poisoned(n), poisoned(n));
        let to = (&mut out, &mut moved);
        sort::sort_pair_groups_into(gpu(), (&x, &y), lens, to, options, both).unwrap();
        same(&out, &sorted, what);
        same(&moved, &places.into_iter().map(&value).collect::<Vec<_>>(), what);
    }
    assert_eq!([alone.size_bytes(), both.size_bytes()], sizes, "{what}: the scratch has grown");
}

/// Groups of no keys, of one, around a tile, and of several tiles; more groups than are sorted at once.
#[test]
fn groups_of_very_different_lengths() {
    let mut rng = rng();
    let lens = [0, 1, TILE - 1, 0, TILE, TILE + 1, 33, 3 * TILE + 7, 0];
    check(&random::<u32>(&mut rng, lens.iter().sum()), |i| i as u32, &lens);
    let many: Vec<usize> = (0..2 * MOST_GROUPS + 3).map(|group| group % 5 * 700).collect();
    check(&random::<u32>(&mut rng, many.iter().sum()), |i| i as f32, &many);
    check(&random::<u32>(&mut rng, 2 * TILE), |i| i as i32, &[2 * TILE]);
    check::<u32, u32>(&[], |i| i as u32, &[]);
    check::<u32, u32>(&[], |i| i as u32, &[0, 0]);
}

#[test]
fn groups_of_every_type() {
    fn of<K: Compared, V: SortValue + Debug>(rng: &mut StdRng, value: impl Fn(usize) -> V) {
        let lens = [LONG_TILE + 50, 0, FEW, 300];
        check(&random::<K>(rng, lens.iter().sum()), value, &lens);
    }
    let mut rng = rng();
    of::<u8, u32>(&mut rng, |i| i as u32);
    of::<i16, u64>(&mut rng, |i| i as u64);
    of::<i32, f32>(&mut rng, |i| i as f32);
    of::<f32, f64>(&mut rng, |i| i as f64);
    of::<u64, u32>(&mut rng, |i| i as u32);
    of::<f64, i64>(&mut rng, |i| i as i64);
}

/// Of equal keys those that come first stay first, also where other groups have such keys; and keys of which one digit is the same.
#[test]
fn equal_keys_keep_their_order_within_their_group() {
    let lens = [2 * TILE + 1, TILE, 5];
    let n: usize = lens.iter().sum();
    let few: Vec<u32> = (0..n as u32).map(|i| (i % 3) << 16).collect();
    check(&few, |i| i as u32, &lens);
    check(&vec![7u32; n], |i| i as u64, &lens);
}

/// By some of their bits, as keys that are grouped by their highest ones already: then all of them are sorted.
#[test]
fn groups_by_the_highest_bits_are_sorted_by_the_others() {
    let mut rng = rng();
    let lens = [TILE + 3, 900, 2 * TILE, 0, 1];
    let bases = lens.iter().enumerate().flat_map(|(top, len)| iter::repeat_n(top as u32, *len));
    let keys: Vec<u32> = bases.map(|top| (top << 24) | (u32::any(&mut rng) >> 8)).collect();
    let mut sorted = keys.clone();
    sorted.sort_unstable();
    let mut out = poisoned(keys.len());
    let options = SortOptions::ASCENDING.bits(0..24);
    let scratch = &mut Scratch::new(gpu()).unwrap();
    sort::sort_groups_into(gpu(), &upload(&keys), &lens, &mut out, options, scratch).unwrap();
    same(&out, &sorted, "grouped keys");
}

#[test]
fn lengths_that_do_not_fit_are_errors() {
    let x = upload(&[3u32, 1, 2]);
    let scratch = &mut Scratch::new(gpu()).unwrap();
    let mut sort = |lens: &[usize], len: usize| {
        let mut out = poisoned::<u32>(len);
        let options = SortOptions::ASCENDING;
        sort::sort_groups_into(gpu(), &x, lens, &mut out, options, scratch).unwrap_err().to_string()
    };
    assert!(sort(&[1, 3], 3).contains("groups of 4 keys in all, of 3"));
    assert!(sort(&[1, 2], 2).contains("sorting groups"));
}
