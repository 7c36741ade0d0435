//! Functions that a stream calls on the host.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ferrowarp::{Backend, DeviceBuffer, GpuError, GpuResult};

use crate::child::{child, lines};
use crate::gate::Gate;
use crate::kernels::{churn, churned, gpu};

const LEN: usize = 256;

#[track_caller]
fn assert_panicked<T>(result: GpuResult<T>, words: &str) {
    let error = result.err().expect("a panic");
    let GpuError::HostPanic { message } = error.root() else { panic!("{error}") };
    assert!(message.contains(words), "{message}");
}

#[test]
fn functions_run_in_order_and_their_values_come_back() -> GpuResult<()> {
    let (stream, said) = (gpu().create_stream()?, Arc::new(Mutex::new(Vec::new())));
    let calls: Vec<_> = (0..20)
        .map(|i| {
            let said = said.clone();
            stream.launch_host_func(move || {
                said.lock().unwrap().push(i);
                i * i
            })
        })
        .collect::<GpuResult<_>>()?;
    let squares: Vec<_> = calls.into_iter().map(|call| call.wait().unwrap()).collect();
    assert!(squares.into_iter().eq((0..20).map(|i| i * i)));
    assert!(said.lock().unwrap().iter().copied().eq(0..20));
    Ok(())
}

#[test]
fn later_work_waits_for_a_function() -> GpuResult<()> {
    let stream = gpu().create_stream()?;
    let mut words = DeviceBuffer::from_slice(&stream, &[3u32; LEN])?;
    churn(&stream, &mut DeviceBuffer::<u32>::zeroed(&stream, 1)?, 1)?;
    let gate = Gate::on(&stream);
    churn(&stream, &mut words, 10)?;
    assert!(!stream.is_idle()?);
    assert!(!stream.synchronize_for(Duration::from_millis(20))?);
    gate.open();
    assert!(stream.synchronize_for(Duration::from_secs(60))?);
    assert_eq!(words.to_vec()?, [churned(3, 10); LEN]);
    Ok(())
}

#[test]
fn a_panic_is_the_error_of_the_next_wait_and_of_no_other() -> GpuResult<()> {
    let (stream, bystander) = (gpu().create_stream()?, gpu().create_stream()?);
    drop(stream.launch_host_func(|| panic!("on purpose: {}", 17))?);
    bystander.synchronize()?;
    assert_panicked(stream.synchronize(), "on purpose: 17");
    stream.synchronize()?;
    // Whoever holds the call is told by it; then the stream does not say it again.
    let call = stream.launch_host_func(|| -> u32 { panic!("on purpose too") })?;
    assert_panicked(call.wait(), "on purpose too");
    stream.synchronize()?;
    drop(stream.launch_host_func(|| panic!("awaited"))?);
    assert_panicked(pollster::block_on(stream.completed()), "awaited");
    stream.synchronize()
}

#[test]
fn calls_of_the_driver_from_a_function_are_refused() -> GpuResult<()> {
    let stream = gpu().create_stream()?;
    let words = DeviceBuffer::from_slice(&stream, &[3u32; LEN])?;
    let copied = stream.launch_host_func(move || (words.to_vec().err(), words))?;
    let (error, words) = copied.wait()?;
    let error = error.expect("the copy was refused");
    assert!(matches!(error.root(), GpuError::InHostCallback { .. }), "{error}");
    assert_eq!(words.to_vec()?, [3; LEN]);
    Ok(())
}

#[test]
fn what_a_function_drops_is_released_when_the_driver_may_be_called() {
    let told = lines(&child("host_funcs::drop_in_a_function", &[]), "free: ");
    assert_eq!(told, ["released"]);
}

#[test]
#[ignore = "run in a process of its own by the test above"]
fn drop_in_a_function() {
    let total = gpu().memory_info().unwrap().1;
    match gpu().backend() {
        // This process's own.
        Backend::Emulator => {
            let [before, with, after] = free_around_a_drop(64 << 20);
            // A stream more or less may change what the driver itself needs.
            assert!(
                with + (32 << 20) < before && after + (4 << 20) > before,
                "{before} {with} {after}"
            );
        }
        // Other processes take and give back its memory too. If it were not released, there would be too little of it.
        Backend::Cuda => {
            for _ in 0..80 {
                free_around_a_drop(total / 32);
            }
        }
    }
    println!("free: released");
}

/// The device's free bytes before a function of the host has a buffer of so many bytes, an event and a stream, while it
/// has them, and after it dropped them.
fn free_around_a_drop(bytes: usize) -> [usize; 3] {
    let free = || gpu().memory_info().unwrap().0;
    let stream = gpu().create_stream().unwrap();
    let mut words = DeviceBuffer::<u32>::zeroed(&stream, 16).unwrap();
    stream.synchronize().unwrap();
    let before = free();
    let large = DeviceBuffer::<u32>::zeroed(&stream, bytes / 4).unwrap();
    let event = stream.record().unwrap();
    let own = gpu().create_stream().unwrap();
    let with = free();
    let dropped = Arc::new(AtomicBool::new(false));
    let call = {
        let dropped = dropped.clone();
        stream.launch_host_func(move || {
            drop((large, event, own));
            dropped.store(true, Ordering::SeqCst);
        })
    };
    call.unwrap().wait().unwrap();
    assert!(dropped.load(Ordering::SeqCst));
    churn(&stream, &mut words, 1).unwrap();
    stream.synchronize().unwrap();
    [before, with, free()]
}
