//! The sorts against the standard library's stable sort, bit for bit.

use std::cmp::Ordering;
use std::fmt::Debug;

use bytemuck::Pod;
use cuda_std::half::{bf16, f16};
use ferrowarp::memory::DeviceBuffer;
use ferrowarp::ops::Scratch;
use ferrowarp::ops::sort::{self, SortKey, SortOptions, SortValue};
use ferrowarp::reference;
use kernels_gpu::grid::sort::pass::{LONG, SHORT, THREADS};
use rand::Rng;
use rand::rngs::StdRng;

use crate::support::{gpu, poisoned, rng, upload};

const TILE: usize = THREADS * SHORT;
const BOTH: [SortOptions; 2] = [SortOptions::ASCENDING, SortOptions::DESCENDING];

/// Around a warp, the rows of a block, a tile and several, with ragged ends.
const SIZES: [usize; 14] = [
    0,
    1,
    2,
    31,
    32,
    33,
    641,
    THREADS * LONG,
    4099,
    TILE - 1,
    TILE,
    TILE + 1,
    3 * TILE + 17,
    9 * TILE - 5,
];

/// A key that the tests compare as the library promises.
trait Compared: SortKey + Debug {
    fn order(&self, other: &Self) -> Ordering;

    /// Any bits.
    fn any(rng: &mut StdRng) -> Self {
        let mut bytes = [0; 8];
        rng.fill_bytes(&mut bytes);
        bytemuck::pod_read_unaligned(&bytes[..size_of::<Self>()])
    }
}

macro_rules! compared {
    ($($ty:ty: $order:path;)*) => {$(
        impl Compared for $ty {
            fn order(&self, other: &Self) -> Ordering {
                $order(self, other)
            }
        }
    )*};
}

compared! {
    u8: Ord::cmp;
    u16: Ord::cmp;
    u32: Ord::cmp;
    u64: Ord::cmp;
    i8: Ord::cmp;
    i16: Ord::cmp;
    i32: Ord::cmp;
    i64: Ord::cmp;
    f16: f16::total_cmp;
    bf16: bf16::total_cmp;
    f32: f32::total_cmp;
    f64: f64::total_cmp;
}

/// The expected keys, and the places where they come from.
fn expected<K: Compared>(keys: &[K], options: SortOptions) -> (Vec<K>, Vec<usize>) {
    let descending = options == SortOptions::DESCENDING;
    let places = reference::sort::places(keys, K::order, descending);
    (places.iter().map(|&place| keys[place]).collect(), places)
}

#[track_caller]
fn same<T: Pod + Debug>(found: &DeviceBuffer<T>, expected: &[T], what: &str) {
    let found = found.to_vec().unwrap();
    assert_eq!(found.len(), expected.len(), "{what}");
    for (i, (found, expected)) in found.iter().zip(expected).enumerate() {
        let differ = bytemuck::bytes_of(found) != bytemuck::bytes_of(expected);
        assert!(!differ, "{what}: element {i} is {found:?} instead of {expected:?}");
    }
}

#[track_caller]
fn check_keys<K: Compared>(keys: &[K], what: &str) {
    for options in BOTH {
        let mut out = poisoned(keys.len());
        let mut scratch = Scratch::new(gpu()).unwrap();
        sort::sort_into(gpu(), &upload(keys), &mut out, options, &mut scratch).unwrap();
        same(&out, &expected(keys, options).0, what);
    }
}

#[track_caller]
fn check_pairs<K: Compared, V: SortValue + Debug>(
    keys: &[K],
    value: impl Fn(usize) -> V,
    what: &str,
) {
    let values: Vec<V> = (0..keys.len()).map(&value).collect();
    for options in BOTH {
        let (mut out_keys, mut out_values) = (poisoned(keys.len()), poisoned(keys.len()));
        let (device_keys, device_values) = (upload(keys), upload(&values));
        sort::sort_pairs_into(
            gpu(),
            (&device_keys, &device_values),
            (&mut out_keys, &mut out_values),
            options,
            &mut Scratch::new(gpu()).unwrap(),
        )
        .unwrap();
        let (sorted, places) = expected(keys, options);
        same(&out_keys, &sorted, what);
        let sorted: Vec<V> = places.into_iter().map(&value).collect();
        same(&out_values, &sorted, what);
    }
}

fn random<K: Compared>(rng: &mut StdRng, n: usize) -> Vec<K> {
    (0..n).map(|_| K::any(rng)).collect()
}

#[test]
fn every_size() {
    let mut rng = rng();
    for n in SIZES {
        check_keys(&random::<u32>(&mut rng, n), &format!("{n} keys"));
    }
}

#[test]
fn every_type_of_key() {
    fn check<K: Compared>(rng: &mut StdRng) {
        let name = std::any::type_name::<K>();
        check_keys(&random::<K>(rng, TILE + 1234), name);
        check_pairs(&random::<K>(rng, 1500), |i| i as u32, name);
    }
    let mut rng = rng();
    check::<u8>(&mut rng);
    check::<u16>(&mut rng);
    check::<u64>(&mut rng);
    check::<i8>(&mut rng);
    check::<i16>(&mut rng);
    check::<i32>(&mut rng);
    check::<i64>(&mut rng);
    check::<f16>(&mut rng);
    check::<bf16>(&mut rng);
    check::<f32>(&mut rng);
    check::<f64>(&mut rng);
}
