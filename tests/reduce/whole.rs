//! Sums, products and extremes of whole arrays.

use std::process::Command;

use cuda_std::launch::{Grid1, Instance};
use cuda_std::number::{Half, bf16, f16};
use ferrowarp::DeviceBuffer;
use ferrowarp::ops::{Scratch, reduce};
use kernels_gpu::reduce::{MAX_BLOCKS, reduce_extreme, reduce_sum};
use rand::RngExt;

use super::{HALF_ULP, HALF_ULP_64, Tested, assert_close, sizes, small_values, tile, values};
use crate::support::{SIZES, floats, gpu, poisoned, rng, upload};

/// A sum as a number of f64.
fn sum<T: Tested + reduce::Element<Total: Tested>>(x: &[T]) -> f64
where
    reduce_sum<T::Number>: Instance,
{
    reduce::sum(gpu(), &upload(x)).unwrap().wide()
}

fn float_sums<T: Tested + reduce::Element<Total: Tested>>(half_ulp: f64)
where
    reduce_sum<T::Number>: Instance,
{
    let mut rng = rng();
    for n in sizes::<T>() {
        let x = values::<T>(&mut rng, n);
        assert_close(sum(&x), &x, half_ulp);
    }
    for n in SIZES {
        let x = small_values::<T>(&mut rng, n);
        assert_eq!(sum(&x), reference::reduce::sum(x.iter().map(|x| x.wide())), "{n} elements");
    }
}

#[test]
fn sums_of_f32_every_size() {
    float_sums::<f32>(HALF_ULP);
}

#[test]
fn sums_of_more_than_a_tile_for_every_block() {
    let n = (MAX_BLOCKS as usize + 3) * tile::<f32>() + 5;
    let x = small_values::<f32>(&mut rng(), n);
    assert_eq!(sum(&x), reference::reduce::sum_f32(&x));
}

#[test]
fn sums_of_f64_every_size() {
    float_sums::<f64>(HALF_ULP_64);
}

#[test]
fn sums_of_halves_are_in_f32() {
    float_sums::<f16>(HALF_ULP);
    float_sums::<bf16>(HALF_ULP);
    // A sum in halves would end at 2048, or be infinite.
    let ones = vec![f16::ONE; 70_001];
    assert_eq!(reduce::sum(gpu(), &upload(&ones)).unwrap(), 70_001.0);
}

/// Sums and products that wrap.
macro_rules! integers {
    ($($ty:ty: $sums:ident $products:ident;)*) => {$(
        #[test]
        fn $sums() {
            let mut rng = rng();
            for n in sizes::<$ty>() {
                let x = values::<$ty>(&mut rng, n);
                let expected = reference::reduce::sum_integers(&x) as $ty;
                assert_eq!(reduce::sum(gpu(), &upload(&x)).unwrap(), expected, "{n} elements");
            }
        }

        #[test]
        fn $products() {
            let mut rng = rng();
            for n in SIZES {
                // Odd factors: a product of others would soon be 0.
                let x: Vec<$ty> = values::<$ty>(&mut rng, n).iter().map(|x| x | 1).collect();
                let expected = reference::reduce::product_integers(&x) as $ty;
                assert_eq!(reduce::product(gpu(), &upload(&x)).unwrap(), expected, "{n} elements");
            }
        }
    )*};
}

integers! {
    i32: sums_of_i32_wrap products_of_i32_wrap;
    u32: sums_of_u32_wrap products_of_u32_wrap;
    i64: sums_of_i64_wrap products_of_i64_wrap;
    u64: sums_of_u64_wrap products_of_u64_wrap;
}

/// Powers of two and signs, few enough of them that no product leaves the range: exact in every order.
#[test]
fn products_of_floats_are_exact_where_they_can_be() {
    let mut rng = rng();
    for n in SIZES {
        let mut x: Vec<f32> = (0..n).map(|_| if rng.random() { 1.0 } else { -1.0 }).collect();
        let mut exponent = 0;
        for _ in 0..n.min(60) {
            let step = if rng.random() { 1 } else { -1 };
            exponent += step;
            x[rng.random_range(0..n)] *= 2.0_f32.powi(step);
        }
        let sign = x.iter().map(|x| x.signum()).product::<f32>();
        let expected = sign * 2.0_f32.powi(exponent);
        let wide: Vec<f64> = x.iter().map(|&x| x.into()).collect();
        assert_eq!(reduce::product(gpu(), &upload(&x)).unwrap(), expected, "{n} elements");
        assert_eq!(
            reduce::product(gpu(), &upload(&wide)).unwrap(),
            f64::from(expected),
            "{n} elements"
        );
    }
}

