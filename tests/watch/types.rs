//! A kernel whose parameters get other types: one test, since it builds.

use std::fs;
use std::path::{Path, PathBuf};

use cuda_builder::{CudaBuilder, NvvmArch};
use cuda_std::prelude::*;
use ferrowarp::error::LaunchBound;
use ferrowarp::reload::Watch;
use ferrowarp::{DeviceBuffer, Gpu, GpuError, HotModule, LaunchConfig, Planar};

use crate::stamps::{bare, load};

/// The kernel as this program was built with it.
#[kernel]
pub fn shift(index: ThreadIndex, x: &[f32], by: u32, mut out: DisjointSlice<f32>) {
    if let (Some(out), Some(x)) = (out.get_mut(index), x.get(index.get())) {
        *out = *x + by as f32;
    }
}

/// A kernel without a thread index: its launches may have any shape.
#[kernel]
pub fn add(mut out: DisjointSlice<u32>, n: u32) {
    let _ = (&mut out, n);
}

const ROOT: &str = "use cuda_std::prelude::*;
#[kernel]
pub fn add(mut out: DisjointSlice<u32>, n: u32) {
    let _ = (&mut out, n);
}
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
        workspace.join("rust-cuda/cuda_std")
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
    let kernels = [&shift::KERNEL, &add::KERNEL];
    // SAFETY: built from the kernel crate above, whose kernels are those of this program.
    let hot = unsafe { Watch::ptx(&file) }.require(&kernels).start(&gpu).unwrap();
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
        let error = load(&hot, built(&dir, edits)).unwrap_err();
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
        let error = load(&hot, built(&dir, edits)).unwrap_err();
        let GpuError::WrongParameters { kernel: "shift", expected, .. } = error.root() else {
            panic!("{error}")
        };
        assert_eq!(expected.len(), count, "{error}");
    }

    launches_that_no_longer_fit(&dir, &gpu, &hot);

    let renamed = [
        ("x: &[f32]", "input: &[Real]"),
        ("(index), x.get", "(index), input.get"),
        ("+ by", "+ 10.0 * by"),
    ];
    assert_eq!(load(&hot, built(&dir, &renamed)).unwrap().number(), 3);
    assert_eq!(shifted(&gpu, &hot, 4), [41.0, 42.0, 43.0]);
    // PTX from elsewhere says nothing of types.
    let foreign = built(&dir, &[("x: &[f32]", "x: &[u32]"), ("*x + by", "*x as f32 + by")]);
    let foreign: String = foreign
        .lines()
        .filter(|line| !line.starts_with("//"))
        .flat_map(|line| [line, "\n"])
        .collect();
    assert_eq!(load(&hot, foreign).unwrap().number(), 4);
}

/// `add` is launched in two dimensions, where one `ThreadIndex` is in eight threads.
fn launches_that_no_longer_fit(dir: &Path, gpu: &Gpu, hot: &HotModule) {
    let launched = || {
        let mut out = DeviceBuffer::<u32>::zeroed(gpu, 64).unwrap();
        let plane = LaunchConfig::from(Planar::new((1, 1), (8, 8)));
        add::launch(hot, plane, &mut out, 1).unwrap();
        out.to_vec().unwrap()
    };
    assert_eq!(launched(), [0; 64]);
    let (body, parameter) = ("let _ = (&mut out, n);", "pub fn add(mut out");
    let taking = |what: &str, uses: &str| {
        built(dir, &[(body, uses), (parameter, &format!("pub fn add({what}, mut out"))])
    };
    let each = "if let Some(out) = out.get_mut(index) { *out += n; }";
    let refused = [
        (
            taking("index: ThreadIndex", each),
            LaunchBound::AnyDimensions,
            LaunchBound::Dimensions(1),
        ),
        (
            taking("index: ThreadIndex2", "let _ = (index, &mut out, n);"),
            LaunchBound::AnyDimensions,
            LaunchBound::Dimensions(2),
        ),
        (
            taking("block: Block<64>", "let _ = (block.thread(), &mut out, n);"),
            LaunchBound::AnyBlock,
            LaunchBound::Block(64, 1, 1),
        ),
        (
            built(dir, &[(parameter, "pub unsafe fn add(mut out")]),
            LaunchBound::SafeLaunch,
            LaunchBound::UnsafeLaunch,
        ),
    ];
    for (ptx, gives, needs) in refused {
        let error = load(hot, ptx).unwrap_err();
        let GpuError::ContractChanged { kernel: "add", expected, found } = error.root() else {
            panic!("{error}")
        };
        assert_eq!((*expected, *found), (gives, needs));
        assert_eq!(launched(), [0; 64], "the version before is in use");
    }
    // No two threads of any grid have one of these.
    let spatial = taking("index: ThreadIndex3", "let _ = (index, &mut out, n);");
    assert_eq!(load(hot, spatial).unwrap().number(), 2);
}
