//! Planted faults in the kernels that ship: the emulator names the thread and the line of Rust.
//!
//! A fault ends the process's device, so each planted one runs in a process of its own, on the emulator.

use std::env;
use std::process::Command;
use std::thread;
use std::time::Duration;

use cuda_std::launch::{
    Args, ContractError, DeviceRead, DeviceWrite, Launch, LaunchConfig, RawSlice,
};
use ferrowarp::memory::DeviceBuffer;
use ferrowarp::ops::{copy_strided, norm, softmax};
use ferrowarp::{Gpu, GpuError, GpuResult};
use kernels_gpu::elementwise::vecadd;
use kernels_gpu::reduce::BLOCK;
use kernels_gpu::reduce::reduce_tree_f32;

/// A buffer that says it is longer than it is.
struct Overstated<'a> {
    buffer: &'a mut DeviceBuffer<f32>,
    len: usize,
}

// SAFETY: deliberately false; the launch is refused, or the emulator has to catch what comes of it.
unsafe impl DeviceRead<f32> for Overstated<'_> {
    fn raw(&self) -> RawSlice<'_> {
        RawSlice { len: self.len, ..self.buffer.raw() }
    }

    fn len(&self) -> usize {
        self.len
    }
}

// SAFETY: as above.
unsafe impl DeviceWrite<f32> for Overstated<'_> {
    fn raw_mut(&mut self) -> RawSlice<'_> {
        RawSlice { len: self.len, ..self.buffer.raw_mut() }
    }

    fn len(&self) -> usize {
        self.len
    }
}

/// What the ignored test `name` prints behind `error: ` when it runs alone on the emulator.
fn error_of(name: &str) -> String {
    error_by(name, "window")
}

/// The same by a schedule of blocks and warps.
fn error_by(name: &str, schedule: &str) -> String {
    let output = Command::new(env::current_exe().unwrap())
        .args(["--ignored", "--exact", "--nocapture", &format!("faults::{name}")])
        .env("FERROWARP_DEVICE", "emulator")
        .env("FERROWARP_EMULATOR_MEMORY", "64M")
        .env("FERROWARP_SCHEDULE", schedule)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    text.lines().find_map(|line| line.strip_prefix("error: ")).expect("no error").to_owned()
}

#[test]
fn a_store_past_the_end_names_kernel_block_thread_and_line() {
    let error = error_of("store_past_the_end");
    for words in [
        "`vecadd`",
        "block (1,0,0)",
        "thread (44,0,0)",
        "store of 4 bytes",
        "at kernels-gpu/src/elementwise/add.rs:10",
    ] {
        assert!(error.contains(words), "{words} is not in: {error}");
    }
}

#[test]
#[ignore = "run in a process of its own by the test above"]
fn store_past_the_end() {
    let gpu = Gpu::new().unwrap();
    let n = 301;
    let x = DeviceBuffer::from_slice(&gpu, &vec![1.0; n]).unwrap();
    let mut out = DeviceBuffer::zeroed(&gpu, n - 1).unwrap();
    let mut args = Args::new();
    args.push_read(&x);
    args.push_read(&x);
    let mut out = Overstated { buffer: &mut out, len: n };
    args.push_write(&mut out);
    // SAFETY: deliberately broken: `out` has one element less than the arguments say.
    let launched = unsafe {
        gpu.launch(&vecadd::KERNEL, LaunchConfig::from(LaunchConfig::for_num_elems(n)), &args)
    };
    println!("error: {}", launched.and_then(|()| gpu.synchronize()).unwrap_err());
}

#[test]
fn a_panic_names_kernel_thread_and_line() {
    let gpu = Gpu::new().unwrap();
    let x = DeviceBuffer::from_slice(&gpu, &[1.0; 64]).unwrap();
    let mut out = DeviceBuffer::zeroed(&gpu, 65).unwrap();
    let launch = |out: &mut _, n| vecadd::launch(&gpu, LaunchConfig::for_num_elems(n), &x, &x, out);
    launch(&mut out, 65).unwrap();
    let error = gpu.synchronize().unwrap_err().to_string();
    for words in [
        "kernel `vecadd` panicked at kernels-gpu/src/elementwise/add.rs:10:",
        "block (0,0,0), thread (64,0,0): index out of bounds: the len is 64 but the index is 64",
    ] {
        assert!(error.contains(words), "{words} is not in: {error}");
    }
    let mut out = DeviceBuffer::zeroed(&gpu, 64).unwrap();
    launch(&mut out, 64).unwrap();
    assert_eq!(out.to_vec().unwrap(), [2.0; 64]);
}

