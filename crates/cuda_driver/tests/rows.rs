//! The results of NVIDIA's driver 580, case by case, which the emulator must return, too.
//!
//! Each test runs on whichever device there is; comments say where the emulator is stricter. A case
//! that loses the context runs in a process of its own.

mod common;

use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, Ordering};

use common::*;
use cuda_driver::*;

/// What a caller tries after a fault.
fn later_calls(module: CUmodule, stream: CUstream) -> Vec<ResultCode> {
    let (mut address, mut stream_made, mut event_made) = (0, null_mut(), null_mut());
    let mut value = [0_u32];
    vec![
        code!(cuMemAlloc_v2(Out::from(&mut address), 256)),
        code!(cuMemsetD8_v2(1 << 20, 0, 16)),
        code!(cuMemcpyDtoH_v2(host_slice_mut(&mut value), 1 << 20, 4)),
        code!(cuStreamCreate(Out::from(&mut stream_made), 0)),
        code!(cuStreamSynchronize(stream)),
        code!(cuEventCreate(Out::from(&mut event_made), 0)),
        code!(cuCtxSynchronize()),
        code!(cuModuleUnload(module)),
    ]
}

/// Launches a kernel that faults and gives what synchronising answers; all later calls must
/// answer the same.
fn fault(kernel: &str, params: &[HostPtr]) -> ResultCode {
    let module = load();
    let stream = stream(0);
    assert_eq!(launch(function(module, kernel), stream, params), 0, "the launch itself");
    let code = code!(cuStreamSynchronize(stream));
    for later in later_calls(module, stream) {
        assert_eq!(later, code, "a later call");
    }
    code
}

#[test]
fn a_store_to_null_is_700_and_sticky() {
    in_child("a_store_to_null_is_700_and_sticky", || {
        context();
        let code = fault("store", &[host(&0_u64), host(&1_u32)]);
        assert_eq!(code, CUDA_ERROR_ILLEGAL_ADDRESS);
        if on_emulator() {
            let detail = take_detail().unwrap();
            assert_eq!(detail.code, 700);
            for words in ["store of 4 bytes", "kernel `store`", "block (0,0,0)", "null pointer"] {
                assert!(detail.text.contains(words), "{}", detail.text);
            }
        }
    });
}

#[test]
fn a_store_far_outside_is_700_and_sticky() {
    in_child("a_store_far_outside_is_700_and_sticky", || {
        context();
        let far = alloc(256) + (1 << 40);
        let code = fault("store", &[host(&far), host(&1_u32)]);
        assert_eq!(code, CUDA_ERROR_ILLEGAL_ADDRESS);
    });
}

/// A GPU lets this pass, and the neighbour is hit.
#[test]
fn a_store_one_past_the_end_is_caught_by_the_emulator() {
    in_child("a_store_one_past_the_end_is_caught_by_the_emulator", || {
        force_emulator();
        context();
        let end = alloc(256) + 256;
        let code = fault("store", &[host(&end), host(&1_u32)]);
        assert_eq!(code, CUDA_ERROR_ILLEGAL_ADDRESS);
        let text = take_detail().unwrap().text;
        assert!(text.contains("0 bytes past the end of the 256-byte allocation"), "{text}");
    });
}

#[test]
fn a_misaligned_store_is_716_and_sticky() {
    in_child("a_misaligned_store_is_716_and_sticky", || {
        context();
        let odd = alloc(256) + 1;
        let code = fault("store", &[host(&odd), host(&1_u32)]);
        assert_eq!(code, CUDA_ERROR_MISALIGNED_ADDRESS);
    });
}

#[test]
fn a_misaligned_shared_store_is_716_and_sticky() {
    in_child("a_misaligned_shared_store_is_716_and_sticky", || {
        context();
        assert_eq!(fault("store_shared", &[host(&2_u64)]), CUDA_ERROR_MISALIGNED_ADDRESS);
    });
}

#[test]
fn shared_memory_out_of_bounds_is_700_and_sticky() {
    in_child("shared_memory_out_of_bounds_is_700_and_sticky", || {
        context();
        let code = fault("store_shared", &[host(&(1_u64 << 20))]);
        assert_eq!(code, CUDA_ERROR_ILLEGAL_ADDRESS);
    });
}

#[test]
fn trap_is_719_and_sticky() {
    in_child("trap_is_719_and_sticky", || {
        context();
        assert_eq!(fault("stop", &[]), CUDA_ERROR_LAUNCH_FAILED);
    });
}

