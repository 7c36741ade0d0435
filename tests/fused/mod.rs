//! The chapter's fused kernel: a crate outside of the workspace, compiled while the test runs, on the device.

use std::fs;
use std::path::Path;

use cuda_builder::{CudaBuilder, NvvmArch};
use cuda_std::bf16;
use cuda_std::launch::Grid1;
use ferrowarp::reload::Watch;
use ferrowarp::{DeviceBuffer, Gpu, TensorView, TensorViewMut};

use crate::stamps::bare;

#[allow(missing_docs, reason = "as the chapter has it")]
mod kernel;

const SOURCE: &str = include_str!("kernel.rs");
const CHAPTER: &str = include_str!("../../book/src/fused-product.md");

/// The kernel crate as a user would have it.
fn kernel_crate() -> CudaBuilder {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("fused_kernels");
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR"));
    fs::create_dir_all(dir.join("src")).unwrap();
    fs::copy(workspace.join("Cargo.lock"), dir.join("Cargo.lock")).unwrap();
    let manifest = format!(
        "[package]\nname = \"fused_kernels\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\
         publish = false\n\n[dependencies]\ncuda_std = {{ path = {:?} }}\n\n[workspace]\n",
        workspace.join("rust-cuda/cuda_std")
    );
    fs::write(dir.join("Cargo.toml"), manifest).unwrap();
    let root = "#![cfg_attr(target_os = \"cuda\", no_std)]\npub mod kernel;\n";
    fs::write(dir.join("src/lib.rs"), root).unwrap();
    fs::write(dir.join("src/kernel.rs"), SOURCE).unwrap();
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("cuda-builder");
    CudaBuilder::new(dir).arch(NvvmArch::Compute90a).target_dir(target)
}

/// Multiples of 1/32 from -1/4 to 1/4, whose products over a short depth have exact sums in f32.
fn quarters(n: usize, seed: usize) -> Vec<bf16> {
    (0..n).map(|i| bf16::from_f32((i * (7 + seed) % 17) as f32 / 32.0 - 0.25)).collect()
}

fn check(gpu: &Gpu, on: &ferrowarp::HotModule, [rows, columns, depth]: [usize; 3], blocks: u32) {
    let [x, gate, up] = [(rows * depth, 1), (columns * depth, 4), (columns * depth, 12)]
        .map(|(n, seed)| quarters(n, seed));
    let [on_x, on_gate, on_up] =
        [&x, &gate, &up].map(|m| DeviceBuffer::from_slice(gpu, m).unwrap());
    let mut y = DeviceBuffer::from_slice(gpu, &vec![bf16::NAN; rows * columns]).unwrap();
    let view = |m, rows: usize| TensorView::new(m, [rows, depth]).unwrap();
    let [of_x, of_gate, of_up] = [
        view(on_x.as_slice(), rows),
        view(on_gate.as_slice(), columns),
        view(on_up.as_slice(), columns),
    ];
    let of_y = TensorViewMut::new(y.as_mut_slice(), [rows, columns]).unwrap();
    let [m, n, k] = [rows, columns, depth].map(|size| size as u32);
    // SAFETY: the maps are of matrices of these sizes.
    unsafe {
        kernel::swiglu::launch(on, Grid1::new(blocks), m, n, k, &of_x, &of_gate, &of_up, &of_y)
    }
    .unwrap();
    drop(of_y);
    let sum = |row: usize, weight: &[bf16], column: usize| {
        (0..depth)
            .map(|k| x[row * depth + k].to_f64() * weight[column * depth + k].to_f64())
            .sum::<f64>()
    };
    for (index, found) in y.to_vec().unwrap().into_iter().enumerate() {
        let (row, column) = (index / columns, index % columns);
        let (gate, up) = (sum(row, &gate, column), sum(row, &up, column));
        let expected = gate / (1.0 + (-gate).exp()) * up;
        // Both sums are exact. The result is rounded to bf16, 2^-8 of it; before that the fast exponential, of an argument of at most 21 whose product with
        // log2 e is rounded, is off by 21 · 2^-24 + 2^-22, and each of three more operations by 2^-22 at most: less than 2^-18 together.
        let bound =
            (0.5f64.powi(8) + 0.5f64.powi(18)) * expected.abs() + f64::from(f32::MIN_POSITIVE);
        let off = (found.to_f64() - expected).abs();
        assert!(off <= bound, "row {row}, column {column}: {found}, not {expected}");
    }
}

#[test]
fn the_fused_kernel_of_the_chapter_multiplies() {
    assert!(
        CHAPTER.contains(SOURCE.split_once("\n\n").unwrap().1),
        "the chapter shows tests/fused/kernel.rs"
    );
    let compiled =
        kernel_crate().keep_messages(true).compile().unwrap_or_else(|error| panic!("{error}"));
    let gpu = bare();
    // SAFETY: built from the kernel crate above, whose kernel is that of this program.
    let hot = unsafe { Watch::ptx(&compiled.modules[0].path) }
        .require(&[&kernel::swiglu::KERNEL])
        .start(&gpu)
        .unwrap();
    // One tile; several, with ragged edges on all sides, for fewer blocks; more stages than the pipeline has, and only one.
    for (sizes, blocks) in [([128, 128, 64], 1), ([150, 264, 328], 4), ([8, 8, 8], 2)] {
        check(&gpu, &hot, sizes, blocks);
    }
}
