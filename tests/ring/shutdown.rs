//! The end of persistent kernels, wanted or not.

use std::env;
use std::process::Command;
use std::thread;
use std::time::Duration;

use cuda_std::launch::LaunchConfig;
use ferrowarp::{
    Bridge, Gpu, GpuError, GpuResult, Grid1, PersistentKernel, Receiver, Ring, Sender,
};
use kernels_gpu::elementwise::vecadd;
use kernels_gpu::persistent::ring::{SAXPY_LEN, SaxpyReply, SaxpyRequest};
use kernels_gpu::persistent::{answer_words, ring_echo, ring_saxpy};

use super::support::{gpu, overrun};

type Word = [u32; 1];

fn echo(
    gpu: &Gpu,
    slots: [usize; 2],
) -> GpuResult<(Sender<Word>, Receiver<Word>, PersistentKernel)> {
    let (sender, requests) = Ring::to_device(gpu, slots[0], Bridge::Mapped)?;
    let (replies, receiver) = Ring::to_host(gpu, slots[1])?;
    let kernel = PersistentKernel::start(gpu, |launcher| {
        ring_echo::<1>::launch(launcher, Grid1::new(1), &requests, &replies)
    })?;
    Ok((sender, receiver, kernel))
}

#[test]
fn what_was_sent_is_answered_before_the_end() -> GpuResult<()> {
    let (gpu, _turn) = gpu();
    let (sender, receiver, kernel) = echo(&gpu, [256, 256])?;
    let messages: Vec<_> = (0..200).map(|i| [i]).collect();
    sender.send_all(&messages)?;
    kernel.shut_down()?;
    let refused = sender.send(&[0]).unwrap_err();
    assert!(matches!(refused, GpuError::RingClosed { .. }), "{refused}");
    for message in messages {
        assert_eq!(receiver.recv()?, Some(message));
    }
    assert_eq!(receiver.recv()?, None);
    Ok(())
}

#[test]
fn a_kernel_whose_answers_nobody_takes_ends_too() -> GpuResult<()> {
    let (gpu, _turn) = gpu();
    let (sender, receiver, mut kernel) = echo(&gpu, [64, 4])?;
    sender.send_all(&[[5]; 64])?;
    kernel.set_shutdown_timeout(Duration::from_millis(300));
    kernel.shut_down()?;
    let mut answers = 0;
    while let Some(answer) = receiver.recv()? {
        assert_eq!(answer, [5]);
        answers += 1;
    }
    assert!((4..64).contains(&answers), "{answers}");
    Ok(())
}

#[test]
fn a_kernel_ends_with_its_last_sender() -> GpuResult<()> {
    let (gpu, _turn) = gpu();
    let (sender, receiver, kernel) = echo(&gpu, [8, 8])?;
    let other = sender.clone();
    drop(sender);
    other.send(&[1])?;
    assert_eq!(receiver.recv()?, Some([1]));
    assert!(kernel.is_running()?);
    drop(other);
    assert_eq!(receiver.recv()?, None);
    assert!(!kernel.is_running()?);
    gpu.synchronize()
}

#[test]
fn a_kernel_ends_without_a_receiver() -> GpuResult<()> {
    let (gpu, _turn) = gpu();
    let (sender, receiver, kernel) = echo(&gpu, [4, 4])?;
    drop(receiver);
    let mut sent = 0u32;
    let error = loop {
        match sender.send(&[sent]) {
            Ok(()) => sent += 1,
            Err(error) => break error,
        }
    };
    assert!(matches!(error, GpuError::RingClosed { .. }) && sent >= 4, "{error} after {sent}");
    drop(kernel);
    gpu.synchronize()
}

#[test]
fn dropping_everything_in_any_order_ends_the_kernel() -> GpuResult<()> {
    let (gpu, _turn) = gpu();
    let (sender, receiver, kernel) = echo(&gpu, [4, 4])?;
    sender.send_all(&[[1], [2], [3]])?;
    drop((kernel, receiver, sender));
    let (sender, receiver, kernel) = echo(&gpu, [4, 4])?;
    drop((sender, receiver, kernel));
    let (sender, receiver, kernel) = echo(&gpu, [4, 4])?;
    drop((receiver, kernel, sender));
    gpu.synchronize()
}