fn extremes<T: Tested + reduce::Element>()
where
    reduce_extreme<T::Ordered>: Instance,
{
    let mut rng = rng();
    for n in sizes::<T>().into_iter().filter(|&n| n > 0) {
        let x = values::<T>(&mut rng, n);
        let least = x.iter().copied().reduce(|a, b| if b < a { b } else { a }).unwrap();
        let greatest = x.iter().copied().reduce(|a, b| if b > a { b } else { a }).unwrap();
        let on_device = upload(&x);
        assert_eq!(reduce::min(gpu(), &on_device).unwrap(), least, "{n} elements");
        assert_eq!(reduce::max(gpu(), &on_device).unwrap(), greatest, "{n} elements");
    }
}

#[test]
fn extremes_every_size() {
    extremes::<f32>();
    extremes::<f64>();
    extremes::<f16>();
    extremes::<bf16>();
    extremes::<i32>();
    extremes::<u32>();
    extremes::<i64>();
    extremes::<u64>();
}

#[test]
fn of_nothing_it_is_what_changes_nothing() {
    macro_rules! least_and_greatest {
        ($($ty:ty: $first:expr, $last:expr;)*) => {$(
            let none = upload::<$ty>(&[]);
            assert_eq!(reduce::min(gpu(), &none).unwrap(), $last);
            assert_eq!(reduce::max(gpu(), &none).unwrap(), $first);
        )*};
    }
    least_and_greatest! {
        f32: f32::NEG_INFINITY, f32::INFINITY;
        f64: f64::NEG_INFINITY, f64::INFINITY;
        f16: f16::NEG_INFINITY, f16::INFINITY;
        bf16: bf16::NEG_INFINITY, bf16::INFINITY;
        i32: i32::MIN, i32::MAX;
        u32: u32::MIN, u32::MAX;
        i64: i64::MIN, i64::MAX;
        u64: u64::MIN, u64::MAX;
    }
    let none = upload::<i64>(&[]);
    assert_eq!(
        (reduce::sum(gpu(), &none).unwrap(), reduce::product(gpu(), &none).unwrap()),
        (0, 1)
    );
}

#[test]
fn the_ends_of_a_type_are_found() {
    let x = upload(&[0i64, i64::MIN, i64::MAX, -1]);
    assert_eq!(
        (reduce::min(gpu(), &x).unwrap(), reduce::max(gpu(), &x).unwrap()),
        (i64::MIN, i64::MAX)
    );
    let x = upload(&[7u32, 0, u32::MAX]);
    assert_eq!((reduce::min(gpu(), &x).unwrap(), reduce::max(gpu(), &x).unwrap()), (0, u32::MAX));
}

#[test]
fn extremes_leave_nan_out() {
    // In every place that is a register, a lane, a warp, a ragged end.
    for n in [1, 3, 33, 4096, 9001] {
        for number in [0, n / 2, n - 1] {
            let mut x = vec![f32::NAN; n];
            x[number] = -2.5;
            let on_device = upload(&x);
            assert_eq!(reduce::min(gpu(), &on_device).unwrap(), -2.5);
            assert_eq!(reduce::max(gpu(), &on_device).unwrap(), -2.5);
            let halves: Vec<f16> = x.iter().map(|&x| f16::nearest(x)).collect();
            assert_eq!(reduce::max(gpu(), &upload(&halves)).unwrap().widen(), -2.5);
        }
        let nan = upload(&vec![f64::NAN; n]);
        assert_eq!(reduce::min(gpu(), &nan).unwrap(), f64::INFINITY);
        assert_eq!(reduce::max(gpu(), &nan).unwrap(), f64::NEG_INFINITY);
    }
}

