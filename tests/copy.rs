//! The copies: they move bits, so bit for bit.

use cuda_std::launch::Linear;
use cuda_std::vector::Vec4;
use ferrowarp::{DeviceBuffer, ops};
use kernels_gpu::elementwise::copy::copy_vectors;
use rand::RngExt;

use crate::support::{SIZES, assert_same_bits, bytes, floats, gpu, poisoned, rng, upload};

#[test]
fn coalesced_every_size() {
    let mut rng = rng();
    for n in SIZES {
        let x = floats(&mut rng, n);
        let mut out = poisoned(n);
        ops::copy::copy_coalesced(gpu(), &upload(&x), &mut out).unwrap();
        assert_same_bits(&out.to_vec().unwrap(), &x);
    }
}

#[test]
fn strided_every_size() {
    let mut rng = rng();
    for n in SIZES {
        let x = floats(&mut rng, n);
        for per_thread in [1, 7, 32] {
            let mut out = poisoned(n);
            ops::copy_strided(gpu(), per_thread, &upload(&x), &mut out).unwrap();
            assert_same_bits(&out.to_vec().unwrap(), &x);
        }
    }
}

#[test]
fn vectors_every_size() {
    let mut rng = rng();
    for n in SIZES {
        let x: Vec<Vec4<f32>> =
            floats(&mut rng, 4 * n).chunks(4).map(|c| Vec4::new(c[0], c[1], c[2], c[3])).collect();
        let mut out = poisoned(n);
        copy_vectors::launch(gpu(), Linear::new(7, 64), &upload(&x), &mut out).unwrap();
        let found = out.to_vec().unwrap();
        assert_same_bits(bytemuck::cast_slice(&found), bytemuck::cast_slice(&x));
    }
}

/// Any type, and all alignments of one side to the other.
#[test]
fn any_type_every_size_and_alignment() {
    let mut rng = rng();
    for n in [0, 1, 15, 16, 17, 4095, 70_001] {
        let x: Vec<[u8; 3]> = (0..n + 20).map(|_| rng.random()).collect();
        let on_device = upload(&x);
        for (from, to) in [(0, 0), (0, 1), (1, 0), (5, 5), (4, 8), (16, 2), (3, 19)] {
            let mut out = poisoned::<[u8; 3]>(n + 20);
            let target = &mut out.slice_mut(to..to + n);
            ops::copy(gpu(), &on_device.slice(from..from + n), target).unwrap();
            let mut expected = vec![[0xA5; 3]; n + 20];
            expected[to..to + n].copy_from_slice(&x[from..from + n]);
            assert!(out.to_vec().unwrap() == expected, "{n} from {from} to {to}");
        }
    }
}

/// All distances between the source's and the target's multiples of 16 bytes, where few quads or none are whole.
#[test]
fn bytes_from_anywhere_to_anywhere() {
    let x = bytes(&mut rng(), 700);
    let on_device = upload(&x);
    for (from, to) in (0..16).flat_map(|from| (0..16).map(move |to| (from, to))) {
        for n in [(from * 7 + to) % 50, 600 + from] {
            let mut out = poisoned::<u8>(700);
            let target = &mut out.slice_mut(to..to + n);
            ops::copy(gpu(), &on_device.slice(from..from + n), target).unwrap();
            let mut expected = vec![0xA5; 700];
            expected[to..to + n].copy_from_slice(&x[from..from + n]);
            assert!(out.to_vec().unwrap() == expected, "{n} from {from} to {to}");
        }
    }
}

#[test]
fn of_wide_and_of_narrow_elements() {
    let mut rng = rng();
    for n in SIZES {
        let wide: Vec<[u64; 4]> = (0..n.min(5000)).map(|_| rng.random()).collect();
        let mut out = poisoned(wide.len());
        ops::copy(gpu(), &upload(&wide), &mut out).unwrap();
        assert_eq!(out.to_vec().unwrap(), wide);
        let narrow = bytes(&mut rng, n);
        let mut out = poisoned(n);
        ops::copy(gpu(), &upload(&narrow), &mut out).unwrap();
        assert_eq!(out.to_vec().unwrap(), narrow);
    }
}

