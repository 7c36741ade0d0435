//! Launches with attributes: cooperative ones, clusters, and hints.

mod common;

use std::ptr::null_mut;

use common::*;
use cuda_driver::*;

const GRID: &str = include_str!("common/grid.ptx");

fn meet() -> CUfunction {
    context();
    function(try_load(GRID).unwrap_or_else(|code| panic!("{code}: {:?}", take_detail())), "meet")
}

fn config(grid: u32, block: u32, attributes: &[LaunchAttribute]) -> CUlaunchConfig {
    CUlaunchConfig {
        grid: [grid, 1, 1],
        block: [block, 1, 1],
        shared_mem_bytes: 0,
        stream: NULL,
        attributes: In::from(attributes),
        n_attributes: attributes.len() as u32,
    }
}

fn launch_with(
    function: CUfunction,
    grid: u32,
    attributes: &[LaunchAttribute],
    params: &[HostPtr],
) -> ResultCode {
    let config = config(grid, 1, attributes);
    code!(cuLaunchKernelEx(In::from(&config), function, In::from(params), In::NULL))
}

#[test]
fn the_blocks_of_a_cooperative_launch_meet() {
    let kernel = meet();
    for blocks in [1_u32, 2, 7, 64] {
        let (counter, out) = (alloc(4), alloc(4 * blocks as usize));
        for round in 0..2 {
            ok!(cuMemsetD32_v2(counter, 0, 1));
            ok!(cuMemsetD32_v2(out, 0, blocks as usize));
            let params = [host(&counter), host(&out)];
            let code = match round {
                0 => code!(cuLaunchCooperativeKernel(
                    kernel,
                    blocks,
                    1,
                    1,
                    1,
                    1,
                    1,
                    0,
                    NULL,
                    In::from(&params[..])
                )),
                _ => launch_with(kernel, blocks, &[LaunchAttribute::new(2, &[1])], &params),
            };
            assert_eq!(code, 0, "{:?}", take_detail());
            let mut seen = vec![0_u32; blocks as usize];
            ok!(cuMemcpyDtoH_v2(host_slice_mut(&mut seen), out, 4 * blocks as usize));
            assert_eq!(seen, vec![blocks; blocks as usize]);
        }
    }
}

#[test]
fn a_cooperative_launch_that_does_not_fit_is_720() {
    let kernel = meet();
    let (mut per_multiprocessor, mut multiprocessors) = (0, 0);
    ok!(cuOccupancyMaxActiveBlocksPerMultiprocessor(
        Out::from(&mut per_multiprocessor),
        kernel,
        1024,
        0
    ));
    ok!(cuDeviceGetAttribute(Out::from(&mut multiprocessors), 16, 0));
    let most = (per_multiprocessor * multiprocessors) as u32;
    let (counter, out) = (alloc(4), alloc(4));
    let params = [host(&counter), host(&out)];
    let launch = |blocks: u32| {
        let config = config(blocks, 1024, &[]);
        let attributes = [LaunchAttribute::new(2, &[1])];
        let config =
            CUlaunchConfig { attributes: In::from(&attributes[..]), n_attributes: 1, ..config };
        code!(cuLaunchKernelEx(In::from(&config), kernel, In::from(&params[..]), In::NULL))
    };
    assert_eq!(launch(most + 1), CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE);
    // Without the attribute it is an ordinary launch, and a kernel that does not wait runs.
    let nothing = function(load(), "nothing");
    assert_eq!(launch_sized(nothing, [most + 1, 1, 1], [1024, 1, 1], 0, NULL, &[]), 0);
    ok!(cuCtxSynchronize());
}

#[test]
fn hints_change_no_result() {
    let kernel = function(load_in_context(), "store");
    let (cell, mut event, mut timed) = (alloc(4), null_mut(), null_mut());
    // Without timing: a launch can only record such events.
    ok!(cuEventCreate(Out::from(&mut event), 2));
    ok!(cuEventCreate(Out::from(&mut timed), 0));
    let event_words = [event as u64 as u32, (event as u64 >> 32) as u32, 0, 0];
    let cell_words = [cell as u32, (cell >> 32) as u32];
    let window = [cell_words[0], cell_words[1], 4, 0, 1.0_f32.to_bits(), 2, 0];
    let hints = [
        LaunchAttribute::new(0, &[99]),
        LaunchAttribute::new(1, &window),
        LaunchAttribute::new(6, &[1]),
        LaunchAttribute::new(7, &event_words),
        LaunchAttribute::new(8, &[-1_i32 as u32]),
        LaunchAttribute::new(9, &[0x0100]),
        LaunchAttribute::new(10, &[1]),
    ];
    for (value, hint) in (1_u32..).zip(&hints) {
        let code = launch_with(kernel, 1, std::slice::from_ref(hint), &[host(&cell), host(&value)]);
        assert_eq!(code, 0, "attribute {}: {:?}", hint.id, take_detail());
        ok!(cuCtxSynchronize());
        assert_eq!(read_u32(cell), value, "attribute {}", hint.id);
    }
    ok!(cuEventQuery(event));
    let words = [timed as u64 as u32, (timed as u64 >> 32) as u32, 0, 0];
    let with_time = [LaunchAttribute::new(7, &words)];
    let code = launch_with(kernel, 1, &with_time, &[host(&cell), host(&1_u32)]);
    assert_eq!(code, CUDA_ERROR_NOT_SUPPORTED);
    let unknown = [LaunchAttribute::new(200, &[1])];
    let code = launch_with(kernel, 1, &unknown, &[host(&cell), host(&1_u32)]);
    assert_eq!(code, CUDA_ERROR_INVALID_VALUE);
}

