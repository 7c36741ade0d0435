//! The two halves of a sort by one digit: counts, and moves to places that are apart.

use ferrowarp::memory::DeviceBuffer;
use ferrowarp::ops::Scratch;
use ferrowarp::ops::sort::{
    DIGITS, SortKey, count_digits_into, scatter_by_digit_into, scatter_pairs_by_digit_into,
};

use super::{Compared, FEW, LONG_TILE, TILE};
use crate::support::{gpu, rng, upload};

/// Moves random keys, and their indices as values, so that `gap` elements stay free before the keys with each value of the highest
/// digit, which `digit` is of a key.
#[track_caller]
fn check<K: Compared + SortKey>(
    n: usize,
    gap: impl Fn(usize) -> usize,
    digit: impl Fn(K) -> usize,
) {
    let (gpu, mut rng) = (gpu(), rng());
    let x: Vec<K> = (0..n).map(|_| K::any(&mut rng)).collect();
    let (keys, indices) = (upload(&x), upload(&(0..n as u32).collect::<Vec<_>>()));
    let scratch = &mut Scratch::new(gpu).unwrap();
    let bits = 8 * size_of::<K>() as u32 - 8..8 * size_of::<K>() as u32;

    let mut counts = DeviceBuffer::<u64>::zeroed(gpu, DIGITS).unwrap();
    count_digits_into(gpu, &keys, &mut counts, bits.clone(), scratch).unwrap();
    let counts = counts.to_vec().unwrap();
    let mut expected = vec![0; DIGITS];
    x.iter().for_each(|key| expected[digit(*key)] += 1);
    assert_eq!(counts, expected, "{n} keys");

    let (mut places, mut end) = ([0; DIGITS], 0);
    for (value, place) in places.iter_mut().enumerate() {
        *place = end + gap(value) as u64;
        end = *place + counts[value];
    }
    let free = K::any(&mut rng);
    let (mut out, mut moved) = (vec![free; end as usize], vec![u32::MAX; end as usize]);
    let mut next = places.map(|place| place as usize);
    for (index, key) in x.iter().enumerate() {
        let at = &mut next[digit(*key)];
        (out[*at], moved[*at]) = (*key, index as u32);
        *at += 1;
    }
    let bytes = |keys: &[K]| bytemuck::cast_slice::<K, u8>(keys).to_vec();
    let empty = || upload(&vec![free; end as usize]);
    let (mut alone, mut with) = (empty(), empty());
    let mut values = upload(&vec![u32::MAX; end as usize]);
    // SAFETY: the places ascend, each as many elements behind the one before as there are keys, and a gap.
    unsafe {
        let plan = (bits.clone(), &places);
        scatter_by_digit_into(gpu, &keys, &mut alone, plan, scratch).unwrap();
        let to = (&mut with, &mut values);
        scatter_pairs_by_digit_into(gpu, (&keys, &indices), to, (bits, &places), scratch).unwrap();
    }
    assert!(bytes(&alone.to_vec().unwrap()) == bytes(&out), "{n} keys");
    assert!(bytes(&with.to_vec().unwrap()) == bytes(&out), "{n} keys with values");
    assert!(values.to_vec().unwrap() == moved, "{n} values");
}

#[test]
fn keys_of_a_digit_move_to_its_place_and_on() {
    for n in [0, 1, 33, FEW + 1, TILE, 3 * TILE + 5] {
        check::<u32>(n, |_| 0, |key| (key >> 24) as usize);
        check::<u32>(n, |value| value % 7 * 11, |key| (key >> 24) as usize);
    }
    let ordered = |key: f32| {
        let bits = key.to_bits();
        (if bits >> 31 == 0 { bits | 1 << 31 } else { !bits }) as usize >> 24
    };
    check::<f32>(2 * TILE + 1, |value| value % 3, ordered);
    check::<u64>(2 * LONG_TILE + 9, |value| 5 * (value & 1), |key| (key >> 56) as usize);
    // One of the digits has a gap for as many keys as there are.
    check::<u32>(TILE + 9, |value| if value == 128 { TILE } else { 0 }, |key| (key >> 24) as usize);
}

#[test]
fn a_digit_has_at_most_eight_bits() {
    let gpu = gpu();
    let x = upload(&[1u32, 2, 3]);
    let mut counts = DeviceBuffer::<u64>::zeroed(gpu, DIGITS).unwrap();
    let scratch = &mut Scratch::new(gpu).unwrap();
    let error = count_digits_into(gpu, &x, &mut counts, 4..13, scratch).unwrap_err();
    assert!(error.to_string().contains("a digit of 9 bits: it has at most 8"), "{error}");
    let mut short = DeviceBuffer::<u64>::zeroed(gpu, 4).unwrap();
    assert!(count_digits_into(gpu, &x, &mut short, 0..8, scratch).is_err());
}
