//! Printing, the device's heap, assertions, clocks.

use super::gpu::Gpu;
use emulator::TrapKind;
use emulator::fault::{Nearest, RegionKind};
use emulator::memory::FreeError;
use std::sync::{Arc, Mutex};

fn gpu() -> Gpu {
    Gpu::new(include_str!("runtime.ptx"))
}

/// What kernels print from now on, a piece for each `printf`.
fn printed(gpu: &Gpu) -> Arc<Mutex<Vec<String>>> {
    let pieces = Arc::new(Mutex::new(Vec::new()));
    let sink = Arc::clone(&pieces);
    gpu.device.system().print_to(Arc::new(move |text| {
        sink.lock().unwrap().push(String::from_utf8(text.to_vec()).unwrap());
    }));
    pieces
}

#[test]
fn print_types() {
    let gpu = gpu();
    let pieces = printed(&gpu);
    gpu.run("print_types", 1, 64, &[&42]);
    let expected = [
        "plain\n",
        "-42 42 3000000000 ff FF 010|\n",
        "   42|42   |00042|+42| 42\n",
        "-1 -2 18446744073709551615 7 -3 200\n",
        "1.500000 3.14     -2.500 2.2       | 1.234568e+04 1E-05\n",
        "ok text tru    right| %\n",
        "    42 42  | 2.000\n",
        "0x1234\n",
    ];
    assert_eq!(*pieces.lock().unwrap(), expected);
}

#[test]
fn print_all() {
    let gpu = gpu();
    let pieces = printed(&gpu);
    let returned = gpu.buffer(&[9i32; 70]);
    gpu.run("print_all", 1, 70, &[&returned]);
    let mut lines = pieces.lock().unwrap().clone();
    lines.sort_by_key(|line| line[7..].trim().parse::<u32>().unwrap());
    let expected: Vec<String> = (0..70).map(|t| format!("thread {t}\n")).collect();
    assert_eq!(lines, expected);
    assert_eq!(returned.read(), [1; 70]);
}

#[test]
fn lists_live_from_one_kernel_to_the_next() {
    let gpu = gpu();
    let (heads, sums) = (gpu.buffer(&[0u64; 40]), gpu.buffer(&[0i32; 40]));
    gpu.run("build_list", 1, 40, &[&heads, &10]);
    assert_eq!(gpu.device.system().heap.used(), 40 * 10 * 16);
    gpu.run("sum_list", 1, 40, &[&heads, &sums]);
    let squares: i32 = (0..10).map(|i| i * i).sum();
    assert_eq!(sums.read(), (0..40).map(|t| squares + 10 * t).collect::<Vec<_>>());
    assert_eq!(gpu.device.system().heap.used(), 0);
    let trap = gpu.launch("sum_list", (1, 40, 0), &[&heads, &sums]).unwrap_err();
    assert!(trap.to_string().contains("freed device-heap allocation"), "{trap}");
}

#[test]
fn heap_limits() {
    let gpu = gpu();
    let out = gpu.buffer(&[7i32; 2]);
    gpu.run("heap_limits", 1, 1, &[&(9u64 << 20), &out]);
    assert_eq!(out.read(), [1, 4950]);
    gpu.device.system().heap.set_limit(16 << 20);
    gpu.run("heap_limits", 1, 1, &[&(9u64 << 20), &out]);
    assert_eq!(out.read(), [0, 4950]);
    gpu.device.system().heap.set_limit(4 << 20);
    let trap = gpu.launch("heap_limits", (1, 1, 0), &[&64u64, &out]).unwrap_err();
    assert!(matches!(trap.kind, TrapKind::OutOfBounds { address: 0..800, .. }), "{trap}");
}

#[test]
fn heap_overrun() {
    let gpu = gpu();
    gpu.run("heap_overrun", 1, 1, &[&3]);
    let trap = gpu.launch("heap_overrun", (1, 1, 0), &[&4]).unwrap_err();
    let expected = Some(RegionKind::Heap);
    assert!(
        matches!(&trap.kind, TrapKind::OutOfBounds { nearest: Some(Nearest { kind, bytes: 16, .. }), .. } if Some(*kind) == expected),
        "{trap}"
    );
    assert!(
        trap.to_string().contains("0 bytes past the end of the 16-byte device-heap allocation")
    );
}

#[test]
fn heap_after_free() {
    let gpu = gpu();
    let trap = gpu.launch("heap_after_free", (1, 1, 0), &[&gpu.buffer(&[0i32])]).unwrap_err();
    assert!(trap.to_string().contains("0 bytes into the 16-byte freed device-heap"), "{trap}");
}

#[test]
fn heap_freed_twice() {
    let gpu = gpu();
    let trap = gpu.launch("heap_freed_twice", (1, 1, 0), &[]).unwrap_err();
    let twice = FreeError::AlreadyFreed { address: 0 };
    assert!(
        matches!(&trap.kind, TrapKind::InvalidFree { why, .. } if std::mem::discriminant(why) == std::mem::discriminant(&twice)),
        "{trap}"
    );
    assert!(trap.to_string().contains("has already been freed"), "{trap}");
}

#[test]
fn check_positive() {
    let gpu = gpu();
    gpu.run("check_positive", 1, 3, &[&gpu.buffer(&[1, 2, 3])]);
    let trap = gpu.launch("check_positive", (1, 3, 0), &[&gpu.buffer(&[1, 0, 3])]).unwrap_err();
    assert_eq!(trap.thread, [1, 0, 0]);
    let TrapKind::Assertion { condition, place } = &trap.kind else { panic!("{trap}") };
    assert_eq!(condition, "in[threadIdx.x] > 0");
    assert!(place.starts_with("runtime.cu:"), "{place}");
    assert!(place.contains("check_positive"), "{place}");
}

#[test]
fn clocks() {
    let gpu = gpu();
    let out = gpu.buffer(&[0u32; 64]);
    gpu.run("clocks", 1, 64, &[&out]);
    assert_eq!(out.read(), [3; 64]);
}
