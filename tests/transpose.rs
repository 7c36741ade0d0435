//! The transposes against plain loops: they move bits, so bit for bit.

use bytemuck::Pod;
use ferrowarp::GpuError;
use ferrowarp::memory::DeviceBuffer;
use ferrowarp::ops::transpose;
use rand::Rng;
use rand::rngs::StdRng;

use crate::support::{assert_same_bits, floats, gpu, poisoned, rng, upload};

const SHAPES: [(usize, usize); 10] = [
    (0, 0),
    (1, 1),
    (1, 300),
    (300, 1),
    (32, 32),
    (33, 31),
    (31, 65),
    (64, 96),
    (257, 129),
    (127, 512),
];

/// Every axis in every place.
const AXES: [[usize; 3]; 6] = [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]];

fn random<T: Pod>(rng: &mut StdRng, n: usize) -> Vec<T> {
    let mut bytes = vec![0; n * size_of::<T>()];
    rng.fill_bytes(&mut bytes);
    bytes.chunks_exact(size_of::<T>()).map(bytemuck::pod_read_unaligned).collect()
}

/// Whether all bits agree, those of NaN too.
fn same_bits<T: Pod>(a: &[T], b: &[T]) -> bool {
    bytemuck::cast_slice::<T, u8>(a) == bytemuck::cast_slice::<T, u8>(b)
}

type Form = fn(
    &ferrowarp::Gpu,
    &DeviceBuffer<f32>,
    &mut DeviceBuffer<f32>,
    usize,
    usize,
) -> ferrowarp::GpuResult<()>;

#[test]
fn every_form_and_shape() {
    let mut rng = rng();
    let forms: [Form; 3] = [
        |gpu, x, out, w, h| transpose::transpose(gpu, x, out, w, h),
        |gpu, x, out, w, h| transpose::transpose_tiled(gpu, x, out, w, h),
        |gpu, x, out, w, h| transpose::transpose_naive(gpu, x, out, w, h),
    ];
    for (width, height) in SHAPES {
        let input = floats(&mut rng, width * height);
        let expected = reference::transpose::transpose(&input, width, height);
        for form in forms {
            let mut out = poisoned(input.len());
            form(gpu(), &upload(&input), &mut out, width, height).unwrap();
            assert_same_bits(&out.to_vec().unwrap(), &expected);
        }
    }
}

/// Elements of `T` around a tile, of which the side is `side`, and past a group of tiles; aligned and not.
fn matrices_of<T: Pod>(side: usize) {
    let mut rng = rng();
    let shapes = [
        (side, side, 1),
        (2 * side, side, 3),
        (side - 1, side + 1, 2),
        (side + 16, 2 * side + 16, 1),
        (2 * side + 8, side + 8, 2),
        (3, 5, 7),
        (16, 17 * side, 1),
        (0, 9, 2),
    ];
    for (width, height, count) in shapes {
        let n = width * height * count;
        // The first element is not aligned to a vector in the second half.
        for first in [0, 1] {
            let input = random::<T>(&mut rng, n + first);
            let mut out = poisoned(n + first);
            let from = upload(&input);
            transpose::batched(
                gpu(),
                &from.slice(first..),
                &mut out.slice_mut(first..),
                width,
                height,
                count,
            )
            .unwrap();
            let dims = [count, height, width];
            let expected = reference::transpose::permute(&input[first..], dims, [0, 2, 1]);
            let found = out.to_vec().unwrap();
            assert!(
                same_bits(&found[first..], &expected),
                "{count} of {height} by {width}, from {first}"
            );
            assert!(same_bits(&found[..first], &poisoned::<T>(first).to_vec().unwrap()));
        }
    }
}

#[test]
fn matrices_of_bytes() {
    matrices_of::<u8>(256);
}

#[test]
fn matrices_of_two_bytes() {
    matrices_of::<i16>(128);
    matrices_of::<[u8; 2]>(128);
}

#[test]
fn matrices_of_four_bytes() {
    matrices_of::<u32>(64);
}