#[test]
fn minus_zero_is_the_smaller_zero() {
    for n in [2, 100, 5000] {
        for place in [0, n - 1] {
            let mut x = vec![0.0f32; n];
            x[place] = -0.0;
            let on_device = upload(&x);
            assert!(reduce::min(gpu(), &on_device).unwrap().is_sign_negative());
            assert!(reduce::max(gpu(), &on_device).unwrap().is_sign_positive());
            x.iter_mut().for_each(|x| *x = -*x);
            assert!(reduce::max(gpu(), &upload(&x)).unwrap().is_sign_positive());
        }
    }
}

#[test]
fn infinities_are_the_extremes() {
    let mut x = vec![1.0f32; 5000];
    x[4321] = f32::INFINITY;
    x[17] = f32::NEG_INFINITY;
    let on_device = upload(&x);
    assert_eq!(reduce::max(gpu(), &on_device).unwrap(), f32::INFINITY);
    assert_eq!(reduce::min(gpu(), &on_device).unwrap(), f32::NEG_INFINITY);
}

#[test]
fn nan_and_infinity_go_through_a_sum() {
    let mut x = vec![1.0; 5000];
    x[4321] = f32::INFINITY;
    assert_eq!(reduce::sum(gpu(), &upload(&x)).unwrap(), f32::INFINITY);
    x[17] = f32::NEG_INFINITY;
    assert!(reduce::sum(gpu(), &upload(&x)).unwrap().is_nan());
}

#[test]
fn subnormals_are_added_and_not_flushed() {
    // Sums of the smallest number are whole multiples of it, whatever the order.
    let x = vec![f32::from_bits(1); 5000];
    assert_eq!(reduce::sum(gpu(), &upload(&x)).unwrap().to_bits(), 5000);
}

#[test]
fn every_alignment_of_the_first_element() {
    let mut rng = rng();
    let x = small_values::<f16>(&mut rng, 20_000);
    let bytes: Vec<i32> = values(&mut rng, 20_000);
    let (on_device, integers) = (upload(&x), upload(&bytes));
    for start in 0..17 {
        let range = start..19_999 - start;
        let found = reduce::sum(gpu(), &on_device.slice(range.clone())).unwrap();
        let expected = reference::reduce::sum(x[range.clone()].iter().map(|x| x.wide()));
        assert_eq!(f64::from(found), expected, "from {start}");
        let found = reduce::sum(gpu(), &integers.slice(range.clone())).unwrap();
        assert_eq!(found, reference::reduce::sum_i32(&bytes[range]), "from {start}");
    }
}

#[test]
fn any_number_of_blocks_sums_everything() {
    let mut rng = rng();
    let n = 9 * tile::<i32>() + 77;
    let x = values::<i32>(&mut rng, n);
    let on_device = upload(&x);
    for blocks in [1, 2, 3, 4, 5, 9, 300] {
        let (mut partials, mut finished) = (poisoned::<u32>(blocks as usize), upload(&[0u32]));
        let mut out = poisoned::<i32>(1);
        for _ in 0..2 {
            let grid = Grid1::new(blocks);
            reduce_sum::launch(gpu(), grid, &on_device, &mut partials, &mut finished, &mut out)
                .unwrap();
            assert_eq!(out.to_vec().unwrap()[0], reference::reduce::sum_i32(&x), "{blocks} blocks");
            assert_eq!(finished.to_vec().unwrap(), [0]);
        }
    }
}

#[test]
fn too_little_scratch_is_a_panic_and_no_overrun() {
    let x = upload(&vec![1i32; 3 * tile::<i32>()]);
    let (mut partials, mut finished) = (poisoned::<u32>(2), upload(&[0u32]));
    let mut out = poisoned::<i32>(1);
    let gpu = ferrowarp::Gpu::new().unwrap();
    reduce_sum::launch(&gpu, Grid1::new(3), &x, &mut partials, &mut finished, &mut out).unwrap();
    let error = gpu.synchronize().unwrap_err();
    assert!(error.to_string().contains("too few words for partial values"), "{error}");
}