#[test]
fn a_breakpoint_is_719_and_sticky() {
    in_child("a_breakpoint_is_719_and_sticky", || {
        context();
        assert_eq!(fault("pause", &[]), CUDA_ERROR_LAUNCH_FAILED);
    });
}

#[test]
fn launches_of_impossible_sizes_are_1_and_not_sticky() {
    context();
    let module = load();
    let kernel = function(module, "nothing");
    let cases = [
        ([1, 1, 1], [1025, 1, 1], 0),
        ([1, 1, 1], [1, 1, 65], 0),
        ([1, 1, 1], [64, 64, 1], 0),
        ([1, 65536, 1], [1, 1, 1], 0),
        ([1, 1, 65536], [1, 1, 1], 0),
        ([1 << 31, 1, 1], [1, 1, 1], 0),
        ([0, 1, 1], [1, 1, 1], 0),
        ([1, 1, 1], [1, 0, 1], 0),
        ([1, 1, 1], [1, 1, 1], 49_153),
        ([1, 1, 1], [1, 1, 1], 1 << 20),
    ];
    for (grid, block, shared) in cases {
        let code = launch_sized(kernel, grid, block, shared, NULL, &[]);
        assert_eq!(code, CUDA_ERROR_INVALID_VALUE, "{grid:?} {block:?} {shared}");
    }
    assert_eq!(launch_sized(kernel, [2, 1, 1], [1024, 1, 1], 49_152, NULL, &[]), 0);
    ok!(cuCtxSynchronize());
    ok!(cuModuleUnload(module));
}

#[test]
fn more_shared_memory_is_there_for_the_asking() {
    context();
    let kernel = function(load(), "nothing");
    ok!(cuFuncSetAttribute(kernel, 8, 100_000));
    assert_eq!(launch_sized(kernel, [1; 3], [1; 3], 100_000, NULL, &[]), 0);
    let code = launch_sized(kernel, [1; 3], [1; 3], 100_001, NULL, &[]);
    assert_eq!(code, CUDA_ERROR_INVALID_VALUE);
    assert_eq!(code!(cuFuncSetAttribute(kernel, 8, 1 << 20)), CUDA_ERROR_INVALID_VALUE);
    ok!(cuCtxSynchronize());
}

#[test]
fn modules_that_do_not_load_have_the_drivers_codes_and_a_log() {
    context();
    let target = KERNELS.replace("sm_70", "sm_999");
    let version = KERNELS.replace(".version 7.0", ".version 99.0");
    let corrupt = KERNELS.replace("add.rn.f32 %f3, %f1, %f2;", "add.rn.f32 %f3 %f1 @;");
    let unresolved = ".version 7.0\n.target sm_70\n.address_size 64\n.extern .func missing;\n\
         .visible .entry k()\n{\n    call missing;\n    ret;\n}\n";
    let cases = [
        ("target", target.as_str(), CUDA_ERROR_INVALID_PTX),
        ("version", &version, CUDA_ERROR_UNSUPPORTED_PTX_VERSION),
        ("corrupt", &corrupt, CUDA_ERROR_INVALID_PTX),
        ("unresolved", unresolved, CUDA_ERROR_INVALID_PTX),
    ];
    for (case, ptx, expected) in cases {
        assert_eq!(try_load(ptx).err(), Some(expected), "{case}: {:?}", take_detail());
        let detail = take_detail().unwrap();
        assert_eq!(detail.code, expected.unsigned_abs(), "{case}");
        assert!(detail.text.len() > "cuModuleLoadData: ".len(), "{case}: {detail:?}");
    }
    assert_eq!(try_load("").err(), Some(CUDA_ERROR_INVALID_IMAGE));
}

#[test]
fn the_log_of_corrupt_ptx_names_the_place() {
    context();
    let line = KERNELS.lines().position(|line| line.contains("add.rn.f32")).unwrap() + 1;
    let corrupt = KERNELS.replace("add.rn.f32 %f3, %f1, %f2;", "add.rn.f32 %f3, @;");
    assert_eq!(try_load(&corrupt).err(), Some(CUDA_ERROR_INVALID_PTX));
    let text = take_detail().unwrap().text;
    assert!(text.contains(&format!("line {line}")), "line {line}: {text}");
}

