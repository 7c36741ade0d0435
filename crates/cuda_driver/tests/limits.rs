//! Kernels that need much, memory of more than 2^32 bytes, and modules that go while their kernels
//! run.

mod common;

use std::ptr::null_mut;
use std::sync::atomic::{AtomicU32, Ordering};

use common::*;
use cuda_driver::*;

fn attribute(kernel: CUfunction, number: i32) -> i32 {
    let mut value = -1;
    ok!(cuFuncGetAttribute(Out::from(&mut value), number, kernel));
    value
}

fn resident(kernel: CUfunction, threads: u32) -> i32 {
    let mut blocks = -1;
    ok!(cuOccupancyMaxActiveBlocksPerMultiprocessor(
        Out::from(&mut blocks),
        kernel,
        threads as i32,
        0
    ));
    blocks
}

const MAX_THREADS: i32 = 0;
const REGISTERS: i32 = 4;
/// Registers of a multiprocessor, and of a block.
const ALL_REGISTERS: i32 = 65_536;

/// A kernel that keeps so many values live that it cannot be compiled for few registers.
fn crowded(values: u32, directive: &str) -> String {
    let each = |text: &dyn Fn(u32) -> String| (0..values).map(text).collect::<String>();
    let loads = each(&|at| format!("ld.volatile.global.u32 %v{at}, [%rd1+{}];\n", 4 * at));
    let stores = each(&|at| format!("st.volatile.global.u32 [%rd1+{}], %v{at};\n", 4 * at));
    format!(
        ".version 7.0\n.target sm_70\n.address_size 64\n\
         .visible .entry crowded(.param .u64 crowded_p) {directive}\n{{\n.reg .b32 %v<{values}>;\n\
         .reg .b64 %rd<2>;\nld.param.u64 %rd1, [crowded_p];\n{loads}bar.sync 0;\n{stores}ret;\n}}\n"
    )
}

/// What the functions say of a kernel is what a launch answers: on a GPU 701 where registers are
/// too few.
#[test]
fn attributes_and_occupancy_agree_with_what_is_launched() {
    context();
    for directive in ["", ".maxntid 96, 1, 1", ".maxntid 1024, 1, 1"] {
        let module = try_load(&crowded(200, directive)).unwrap();
        let (kernel, memory) = (function(module, "crowded"), alloc(4 * 200));
        ok!(cuMemsetD8_v2(memory, 0, 4 * 200));
        let (most, registers) = (attribute(kernel, MAX_THREADS), attribute(kernel, REGISTERS));
        assert!((1..=1024).contains(&most) && (16..=255).contains(&registers));
        assert!(most * registers <= ALL_REGISTERS, "{most} threads of {registers} registers");
        // One thread of several would race with another.
        for threads in [1, 32, 96, 97, 128, 512, 1024] {
            let fits = threads <= most as u32;
            let blocks = resident(kernel, threads);
            // A GPU's count looks at registers and not at the kernel's own bound, so past it
            // anything goes.
            if fits || on_emulator() {
                assert_eq!(blocks > 0, fits, "{directive}: {threads} of {most}");
            }
            let warps = threads.next_multiple_of(32) as i32;
            assert!(blocks * warps * registers <= ALL_REGISTERS);
            if !fits {
                let code = launch_sized(kernel, [1; 3], [threads, 1, 1], 0, NULL, &[host(&memory)]);
                let refused = [CUDA_ERROR_INVALID_VALUE, CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES];
                assert!(refused.contains(&code), "{code}");
                assert!(!on_emulator() || code == CUDA_ERROR_INVALID_VALUE);
            }
        }
        assert_eq!(launch(kernel, NULL, &[host(&memory)]), 0);
        ok!(cuCtxSynchronize());
        let (mut grid, mut block) = (0, 0);
        ok!(cuOccupancyMaxPotentialBlockSize(
            Out::from(&mut grid),
            Out::from(&mut block),
            kernel,
            None,
            0,
            0
        ));
        assert!(block <= most && resident(kernel, block as u32) > 0);
        ok!(cuMemFree_v2(memory));
        ok!(cuModuleUnload(module));
    }
}

