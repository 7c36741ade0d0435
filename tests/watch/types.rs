//! A kernel whose parameters get other types: one test, since it builds.

use std::fs;
use std::path::{Path, PathBuf};

use cuda_builder::{CudaBuilder, NvvmArch};
use cuda_std::prelude::*;
use ferrowarp::reload::Watch;
use ferrowarp::{DeviceBuffer, Gpu, GpuError, HotModule, LaunchConfig};

use crate::stamps::bare;

/// The kernel as this program was built with it.
#[kernel]
pub fn shift(index: ThreadIndex, x: &[f32], by: u32, mut out: DisjointSlice<f32>) {
    if let (Some(out), Some(x)) = (out.get_mut(index), x.get(index.get())) {
        *out = *x + by as f32;
    }
}

const ROOT: &str = "use cuda_std::prelude::*;
pub type Real = f32;
#[kernel]
pub fn shift(index: ThreadIndex, x: &[f32], by: u32, mut out: DisjointSlice<f32>) {
    if let (Some(out), Some(x)) = (out.get_mut(index), x.get(index.get())) {
        *out = (*x + by as Real) as f32;
    }
}
";

/// A kernel crate that uses the device library, in a folder of its own.
fn kernel_crate() -> PathBuf {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("typed_kernels");
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR"));
    fs::create_dir_all(dir.join("src")).unwrap();
    fs::copy(workspace.join("Cargo.lock"), dir.join("Cargo.lock")).unwrap();
    let manifest = format!(
        "[package]\nname = \"typed_kernels\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\
         publish = false\n\n[dependencies]\ncuda_std = {{ path = {:?} }}\n\n[workspace]\n",
        workspace.join("crates/cuda_std")
    );
    fs::write(dir.join("Cargo.toml"), manifest).unwrap();
    dir
}

/// The PTX of the crate with edits.
fn built(dir: &Path, edits: &[(&str, &str)]) -> String {
    let root = edits.iter().fold(ROOT.to_owned(), |root, (from, to)| {
        assert!(root.contains(from), "no {from}");
        root.replace(from, to)
    });
    fs::write(dir.join("src/lib.rs"), root).unwrap();
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("cuda-builder");
    let builder = CudaBuilder::new(dir).arch(NvvmArch::Compute80).target_dir(target);
    let compiled = builder.keep_messages(true).compile().unwrap_or_else(|error| panic!("{error}"));
    fs::read_to_string(&compiled.modules[0].path).unwrap()
}

fn shifted(gpu: &Gpu, hot: &HotModule, by: u32) -> Vec<f32> {
    let x = DeviceBuffer::from_slice(gpu, &[1.0f32, 2.0, 3.0]).unwrap();
    let mut out = DeviceBuffer::zeroed(gpu, 3).unwrap();
    shift::launch(hot, LaunchConfig::for_num_elems(3), &x, by, &mut out).unwrap();
    out.to_vec().unwrap()
}

#[test]
fn other_types_are_refused_and_other_names_are_not() {
    let (dir, gpu) = (kernel_crate(), bare());
    let first = built(&dir, &[]);
    let file = dir.join("first.ptx");
    fs::write(&file, &first).unwrap();
    let hot = Watch::ptx(&file).require(&[&shift::KERNEL]).start(&gpu).unwrap();
    assert_eq!(shifted(&gpu, &hot, 4), [5.0, 6.0, 7.0]);

    let refused = [
        (
            &[("x: &[f32]", "x: &[f64]"), ("by as Real", "by as f64")][..],
            "&[f64], u32, DisjointSlice<f32>",
        ),
        (
            &[("x: &[f32]", "x: &[u32]"), ("*x + by", "*x as f32 + by")],
            "&[u32], u32, DisjointSlice<f32>",
        ),
        (&[("by: u32", "by: f32")], "&[f32], f32, DisjointSlice<f32>"),
        (
            &[("x: &[f32]", "x: &[Real]"), ("Real = f32", "Real = f64")],
            "&[Real], u32, DisjointSlice<f32>",
        ),
    ];
    for (edits, types) in refused {
        let error = hot.load_ptx(built(&dir, edits)).unwrap_err();
        let GpuError::WrongTypes { kernel: "shift", expected, found } = error.root() else {
            panic!("{types}: {error}")
        };
        assert_eq!((expected.as_str(), found.as_str()), ("&[f32], u32, DisjointSlice<f32>", types));
    }
    let sizes = [
        (&[("by: u32", "by: u32, more: u32"), ("by as Real", "(by + more) as Real")][..], 6),
        (&[("by: u32, ", ""), ("by as Real", "1.0")], 4),
        (&[("by: u32", "by: u64")], 5),
    ];
    for (edits, count) in sizes {
        let error = hot.load_ptx(built(&dir, edits)).unwrap_err();
        let GpuError::WrongParameters { kernel: "shift", expected, .. } = error.root() else {
            panic!("{error}")
        };
        assert_eq!(expected.len(), count, "{error}");
    }

    let renamed = [
        ("x: &[f32]", "input: &[Real]"),
        ("(index), x.get", "(index), input.get"),
        ("+ by", "+ 10.0 * by"),
    ];
    assert_eq!(hot.load_ptx(built(&dir, &renamed)).unwrap().number(), 2);
    assert_eq!(shifted(&gpu, &hot, 4), [41.0, 42.0, 43.0]);
    // PTX from elsewhere says nothing of types.
    let foreign = built(&dir, &[("x: &[f32]", "x: &[u32]"), ("*x + by", "*x as f32 + by")]);
    let foreign: String = foreign
        .lines()
        .filter(|line| !line.starts_with("//"))
        .flat_map(|line| [line, "\n"])
        .collect();
    assert_eq!(hot.load_ptx(foreign).unwrap().number(), 3);
}
