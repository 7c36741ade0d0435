//! Merges against a plain one, bit for bit.

use std::cmp::Ordering;

use bytemuck::Pod;
use cuda_std::launch::Instance;
use ferrowarp::ops::{self, Scratch, merge};
use kernels_gpu::merge::{
    SPLITS, merge_plain, merge_splits, merge_tile_pairs, merge_tiles, tile_len,
};
use rand::RngExt;
use rand::rngs::StdRng;

use crate::support::{gpu, poisoned, rng, upload};

/// Elements that a block merges.
const TILE: usize = tile_len::<u32>();

fn bytes<T: Pod>(x: &[T]) -> &[u8] {
    bytemuck::cast_slice(x)
}

fn check<K: Pod>(mut a: Vec<K>, mut b: Vec<K>, order: impl Fn(&K, &K) -> Ordering)
where
    merge_splits<K>: Instance,
    merge_tiles<K>: Instance,
    merge_tile_pairs<K>: Instance,
    merge_plain<K>: Instance,
{
    a.sort_by(&order);
    b.sort_by(&order);
    let expected = reference::merge::merge(&a, &b, &order);
    let what = format!("{} and {} elements", a.len(), b.len());
    let (da, db) = (upload(&a), upload(&b));
    let mut out = poisoned(expected.len());
    let mut scratch = Scratch::new(gpu()).unwrap();
    merge::merge_into(gpu(), &da, &db, &mut out, &mut scratch).unwrap();
    assert!(bytes(&out.to_vec().unwrap()) == bytes(&expected), "{what}");
    let mut out = poisoned(expected.len());
    merge::merge_plain_into(gpu(), &da, &db, &mut out).unwrap();
    assert!(bytes(&out.to_vec().unwrap()) == bytes(&expected), "{what}, plain");

    // Values tell where a key came from: the merge is stable.
    let named = |keys: &[K], first: u32| -> Vec<(K, u32)> {
        keys.iter().enumerate().map(|(i, &key)| (key, first + i as u32)).collect()
    };
    let (na, nb) = (named(&a, 0), named(&b, 1 << 31));
    let expected = reference::merge::merge(&na, &nb, |x, y| order(&x.0, &y.0));
    let values = |pairs: &[(K, u32)]| upload(&pairs.iter().map(|pair| pair.1).collect::<Vec<_>>());
    let (mut keys, mut names) = (poisoned(expected.len()), poisoned(expected.len()));
    merge::merge_pairs_into(
        gpu(),
        (&da, &values(&na)),
        (&db, &values(&nb)),
        (&mut keys, &mut names),
        &mut scratch,
    )
    .unwrap();
    let (keys, names) = (keys.to_vec().unwrap(), names.to_vec().unwrap());
    for (i, (key, name)) in expected.into_iter().enumerate() {
        assert!(bytes(&[keys[i]]) == bytes(&[key]) && names[i] == name, "pair {i}, {what}");
    }
}

fn below(rng: &mut StdRng, n: usize, limit: u32) -> Vec<u32> {
    (0..n).map(|_| rng.random_range(0..limit)).collect()
}

#[test]
fn every_size() {
    let mut rng = rng();
    let sizes = [0, 1, 2, 33, TILE / 2, TILE - 1, TILE, TILE + 1, 2 * TILE + 5];
    for n in sizes {
        for m in [0, 1, 31, TILE - n.min(TILE), 3000] {
            let limit = (n + m) as u32 / 2 + 1;
            check(below(&mut rng, n, limit), below(&mut rng, m, limit), u32::cmp);
        }
    }
}

#[test]
fn tiles_of_several_blocks_of_splits() {
    let mut rng = rng();
    let n = SPLITS * tile_len::<u64>();
    let mut random = |n| -> Vec<u64> { (0..n).map(|_| rng.random_range(0..1000)).collect() };
    check_keys(random(n + 3), random(n / 4));
    check_keys(vec![], random(n + 1));
    // All of one before all of the other, which begins in the middle of a block's splits.
    check_keys((0..n as u64 / 3).collect(), (n as u64 / 3..n as u64 + 5).collect());
}

/// The fast form alone, of large arrays.
fn check_keys(mut a: Vec<u64>, mut b: Vec<u64>) {
    a.sort_unstable();
    b.sort_unstable();
    let found = ops::merge(gpu(), &upload(&a), &upload(&b)).unwrap().to_vec().unwrap();
    assert!(found == reference::merge::merge(&a, &b, u64::cmp), "{} and {}", a.len(), b.len());
}