/// Rows of `x`, of which each begins `pitch` behind the one before, at `to_pitch` in memory that was poisoned.
fn rows<T: bytemuck::Pod + PartialEq + std::fmt::Debug>(
    x: &[T],
    [width, height, pitch, to_pitch]: [usize; 4],
) {
    let len = height * to_pitch + 3;
    let mut out = poisoned::<T>(len);
    let mut expected = out.to_vec().unwrap();
    for row in 0..height {
        let from = &x[row * pitch..row * pitch + width];
        expected[1 + row * to_pitch..][..width].copy_from_slice(from);
    }
    // The last row need not be as long as its pitch.
    let end = if height == 0 { 0 } else { (height - 1) * pitch + width };
    let mut target = out.slice_mut(1..).into_pitched(width, height, to_pitch).unwrap();
    ops::copy_pitched(gpu(), &upload(&x[..end]), pitch, &mut target).unwrap();
    assert!(out.to_vec().unwrap() == expected, "{width} × {height}, {pitch} to {to_pitch}");
}

#[test]
fn rows_of_every_width() {
    let mut rng = rng();
    let x: Vec<u32> = (0..60_000).map(|_| rng.random()).collect();
    for shape in [
        [0, 4, 4, 4],
        [4, 0, 4, 4],
        [1, 1, 1, 1],
        [1, 900, 7, 3],
        [3, 1001, 3, 5],
        [100, 77, 128, 128],
        [256, 100, 260, 300],
        [257, 33, 1000, 257],
        [5000, 11, 5000, 5001],
    ] {
        rows(&x, shape);
        rows(bytemuck::cast_slice::<u32, u8>(&x), shape);
        let quads: &[u64] = &bytemuck::pod_collect_to_vec(&x);
        if shape[1] * shape[2] < 30_000 {
            rows(&quads.chunks_exact(2).map(|c| [c[0], c[1]]).collect::<Vec<_>>().repeat(3), shape);
        }
    }
}

#[test]
fn every_so_many_elements() {
    let mut rng = rng();
    let x: Vec<u16> = (0..30_000).map(|_| rng.random()).collect();
    let on_device = upload(&x);
    for stride in [1, 2, 3, 8, 1000] {
        let expected: Vec<u16> = x.iter().copied().step_by(stride).collect();
        let mut out = poisoned(expected.len());
        ops::copy_every(gpu(), stride, &on_device, &mut out).unwrap();
        assert_eq!(out.to_vec().unwrap(), expected, "every {stride}");
    }
}

#[test]
fn what_does_not_fit_is_an_error() {
    let x = upload(&[1u32; 10]);
    let error = ops::copy(gpu(), &x, &mut poisoned(9)).unwrap_err();
    assert_eq!(error.to_string(), "copying an array: 10 elements are needed, 9 were given");
    let error = ops::copy_every(gpu(), 3, &x, &mut poisoned(5)).unwrap_err();
    assert_eq!(error.to_string(), "copying rows: 13 elements are needed, 10 were given");
    let error = ops::copy_every(gpu(), 0, &x, &mut poisoned(5)).unwrap_err();
    assert_eq!(error.to_string(), "copying rows: 1 elements are needed, 0 were given");
    let mut out = poisoned::<u32>(12);
    let error = ops::copy_pitched(gpu(), &x, 4, &mut out.grid_mut(4, 3).unwrap()).unwrap_err();
    assert_eq!(error.to_string(), "copying rows: 12 elements are needed, 10 were given");
}

#[test]
#[ignore = "needs 9 GB of device memory"]
fn more_than_2_32_elements() {
    let n = (1usize << 32) + 5;
    let mut x = DeviceBuffer::<u8>::zeroed(gpu(), n).unwrap();
    let mut out = DeviceBuffer::<u8>::zeroed(gpu(), n).unwrap();
    ops::fill(gpu(), &7, &mut x).unwrap();
    x.slice_mut(n - 2..).copy_from_host(&[1, 2]).unwrap();
    ops::copy(gpu(), &x, &mut out).unwrap();
    assert_eq!(out.slice(n - 4..).to_vec().unwrap(), [7, 7, 1, 2]);
    let words = out.slice(..n - 5).cast::<u32>().unwrap();
    let sum = ops::reduce::sum(gpu(), &words).unwrap();
    assert_eq!(sum, 0x0707_0707u32.wrapping_mul((1 << 30) as u32));
    let mut every = poisoned::<u8>(5);
    ops::copy_every(gpu(), n / 5, &x, &mut every).unwrap();
    assert_eq!(every.to_vec().unwrap(), [7; 5]);
}
