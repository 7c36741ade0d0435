//! A kernel crate that is edited: one test, since it builds.

use std::fs;
use std::path::{Path, PathBuf};

use cuda_builder::{CudaBuilder, CudaBuilderError, NvvmArch};
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

/// A kernel crate whose `stamp` writes 1.
fn kernel_crate() -> PathBuf {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("watched_kernels");
    if dir.exists() {
        fs::remove_dir_all(&dir).unwrap();
    }
    fs::create_dir_all(dir.join("src")).unwrap();
    fs::write(dir.join("Cargo.toml"), MANIFEST).unwrap();
    fs::write(dir.join("src/lib.rs"), ROOT).unwrap();
    fs::write(dir.join("src/number.rs"), number("1")).unwrap();
    dir
}

#[test]
fn an_edit_is_built_and_swapped_and_a_wrong_one_shows_rustcs_words() {
    let (dir, gpu) = (kernel_crate(), bare());
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("cuda-builder");
    let builder = CudaBuilder::new(&dir).arch(NvvmArch::Compute70).target_dir(target);
    let hot = Watch::builder(builder).require(&[&STAMP]).start(&gpu).unwrap();
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
