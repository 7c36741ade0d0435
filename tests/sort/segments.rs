//! Sorts of segments.

use std::fmt::Debug;

use cuda_std::half::f16;
use ferrowarp::ops::Scratch;
use ferrowarp::ops::sort::{self, SortValue};
use kernels_gpu::sort::segments::{LONG, SHORT, THREADS};
use rand::Rng;
use rand::rngs::StdRng;

use super::{BOTH, Compared, expected, random, same};
use crate::support::{gpu, poisoned, rng, upload};

/// A block sorts longer segments a tile at a time.
const TILE: usize = THREADS * SHORT;
const LONG_TILE: usize = THREADS * LONG;

#[track_caller]
fn check_segments<K: Compared>(keys: &[K], offsets: &[u64], what: &str) {
    let (x, device_offsets) = (upload(keys), upload(offsets));
    let scratch = &mut Scratch::new(gpu()).unwrap();
    for options in BOTH {
        let (mut out, mut places) = (poisoned(keys.len()), poisoned(keys.len()));
        let (mut sorted, mut order) = (out.to_vec().unwrap(), places.to_vec().unwrap());
        for pair in offsets.windows(2) {
            let [begin, end] = [pair[0], pair[1]].map(|at| (at as usize).min(keys.len()));
            let segment = begin..end.max(begin);
            let (part, from) = expected(&keys[segment.clone()], options);
            sorted[segment.clone()].copy_from_slice(&part);
            let from = from.into_iter().map(|place| (begin + place) as u32);
            order[segment].iter_mut().zip(from).for_each(|(order, from)| *order = from);
        }
        sort::segmented_sort_into(gpu(), &x, &device_offsets, &mut out, options, scratch).unwrap();
        same(&out, &sorted, what);
        let argsort = sort::segmented_argsort_into;
        argsort(gpu(), &x, &device_offsets, &mut places, options, scratch).unwrap();
        same(&places, &order, what);
    }
}

/// Offsets of segments of these lengths, from `first` on.
fn offsets(first: u64, lens: &[usize]) -> Vec<u64> {
    let mut at = first;
    let ends = lens.iter().map(|&len| {
        at += len as u64;
        at
    });
    std::iter::once(first).chain(ends).collect()
}

#[test]
fn segments_of_very_different_lengths() {
    let mut rng = rng();
    let lens =
        [0, 1, 2, 31, 32, 33, 0, 641, 5, TILE, 17, TILE + 1, 3, 2 * TILE + 99, 30, 12, 0, 1000];
    let offsets = offsets(7, &lens);
    let n = *offsets.last().unwrap() as usize + 11;
    check_segments(&random::<u32>(&mut rng, n), &offsets, "u32");
    check_segments(&(0..n as u32).map(|i| i % 3).collect::<Vec<_>>(), &offsets, "few");
}

#[test]
fn segments_of_every_type() {
    fn check<K: Compared>(rng: &mut StdRng) {
        let offsets = offsets(0, &[20, 300, 0, 32, 33, LONG_TILE + 50]);
        let keys = random::<K>(rng, offsets[offsets.len() - 1] as usize);
        check_segments(&keys, &offsets, std::any::type_name::<K>());
    }
    let mut rng = rng();
    check::<u8>(&mut rng);
    check::<i16>(&mut rng);
    check::<f16>(&mut rng);
    check::<f32>(&mut rng);
    check::<i64>(&mut rng);
    check::<f64>(&mut rng);
}

#[track_caller]
fn check_segment_pairs<K: Compared, V: SortValue + Debug>(
    keys: &[K],
    value: impl Fn(usize) -> V,
    offsets: &[u64],
) {
    let what = std::any::type_name::<(K, V)>();
    let values: Vec<V> = (0..keys.len()).map(&value).collect();
    let (x, y, device_offsets) = (upload(keys), upload(&values), upload(offsets));
    for options in BOTH {
        let (mut out, mut out_values) = (poisoned(keys.len()), poisoned(keys.len()));
        let (mut sorted, mut with) = (out.to_vec().unwrap(), out_values.to_vec().unwrap());
        for pair in offsets.windows(2) {
            let segment = pair[0] as usize..pair[1] as usize;
            let (part, from) = expected(&keys[segment.clone()], options);
            sorted[segment.clone()].copy_from_slice(&part);
            for (place, from) in segment.clone().zip(from) {
                with[place] = value(segment.start + from);
            }
        }
        let scratch = &mut Scratch::new(gpu()).unwrap();
        let results = (&mut out, &mut out_values);
        sort::segmented_sort_pairs_into(
            gpu(),
            (&x, &y),
            &device_offsets,
            results,
            options,
            scratch,
        )
        .unwrap();
        same(&out, &sorted, what);
        same(&out_values, &with, what);
    }
}

#[test]
fn values_go_with_their_keys_in_segments() {
    let mut rng = rng();
    let lens = [0, 1, 31, 33, 32, LONG_TILE, 7, LONG_TILE + 1, 2 * TILE + 9, 100];
    let offsets = offsets(3, &lens);
    let n = offsets[lens.len()] as usize + 5;
    let few: Vec<u32> = (0..n).map(|_| rng.next_u32() % 5).collect();
    check_segment_pairs(&few, |i| i as i32 - 9, &offsets);
    check_segment_pairs(&few, |i| i as f64 + 0.5, &offsets);
    check_segment_pairs(&random::<f64>(&mut rng, n), |i| i as u64, &offsets);
    let short = self::offsets(0, &[100, 20, 0, 500]);
    check_segment_pairs(&random::<u8>(&mut rng, 620), |i| i as i64, &short);
    check_segment_pairs(&random::<i16>(&mut rng, 620), |i| i as u64, &short);
    check_segment_pairs(&random::<i64>(&mut rng, 620), |i| i as f32, &short);
    let keys = upload(&[3u32, 1, 2, 9, 8]);
    let values = upload(&[30u32, 10, 20, 90, 80]);
    let (keys, values) =
        sort::segmented_sort_pairs(gpu(), &keys, &values, &upload(&[0u64, 3, 5]), BOTH[0]).unwrap();
    assert_eq!(keys.to_vec().unwrap(), [1, 2, 3, 8, 9]);
    assert_eq!(values.to_vec().unwrap(), [10, 20, 30, 80, 90]);
}

#[test]
fn offsets_past_the_end_and_back_are_harmless() {
    let mut rng = rng();
    let keys = random::<u32>(&mut rng, 500);
    check_segments(&keys, &[100, 400, 1000, u64::MAX], "past the end");
    check_segments(&keys, &[300, 200, 200], "back");
    check_segments(&keys, &[], "none");
    check_segments(&keys, &[3], "one");
    check_segments(&[] as &[u32], &[0, 0, 9], "no keys");
}
