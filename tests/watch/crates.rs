//! Kernel crates that are edited.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use cuda_builder::{CudaBuilder, CudaBuilderError, NvvmArch, Scope};
use ferrowarp::GpuError;
use ferrowarp::reload::{ReloadEvent, Watch};

use crate::stamps::{STAMP, bare, next, stamped, swapped};

const MANIFEST: &str = "[package]\nname = \"watched_kernels\"\nversion = \"0.0.0\"\n\
                        edition = \"2024\"\npublish = false\n\n[workspace]\n";

const ROOT: &str = r#"mod number;

fn index() -> usize {
    use core::arch::nvptx::*;
    unsafe { (_block_idx_x() * _block_dim_x() + _thread_idx_x()) as usize }
}

/// # Safety
/// `p` points to `len` words.
#[unsafe(no_mangle)]
pub unsafe extern "ptx-kernel" fn stamp(p: *mut u32, len: usize) {
    let index = index();
    if index < len {
        unsafe { *p.add(index) = number::NUMBER };
    }
}

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    loop {}
}
"#;

fn number(number: &str) -> String {
    format!("pub const NUMBER: u32 = {number};\n")
}

/// A crate of these files in a folder of its own.
fn new_crate(name: &str, manifest: &str, files: &[(&str, &str)]) -> PathBuf {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    if dir.exists() {
        fs::remove_dir_all(&dir).unwrap();
    }
    fs::create_dir_all(dir.join("src")).unwrap();
    fs::write(dir.join("Cargo.toml"), manifest).unwrap();
    for (file, text) in files {
        fs::write(dir.join("src").join(file), text).unwrap();
    }
    dir
}

/// A kernel crate whose `stamp` writes 1.
fn kernel_crate() -> PathBuf {
    let files = [("lib.rs", ROOT), ("number.rs", &number("1"))];
    new_crate("watched_kernels", MANIFEST, &files)
}

/// A builder in the project's own target directory, where `core` is compiled.
fn builder(dir: &Path) -> CudaBuilder {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("cuda-builder");
    CudaBuilder::new(dir).arch(NvvmArch::Compute70).target_dir(target)
}

fn watch(dir: &Path) -> Watch {
    // SAFETY: the crate's kernels stay inside the words that their launchers give.
    unsafe { Watch::builder(builder(dir)) }
}

#[test]
fn an_edit_is_built_and_swapped_and_a_wrong_one_shows_rustcs_words() {
    let (dir, gpu) = (kernel_crate(), bare());
    let hot = watch(&dir).require(&[&STAMP]).start(&gpu).unwrap();
    let events = hot.events();
    assert_eq!(stamped(&gpu, &hot), 1);

    fs::write(dir.join("src/number.rs"), number("2")).unwrap();
    assert_eq!((swapped(&events), stamped(&gpu, &hot)), (2, 2));
    assert_eq!(stamped(&gpu, &hot.version(1).unwrap()), 1);

    fs::write(dir.join("src/number.rs"), number("\"three\"")).unwrap();
    let text = next(&events, |event| match event {
        ReloadEvent::BuildFailed { error } => match &*error {
            CudaBuilderError::Rejected { messages } => Some(messages.clone()),
            other => panic!("{other}"),
        },
        ReloadEvent::Swapped { version, .. } => panic!("{version}"),
        _ => None,
    });
    for words in ["error[E0308]: mismatched types", "--> src/number.rs:1:25"] {
        assert!(text.contains(words), "no `{words}` in\n{text}");
    }
    assert_eq!(stamped(&gpu, &hot), 2);

    // A new file in a new folder, which replaces the old one, and a kernel without its length.
    fs::create_dir(dir.join("src/number")).unwrap();
    fs::write(dir.join("src/number/mod.rs"), number("4")).unwrap();
    fs::remove_file(dir.join("src/number.rs")).unwrap();
    assert_eq!((swapped(&events), stamped(&gpu, &hot)), (3, 4));
    fs::write(dir.join("src/number/mod.rs"), number("5")).unwrap();
    assert_eq!((swapped(&events), stamped(&gpu, &hot)), (4, 5));

    // Another folder of the same name, as a checkout leaves it.
    fs::rename(dir.join("src"), dir.join("before")).unwrap();
    fs::create_dir_all(dir.join("src/number")).unwrap();
    fs::copy(dir.join("before/lib.rs"), dir.join("src/lib.rs")).unwrap();
    fs::write(dir.join("src/number/mod.rs"), number("6")).unwrap();
    next(&events, |event| match event {
        ReloadEvent::Swapped { version, .. } => (version.number == 5).then_some(()),
        _ => None,
    });
    assert_eq!(stamped(&gpu, &hot), 6);
    fs::write(dir.join("src/number/mod.rs"), number("7")).unwrap();
    assert_eq!((swapped(&events), stamped(&gpu, &hot)), (6, 7));

    let shorter = ROOT.replace(", len: usize", "").replace("index < len", "index < 1");
    fs::write(dir.join("src/lib.rs"), shorter).unwrap();
    let (kernel, error) = next(&events, |event| match event {
        ReloadEvent::Refused { kernel, error } => Some((kernel, error)),
        ReloadEvent::Swapped { version, .. } => panic!("{version}"),
        _ => None,
    });
    assert!(matches!(error.root(), GpuError::WrongParameters { .. }), "{error}");
    assert_eq!((kernel.as_str(), stamped(&gpu, &hot)), ("stamp", 7));
    assert_eq!(hot.versions().len(), 6);
}