fn load_in_context() -> CUmodule {
    context();
    load()
}

#[test]
fn cluster_sizes_are_checked() {
    context();
    let kernel = function(load(), "nothing");
    let cluster = |grid: u32, size: u32| {
        let attribute = LaunchAttribute::new(4, &[size, 1, 1]);
        let config = config(grid, 32, &[]);
        let attributes = [attribute];
        let config =
            CUlaunchConfig { attributes: In::from(&attributes[..]), n_attributes: 1, ..config };
        code!(cuLaunchKernelEx(In::from(&config), kernel, In::NULL, In::NULL))
    };
    // 912 is more than cust's enum knows: it comes as 999, and the detail has it.
    assert_eq!(cluster(16, 16), CUDA_ERROR_UNKNOWN);
    assert_eq!(take_detail().unwrap().code, CUDA_ERROR_INVALID_CLUSTER_SIZE.unsigned_abs());
    assert_eq!(cluster(3, 2), CUDA_ERROR_UNKNOWN);
    assert_eq!(take_detail().unwrap().code, CUDA_ERROR_INVALID_CLUSTER_SIZE.unsigned_abs());
    assert_eq!(cluster(4, 1), 0);
    ok!(cuCtxSynchronize());
}

#[test]
fn functions_say_what_clusters_they_may_have() {
    context();
    let kernel = function(load(), "nothing");
    let attribute = |number| {
        let mut value = -1;
        ok!(cuFuncGetAttribute(Out::from(&mut value), number, kernel));
        value
    };
    assert_eq!([10, 11, 12, 13, 14, 15].map(attribute), [0; 6]);
    ok!(cuFuncSetAttribute(kernel, 14, 1));
    ok!(cuFuncSetAttribute(kernel, 15, 1));
    assert_eq!([14, 15].map(attribute), [1, 1]);
    let asked = config(16, 32, &[]);
    let mut size = 0;
    ok!(cuOccupancyMaxPotentialClusterSize(Out::from(&mut size), kernel, In::from(&asked)));
    assert_eq!(size, 16);
    ok!(cuFuncSetAttribute(kernel, 14, 0));
    ok!(cuOccupancyMaxPotentialClusterSize(Out::from(&mut size), kernel, In::from(&asked)));
    assert_eq!(size, 8);
    let attributes = [LaunchAttribute::new(4, &[2, 1, 1])];
    let pairs = CUlaunchConfig { attributes: In::from(&attributes[..]), n_attributes: 1, ..asked };
    let mut clusters = 0;
    ok!(cuOccupancyMaxActiveClusters(Out::from(&mut clusters), kernel, In::from(&pairs)));
    // Eight blocks of each of the 132 multiprocessors, in pairs; two where they are large.
    assert_eq!(clusters, 132 * 8 / 2);
    let pairs = CUlaunchConfig { block: [1024, 1, 1], ..pairs };
    ok!(cuOccupancyMaxActiveClusters(Out::from(&mut clusters), kernel, In::from(&pairs)));
    assert_eq!(clusters, 132);
}

/// While such a kernel runs, NVIDIA's driver cannot load code without waiting for it: so all is
/// loaded before, and no other test loads anything in this process.
const EAGER: &[(&str, &str)] = &[("CUDA_MODULE_LOADING", "EAGER")];

#[test]
fn a_persistent_kernel_answers_the_host() {
    in_child_with("a_persistent_kernel_answers_the_host", EAGER, persist);
}