#[test]
fn a_wait_for_the_device_says_that_it_would_not_end() -> GpuResult<()> {
    let (gpu, _turn) = gpu();
    // Allocated, and the kernel loaded, before another one stays: a driver may wait for the device.
    let x = ferrowarp::MappedBuffer::from_slice(&gpu, &[1.0f32; 100])?;
    let mut sum = ferrowarp::MappedBuffer::zeroed(&gpu, 100)?;
    vecadd::launch(&gpu, LaunchConfig::for_num_elems(100), &x, &x, &mut sum)?;
    sum.as_mut_slice()?.fill(0.0);
    let (sender, receiver, kernel) = echo(&gpu, [4, 4])?;
    let error = gpu.synchronize().unwrap_err();
    assert!(matches!(error, GpuError::PersistentKernels { running: 1 }), "{error}");
    // Other streams work on meanwhile.
    vecadd::launch(&gpu, LaunchConfig::for_num_elems(100), &x, &x, &mut sum)?;
    assert_eq!(sum.as_slice()?, [2.0; 100]);
    sender.send(&[3])?;
    assert_eq!(receiver.recv()?, Some([3]));
    kernel.shut_down()?;
    gpu.synchronize()
}

#[test]
fn a_kernel_that_is_not_loaded_does_not_wait_for_one_that_stays() -> GpuResult<()> {
    let (_loaded, _turn) = gpu();
    let gpu = Gpu::new()?;
    let x = ferrowarp::MappedBuffer::from_slice(&gpu, &[1.0f32; 100])?;
    let mut sum = ferrowarp::MappedBuffer::zeroed(&gpu, 100)?;
    let config = LaunchConfig::for_num_elems(100);
    let (sender, receiver, kernel) = echo(&gpu, [4, 4])?;
    let error = vecadd::launch(&gpu, config, &x, &x, &mut sum).unwrap_err();
    let words = error.to_string();
    for expected in ["1 persistent kernel runs", "`vecadd`"] {
        assert!(words.contains(expected), "{expected} is not in: {words}");
    }
    sender.send(&[3])?;
    assert_eq!(receiver.recv()?, Some([3]));
    kernel.shut_down()?;
    vecadd::launch(&gpu, config, &x, &x, &mut sum)?;
    assert_eq!(sum.as_slice()?, [2.0; 100]);
    Ok(())
}

#[test]
fn a_kernel_that_stays_is_known_to_every_gpu_of_its_device() -> GpuResult<()> {
    let (gpu, _turn) = gpu();
    let other = Gpu::new()?;
    let x = ferrowarp::MappedBuffer::from_slice(&other, &[1.0f32; 100])?;
    let mut sum = ferrowarp::MappedBuffer::zeroed(&other, 100)?;
    let unused = ferrowarp::MappedBuffer::<f32>::zeroed(&other, 100)?;
    let config = LaunchConfig::for_num_elems(100);
    let (sender, receiver, kernel) = echo(&gpu, [4, 4])?;
    let error = vecadd::launch(&other, config, &x, &x, &mut sum).unwrap_err();
    assert!(matches!(error.root(), GpuError::LoadWouldBlock { running: 1 }), "{error}");
    let error = other.synchronize().unwrap_err();
    assert!(matches!(error, GpuError::PersistentKernels { running: 1 }), "{error}");
    drop(unused);
    assert_eq!(other.deferred_frees().pending, 1);
    sender.send(&[3])?;
    assert_eq!(receiver.recv()?, Some([3]));
    kernel.shut_down()?;
    assert_eq!(other.deferred_frees().pending, 0);
    vecadd::launch(&other, config, &x, &x, &mut sum)?;
    assert_eq!(sum.as_slice()?, [2.0; 100]);
    Ok(())
}