#[test]
fn arrays_that_are_not_sorted_stay_in_bounds() {
    let merged = |a: &[u32], b: &[u32]| {
        let found = ops::merge(gpu(), &upload(a), &upload(b)).unwrap();
        assert_eq!(found.to_vec().unwrap().len(), a.len() + b.len());
    };
    let mut rng = rng();
    for (n, m) in [(40, 3000), (3 * TILE, 2 * TILE + 7), (9 * TILE, 8 * TILE)] {
        merged(&below(&mut rng, n, 1 << 30), &below(&mut rng, m, 1 << 30));
    }
    // The second array falls: the second tile would end before it begins.
    let b: Vec<u32> = (0..3 * TILE / 2 + 7).map(|i| if i <= TILE { 9 } else { 0 }).collect();
    merged(&vec![5; 3 * TILE / 2], &b);
}

#[test]
fn the_largest_keys_keep_their_order() {
    // What fills up the last tile has the same bits.
    for (n, m) in [(1, 1), (100, 3), (3, 100), (TILE, 7), (7, TILE), (TILE, TILE)] {
        check(vec![u32::MAX; n], vec![u32::MAX; m], u32::cmp);
        let last = |n: usize| (0..n as u32).rev().map(|i| u32::MAX - i / 2).collect::<Vec<_>>();
        check(last(n), last(m), u32::cmp);
    }
}

#[test]
fn adversarial_inputs() {
    let rising = |first: u32, n: u32| (first..first + n).collect::<Vec<_>>();
    // All of one before all of the other, both ways; all equal; turn by turn.
    check(rising(0, 4000), rising(5000, 4000), u32::cmp);
    check(rising(5000, 4000), rising(0, 4000), u32::cmp);
    check(vec![7; 4000], vec![7; 4001], u32::cmp);
    let every_other = |first: u32| (0..4000).map(|i| first + 2 * i).collect::<Vec<u32>>();
    check(every_other(0), every_other(1), u32::cmp);
}

#[test]
fn every_type() {
    let mut rng = rng();
    let mut words = |n: usize| -> Vec<u64> { (0..n).map(|_| rng.random()).collect() };
    let (a, b) = (words(4001), words(2999));
    check(a.clone(), b.clone(), u64::cmp);
    macro_rules! as_type {
        ($from:expr) => {
            (a.iter().map(|&x| $from(x)).collect(), b.iter().map(|&x| $from(x)).collect())
        };
    }
    let (x, y) = as_type!(|x| x as i64);
    check(x, y, i64::cmp);
    let (x, y) = as_type!(|x| x as i32);
    check(x, y, i32::cmp);
    let (x, y) = as_type!(|x| f32::from_bits(x as u32));
    check(x, y, f32::total_cmp);
    let (x, y) = as_type!(f64::from_bits);
    check(x, y, f64::total_cmp);
}

/// How often each key below `limit` occurs.
fn counts(x: &[u32], limit: u32) -> Vec<usize> {
    (0..limit).map(|key| x.iter().filter(|&&x| x == key).count()).collect()
}

#[test]
fn sets_are_those_of_counted_elements() {
    let mut rng = rng();
    for (n, m, limit) in
        [(0, 0, 1), (1, 0, 2), (0, 5, 3), (40, 50, 7), (3001, 2500, 50), (700, 900, 1000)]
    {
        let (mut a, mut b) = (below(&mut rng, n, limit), below(&mut rng, m, limit));
        a.sort_unstable();
        b.sort_unstable();
        let (in_a, in_b) = (counts(&a, limit), counts(&b, limit));
        let expected = |count: fn(usize, usize) -> usize| -> Vec<u32> {
            let keys = 0..limit;
            keys.flat_map(|key| vec![key; count(in_a[key as usize], in_b[key as usize])]).collect()
        };
        let (a, b) = (upload(&a), upload(&b));
        let same = |found: ferrowarp::GpuResult<ferrowarp::DeviceBuffer<u32>>,
                    expected: Vec<u32>| {
            assert_eq!(found.unwrap().to_vec().unwrap(), expected, "{n} and {m} below {limit}");
        };
        same(merge::set_intersection(gpu(), &a, &b), expected(usize::min));
        same(merge::set_union(gpu(), &a, &b), expected(usize::max));
        same(merge::set_difference(gpu(), &a, &b), expected(usize::saturating_sub));
        same(merge::set_symmetric_difference(gpu(), &a, &b), expected(usize::abs_diff));
    }
    let special = [f32::NEG_INFINITY, -0.0, 0.0, 1.0, f32::NAN];
    let (a, b) = (upload(&special), upload(&special[1..4]));
    let left = merge::set_difference(gpu(), &a, &b).unwrap().to_vec().unwrap();
    assert!(left[0] == f32::NEG_INFINITY && left[1].is_nan() && left.len() == 2);
}

#[test]
fn lengths_that_do_not_fit_are_errors() {
    let x = upload(&[1u32, 2]);
    let mut scratch = Scratch::new(gpu()).unwrap();
    let error = ops::merge_into(gpu(), &x, &x, &mut poisoned(3), &mut scratch).unwrap_err();
    assert_eq!(error.to_string(), "merging: 4 elements are needed, 3 were given");
}
