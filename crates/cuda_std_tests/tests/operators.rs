//! A kernel crate that takes the shipped kernels as a library: reductions and scans by operators of its own.

use cuda_std::launch::Grid1;
use cuda_std_tests::{done, download, poisoned, run_alone, upload};
use ferrowarp::module::Image;
use ferrowarp::ops::select::Where;
use ferrowarp::{DeviceBuffer, GpuError, GpuResult, LaunchConfig, ops};
use kernels_gpu::reduce::{blocks, partial_words};
use kernels_gpu::{merge, scan};
use operators_kernels::{
    Above, Affine, Axpy, Matrix, Negate, Ordered, Span, Within, Xor, apply_in_place,
    matrix_products, span, splits_of_keys, sums_without_contract,
};

cuda_std_tests::device!("operators");

static IMAGES: &[Image] = ferrowarp::include_kernels!("operators.rs");

/// Around a thread, a vector, a block and several, with ragged ends.
const SIZES: [usize; 8] = [1, 3, 31, 257, 4096, 8191, 30_000, 70_001];

#[test]
fn the_ptx_has_the_crates_own_entries_alone() {
    let entries = IMAGES[0].ptx().lines().filter_map(|line| line.split_once(".entry "));
    let mut names: Vec<_> = entries.map(|(_, header)| header.trim_end_matches('(')).collect();
    names.sort_unstable();
    let expected = "above_bf16_FINISH above_bf16_MIDDLE above_bf16_NARROW above_bf16_SKINNY above_bf16_SLIM above_bf16_SQUARE above_bf16_WARPS \
        above_bf16_WIDE affine_f32 affine_f64 apply_in_place_f32_Affine apply_in_place_u32_Xor axpy_f32 matrix_products negate_f32 span span_f32 splits_of_keys sums_without_contract within_f32";
    assert_eq!(names.join(" "), expected);
}

#[test]
fn a_reduction_by_an_operator_of_ones_own() {
    for n in SIZES {
        let x: Vec<f32> =
            (0..n as u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 12) as f32).collect();
        let grid = blocks(4 * n);
        let mut partials = poisoned::<u32>(gpu(), partial_words::<[f32; 2]>(grid as usize));
        let mut finished = DeviceBuffer::<u32>::zeroed(gpu(), 1).unwrap();
        let mut out = poisoned(gpu(), 1);
        let (x_gpu, grid) = (upload(gpu(), &x), Grid1::new(grid));
        done(span::launch(gpu(), grid, 77.0, &x_gpu, &mut partials, &mut finished, &mut out));
        let differences = x.iter().map(|x| x - 77.0);
        let least = differences.clone().fold(f32::INFINITY, f32::min);
        let greatest = differences.fold(f32::NEG_INFINITY, f32::max);
        assert_eq!(download(&out), [[least, greatest]], "{n} elements");
        assert_eq!(download(&finished), [0]);
    }
}

/// The product of two matrices.
fn product(a: Matrix, b: Matrix) -> Matrix {
    let mut all = [0u32; 4];
    for (i, sum) in all.iter_mut().enumerate() {
        for k in 0..2 {
            *sum = sum.wrapping_add(a[i / 2 * 2 + k].wrapping_mul(b[2 * k + i % 2]));
        }
    }
    all
}

#[test]
fn a_scan_by_an_operator_of_ones_own() {
    for n in SIZES {
        let number = |i: usize| (i as u32).wrapping_mul(2_654_435_761) >> 9;
        let x: Vec<Matrix> = (0..n).map(|i| [0, 1, 2, 3].map(|k| number(4 * i + k))).collect();
        let mut products = vec![[1, 0, 0, 1]];
        x.iter().for_each(|&matrix| products.push(product(products[products.len() - 1], matrix)));
        for exclusive in [false, true] {
            let words = scan::scratch_len::<Matrix, Matrix>(n);
            let mut states = DeviceBuffer::<u64>::zeroed(gpu(), words).unwrap();
            let (x_gpu, mut out) = (upload(gpu(), &x), poisoned(gpu(), n));
            let info = gpu().info();
            let shared = scan::shared_bytes(info.shared_mem_per_block_optin_bytes as usize);
            let blocks = scan::blocks::<Matrix, Matrix>(n, info.multiprocessors);
            let grid = Grid1::new(blocks).shared_mem(shared as u32);
            done(matrix_products::launch(gpu(), grid, &x_gpu, exclusive, &mut states, &mut out));
            let expected = if exclusive { &products[..n] } else { &products[1..] };
            assert_eq!(download(&out), expected, "{n} matrices");
        }
    }
}