#[test]
fn memory_faults_of_the_host_are_refused_and_not_sticky() {
    context();
    let mut address = 0;
    let code = code!(cuMemAlloc_v2(Out::from(&mut address), 1 << 50));
    assert_eq!(code, CUDA_ERROR_OUT_OF_MEMORY);
    let code = code!(cuMemAlloc_v2(Out::from(&mut address), 0));
    assert_eq!(code, CUDA_ERROR_INVALID_VALUE, "zero bytes");
    assert_eq!(code!(cuMemFree_v2(0x1234)), CUDA_ERROR_INVALID_VALUE, "garbage");
    let block = alloc(4096);
    assert_eq!(code!(cuMemFree_v2(block + 256)), CUDA_ERROR_INVALID_VALUE, "interior");
    ok!(cuMemFree_v2(block));
    assert_eq!(code!(cuMemFree_v2(block)), CUDA_ERROR_INVALID_VALUE, "twice");
    ok!(cuMemFree_v2(0));
    ok!(cuCtxSynchronize());
}

#[test]
fn use_after_free_is_700_and_sticky() {
    in_child("use_after_free_is_700_and_sticky", || {
        context();
        let block = alloc(64 << 20);
        ok!(cuMemFree_v2(block));
        let code = fault("store", &[host(&block), host(&1_u32)]);
        assert_eq!(code, CUDA_ERROR_ILLEGAL_ADDRESS);
    });
}

#[test]
fn use_after_a_stream_ordered_free_is_700_and_sticky() {
    in_child("use_after_a_stream_ordered_free_is_700_and_sticky", || {
        context();
        let stream = stream(0);
        let mut block = 0;
        ok!(cuMemAllocAsync(Out::from(&mut block), 64 << 20, stream));
        ok!(cuMemFreeAsync(block, stream));
        ok!(cuStreamSynchronize(stream));
        let code = fault("store", &[host(&block), host(&1_u32)]);
        assert_eq!(code, CUDA_ERROR_ILLEGAL_ADDRESS);
    });
}

#[test]
fn a_stream_ordered_allocation_may_be_freed_plainly() {
    context();
    let stream = stream(0);
    let mut block = 0;
    ok!(cuMemAllocAsync(Out::from(&mut block), 4096, stream));
    ok!(cuStreamSynchronize(stream));
    ok!(cuMemFree_v2(block));
}

#[test]
fn a_function_of_an_unloaded_module_is_400() {
    in_child("a_function_of_an_unloaded_module_is_400", || {
        context();
        let module = load();
        let kernel = function(module, "nothing");
        ok!(cuModuleUnload(module));
        assert_eq!(launch(kernel, NULL, &[]), CUDA_ERROR_INVALID_HANDLE);
    });
}

#[test]
fn a_thread_without_a_context_gets_201() {
    context();
    let codes = std::thread::spawn(|| {
        let mut address = 0;
        [code!(cuMemAlloc_v2(Out::from(&mut address), 256)), code!(cuCtxSynchronize())]
    });
    assert_eq!(codes.join().unwrap(), [CUDA_ERROR_INVALID_CONTEXT; 2]);
}

static CALLED: AtomicBool = AtomicBool::new(false);

unsafe extern "C" fn note_call(_: *mut std::ffi::c_void) {
    CALLED.store(true, Ordering::SeqCst);
}

#[test]
fn a_host_function_after_a_fault_never_runs() {
    in_child("a_host_function_after_a_fault_never_runs", || {
        context();
        let stream = stream(0);
        assert_eq!(launch(function(load(), "stop"), stream, &[]), 0);
        assert_eq!(code!(cuStreamSynchronize(stream)), CUDA_ERROR_LAUNCH_FAILED);
        let code = code!(cuLaunchHostFunc(stream, Some(note_call), HostPtr(null_mut())));
        assert_eq!(code, CUDA_ERROR_LAUNCH_FAILED);
        std::thread::sleep(std::time::Duration::from_millis(50));
        assert!(!CALLED.load(Ordering::SeqCst));
    });
}

#[test]
fn a_reset_after_a_fault_does_not_bring_the_device_back() {
    in_child("a_reset_after_a_fault_does_not_bring_the_device_back", || {
        context();
        assert_eq!(launch(function(load(), "stop"), NULL, &[]), 0);
        assert_eq!(code!(cuCtxSynchronize()), CUDA_ERROR_LAUNCH_FAILED);
        ok!(cuDevicePrimaryCtxReset_v2(0));
        let mut context = null_mut();
        let code = code!(cuDevicePrimaryCtxRetain(Out::from(&mut context), 0));
        assert_eq!(code, CUDA_ERROR_LAUNCH_FAILED);
    });
}

