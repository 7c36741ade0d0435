//! Memory that is dropped beside a kernel that stays: the driver's free would wait for the kernel's end.

use std::process::Command;
use std::{env, thread};

use ferrowarp::memory::PinnedBuffer;
use ferrowarp::{
    Bridge, DeviceBuffer, DeviceVec, Gpu, GpuError, GpuResult, Grid1, MappedBuffer,
    PersistentKernel, Receiver, Ring, Sender, UnifiedBuffer,
};
use kernels_gpu::persistent::ring_echo;

use super::gate::Gate;
use super::support::gpu;

type Word = [u32; 1];

fn echo(gpu: &Gpu) -> GpuResult<(Sender<Word>, Receiver<Word>, PersistentKernel)> {
    let (sender, requests) = Ring::to_device(gpu, 16, Bridge::Mapped)?;
    let (replies, receiver) = Ring::to_host(gpu, 16)?;
    let kernel = PersistentKernel::start(gpu, |launcher| {
        ring_echo::<1>::launch(launcher, Grid1::new(1), &requests, &replies)
    })?;
    Ok((sender, receiver, kernel))
}

fn answers(sender: &Sender<Word>, receiver: &Receiver<Word>, word: u32) -> GpuResult<()> {
    sender.send(&[word])?;
    assert_eq!(receiver.recv()?, Some([word]));
    Ok(())
}

#[test]
fn buffers_may_be_dropped_while_a_kernel_stays() -> GpuResult<()> {
    let (gpu, _turn) = gpu();
    let before = gpu.deferred_frees();
    assert_eq!(before.pending, 0);
    let buffer = DeviceBuffer::from_slice(&gpu, &[7u32; 1000])?;
    let unified = UnifiedBuffer::from_slice(&gpu, &[8u32; 500])?;
    let pinned = PinnedBuffer::from_slice(&gpu, &[9u8; 100])?;
    let (sender, receiver, kernel) = echo(&gpu)?;
    answers(&sender, &receiver, 1)?;
    drop(buffer);
    drop(unified);
    drop(pinned);
    let now = gpu.deferred_frees();
    assert_eq!((now.pending, now.pending_bytes, now.total - before.total), (3, 6100, 3));
    answers(&sender, &receiver, 2)?;
    kernel.shut_down()?;
    assert_eq!(gpu.deferred_frees().pending, 0);
    Ok(())
}

#[test]
fn mapped_memory_may_be_dropped_while_a_kernel_stays() -> GpuResult<()> {
    let (gpu, _turn) = gpu();
    let vec = DeviceVec::<u8>::with_capacity(&gpu, 3 << 20)?;
    let bytes = vec.capacity();
    let (sender, receiver, kernel) = echo(&gpu)?;
    answers(&sender, &receiver, 1)?;
    drop(vec);
    let now = gpu.deferred_frees();
    // Memory in the order of a stream, where none can be mapped, goes at once.
    let expected = if now.pending == 0 { (0, 0) } else { (1, bytes) };
    assert_eq!((now.pending, now.pending_bytes), expected);
    assert!(now.pending == 1 || !cfg!(target_os = "linux") || !gpu.info().virtual_memory);
    kernel.shut_down()?;
    assert_eq!(gpu.deferred_frees().pending, 0);
    Ok(())
}

#[test]
fn a_kernel_that_ends_by_itself_lets_the_next_wait_or_free_free_all() -> GpuResult<()> {
    let (gpu, _turn) = gpu();
    for by_wait in [true, false] {
        let [first, second] =
            [(); 2].map(|()| DeviceBuffer::<u32>::zeroed(&gpu, 64).expect("64 words"));
        let (sender, receiver, kernel) = echo(&gpu)?;
        answers(&sender, &receiver, 1)?;
        drop(first);
        assert_eq!(gpu.deferred_frees().pending, 1);
        drop(sender);
        while kernel.is_running()? {
            thread::yield_now();
        }
        assert_eq!(gpu.deferred_frees().pending, 1);
        if by_wait {
            gpu.synchronize()?
        } else {
            drop(second)
        }
        assert_eq!(gpu.deferred_frees().pending, 0);
        kernel.shut_down()?;
    }
    Ok(())
}