const PARTS: [(&str, &str); 5] = [
    ("lib.rs", "mod body;\nmod number;\npub mod others;\npub mod stamp;\n"),
    ("body.rs", "pub fn above(word: u32, number: u32) -> u32 {\n    word + number * 1\n}\n"),
    ("number.rs", "pub const NUMBER: u32 = 1;\n"),
    (
        "stamp.rs",
        "use cuda_std::prelude::*;\n\n#[kernel]\n\
         pub fn stamp(index: ThreadIndex, mut words: DisjointSlice<u32>) {\n    \
         if let Some(word) = words.get_mut(index) {\n        \
         *word = crate::body::above(*word, crate::number::NUMBER);\n    }\n}\n",
    ),
    (
        "others.rs",
        "use cuda_std::prelude::*;\n\n#[kernel(f32, u32, i32, u64)]\n\
         pub fn double<T: Copy + core::ops::Add<Output = T>>(\n    \
         index: ThreadIndex,\n    mut x: DisjointSlice<T>,\n) {\n    \
         if let Some(x) = x.get_mut(index) {\n        *x = *x + *x;\n    }\n}\n",
    ),
];

#[test]
fn what_an_edit_concerns_is_in_use_before_all_kernels_are_built() {
    let cuda_std = Path::new(env!("CARGO_MANIFEST_DIR")).join("rust-cuda/cuda_std");
    let manifest = MANIFEST.replace("watched_kernels", "watched_in_parts");
    let manifest = format!("{manifest}\n[dependencies]\ncuda_std = {{ path = {cuda_std:?} }}\n");
    let (dir, gpu) = (new_crate("watched_in_parts", &manifest, &PARTS), bare());
    let lock = Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.lock");
    fs::copy(lock, dir.join("Cargo.lock")).unwrap();
    // A source that is written just before a build counts as edited after it.
    thread::sleep(Duration::from_millis(100));
    let hot = watch(&dir).start(&gpu).unwrap();
    let events = hot.events();
    let edit = |file: &str, from: &str, to: &str| {
        let path = dir.join("src").join(file);
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.contains(from));
        fs::write(path, text.replace(from, to)).unwrap();
    };
    let built = || {
        next(&events, |event| match event {
            ReloadEvent::Built { scope, .. } => Some(scope),
            ReloadEvent::BuildFailed { error } => panic!("{error}"),
            _ => None,
        })
    };
    let part = Scope::Part { kernels: vec!["stamp".to_owned()] };
    assert_eq!(stamped(&gpu, &hot), 1);

    edit("body.rs", "* 1", "* 10");
    assert_eq!(built(), part);
    swapped(&events);
    assert_eq!(stamped(&gpu, &hot), 10);

    // Another edit, before all kernels are built: they are built once, after it.
    edit("body.rs", "* 10", "* 30");
    assert_eq!(built(), part);
    swapped(&events);
    assert_eq!(stamped(&gpu, &hot), 30);
    assert_eq!(built(), Scope::Whole);
    next(&events, |event| match event {
        ReloadEvent::Swapped { .. } | ReloadEvent::Unchanged { .. } => Some(()),
        _ => None,
    });
    assert_eq!(stamped(&gpu, &hot), 30);

    // No kernel has code of this file.
    edit("number.rs", "= 1", "= 2");
    assert_eq!(built(), Scope::Whole);
    swapped(&events);
    assert_eq!(stamped(&gpu, &hot), 60);
}