#[test]
fn a_scan_without_its_shared_memory_panics() {
    // A stream of its own: whoever waits for a kernel that panicked is told.
    let (stream, n) = (gpu().create_stream().unwrap(), 1 << 14);
    let x = DeviceBuffer::from_slice(&stream, &vec![1u32; n]).unwrap();
    let words = scan::scratch_len::<u32, u32>(n);
    let mut states = DeviceBuffer::<u64>::zeroed(&stream, words).unwrap();
    let mut out = DeviceBuffer::<u32>::zeroed(&stream, n).unwrap();
    done(sums_without_contract::launch(&stream, Grid1::new(4), &x, &mut states, &mut out));
    let error = stream.synchronize().expect_err("there is no shared memory");
    let panic = error.panic().unwrap_or_else(|| panic!("not a panic: {error}"));
    assert_eq!(panic.message, "a scan has memory for a tile");
}

/// One block, which meets nobody else at the tiles that it takes.
#[test]
fn a_scan_with_states_of_anything_stays_in_its_memory() {
    let n = 1 << 14;
    let x = upload(gpu(), &vec![1u32; n]);
    let states = vec![0xffff_ffff_0000_0003u64; scan::scratch_len::<u32, u32>(n)];
    let (mut states, mut out) = (upload(gpu(), &states), poisoned(gpu(), n));
    let shared = scan::shared_bytes(gpu().info().shared_mem_per_block_optin_bytes as usize);
    let grid = Grid1::new(1).shared_mem(shared as u32);
    done(sums_without_contract::launch(gpu(), grid, &x, &mut states, &mut out));
    assert_eq!(download::<u32>(&out).len(), n);
}

/// The splits of two arrays of even and of odd numbers, by a kernel that a warp may leave before.
fn splits_of(leaves: bool) -> Vec<u64> {
    let numbers = |first: u32| (0..5000).map(|i| 2 * i + first).collect::<Vec<u32>>();
    let keys = |numbers: Vec<u32>| upload(gpu(), bytemuck::cast_slice::<u32, Ordered>(&numbers));
    let (a, b, mut splits) = (keys(numbers(0)), keys(numbers(1)), poisoned(gpu(), 4));
    let grid = Grid1::new(1);
    done(splits_of_keys::launch(gpu(), grid, leaves.into(), &a, &b, &mut splits));
    download(&splits)
}

#[test]
fn splits_of_keys_of_ones_own() {
    let tile = merge::tile_len::<u32>();
    let expected: Vec<u64> = (0..4).map(|i| (i * tile).min(10_000).div_ceil(2) as u64).collect();
    assert_eq!(splits_of(false), expected);
}

/// With the `memory` check alone: the others name the cause, a barrier that threads have left before.
#[test]
fn a_merge_that_a_warp_has_left_stays_in_its_memory() {
    run_alone("left_early", &[("FERROWARP_CHECK", "memory")]);
}

#[test]
#[ignore = "in a process of its own, with other checks"]
fn left_early() {
    assert_eq!(splits_of(true).len(), 4);
}

/// Sizes around a vector, a warp, a block and a tile, nothing at all, and primes.
const FUNCTOR_SIZES: [usize; 12] = [0, 1, 3, 31, 32, 33, 255, 256, 257, 8191, 10_007, 70_001];

/// Numbers between -500 and 500.
fn numbers(n: usize, salt: u32) -> Vec<f32> {
    let number = |i: u32| (i.wrapping_mul(2_654_435_761).wrapping_add(salt) >> 12) as f32;
    (0..n as u32).map(|i| number(i) / 1048.576 - 500.0).collect()
}

#[test]
fn a_map_by_a_functor_with_captured_values() -> GpuResult<()> {
    for n in FUNCTOR_SIZES {
        let (x, affine) = (numbers(n, 1), Affine { factor: 2.5, shift: -1.0 });
        let mapped = ops::map(gpu(), affine, &upload(gpu(), &x))?;
        let expected: Vec<f32> = x.iter().map(|x| 2.5f32.mul_add(*x, -1.0)).collect();
        assert_eq!(download(&mapped), expected, "{n} elements");
    }
    Ok(())
}

#[test]
fn a_functor_that_captures_nothing_costs_no_parameter() -> GpuResult<()> {
    let entry = IMAGES[0].ptx();
    let entry = entry.split(".entry negate_f32(").nth(1).expect("the kernel is listed");
    let params = entry.split(')').next().expect("a list of parameters");
    assert_eq!(params.matches(".param").count(), 4, "two pointers and two lengths: {params}");
    let x = numbers(257, 6);
    let expected: Vec<f32> = x.iter().map(|x| -x).collect();
    assert_eq!(download(&ops::map(gpu(), Negate, &upload(gpu(), &x))?), expected);
    Ok(())
}