#[test]
fn a_fault_costs_the_whole_process_the_device() {
    in_child("a_fault_costs_the_whole_process_the_device", || {
        let primary = context();
        let (mut other, mut device, mut again) = (null_mut(), 7, null_mut());
        ok!(cuCtxCreate_v2(Out::from(&mut other), 0, 0));
        ok!(cuCtxSetCurrent(primary));
        assert_eq!(launch(function(load(), "store"), NULL, &[host(&0_u64), host(&1_u32)]), 0);
        assert_eq!(code!(cuCtxSynchronize()), CUDA_ERROR_ILLEGAL_ADDRESS);
        // What does not reach the device still answers.
        ok!(cuCtxGetDevice(Out::from(&mut device)));
        ok!(cuDeviceGetCount(Out::from(&mut device)));
        ok!(cuCtxSetCurrent(other));
        assert_eq!(code!(cuCtxSynchronize()), CUDA_ERROR_ILLEGAL_ADDRESS);
        let code = code!(cuCtxCreate_v2(Out::from(&mut again), 0, 0));
        assert_eq!(code, CUDA_ERROR_ILLEGAL_ADDRESS);
        ok!(cuDevicePrimaryCtxRetain(Out::from(&mut again), 0));
        assert_eq!(again, primary);
        ok!(cuCtxSetCurrent(primary));
        ok!(cuDevicePrimaryCtxReset_v2(0));
        assert_eq!(code!(cuCtxSynchronize()), CUDA_ERROR_CONTEXT_IS_DESTROYED);
        let code = code!(cuDevicePrimaryCtxRetain(Out::from(&mut again), 0));
        assert_eq!(code, CUDA_ERROR_ILLEGAL_ADDRESS);
    });
}

#[test]
fn a_memset_of_nothing_at_null_succeeds() {
    context();
    ok!(cuMemsetD8_v2(0, 0, 0));
}

#[test]
fn garbage_handles_are_refused() {
    in_child("garbage_handles_are_refused", || {
        // NVIDIA's driver dereferences them.
        force_emulator();
        context();
        let garbage = 0x55_5555_usize as *mut std::ffi::c_void;
        let codes = [
            code!(cuStreamSynchronize(garbage.cast())),
            code!(cuEventQuery(garbage.cast())),
            code!(cuModuleUnload(garbage.cast())),
            code!(cuEventRecord(garbage.cast(), NULL)),
            code!(cuLinkDestroy(garbage.cast())),
            launch(garbage.cast(), NULL, &[]),
        ];
        assert_eq!(codes, [CUDA_ERROR_INVALID_HANDLE; 6]);
        assert_eq!(code!(cuCtxSetCurrent(garbage.cast())), CUDA_ERROR_INVALID_CONTEXT);
    });
}

const GRID: &str = include_str!("common/grid.ptx");

/// Without an end of its own, that kernel runs on one stream while another stream's faults.
#[test]
fn a_fault_ends_what_other_streams_run() {
    // All is loaded before the kernel runs: NVIDIA's driver would wait for it.
    let set = [("CUDA_MODULE_LOADING", "EAGER")];
    in_child_with("a_fault_ends_what_other_streams_run", &set, || {
        context();
        let waiting = function(try_load(GRID).unwrap(), "await");
        let stop = function(load(), "stop");
        let (first, second, words) = (stream(1), stream(1), alloc(8));
        ok!(cuMemsetD32_v2(words, 0, 2));
        // The streams do not synchronize with the null stream, and a memset of device memory need
        // not be complete when its call returns.
        ok!(cuCtxSynchronize());
        let out = words + 4;
        assert_eq!(launch(waiting, first, &[host(&words), host(&out)]), 0);
        assert_eq!(launch(stop, second, &[]), 0);
        assert_eq!(code!(cuStreamSynchronize(second)), CUDA_ERROR_LAUNCH_FAILED);
        assert_eq!(code!(cuStreamSynchronize(first)), CUDA_ERROR_LAUNCH_FAILED);
    });
}

/// A GPU hangs or lets it pass; the emulator reports which threads wait where.
#[test]
fn a_barrier_that_half_the_block_reaches_is_caught_by_the_emulator() {
    let name = "a_barrier_that_half_the_block_reaches_is_caught_by_the_emulator";
    in_child(name, || {
        force_emulator();
        context();
        let half = ".version 7.0\n.target sm_70\n.address_size 64\n.visible .entry half()\n{\n\
             .reg .pred %p;\n.reg .b32 %r<2>;\nmov.u32 %r1, %tid.x;\n\
             setp.ge.u32 %p, %r1, 32;\n@%p bra WAIT;\n\
             bar.sync 1;\nret;\nWAIT: bar.sync 0;\nret;\n}\n";
        let kernel = function(try_load(half).unwrap(), "half");
        assert_eq!(launch_sized(kernel, [1; 3], [64, 1, 1], 0, NULL, &[]), 0);
        assert_eq!(code!(cuCtxSynchronize()), CUDA_ERROR_LAUNCH_FAILED);
        let text = take_detail().unwrap().text;
        assert!(text.contains("deadlock") && text.contains("barrier"), "{text}");
    });
}

