//! Reductions of segments and rows.

use cuda_std::launch::Instance;
use cuda_std::number::{bf16, f16};
use ferrowarp::ops::{Scratch, reduce};
use kernels_gpu::reduce::segment_sum;
use rand::RngExt;
use rand::rngs::StdRng;

use super::{Tested, small_values, values};
use crate::support::{gpu, poisoned, rng, upload};

/// Offsets of `segments` segments of 0 to `2 * mean` elements, some of them empty.
fn offsets(rng: &mut StdRng, segments: usize, mean: usize) -> Vec<u64> {
    let mut end = 3;
    let mut offsets = vec![end];
    for _ in 0..segments {
        if rng.random_range(0..5) > 0 {
            end += rng.random_range(0..=2 * mean as u64);
        }
        offsets.push(end);
    }
    offsets
}

/// Number and mean length of segments: a thread, a warp, a block, several blocks each.
const SHAPES: [(usize, usize); 9] = [
    (0, 5),
    (1, 0),
    (1000, 3),
    (257, 16),
    (65, 100),
    (200, 700),
    (9, 3000),
    (6, 20_000),
    (1, 140_000),
];

fn sums<T: Tested + reduce::Element<Total: Tested>>()
where
    segment_sum<T::Number>: Instance,
{
    let mut rng = rng();
    for (segments, mean) in SHAPES {
        let offsets = offsets(&mut rng, segments, mean);
        let x = small_values::<T>(&mut rng, offsets[segments] as usize + 2);
        let expected: Vec<f64> = offsets
            .windows(2)
            .map(|ends| {
                reference::reduce::sum(
                    x[ends[0] as usize..ends[1] as usize].iter().map(|x| x.wide()),
                )
            })
            .collect();
        let found = reduce::segmented_sum(gpu(), &upload(&x), &upload(&offsets)).unwrap();
        let found: Vec<f64> = found.to_vec().unwrap().into_iter().map(Tested::wide).collect();
        assert_eq!(found, expected, "{segments} segments of {mean}");
    }
}

#[test]
fn sums_of_segments() {
    sums::<f32>();
    sums::<f64>();
    sums::<i32>();
}

#[test]
fn sums_of_segments_of_halves() {
    sums::<f16>();
    sums::<bf16>();
}

#[test]
fn extremes_of_segments() {
    let mut rng = rng();
    for (segments, mean) in SHAPES {
        let offsets = offsets(&mut rng, segments, mean);
        let x = values::<i32>(&mut rng, offsets[segments] as usize);
        let parts = || offsets.windows(2).map(|ends| &x[ends[0] as usize..ends[1] as usize]);
        let least: Vec<i32> =
            parts().map(|x| x.iter().copied().min().unwrap_or(i32::MAX)).collect();
        let greatest: Vec<i32> =
            parts().map(|x| x.iter().copied().max().unwrap_or(i32::MIN)).collect();
        let (x, offsets) = (upload(&x), upload(&offsets));
        assert_eq!(reduce::segmented_min(gpu(), &x, &offsets).unwrap().to_vec().unwrap(), least);
        assert_eq!(reduce::segmented_max(gpu(), &x, &offsets).unwrap().to_vec().unwrap(), greatest);
    }
    let x = upload(&[f32::NAN, 2.0, -1.0, f32::NAN]);
    let offsets = upload(&[0u64, 3, 4, 4]);
    let found = reduce::segmented_max(gpu(), &x, &offsets).unwrap().to_vec().unwrap();
    assert_eq!(found, [2.0, f32::NEG_INFINITY, f32::NEG_INFINITY]);
}

#[test]
fn one_long_segment_among_short_ones() {
    let lengths = (0..500u64).map(|s| if s == 77 { 60_000 } else { s % 3 });
    let offsets: Vec<u64> = std::iter::once(0)
        .chain(lengths.scan(0, |end, n| {
            *end += n;
            Some(*end)
        }))
        .collect();
    let x = vec![1i32; offsets[500] as usize];
    let found =
        reduce::segmented_sum(gpu(), &upload(&x), &upload(&offsets)).unwrap().to_vec().unwrap();
    let expected: Vec<i32> = offsets.windows(2).map(|ends| (ends[1] - ends[0]) as i32).collect();
    assert_eq!(found, expected);
}

#[test]
fn offsets_that_lie_are_cut_and_not_followed() {
    let x = upload(&vec![1i32; 100]);
    let offsets = upload(&[10u64, 5, 90, 1 << 60, u64::MAX, 0]);
    let found = reduce::segmented_sum(gpu(), &x, &offsets).unwrap().to_vec().unwrap();
    assert_eq!(found, [0, 85, 10, 0, 0]);
}

#[test]
fn rows_of_every_width() {
    let mut rng = rng();
    for (rows, cols) in [
        (0, 7),
        (7, 0),
        (1, 1),
        (1000, 1),
        (1000, 3),
        (33, 17),
        (50, 129),
        (100, 1024),
        (3, 5000),
        (30, 2500),
        (2, 50_003),
    ] {
        let x = values::<i32>(&mut rng, rows * cols);
        let rows_of = || x.chunks_exact(cols.max(1)).take(rows);
        let sums = rows_of().map(reference::reduce::sum_i32).chain((0..rows).map(|_| 0));
        let sums: Vec<i32> = sums.take(rows).collect();
        let most =
            rows_of().map(|row| *row.iter().max().unwrap()).chain((0..rows).map(|_| i32::MIN));
        let most: Vec<i32> = most.take(rows).collect();
        let on_device = upload(&x);
        let (mut out, mut scratch) = (poisoned::<i32>(rows), Scratch::new(gpu()).unwrap());
        scratch.reserve(gpu(), reduce::rows_scratch_bytes(rows, cols)).unwrap();
        let reserved = scratch.size_bytes();
        for _ in 0..2 {
            reduce::row_sums_into(gpu(), &on_device, rows, cols, &mut out, &mut scratch).unwrap();
            assert_eq!(out.to_vec().unwrap(), sums, "{rows} rows of {cols}");
        }
        assert_eq!(scratch.size_bytes(), reserved);
        assert_eq!(reduce::row_max(gpu(), &on_device, rows, cols).unwrap().to_vec().unwrap(), most);
    }
}

#[test]
fn lengths_that_do_not_fit_are_errors() {
    let x = upload(&[1.0f32; 12]);
    let error = reduce::row_sums(gpu(), &x, 5, 2).unwrap_err();
    assert_eq!(error.to_string(), "reducing a matrix: 10 elements are needed, 12 were given");
    let error = reduce::row_sums(gpu(), &x, usize::MAX, 2).unwrap_err();
    assert!(error.to_string().ends_with("are more than can be counted"), "{error}");
    let error = reduce::segmented_sum(gpu(), &x, &upload::<u64>(&[])).unwrap_err();
    assert_eq!(error.to_string(), "offsets of segments: 1 elements are needed, 0 were given");
}