/// An element of 8 bytes becomes one of 1 byte, into memory that begins anywhere.
#[test]
fn a_map_to_another_size_of_element() -> GpuResult<()> {
    for (n, first) in [(0, 0), (1, 1), (33, 3), (257, 5), (10_007, 7)] {
        let x: Vec<f64> = numbers(n, 2).into_iter().map(f64::from).collect();
        let mut out = upload(gpu(), &vec![0xaau8; first + n]);
        let affine = Affine { factor: 0.25, shift: 128.0 };
        ops::map::map_into(gpu(), affine, &upload(gpu(), &x), &mut out.slice_mut(first..))?;
        let expected = x.iter().map(|x| (0.25 * x + 128.0) as u8);
        let expected: Vec<u8> = std::iter::repeat_n(0xaa, first).chain(expected).collect();
        assert_eq!(download(&out), expected, "{n} elements");
    }
    Ok(())
}

#[test]
fn a_zip_by_a_functor_with_captured_values() -> GpuResult<()> {
    for n in FUNCTOR_SIZES {
        let (x, y) = (numbers(n, 1), numbers(n, 9));
        let zipped = ops::zip(gpu(), Axpy { a: 0.3 }, &upload(gpu(), &x), &upload(gpu(), &y))?;
        let expected: Vec<f32> = x.iter().zip(&y).map(|(x, y)| 0.3f32.mul_add(*x, *y)).collect();
        assert_eq!(download(&zipped), expected, "{n} elements");
    }
    Ok(())
}

#[test]
fn a_reduction_by_a_functor_with_captured_values() -> GpuResult<()> {
    for n in FUNCTOR_SIZES {
        let x = numbers(n, 3);
        let found = ops::reduce::by(gpu(), Span { centre: 12.0 }, &upload(gpu(), &x))?;
        let differences = x.iter().map(|x| x - 12.0);
        let least = differences.clone().fold(f32::INFINITY, f32::min);
        let greatest = differences.fold(f32::NEG_INFINITY, f32::max);
        assert_eq!(found, [least, greatest], "{n} elements");
    }
    Ok(())
}

#[test]
fn a_selection_by_a_functor_with_captured_values() -> GpuResult<()> {
    for n in FUNCTOR_SIZES {
        let mut x = numbers(n, 4);
        if let Some(last) = x.last_mut() {
            *last = f32::NAN;
        }
        let within = Within { low: -100.0, high: 250.0 };
        let keeps = |x: &f32| -100.0 <= *x && *x <= 250.0;
        let device = upload(gpu(), &x);
        let kept: Vec<f32> = x.iter().copied().filter(keeps).collect();
        assert_eq!(
            download(&ops::select::by(gpu(), Where(within), &device)?),
            kept,
            "{n} elements"
        );
        let (parts, count) = ops::select::partition(gpu(), Where(within), &device)?;
        let others = x.iter().rev().filter(|x| !keeps(x)).map(|x| x.to_bits());
        let expected: Vec<u32> = kept.iter().map(|x| x.to_bits()).chain(others).collect();
        let parts: Vec<u32> = download(&parts).into_iter().map(f32::to_bits).collect();
        assert_eq!((count, parts), (kept.len(), expected), "{n} elements");
    }
    Ok(())
}

#[test]
fn a_functor_in_a_generic_kernel_of_ones_own() -> GpuResult<()> {
    let (n, config) = (1000, LaunchConfig::for_num_elems(1000));
    let x = numbers(n, 5);
    let mut floats = upload(gpu(), &x);
    let affine = Affine { factor: -1.0, shift: 0.5 };
    apply_in_place::<f32, Affine>::launch(gpu(), config, affine, &mut floats)?;
    let expected: Vec<f32> = x.iter().map(|x| 0.5 - x).collect();
    assert_eq!(download(&floats), expected);
    let mut words = upload(gpu(), &(0..n as u32).collect::<Vec<_>>());
    apply_in_place::launch(gpu(), config, Xor { mask: 0xff }, &mut words)?;
    assert_eq!(download(&words), (0..n as u32).map(|x| x ^ 0xff).collect::<Vec<_>>());
    Ok(())
}

#[test]
fn a_functor_on_arrays_of_other_lengths_is_refused() {
    let (a, b) = (upload(gpu(), &[1.0f32; 4]), upload(gpu(), &[1.0f32; 5]));
    let mut out = upload(gpu(), &[0.0f32; 4]);
    let affine = Affine { factor: 1.0, shift: 0.0 };
    let refused = [
        ops::map::map_into(gpu(), affine, &b, &mut out),
        ops::map::zip_into(gpu(), Axpy { a: 1.0 }, &a, &b, &mut out),
    ];
    for error in refused.map(|result| result.expect_err("the lengths differ")) {
        assert!(matches!(error, GpuError::SizeMismatch { expected: _, found: _, .. }), "{error}");
    }
}