#[test]
fn a_missing_kernel_is_500_and_names_those_that_are_there() {
    context();
    let module = load();
    let (name, mut kernel) = (std::ffi::CString::new("absent").unwrap(), null_mut());
    let code = code!(cuModuleGetFunction(Out::from(&mut kernel), module, c_text(&name)));
    assert_eq!(code, CUDA_ERROR_NOT_FOUND);
    if on_emulator() {
        let text = take_detail().unwrap().text;
        assert!(text.contains("`absent`") && text.contains("vecadd"), "{text}");
    }
}

#[test]
fn a_context_that_was_reset_is_709_until_another_is_current() {
    in_child("a_context_that_was_reset_is_709_until_another_is_current", || {
        context();
        let block = alloc(256);
        ok!(cuDevicePrimaryCtxReset_v2(0));
        let mut address = 0;
        let codes = [
            code!(cuMemAlloc_v2(Out::from(&mut address), 256)),
            code!(cuMemFree_v2(block)),
            code!(cuCtxSynchronize()),
        ];
        assert_eq!(codes, [CUDA_ERROR_CONTEXT_IS_DESTROYED; 3]);
        context();
        alloc(256);
    });
}

#[test]
fn a_broken_reload_leaves_the_loaded_module() {
    context();
    let (module, cell) = (load(), alloc(4));
    let kernel = function(module, "store");
    for broken in ["", "garbage", ".version 7.0\n.target sm_70\n.visible .entry ("] {
        assert!(try_load(broken).is_err(), "{broken}");
        assert_eq!(launch(kernel, NULL, &[host(&cell), host(&3_u32)]), 0);
    }
    assert_eq!(read_u32(cell), 3);
}

/// Pinned memory is not freed while a copy still reads it. If races are checked that is reported:
/// see `stream_order.rs`.
#[test]
fn freeing_pinned_memory_waits_for_a_copy_in_flight() {
    let set = [("FERROWARP_CHECK", "memory,sync")];
    in_child_with("freeing_pinned_memory_waits_for_a_copy_in_flight", &set, free_in_flight);
}

fn free_in_flight() {
    context();
    let (stream, bytes) = (stream(1), 8 << 20);
    let (block, mut pinned) = (alloc(bytes), null_mut());
    ok!(cuMemAllocHost_v2(Out::from(&mut pinned), bytes));
    // SAFETY: bytes that the driver just gave.
    unsafe { std::ptr::write_bytes(pinned.cast::<u8>(), 7, bytes) };
    ok!(cuMemcpyHtoDAsync_v2(block, HostPtr(pinned), bytes, stream));
    ok!(cuMemFreeHost(HostPtr(pinned)));
    ok!(cuStreamSynchronize(stream));
    assert_eq!(read_u32(block + bytes as u64 - 4), 0x0707_0707);
    ok!(cuMemFree_v2(block));
}

/// A buffer is not freed while a kernel still writes it.
#[test]
fn freeing_memory_waits_for_a_kernel_in_flight() {
    context();
    let (kernel, block) = (function(load(), "store"), alloc(4096));
    for value in 0..32_u32 {
        assert_eq!(launch(kernel, NULL, &[host(&block), host(&value)]), 0);
    }
    ok!(cuMemFree_v2(block));
    ok!(cuCtxSynchronize());
}

/// More than 2^32 bytes: addresses and counts are not cut to 32 bits.
#[test]
fn more_than_four_gigabytes_are_addressed() {
    in_child_with("more_than_four_gigabytes_are_addressed", LARGE, || {
        context();
        let bytes = (1_usize << 32) + 17;
        let block = alloc(bytes);
        let last = block + (1 << 32) + 12;
        let last = last & !3;
        assert_eq!(launch(function(load(), "store"), NULL, &[host(&last), host(&0xabcd_u32)]), 0);
        assert_eq!(read_u32(last), 0xabcd);
        ok!(cuMemFree_v2(block));
    });
}