#[test]
fn the_same_bits_again_and_again() {
    let mut rng = rng();
    let x = upload(&floats(&mut rng, 1_000_003));
    let (mut out, mut scratch) = (poisoned::<f32>(1), Scratch::new(gpu()).unwrap());
    let mut sums = (0..5).map(|_| {
        reduce::sum_into(gpu(), &x, &mut out, &mut scratch).unwrap();
        out.to_vec().unwrap()[0].to_bits()
    });
    let first = sums.next().unwrap();
    assert!(sums.all(|sum| sum == first));
}

#[test]
fn the_same_bits_on_every_device() {
    // The order of additions depends on the length alone, so this sum is one number, found once on the emulator.
    let mut state = 1_u32;
    let x: Vec<f32> = (0..100_003)
        .map(|_| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 8) as f32 / 16_777_216.0 - 0.5
        })
        .collect();
    let sum = reduce::sum(gpu(), &upload(&x)).unwrap();
    assert_close(sum.into(), &x, HALF_ULP);
    assert_eq!(sum.to_bits(), SUM_OF_LCG, "{sum} = {:#x}", sum.to_bits());
}

const SUM_OF_LCG: u32 = 0xc1f5_f2f4;

/// Runs this test program again, with other orders of blocks and warps where there is an emulator.
#[test]
fn the_same_bits_under_every_schedule() {
    for schedule in ["reversed", "sequential", "random:1", "random:2"] {
        let run = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "reduce::whole::the_same_bits_on_every_device"])
            .arg("reduce::places::the_first_of_equal_ones_wins")
            .env("FERROWARP_SCHEDULE", schedule)
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&run.stdout);
        assert!(run.status.success() && text.contains("2 passed"), "{schedule}: {text}");
    }
}

#[test]
fn f32_tree_every_size() {
    let mut rng = rng();
    for n in SIZES {
        let x = floats(&mut rng, n);
        assert_close(reduce::sum_tree_f32(gpu(), &upload(&x)).unwrap().into(), &x, HALF_ULP);
    }
}

#[test]
fn the_result_has_one_element() {
    let x = upload(&[1.0f32; 10]);
    let mut scratch = Scratch::new(gpu()).unwrap();
    for len in [0, 2] {
        let error = reduce::sum_into(gpu(), &x, &mut poisoned(len), &mut scratch).unwrap_err();
        let line = format!("a reduction into one value: 1 elements are needed, {len} were given");
        assert_eq!(error.to_string(), line);
    }
}

#[test]
fn scratch_of_the_stated_size_does_not_grow() {
    let mut scratch = Scratch::new(gpu()).unwrap();
    scratch.reserve(gpu(), reduce::scratch_bytes()).unwrap();
    let before = scratch.size_bytes();
    let x = upload(&vec![3u64; 600 * tile::<u64>()]);
    let mut out = poisoned(1);
    reduce::argmin_into(gpu(), &x, &mut out, &mut scratch).unwrap();
    assert_eq!((out.to_vec().unwrap()[0], scratch.size_bytes()), (0, before));
}

#[test]
#[ignore = "needs 18 GB of device memory"]
fn more_than_2_32_elements() {
    let n = (1usize << 32) + 5;
    let mut x = DeviceBuffer::<f32>::zeroed(gpu(), n).unwrap();
    x.fill(1.0).unwrap();
    x.slice_mut(n - 1..).copy_from_host(&[-3.0]).unwrap();
    // Each running sum stays below 2^24, and so does each power of two that they are joined to.
    let expected = (1u64 << 32) as f32;
    let sum = reduce::sum(gpu(), &x).unwrap();
    assert!((sum - expected).abs() <= 512.0, "{sum}");
    assert_eq!(reduce::min(gpu(), &x).unwrap(), -3.0);
    assert_eq!(reduce::argmin(gpu(), &x).unwrap(), Some(n - 1));
    let bytes = x.as_slice().cast::<u32>().unwrap();
    let expected =
        (1.0f32.to_bits()).wrapping_mul((n - 1) as u32).wrapping_add((-3.0f32).to_bits());
    assert_eq!(reduce::sum(gpu(), &bytes).unwrap(), expected);
}
