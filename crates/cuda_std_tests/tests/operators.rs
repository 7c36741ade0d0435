//! A kernel crate that takes the shipped kernels as a library: reductions and scans by operators of its own.

use cuda_std::launch::Grid1;
use cuda_std_tests::{done, download, poisoned, run_alone, upload};
use ferrowarp::DeviceBuffer;
use ferrowarp::module::Image;
use kernels_gpu::reduce::{blocks, partial_words};
use kernels_gpu::{merge, scan};
use operators_kernels::{
    Matrix, Ordered, matrix_products, span, splits_of_keys, sums_without_contract,
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
    assert_eq!(names, ["matrix_products", "span", "splits_of_keys", "sums_without_contract"]);
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