#[test]
fn a_kernel_with_too_much_for_its_block_is_refused() {
    context();
    let small = KERNELS
        .replace(".visible .entry nothing()\n{", ".visible .entry nothing() .maxntid 64, 1, 1\n{");
    let kernel = function(try_load(&small).unwrap(), "nothing");
    let code = launch_sized(kernel, [1; 3], [65, 1, 1], 0, NULL, &[]);
    assert_eq!(code, CUDA_ERROR_INVALID_VALUE);
    assert_eq!(launch_sized(kernel, [1; 3], [64, 1, 1], 0, NULL, &[]), 0);
    ok!(cuCtxSynchronize());
}

/// The endless kernel of a program: a limit ends it, where the environment sets one.
#[test]
fn an_endless_kernel_is_702_where_the_fuel_is_limited() {
    let name = "an_endless_kernel_is_702_where_the_fuel_is_limited";
    let set = [("FERROWARP_DEVICE", "emulator"), ("FERROWARP_FUEL", "100000")];
    in_child_with(name, &set, || {
        context();
        let endless = ".version 7.0\n.target sm_70\n.address_size 64\n\
             .visible .entry endless()\n{\nAGAIN:\nbra AGAIN;\n}\n";
        let kernel = function(try_load(endless).unwrap(), "endless");
        assert_eq!(launch(kernel, NULL, &[]), 0);
        assert_eq!(code!(cuCtxSynchronize()), CUDA_ERROR_LAUNCH_TIMEOUT);
    });
}

/// `CU_LIMIT_STACK_SIZE`
const STACK: i32 = 0;

/// `fall(n)` has a function call itself until `n` calls of it, each with 256 bytes, are on the
/// stack.
const DEEP: &str = "\
.version 7.0
.target sm_70
.address_size 64
.func down(.param .b32 n)
{
    .local .align 4 .b8 room[256];
    .reg .b32 %r<2>;
    .reg .pred %p;
    ld.param.b32 %r0, [n];
    sub.u32 %r1, %r0, 1;
    setp.eq.u32 %p, %r1, 0;
    @%p ret;
    {
        .param .b32 less;
        st.param.b32 [less], %r1;
        call.uni down, (less);
    }
    ret;
}
.visible .entry fall(.param .u32 n)
{
    .reg .b32 %r;
    .param .b32 all;
    ld.param.u32 %r, [n];
    st.param.b32 [all], %r;
    call.uni down, (all);
    ret;
}
";

/// A kernel that needs more stack than the limit, as its text says.
const KNOWN: &str = "\
.version 7.0
.target sm_70
.address_size 64
.func leaf() { .local .align 4 .b8 room[65536]; ret; }
.visible .entry flat() { .local .align 4 .b8 room[65536]; call.uni leaf; ret; }
";

#[test]
fn the_stack_limit_of_the_context_holds_for_recursion() {
    in_child("the_stack_limit_of_the_context_holds_for_recursion", || {
        force_emulator();
        context();
        let kernel = function(try_load(DEEP).unwrap(), "fall");
        let fall = |mut calls: u32| {
            assert_eq!(launch(kernel, NULL, &[HostPtr((&raw mut calls).cast())]), 0);
            code!(cuCtxSynchronize())
        };
        let mut bytes = 0;
        assert_eq!(code!(cuCtxGetLimit(Out::from(&mut bytes), STACK)), 0);
        assert_eq!(bytes, 1024);
        // A call takes 256 bytes and an address to return to.
        assert_eq!(fall(3), 0);
        assert_eq!(code!(cuCtxSetLimit(STACK, 524_288)), CUDA_ERROR_INVALID_VALUE);
        assert_eq!(code!(cuCtxSetLimit(STACK, 2111)), 0);
        assert_eq!(code!(cuCtxGetLimit(Out::from(&mut bytes), STACK)), 0);
        assert_eq!(bytes, 2112);
        assert_eq!(fall(8), 0);
        // What the text says is always given.
        let kernel = function(try_load(KNOWN).unwrap(), "flat");
        assert_eq!(launch(kernel, NULL, &[]), 0);
        assert_eq!(code!(cuCtxSynchronize()), 0);
        assert_eq!(fall(9), CUDA_ERROR_ILLEGAL_ADDRESS);
        let text = take_detail().unwrap().text;
        for part in
            ["kernel `fall`", "2376 bytes of stack", "each thread has 2112", "cuCtxSetLimit"]
        {
            assert!(text.contains(part), "{part}: {text}");
        }
    });
}