#[test]
fn matrices_of_eight_bytes() {
    matrices_of::<f64>(32);
    matrices_of::<[u32; 2]>(32);
}

fn permutations_of<T: Pod>() {
    let mut rng = rng();
    let all =
        [[2, 3, 4], [1, 1, 1], [5, 1, 33], [64, 3, 128], [17, 32, 16], [33, 70, 9], [0, 4, 5]];
    for dims in all {
        let input = random::<T>(&mut rng, dims.iter().product());
        for axes in AXES {
            let expected = reference::transpose::permute(&input, dims, axes);
            let mut out = poisoned(input.len());
            transpose::permute(gpu(), &upload(&input), &mut out, dims, axes).unwrap();
            assert!(same_bits(&out.to_vec().unwrap(), &expected), "{dims:?} as {axes:?}");
            let mut out = poisoned(input.len());
            transpose::permute_naive(gpu(), &upload(&input), &mut out, dims, axes).unwrap();
            assert!(same_bits(&out.to_vec().unwrap(), &expected), "plain, {dims:?} as {axes:?}");
        }
    }
}

#[test]
fn permutations_of_bytes() {
    permutations_of::<u8>();
}

#[test]
fn permutations_of_two_bytes() {
    permutations_of::<u16>();
}

#[test]
fn permutations_of_four_bytes() {
    permutations_of::<f32>();
}

#[test]
fn permutations_of_eight_bytes() {
    permutations_of::<i64>();
}

#[test]
fn a_shape_that_does_not_fit_is_an_error() {
    let mut out = poisoned(12);
    let error = transpose::transpose(gpu(), &upload(&[0.0; 12]), &mut out, 3, 5).unwrap_err();
    assert!(error.to_string().contains("15"), "{error}");
    let dims = [usize::MAX, 2, 2];
    assert!(transpose::permute(gpu(), &upload(&[0.0; 12]), &mut out, dims, [2, 1, 0]).is_err());
}

#[test]
fn axes_that_are_no_permutation_are_an_error() {
    let (x, mut out) = (upload(&[0_u16; 8]), upload(&[0_u16; 8]));
    for axes in [[0, 0, 1], [1, 2, 3]] {
        let fast = transpose::permute(gpu(), &x, &mut out, [2, 2, 2], axes);
        let plain = transpose::permute_naive(gpu(), &x, &mut out, [2, 2, 2], axes);
        assert!(matches!(fast, Err(GpuError::InvalidArgument { .. })));
        assert!(matches!(plain, Err(GpuError::InvalidArgument { .. })));
    }
}

#[test]
fn elements_that_lie_between_their_places_are_an_error() {
    let (x, mut out) = (upload(&[0_u8; 9]), upload(&[[0_u8; 2]; 4]));
    let shifted = x.slice(1..);
    let error = transpose::transpose(gpu(), &shifted.cast::<[u8; 2]>().unwrap(), &mut out, 2, 2)
        .unwrap_err();
    assert!(matches!(error, GpuError::InvalidArgument { .. }), "{error}");
}

#[test]
#[ignore = "needs 10 GB of device memory"]
fn more_than_two_to_the_32_elements() {
    let (width, height) = (65_537, 65_600);
    let mut x = DeviceBuffer::<u8>::zeroed(gpu(), width * height).unwrap();
    let mut out = DeviceBuffer::<u8>::zeroed(gpu(), width * height).unwrap();
    let places = [(0, 0), (65_000, 65_599), (65_536, 65_599), (65_536, 1)];
    for (k, (column, row)) in places.into_iter().enumerate() {
        let at = row * width + column;
        x.slice_mut(at..=at).copy_from_host(&[k as u8 + 1]).unwrap();
    }
    transpose::transpose(gpu(), &x, &mut out, width, height).unwrap();
    for (k, (column, row)) in places.into_iter().enumerate() {
        let at = column * height + row;
        assert_eq!(out.slice(at..=at).to_vec().unwrap(), [k as u8 + 1]);
    }
}
