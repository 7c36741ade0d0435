//! Launches: arguments in every form, and a kernel from PTX text to its results.

mod common;

use std::ffi::c_void;
use std::ptr::null_mut;

use common::*;
use cuda_driver::*;

#[test]
fn vecadd_from_text_to_sums() {
    context();
    let kernel = function(load(), "vecadd");
    for n in [1_usize, 31, 32, 33, 255, 256, 257, 10_007] {
        let a: Vec<f32> = (0..n).map(|i| i as f32 * 0.5).collect();
        let b: Vec<f32> = (0..n).map(|i| 1000.0 - i as f32).collect();
        let [da, db, dc] = [alloc(4 * n), alloc(4 * n), alloc(4 * n)];
        ok!(cuMemcpyHtoD_v2(da, host_slice(&a), 4 * n));
        ok!(cuMemcpyHtoD_v2(db, host_slice(&b), 4 * n));
        ok!(cuMemsetD8_v2(dc, 0xff, 4 * n));
        let grid = [n.div_ceil(256) as u32, 1, 1];
        let count = n as u32;
        let params = [host(&da), host(&db), host(&dc), host(&count)];
        assert_eq!(launch_sized(kernel, grid, [256, 1, 1], 0, NULL, &params), 0);
        let mut c = vec![0_f32; n];
        ok!(cuMemcpyDtoH_v2(host_slice_mut(&mut c), dc, 4 * n));
        let sums: Vec<f32> = a.iter().zip(&b).map(|(a, b)| a + b).collect();
        assert_eq!(c, sums, "n = {n}");
        for address in [da, db, dc] {
            ok!(cuMemFree_v2(address));
        }
    }
}

/// What the kernel `mixed` writes.
#[repr(C)]
#[derive(Debug, Default, Clone, Copy, PartialEq)]
struct Mixed {
    a: u32,
    b: u32,
    c: f64,
    d: u32,
}

const MIXED: Mixed = Mixed { a: 200, b: 60_000, c: -0.125, d: 0xdead_beef };

fn read_mixed(address: CUdeviceptr) -> Mixed {
    let mut read = [Mixed::default()];
    ok!(cuMemcpyDtoH_v2(host_slice_mut(&mut read), address, 20));
    read[0]
}

#[test]
fn arguments_of_all_sizes_arrive() {
    context();
    let (kernel, out) = (function(load(), "mixed"), alloc(24));
    let (a, b) = (MIXED.a as u8, MIXED.b as u16);
    let params = [host(&a), host(&b), host(&out), host(&MIXED.c), host(&MIXED.d)];
    assert_eq!(launch(kernel, NULL, &params), 0);
    assert_eq!(read_mixed(out), MIXED);
}

/// The arguments of `mixed` in one buffer, as the kernel lays them out.
#[repr(C)]
struct Packed {
    a: u8,
    b: u16,
    out: u64,
    c: f64,
    d: u32,
}

fn launch_packed(kernel: CUfunction, packed: &Packed, bytes: usize) -> ResultCode {
    let mark = |number: usize| HostPtr(number as *mut c_void);
    let extra = [mark(1), host(packed), mark(2), host(&bytes), mark(0)];
    code!(cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, NULL, In::NULL, In::from(&extra[..])))
}

#[test]
fn arguments_in_one_buffer_arrive() {
    context();
    let (kernel, out) = (function(load(), "mixed"), alloc(24));
    let Mixed { a, b, c, d } = MIXED;
    let packed = Packed { a: a as u8, b: b as u16, out, c, d };
    assert_eq!(launch_packed(kernel, &packed, 28), 0, "{:?}", take_detail());
    assert_eq!(read_mixed(out), MIXED);
}