#[test]
fn an_epilogue_of_ones_own() -> GpuResult<()> {
    use cuda_std::bf16;
    use ferrowarp::ops::matmul::{Matrix, MatrixMut, Options, matmul_into};

    let (m, n, k) = (70, 40, 64);
    // Element (i, j) of the product is 64 (i % 5) where j is even, and 0 elsewhere.
    let a: Vec<bf16> = (0..m * k).map(|at| bf16::from_f32((at / k % 5) as f32)).collect();
    let b: Vec<bf16> = (0..k * n).map(|at| bf16::from_f32((at % 2) as f32)).collect();
    let (a, b) = (upload(gpu(), &a), upload(gpu(), &b));
    let per_row: Vec<f32> = (0..m).map(|i| -(i as f32)).collect();
    let per_row = upload(gpu(), &per_row);
    let above = Above { threshold: 100.0, columns: 36 };
    for is_column_major in [false, true] {
        let mut d = poisoned::<f32>(gpu(), m * n);
        let view = match is_column_major {
            false => MatrixMut::row_major(&mut d, m, n)?,
            true => MatrixMut::column_major(&mut d, m, n)?,
        };
        let (a, b) = (Matrix::row_major(&a, m, k)?, Matrix::row_major(&b, k, n)?);
        let options = Options::new().epilogue(above).per_row(&per_row);
        matmul_into(gpu(), a, b, view, options, &mut ops::Scratch::new(gpu())?)?;
        for (at, found) in download(&d).into_iter().enumerate() {
            let (i, j) = if is_column_major { (at % m, at / m) } else { (at / n, at % n) };
            let value = (64 * (i % 5) * (j % 2)) as f32;
            let chosen = if value > 100.0 { value } else { -(i as f32) };
            assert_eq!(found, if j < 36 { chosen } else { 0.0 }, "({i}, {j}) {is_column_major}");
        }
    }
    Ok(())
}

/// An epilogue of one's own with values of its own, in a product whose last tiles are streamed: K is divided although the crate has no kernel for partial sums.
#[test]
fn an_epilogue_of_ones_own_takes_streamed_tiles() -> GpuResult<()> {
    use cuda_std::bf16;
    use ferrowarp::ops::matmul::{Matrix, MatrixMut, Options, choices, matmul_into};

    // Two tiles of 192 columns, with a step or two for each block of a device.
    let blocks = gpu().info().multiprocessors as usize;
    let (m, n, k) = (3, 200, 64 * (blocks / 2) + 64);
    // Element (i, j) of the product is k i / 64, where j is even, and 0 elsewhere.
    let a: Vec<bf16> = (0..m * k).map(|at| bf16::from_f32((at / k) as f32 / 64.0)).collect();
    let b: Vec<bf16> = (0..k * n).map(|at| bf16::from_f32(((at + 1) % 2) as f32)).collect();
    let (a, b) = (upload(gpu(), &a), upload(gpu(), &b));
    let (a, b) = (Matrix::row_major(&a, m, k)?, Matrix::row_major(&b, k, n)?);
    let per_row = upload(gpu(), &[-1.0f32, -2.0, -3.0]);
    let above = Above { threshold: 1.5 * k as f32 / 64.0, columns: 190 };
    let mut d = poisoned::<f32>(gpu(), m * n);
    let all = choices(gpu(), a, b, &MatrixMut::row_major(&mut d, m, n)?)?;
    for choice in all.into_iter().filter(|choice| choice.streamed > 0) {
        d.copy_from_host(&vec![f32::NAN; m * n])?;
        let options = Options::new().epilogue(above).per_row(&per_row).choice(choice);
        let view = MatrixMut::row_major(&mut d, m, n)?;
        matmul_into(gpu(), a, b, view, options, &mut ops::Scratch::new(gpu())?)?;
        for (at, found) in download(&d).into_iter().enumerate() {
            let (i, j) = (at / n, at % n);
            let value = if i == 2 && j % 2 == 0 { k as f32 / 32.0 } else { -(i as f32) - 1.0 };
            assert_eq!(found, if j < 190 { value } else { 0.0 }, "({i}, {j}) by {choice}");
        }
    }
    Ok(())
}

/// A device without the functor's kernel crate: the error names the kernel, and how to load it.
#[test]
fn a_functor_whose_kernels_are_not_loaded_is_an_error() -> GpuResult<()> {
    let bare = ferrowarp::Gpu::new()?;
    let x = DeviceBuffer::from_slice(&bare, &[1.0f32; 3])?;
    let error = ops::map(&bare, Affine { factor: 1.0, shift: 0.0 }, &x).expect_err("not loaded");
    assert!(error.to_string().contains("affine_f32"), "{error}");
    Ok(())
}