/// Stores the low byte of an element's number plus one, for elements from `first` on.
const EDGES: &str = ".version 7.0\n.target sm_70\n.address_size 64\n
.visible .entry edges(.param .u64 edges_p, .param .u64 edges_n, .param .u64 edges_first)
{
    .reg .pred %p;
    .reg .b32 %r<5>;
    .reg .b64 %rd<7>;
    ld.param.u64 %rd1, [edges_p];
    ld.param.u64 %rd2, [edges_n];
    ld.param.u64 %rd3, [edges_first];
    mov.u32 %r1, %ctaid.x;
    mov.u32 %r2, %ntid.x;
    mov.u32 %r3, %tid.x;
    mul.wide.u32 %rd4, %r1, %r2;
    cvt.u64.u32 %rd5, %r3;
    add.u64 %rd4, %rd4, %rd5;
    add.u64 %rd4, %rd4, %rd3;
    setp.ge.u64 %p, %rd4, %rd2;
    @%p bra DONE;
    add.u64 %rd6, %rd1, %rd4;
    cvt.u32.u64 %r4, %rd4;
    add.u32 %r4, %r4, 1;
    st.global.u8 [%rd6], %r4;
DONE:
    ret;
}";

/// 2^32 + 17 bytes, of which only the blocks at both ends and at 2^32 run: memory that is never
/// accessed costs nothing on the emulator.
#[test]
fn elements_beyond_four_gigabytes_are_where_they_belong() {
    in_child_with("elements_beyond_four_gigabytes_are_where_they_belong", LARGE, || {
        context();
        let n = (1_u64 << 32) + 17;
        let (kernel, memory) = (function(try_load(EDGES).unwrap(), "edges"), alloc(n as usize));
        for first in [0_u64, (1 << 32) - 256] {
            let params = [host(&memory), host(&n), host(&first)];
            assert_eq!(launch_sized(kernel, [2, 1, 1], [256, 1, 1], 0, NULL, &params), 0);
        }
        ok!(cuCtxSynchronize());
        for (from, len) in [(0_u64, 512_u64), ((1 << 32) - 256, 273)] {
            let mut bytes = vec![0_u8; len as usize];
            ok!(cuMemcpyDtoH_v2(host_slice_mut(&mut bytes), memory + from, len as usize));
            let plus_one = |at: u64| (at as u8).wrapping_add(1);
            assert!(
                bytes.iter().zip(from..).all(|(byte, at)| *byte == plus_one(at)),
                "from {from:#x}"
            );
        }
        // Past the last element, to the byte.
        let mut byte = [0_u8];
        let code = code!(cuMemcpyDtoH_v2(host_slice_mut(&mut byte), memory + n - 1, 2));
        assert_eq!(code, CUDA_ERROR_INVALID_VALUE);
        ok!(cuMemFree_v2(memory));
    });
}

/// Waits until the word is 1, then stores 5 behind it.
const WAITS: &str = ".version 7.0\n.target sm_70\n.address_size 64\n
.visible .entry waits(.param .u64 waits_word, .param .u64 waits_out)
{
    .reg .pred %p;
    .reg .b32 %r<3>;
    .reg .b64 %rd<3>;
    ld.param.u64 %rd1, [waits_word];
    ld.param.u64 %rd2, [waits_out];
AGAIN:
    ld.acquire.sys.global.u32 %r1, [%rd1];
    setp.ne.u32 %p, %r1, 1;
    @%p bra AGAIN;
    mov.u32 %r2, 5;
    st.global.u32 [%rd2], %r2;
    ret;
}";

/// A module that goes while its kernel runs takes nothing from it: the kernel ends as it would
/// have.
#[test]
fn a_module_may_go_while_its_kernel_runs() {
    context();
    let (stream, out, mut word) = (stream(1), alloc(4), null_mut());
    ok!(cuMemHostAlloc(Out::from(&mut word), 4, 3));
    // SAFETY: four bytes that the driver gave; the kernel and this touch them as atomics.
    let flag = unsafe { AtomicU32::from_ptr(word.cast()) };
    for _ in 0..3 {
        flag.store(0, Ordering::Release);
        let module = try_load(WAITS).unwrap();
        let kernel = function(module, "waits");
        let params = [host(&word), host(&out)];
        assert_eq!(launch(kernel, stream, &params), 0);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(std::time::Duration::from_millis(20));
                flag.store(1, Ordering::Release);
            });
            // NVIDIA's driver may wait for the kernel here.
            ok!(cuModuleUnload(module));
            // A broken text in its place is refused, meanwhile or afterwards.
            assert!(try_load(".version 7.0\n.target sm_70\n.visible .entry (").is_err());
        });
        ok!(cuStreamSynchronize(stream));
        assert_eq!(read_u32(out), 5);
        assert_eq!(launch(kernel, stream, &params), CUDA_ERROR_INVALID_HANDLE);
    }
}