fn persist() {
    context();
    let module = try_load(GRID).unwrap();
    let (kernel, stream) = (function(module, "answer"), stream(1));
    let mut pinned = null_mut();
    // Portable and mapped.
    ok!(cuMemHostAlloc(Out::from(&mut pinned), 8, 3));
    let words = pinned.cast::<u32>();
    // SAFETY: eight bytes that the driver just gave, of which the kernel and this thread each
    // write one half; all accesses are atomic or volatile.
    let [question, reply] = unsafe {
        use std::sync::atomic::AtomicU32;
        words.write_volatile(0);
        words.add(1).write_volatile(0);
        [AtomicU32::from_ptr(words), AtomicU32::from_ptr(words.add(1))]
    };
    let mut address = 0;
    ok!(cuMemHostGetDevicePointer_v2(Out::from(&mut address), HostPtr(pinned), 0));
    let (to, from) = (address, address + 4);
    assert_eq!(launch(kernel, stream, &[host(&to), host(&from)]), 0);
    use std::sync::atomic::Ordering::{Acquire, Release};
    for number in [5_u32, 100, 7, u32::MAX] {
        question.store(number, Release);
        let start = std::time::Instant::now();
        while reply.load(Acquire) != number.wrapping_add(1) {
            assert!(start.elapsed().as_secs() < 60, "no answer to {number}");
            std::thread::yield_now();
        }
    }
    ok!(cuStreamSynchronize(stream));
    ok!(cuMemFreeHost(HostPtr(pinned)));
}

#[test]
fn streams_run_at_the_same_time() {
    in_child_with("streams_run_at_the_same_time", EAGER, run_together);
}

fn run_together() {
    context();
    let module = try_load(GRID).unwrap();
    let (waiting, storing) = (function(module, "await"), function(module, "store"));
    let (first, second, words) = (stream(1), stream(1), alloc(8));
    let (word, out) = (words, words + 4);
    ok!(cuMemsetD32_v2(words, 0, 2));
    ok!(cuCtxSynchronize());
    // The first stream's kernel ends only when the second's has run.
    assert_eq!(launch(waiting, first, &[host(&word), host(&out)]), 0);
    assert_eq!(launch(storing, second, &[host(&word), host(&9_u32)]), 0);
    ok!(cuStreamSynchronize(first));
    ok!(cuStreamSynchronize(second));
    assert_eq!(read_u32(out), 9);
}

/// Each block writes its rank in its cluster and the cluster's size; `own` has clusters of its own.
const CLUSTERS: &str = "
.version 7.8
.target sm_90
.address_size 64
.visible .entry ranks(.param .u64 ranks_out)
{
    .reg .b32 %r<6>;
    .reg .b64 %rd<4>;
    ld.param.u64 %rd1, [ranks_out];
    mov.u32 %r1, %ctaid.x;
    mov.u32 %r2, %cluster_ctarank;
    mov.u32 %r3, %cluster_nctarank;
    mad.lo.u32 %r4, %r3, 100, %r2;
    mul.wide.u32 %rd2, %r1, 4;
    add.s64 %rd3, %rd1, %rd2;
    st.global.u32 [%rd3], %r4;
    ret;
}
.visible .entry own() .explicitcluster .reqnctapercluster 2, 1, 1
{
    ret;
}
";

#[test]
fn clusters_are_what_the_launch_says() {
    context();
    let module = try_load(CLUSTERS).unwrap_or_else(|code| panic!("{code}: {:?}", take_detail()));
    let (kernel, out) = (function(module, "ranks"), alloc(32));
    for size in [1_u32, 2, 4, 8] {
        ok!(cuMemsetD8_v2(out, 0xff, 32));
        let attributes = [LaunchAttribute::new(4, &[size, 1, 1])];
        let code = launch_with(kernel, 8, &attributes, &[host(&out)]);
        assert_eq!(code, 0, "{:?}", take_detail());
        let mut ranks = [0_u32; 8];
        ok!(cuMemcpyDtoH_v2(host_slice_mut(&mut ranks), out, 32));
        assert_eq!(ranks, [0, 1, 2, 3, 4, 5, 6, 7].map(|block| 100 * size + block % size));
    }
}

#[test]
fn a_kernel_may_have_clusters_of_its_own() {
    context();
    let kernel = function(try_load(CLUSTERS).unwrap(), "own");
    let attribute = |number| {
        let mut value = -1;
        ok!(cuFuncGetAttribute(Out::from(&mut value), number, kernel));
        value
    };
    assert_eq!([11, 12, 13].map(attribute), [2, 1, 1]);
    assert_eq!(attribute(10), 1);
    assert_eq!(launch_sized(kernel, [4, 1, 1], [1; 3], 0, NULL, &[]), 0);
    ok!(cuCtxSynchronize());
    let code = launch_sized(kernel, [3, 1, 1], [1; 3], 0, NULL, &[]);
    // 912, which cust's enum lacks.
    assert_eq!(code, CUDA_ERROR_UNKNOWN);
    assert_eq!(take_detail().unwrap().code, CUDA_ERROR_INVALID_CLUSTER_SIZE.unsigned_abs());
}