#[test]
fn arguments_that_do_not_fit_are_named() {
    in_child("arguments_that_do_not_fit_are_named", || {
        // NVIDIA's driver cannot tell, or crashes.
        force_emulator();
        context();
        let (kernel, out) = (function(load(), "mixed"), alloc(24));
        let Mixed { a, b, c, d } = MIXED;
        let packed = Packed { a: a as u8, b: b as u16, out, c, d };
        assert_eq!(launch_packed(kernel, &packed, 12), CUDA_ERROR_INVALID_VALUE);
        let text = take_detail().unwrap().text;
        assert!(text.contains("kernel `mixed` takes 28 bytes"), "{text}");
        let code = launch_packed(kernel, &packed, 40);
        assert_eq!(code, CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
        assert_eq!(launch(kernel, NULL, &[]), CUDA_ERROR_INVALID_VALUE);
        let text = take_detail().unwrap().text;
        assert!(text.contains("takes 5 arguments and was given none"), "{text}");
        let nulls = [HostPtr(null_mut()); 5];
        assert_eq!(launch(kernel, NULL, &nulls), CUDA_ERROR_INVALID_VALUE);
        let text = take_detail().unwrap().text;
        assert!(text.contains("argument 0 of the 5"), "{text}");
        ok!(cuCtxSynchronize());
    });
}

#[test]
fn arguments_are_read_at_the_launch() {
    context();
    let (kernel, stream, cell) = (function(load(), "store"), stream(0), alloc(4));
    for value in 0..20_u32 {
        let argument = Box::new(value);
        assert_eq!(launch(kernel, stream, &[host(&cell), host(&*argument)]), 0);
    }
    ok!(cuStreamSynchronize(stream));
    assert_eq!(read_u32(cell), 19);
}

#[test]
fn a_launch_from_a_config_runs() {
    context();
    let (kernel, cell) = (function(load(), "store"), alloc(4));
    let mut config = CUlaunchConfig {
        grid: [1; 3],
        block: [1; 3],
        shared_mem_bytes: 0,
        stream: NULL,
        attributes: In::NULL,
        n_attributes: 0,
    };
    let params = [host(&cell), host(&31_u32)];
    let launch = |config: &CUlaunchConfig| {
        code!(cuLaunchKernelEx(In::from(config), kernel, In::from(&params[..]), In::NULL))
    };
    assert_eq!(launch(&config), 0, "{:?}", take_detail());
    ok!(cuCtxSynchronize());
    assert_eq!(read_u32(cell), 31);
    config.block = [0; 3];
    assert_eq!(launch(&config), CUDA_ERROR_INVALID_VALUE);
}

#[test]
fn functions_know_their_sizes() {
    context();
    let module = load();
    let attribute = |name: &str, number: i32| {
        let mut value = -1;
        ok!(cuFuncGetAttribute(Out::from(&mut value), number, function(module, name)));
        value
    };
    assert_eq!(attribute("store_shared", 1), 1024);
    assert_eq!(attribute("nothing", 1), 0);
    assert_eq!(attribute("nothing", 5), 70);
    assert!(attribute("nothing", 0) >= 1024);
    assert!(attribute("vecadd", 4) > 0);
    assert_eq!(attribute("store_shared", 8), 49_152 - 1024);
    let mut owner = null_mut();
    ok!(cuFuncGetModule(Out::from(&mut owner), function(module, "nothing")));
    assert_eq!(owner, module);
}

#[test]
fn occupancy_is_that_of_the_sizes() {
    context();
    let kernel = function(load(), "nothing");
    let blocks = |threads: i32, shared: usize| {
        let mut blocks = -1;
        ok!(cuOccupancyMaxActiveBlocksPerMultiprocessor(
            Out::from(&mut blocks),
            kernel,
            threads,
            shared
        ));
        blocks
    };
    assert_eq!((blocks(1024, 0), blocks(256, 0), blocks(32, 0)), (2, 8, 32));
    assert_eq!(blocks(32, 48 * 1024), 4);
    let (mut grid, mut block) = (0, 0);
    ok!(cuOccupancyMaxPotentialBlockSize(
        Out::from(&mut grid),
        Out::from(&mut block),
        kernel,
        None,
        0,
        0
    ));
    assert_eq!(block, 1024);
    assert_eq!(grid % 2, 0);

    // A kibibyte a thread: two warps would need more than a launch has without asking, and sizes between one warp
    // and two are not tried.
    unsafe extern "C" fn kibibyte_a_thread(threads: i32) -> usize {
        threads as usize * 1024
    }
    ok!(cuOccupancyMaxPotentialBlockSize(
        Out::from(&mut grid),
        Out::from(&mut block),
        kernel,
        Some(kibibyte_a_thread),
        0,
        0
    ));
    assert_eq!((block, blocks(32, 32 * 1024) > 0), (32, true));
}
