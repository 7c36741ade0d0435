//! A kernel crate that takes the shipped kernels as a library: reductions and scans by operators of its own.

use cuda_std::launch::Grid1;
use cuda_std_tests::{done, download, poisoned, upload};
use ferrowarp::DeviceBuffer;
use ferrowarp::module::Image;
use kernels_gpu::grid::reduce::{blocks, partial_words};
use kernels_gpu::grid::scan;
use operators_kernels::{Matrix, matrix_products, span};

cuda_std_tests::device!("operators");

static IMAGES: &[Image] = include!(concat!(env!("OUT_DIR"), "/operators.rs"));

/// Around a thread, a vector, a block and several, with ragged ends.
const SIZES: [usize; 8] = [1, 3, 31, 257, 4096, 8191, 30_000, 70_001];

#[test]
fn the_ptx_has_the_crates_own_entries_alone() {
    let entries = IMAGES[0].ptx.lines().filter_map(|line| line.split_once(".entry "));
    let mut names: Vec<_> = entries.map(|(_, header)| header.trim_end_matches('(')).collect();
    names.sort_unstable();
    assert_eq!(names, ["matrix_products", "span"]);
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