/// After a panic the emulator still checks memory: the error leads with the panic and has the fault behind it.
#[test]
fn a_wild_store_after_a_panic_is_told_with_it() {
    // The last warp, whose thread 64 panics, runs before those that store.
    let error = error_by("panic_and_wild_store", "reversed");
    let (_, after) = error.split_once("kernel `vecadd` panicked").expect(&error);
    let (panic, fault) = after.split_once("; after the panic, ").expect(&error);
    assert!(panic.contains("thread (64,0,0)"), "{error}");
    assert!(fault.contains("out-of-bounds store of 4 bytes"), "{error}");
}

#[test]
#[ignore = "run in a process of its own by the test above"]
fn panic_and_wild_store() {
    let gpu = Gpu::new().unwrap();
    let x = DeviceBuffer::from_slice(&gpu, &[1.0; 64]).unwrap();
    let mut out = DeviceBuffer::zeroed(&gpu, 16).unwrap();
    let mut args = Args::new();
    args.push_read(&x);
    args.push_read(&x);
    let mut out = Overstated { buffer: &mut out, len: 65 };
    args.push_write(&mut out);
    // SAFETY: deliberately broken: `out` has fewer elements than the arguments say.
    let launched = unsafe {
        gpu.launch(&vecadd::KERNEL, LaunchConfig::from(LaunchConfig::for_num_elems(65)), &args)
    };
    println!("error: {}", launched.and_then(|()| gpu.synchronize()).unwrap_err());
}

/// A device without memory gives back what its pool keeps, behind a wait for all work: the panic of that is
/// still told to whoever waits for its stream.
#[test]
fn a_panic_is_told_though_memory_was_short() {
    let panic = error_of("panic_and_trim");
    assert!(panic.contains("kernel `vecadd` panicked"), "{panic}");
}

#[test]
#[ignore = "run in a process of its own by the test above"]
fn panic_and_trim() {
    const BYTES: usize = 40 << 20;
    let gpu = Gpu::new().unwrap();
    let x = DeviceBuffer::from_slice(&gpu, &[1.0; 64]).unwrap();
    let mut out = DeviceBuffer::zeroed(&gpu, 65).unwrap();
    let other = gpu.create_stream().unwrap();
    // Freed behind a wait, so that it is not there at once for who needs it next.
    let kept = DeviceBuffer::<u8>::zeroed_async(&other, BYTES).unwrap();
    let _call = other.launch_host_func(|| thread::sleep(Duration::from_millis(300))).unwrap();
    drop(kept);
    vecadd::launch(&gpu, LaunchConfig::for_num_elems(65), &x, &x, &mut out).unwrap();
    drop(DeviceBuffer::<u8>::zeroed(&other, BYTES).unwrap());
    println!("error: {}", gpu.stream().synchronize().unwrap_err());
}

/// A grid of more blocks than 32 bits can count would cover the rest of them alone.
#[test]
fn more_blocks_than_can_be_counted_are_refused() {
    let gpu = Gpu::new().unwrap();
    let long = |len: usize, work: &dyn Fn(&Overstated, &mut Overstated) -> GpuResult<()>| {
        let [mut x, mut out] = [0.0, 5.0].map(|v| DeviceBuffer::from_slice(&gpu, &[v; 8]).unwrap());
        let x = Overstated { buffer: &mut x, len };
        let refused = work(&x, &mut Overstated { buffer: &mut out, len }).unwrap_err();
        let GpuError::LaunchTooLarge { value, .. } = refused.root() else { panic!("{refused}") };
        assert_eq!(*value, u64::from(u32::MAX), "{refused}");
        assert!(refused.to_string().contains("4294967295 or more blocks in x"), "{refused}");
        assert_eq!(out.to_vec().unwrap(), [5.0; 8]);
    };
    let rows = (1 << 32) + 5;
    long(rows, &|x, out| softmax::plain_into(&gpu, x, 1, false, out));
    long(rows, &|x, out| norm::plain_into(&gpu, &norm::Norm::layer(1), x, out));
    long((1 << 40) + 5, &|x, out| copy_strided(&gpu, 1, x, out));
    let config = LaunchConfig::for_num_elems(1 << 50);
    long(8, &|x, out| vecadd::launch(&gpu, config, x, x, out));
}

#[test]
fn a_block_of_a_wrong_shape_is_refused_before_the_driver() {
    let gpu = Gpu::new().unwrap();
    let config = LaunchConfig { grid: (1, 1, 1), block: (BLOCK / 2, 1, 1), shared_mem_bytes: 0 };
    // SAFETY: the contract is broken, so nothing runs.
    let launched = unsafe { gpu.launch(&reduce_tree_f32::KERNEL, config, &Args::new()) };
    let (expected, found) = ((BLOCK, 1, 1), (BLOCK / 2, 1, 1));
    match launched.unwrap_err() {
        GpuError::Contract { kernel: "reduce_tree_f32", broken } => {
            assert_eq!(broken, ContractError::Block { expected, found });
        }
        other => panic!("another error: {other}"),
    }
}