#[test]
fn the_last_of_several_kernels_frees() -> GpuResult<()> {
    let (gpu, _turn) = gpu();
    let mapped = MappedBuffer::<u32>::zeroed(&gpu, 64)?;
    let (first, second) = (echo(&gpu)?, echo(&gpu)?);
    drop(mapped);
    assert_eq!(gpu.deferred_frees().pending, 1);
    first.2.shut_down()?;
    assert!(gpu.deferred_frees().pending >= 1);
    answers(&second.0, &second.1, 5)?;
    second.2.shut_down()?;
    assert_eq!(gpu.deferred_frees().pending, 0);
    Ok(())
}

/// Runs the ignored test `name` of this file alone on an emulated device of 64 MiB.
fn on_a_small_device(name: &str) {
    let mut command = Command::new(env::current_exe().expect("this test"));
    command.args(["--ignored", "--exact", "--nocapture", &format!("frees::{name}")]);
    command.env("FERROWARP_DEVICE", "emulator").env("FERROWARP_EMULATOR_MEMORY", "64M");
    let output = command.output().expect("it starts");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("1 passed"), "{text}\n{}", String::from_utf8_lossy(&output.stderr));
}

/// What was dropped is used again where the driver has no more.
#[test]
fn what_was_dropped_serves_where_memory_is_short() {
    on_a_small_device("short_of_memory");
}

/// The host writes to unified memory at once, so what a kernel may still write serves nobody.
#[test]
fn unified_memory_in_use_serves_nobody() {
    on_a_small_device("short_of_unified_memory");
}

#[test]
#[ignore = "run in a process of its own by the test above"]
fn short_of_unified_memory() -> GpuResult<()> {
    const MIB: usize = 1 << 20;
    let (gpu, _turn) = gpu();
    let stream = gpu.create_stream()?;
    let before = UnifiedBuffer::<u8>::zeroed(&stream, 40 * MIB)?;
    let (sender, receiver, kernel) = echo(&gpu)?;
    answers(&sender, &receiver, 1)?;
    let gate = Gate::on(&stream);
    drop(before);
    let refused = UnifiedBuffer::<u8>::zeroed(&gpu, 30 * MIB).expect_err("it is in use");
    assert!(matches!(refused.root(), GpuError::OutOfMemory { .. }), "{refused}");
    gate.open();
    stream.synchronize()?;
    assert_eq!(gpu.deferred_frees().pending_bytes, 40 * MIB);
    let again = UnifiedBuffer::<u8>::zeroed(&gpu, 30 * MIB)?;
    assert_eq!((gpu.deferred_frees().pending, again.as_slice()?[30 * MIB - 1]), (0, 0));
    answers(&sender, &receiver, 2)?;
    kernel.shut_down()
}

#[test]
#[ignore = "run in a process of its own by the test above"]
fn short_of_memory() -> GpuResult<()> {
    const MIB: usize = 1 << 20;
    let (gpu, _turn) = gpu();
    let zeroed = |mib: usize| DeviceBuffer::<u8>::zeroed(&gpu, mib * MIB);
    let (large, small) = (zeroed(28)?, zeroed(24)?);
    let (sender, receiver, kernel) = echo(&gpu)?;
    answers(&sender, &receiver, 1)?;
    drop((large, small));
    assert_eq!(gpu.deferred_frees().pending_bytes, 52 * MIB);
    let mut again = zeroed(18)?;
    again.copy_from_host(&vec![3; 18 * MIB])?;
    assert_eq!(gpu.deferred_frees().pending_bytes, 28 * MIB);
    let refused = zeroed(30).expect_err("there is no such piece");
    assert!(matches!(refused.root(), GpuError::OutOfMemory { .. }), "{refused}");
    assert!(again.to_vec()?.iter().all(|byte| *byte == 3));
    answers(&sender, &receiver, 2)?;
    kernel.shut_down()?;
    zeroed(26)?.to_vec().map(drop)
}
