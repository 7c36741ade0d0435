//! Searches in sorted arrays against counting, bit for bit.

use std::cmp::Ordering;

use bytemuck::Pod;
use cuda_std::launch::Instance;
use ferrowarp::ops::search;
use kernels_gpu::search::{Bound, PIVOTS, search_plain, search_sorted};
use rand::RngExt;

use crate::support::{gpu, poisoned, rng, upload};

fn check<K: Pod>(mut x: Vec<K>, values: &[K], order: impl Fn(&K, &K) -> Ordering)
where
    search_sorted<K>: Instance,
    search_plain<K>: Instance,
{
    x.sort_by(&order);
    for bound in [Bound::Lower, Bound::Upper] {
        let expected = reference::search::bounds(&x, values, bound == Bound::Upper, &order);
        let (array, wanted) = (upload(&x), upload(values));
        let mut out = poisoned(values.len());
        search::bound_into(gpu(), bound, &array, &wanted, &mut out).unwrap();
        assert_eq!(out.to_vec().unwrap(), expected, "{bound:?} among {}", x.len());
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

#[test]
fn lengths_that_do_not_fit_are_errors() {
    let x = upload(&[1u32, 2]);
    let error = search::bound_into(gpu(), Bound::Lower, &x, &x, &mut poisoned(3)).unwrap_err();
    assert_eq!(error.to_string(), "searching: 2 elements are needed, 3 were given");
}