#[test]
fn what_a_dropped_gpu_put_off_is_freed_with_the_kernel() -> GpuResult<()> {
    let (gpu, _turn) = gpu();
    let other = Gpu::new()?;
    let unused = ferrowarp::MappedBuffer::<f32>::zeroed(&other, 100)?;
    let (sender, receiver, kernel) = echo(&gpu, [4, 4])?;
    drop(unused);
    assert_eq!((other.deferred_frees().pending, gpu.deferred_frees().pending), (1, 0));
    drop(other);
    assert_eq!(gpu.deferred_frees().pending, 1);
    sender.send(&[3])?;
    assert_eq!(receiver.recv()?, Some([3]));
    kernel.shut_down()?;
    assert_eq!(gpu.deferred_frees().pending, 0);
    Ok(())
}

#[test]
fn a_kernel_that_does_not_listen_is_an_error() -> GpuResult<()> {
    let (gpu, _turn) = gpu();
    let words = ferrowarp::MappedAtomics::<u32>::zeroed(&gpu, 1)?;
    let mut kernel = PersistentKernel::start(&gpu, |launcher| {
        answer_words::launch(launcher, LaunchConfig::for_num_elems(1), 1, &words, &words)
    })?;
    kernel.set_shutdown_timeout(Duration::from_millis(20));
    let error = kernel.shut_down().unwrap_err();
    assert!(matches!(error, GpuError::KernelNotResponding { waited_ms: 40 }), "{error}");
    words[0].store(1, std::sync::atomic::Ordering::Release);
    while gpu.synchronize().is_err() {
        thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}

fn request(id: u64, reserved: u32) -> SaxpyRequest {
    SaxpyRequest { id, alpha: 1.0, reserved, x: [1.0; SAXPY_LEN], y: [2.0; SAXPY_LEN] }
}

#[test]
fn a_panic_frees_who_waits() -> GpuResult<()> {
    let (gpu, _turn) = gpu();
    let (sender, requests) = Ring::to_device(&gpu, 8, Bridge::Mapped)?;
    let (replies, receiver) = Ring::to_host(&gpu, 8)?;
    let kernel = PersistentKernel::start(&gpu, |launcher| {
        ring_saxpy::launch(launcher, Grid1::new(1), &requests, &replies)
    })?;
    sender.send(&request(1, 0))?;
    assert_eq!(receiver.recv()?, Some(SaxpyReply { id: 1, y: [3.0; SAXPY_LEN] }));
    thread::scope(|scope| {
        let waiting = scope.spawn(|| receiver.recv().unwrap_err());
        let sending = scope.spawn(|| {
            thread::sleep(Duration::from_millis(5));
            (2..).find_map(|id| sender.send(&request(id, 1)).err()).expect("an end")
        });
        for error in [waiting.join().expect("no panic"), sending.join().expect("no panic")] {
            let panic = error.panic().unwrap_or_else(|| panic!("another error: {error}"));
            assert!(panic.message.contains("reserved word is zero"), "{panic}");
            assert_eq!(panic.kernel, "ring_saxpy");
        }
    });
    assert!(kernel.shut_down().unwrap_err().panic().is_some());
    // The device works on.
    let (sender, receiver, kernel) = echo(&gpu, [4, 4])?;
    sender.send(&[9])?;
    assert_eq!(receiver.recv()?, Some([9]));
    kernel.shut_down()
}

#[test]
fn a_fault_frees_who_waits() {
    let output = Command::new(env::current_exe().unwrap())
        .args(["--ignored", "--exact", "--nocapture", "shutdown::fault_beside_a_ring"])
        .env("FERROWARP_DEVICE", "emulator")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(text.matches("lost: the device is lost after a fault").count(), 3, "{text}");
}

#[test]
#[ignore = "run in a process of its own by the test above"]
fn fault_beside_a_ring() -> GpuResult<()> {
    let (gpu, _turn) = gpu();
    let (sender, receiver, kernel) = echo(&gpu, [4, 4])?;
    thread::scope(|scope| {
        let waiting = scope.spawn(|| receiver.recv().unwrap_err());
        overrun(&gpu);
        println!("lost: {}", waiting.join().expect("no panic"));
        let sending = (0..).find_map(|i| sender.send(&[i]).err()).expect("an end");
        println!("lost: {sending}");
    });
    println!("lost: {}", kernel.shut_down().unwrap_err());
    Ok(())
}
