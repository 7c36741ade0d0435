//! Where extremes are.

use std::cmp::Ordering;

use cuda_std::launch::Instance;
use cuda_std::number::{bf16, f16};
use ferrowarp::ops::reduce;
use kernels_gpu::reduce::reduce_place;
use rand::RngExt;
use reference::reduce::first_place;

use super::{Tested, sizes, tile, values};
use crate::support::{SIZES, gpu, rng, upload};

fn backwards<T: PartialOrd>(a: T, b: T) -> Option<Ordering> {
    b.partial_cmp(&a)
}

fn check<T: Tested + reduce::Element>(x: &[T])
where
    reduce_place<T::Ordered>: Instance,
{
    let on_device = upload(x);
    let n = x.len();
    let least = first_place(x, |a, b| a.partial_cmp(&b));
    assert_eq!(reduce::argmin(gpu(), &on_device).unwrap(), least, "{n} elements");
    assert_eq!(
        reduce::argmax(gpu(), &on_device).unwrap(),
        first_place(x, backwards),
        "{n} elements"
    );
}

fn places<T: Tested + reduce::Element>()
where
    reduce_place<T::Ordered>: Instance,
{
    let mut rng = rng();
    for n in sizes::<T>() {
        check(&values::<T>(&mut rng, n));
    }
    for n in SIZES {
        // Many equal ones.
        let few: Vec<T> = (0..n).map(|_| T::small(rng.random_range(0..3))).collect();
        check(&few);
    }
}

#[test]
fn of_floats() {
    places::<f32>();
    places::<f64>();
}

#[test]
fn of_halves() {
    places::<f16>();
    places::<bf16>();
}

#[test]
fn of_integers() {
    places::<i32>();
    places::<u32>();
    places::<i64>();
    places::<u64>();
}

#[test]
fn the_first_of_equal_ones_wins() {
    for n in [1, 2, 4097, 100 * tile::<f32>() + 3] {
        let mut x = vec![1.5f32; n];
        let on_device = upload(&x);
        assert_eq!(reduce::argmin(gpu(), &on_device).unwrap(), Some(0));
        assert_eq!(reduce::argmax(gpu(), &on_device).unwrap(), Some(0));
        x[0] = f32::NAN;
        let expected = (n > 1).then_some(1);
        assert_eq!(reduce::argmin(gpu(), &upload(&x)).unwrap(), expected);
    }
}

#[test]
fn nothing_but_nan_is_nowhere() {
    for n in [0, 1, 33, 5000] {
        let nan = upload(&vec![f32::NAN; n]);
        assert_eq!(reduce::argmin(gpu(), &nan).unwrap(), None);
        assert_eq!(reduce::argmax(gpu(), &nan).unwrap(), None);
    }
}

#[test]
fn what_equals_nothing_is_still_found() {
    for n in [1, 40, 5000, 3 * tile::<u32>() + 9] {
        let mut x = vec![f32::NAN; n];
        x[n - 1] = f32::INFINITY;
        assert_eq!(reduce::argmin(gpu(), &upload(&x)).unwrap(), Some(n - 1));
        x[n - 1] = f32::NEG_INFINITY;
        assert_eq!(reduce::argmax(gpu(), &upload(&x)).unwrap(), Some(n - 1));
        assert_eq!(reduce::argmin(gpu(), &upload(&vec![u32::MAX; n])).unwrap(), Some(0));
        assert_eq!(reduce::argmax(gpu(), &upload(&vec![i64::MIN; n])).unwrap(), Some(0));
    }
}

#[test]
fn both_zeros_are_equal() {
    let x = upload(&[0.0f32, -0.0, 0.0]);
    assert_eq!(reduce::argmin(gpu(), &x).unwrap(), Some(0));
    assert_eq!(reduce::argmax(gpu(), &x).unwrap(), Some(0));
}
