//! A build with checks: what overflows panics, and debug assertions hold.

use cuda_std_tests::{device, done, download, poisoned, upload};
use ferrowarp::LaunchConfig;
use panics_debug_kernels::add;

device!("panics_debug");

static IMAGES: &[ferrowarp::module::Image] = ferrowarp::include_kernels!("panics_debug.rs");

/// The tests share a device, and so its panics: one at a time.
static ALONE: std::sync::Mutex<()> = std::sync::Mutex::new(());

#[test]
fn an_overflow_panics_with_its_place() {
    let _alone = ALONE.lock();
    let (x, mut out) = (upload(gpu(), &[1u8, 250, 255]), poisoned::<u8>(gpu(), 3));
    let config = LaunchConfig::for_num_elems(3);
    done(add::launch(gpu(), config, 5, &x, &mut out));
    let error = gpu().synchronize().expect_err("255 + 5");
    let panic = error.panic().unwrap_or_else(|| panic!("not a panic: {error}"));
    assert_eq!(panic.message, "attempt to add with overflow");
    assert_eq!((panic.kernel.as_str(), panic.thread, panic.others), ("add", [2, 0, 0], 0));
    assert!(panic.file.ends_with("panics_debug/src/lib.rs") && panic.line > 0, "{panic}");
    assert_eq!(download(&out), [6, 255, 0xA5]);
}

#[test]
fn a_debug_assertion_is_told() {
    let _alone = ALONE.lock();
    let (x, mut out) = (upload(gpu(), &[1u8; 100]), poisoned::<u8>(gpu(), 1));
    done(add::launch(gpu(), LaunchConfig::for_num_elems(1), 5, &x, &mut out));
    let error = gpu().synchronize().expect_err("100 bytes");
    let panic = error.panic().unwrap_or_else(|| panic!("not a panic: {error}"));
    assert_eq!(panic.message, "100 are too many");
}

#[test]
fn nothing_panics_in_the_panic_handler() {
    let ptx = IMAGES[0].ptx();
    let (_, kernel) = ptx.split_once(".entry add(").expect("the kernel is there");
    assert!(kernel.split("\n}\n").next().expect("its body").contains("9panicking"));
    // What begins a body, behind all declarations.
    for function in ["5panic6device6report(\n", "22ferrowarp_panic_values(\n"] {
        let (_, behind) = ptx.rsplit_once(function).expect(function);
        let body = behind.split("\n}\n").next().expect("its body");
        assert!(body.contains("\ttrap;\n") && !body.contains("9panicking"), "{body}");
    }
}
