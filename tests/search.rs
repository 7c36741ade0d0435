//! Searches in sorted arrays against counting, bit for bit.

use std::cmp::Ordering;

use bytemuck::Pod;
use cuda_std::launch::{Grid1, Instance, Linear};
use ferrowarp::ops::{Scratch, search};
use kernels_gpu::search::{Bound, PIVOTS, line_len, search_index, search_plain, search_sorted};
use rand::RngExt;

use crate::support::{gpu, poisoned, rng, upload};

fn check<K: Pod>(mut x: Vec<K>, values: &[K], order: impl Fn(&K, &K) -> Ordering)
where
    search_index<K>: Instance,
    search_sorted<K>: Instance,
    search_plain<K>: Instance,
{
    x.sort_by(&order);
    for bound in [Bound::Lower, Bound::Upper] {
        let expected = reference::search::bounds(&x, values, bound == Bound::Upper, &order);
        let (array, wanted) = (upload(&x), upload(values));
        let (mut out, mut scratch) = (poisoned(values.len()), Scratch::new(gpu()).unwrap());
        search::bound_into(gpu(), bound, &array, &wanted, &mut out, &mut scratch).unwrap();
        assert_eq!(out.to_vec().unwrap(), expected, "{bound:?} among {}", x.len());
        let mut lines = poisoned(x.len().div_ceil(line_len::<K>()));
        search_index::<K>::launch(gpu(), Linear::new(2, 64), &array, &mut lines).unwrap();
        let (mut out, of, wide) = (poisoned(values.len()), bound as u32, Grid1::new(2));
        search_sorted::<K>::launch(gpu(), wide, of, &array, &lines, &wanted, &mut out).unwrap();
        assert_eq!(out.to_vec().unwrap(), expected, "{bound:?} among {}, by an index", x.len());
        let mut out = poisoned(values.len());
        search::bound_plain_into(gpu(), bound, &array, &wanted, &mut out).unwrap();
        assert_eq!(out.to_vec().unwrap(), expected, "{bound:?} among {}, plain", x.len());
    }
}

#[test]
fn every_size() {
    let mut rng = rng();
    for n in [0, 1, 2, 31, 33, PIVOTS - 1, PIVOTS, PIVOTS + 1, 2 * PIVOTS, 3 * PIVOTS + 7, 10_007] {
        let range = 0..(n as u32 + 2);
        let x: Vec<u32> = (0..n).map(|_| rng.random_range(range.clone())).collect();
        let values: Vec<u32> = (0..257).map(|_| rng.random_range(range.clone())).collect();
        check(x, &values, u32::cmp);
    }
    check(vec![5u32; 3000], &[4, 5, 6, 0, u32::MAX], u32::cmp);
    check(vec![1u32, 2], &[], u32::cmp);
}

#[test]
fn every_type() {
    let mut rng = rng();
    let mut words =
        |n: usize| -> Vec<u64> { (0..n).map(|_| rng.random::<u64>() >> (n % 40)).collect() };
    let (x, values) = (words(3001), words(300));
    check(x.clone(), &values, u64::cmp);
    let signed = |words: &[u64]| words.iter().map(|&x| x as i64).collect::<Vec<_>>();
    check(signed(&x), &signed(&values), i64::cmp);
    let short = |words: &[u64]| words.iter().map(|&x| x as i32).collect::<Vec<_>>();
    check(short(&x), &short(&values), i32::cmp);
    let single =
        |words: &[u64]| words.iter().map(|&x| f32::from_bits(x as u32)).collect::<Vec<_>>();
    check(single(&x), &single(&values), f32::total_cmp);
    let double = |words: &[u64]| words.iter().map(|&x| f64::from_bits(x)).collect::<Vec<_>>();
    check(double(&x), &double(&values), f64::total_cmp);
    let special = [-f32::NAN, f32::NEG_INFINITY, -1.0, -0.0, 0.0, 1.0, f32::INFINITY, f32::NAN];
    check(special.repeat(5), &special, f32::total_cmp);
}

/// An array that outgrows the cache, with many values: its index is made in scratch memory of the size that was reserved.
#[test]
fn a_large_array_has_an_index() {
    const N: usize = (8 << 20) + 5;
    const M: usize = N / 8;
    let bytes = search::scratch_bytes::<u32>(N, M);
    assert!(bytes >= N / 32 * size_of::<u32>());
    assert!(search::scratch_bytes::<u32>(N, M - 1) < 1024, "few values");
    assert!(search::scratch_bytes::<u32>(N / 2, M) < 1024, "a small array");

    // Each number twice, and the values in an order that takes neighbours far apart.
    let x: Vec<u32> = (0..N as u32).map(|i| i / 2 * 3).collect();
    let values: Vec<u32> = (0..M).map(|i| (i * 7919 % (N * 2)) as u32).collect();
    let (x, values, mut out) = (upload(&x), upload(&values), poisoned(M));
    let mut scratch = Scratch::new(gpu()).unwrap();
    scratch.reserve(gpu(), bytes).unwrap();
    let reserved = scratch.size_bytes();
    search::bound_into(gpu(), Bound::Upper, &x, &values, &mut out, &mut scratch).unwrap();
    assert_eq!(scratch.size_bytes(), reserved);
    let values = values.to_vec().unwrap();
    let mistakes = out.to_vec().unwrap().into_iter().zip(values).filter(|&(place, value)| {
        // `2 * (value / 3 + 1)` elements are not greater.
        place != (2 * (u64::from(value) / 3 + 1)).min(N as u64)
    });
    assert_eq!(mistakes.count(), 0);
}

#[test]
fn lengths_that_do_not_fit_are_errors() {
    let x = upload(&[1u32, 2]);
    let mut scratch = Scratch::new(gpu()).unwrap();
    let error = search::bound_into(gpu(), Bound::Lower, &x, &x, &mut poisoned(3), &mut scratch)
        .unwrap_err();
    assert_eq!(error.to_string(), "searching: 2 elements are needed, 3 were given");
}
