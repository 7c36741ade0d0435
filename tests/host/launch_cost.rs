//! What a launch asks of the driver: as little as can be. Counted on the emulator.

use cuda_driver::injection;
use ferrowarp::operation::{DeviceOperation, operation};
use ferrowarp::{DeviceBuffer, Gpu, GpuResult, Linear, Stream};

use crate::child::{child, lines};
use crate::kernels::{FILL, IMAGES, LAST_WORD, fill, gpu, launch};

#[test]
fn a_launch_asks_the_driver_for_nothing_but_the_launch() {
    let variables = [("FERROWARP_DEVICE", "emulator")];
    let told = lines(&child("launch_cost::print_calls", &variables), "calls: ");
    let again = "cuLaunchKernelEx";
    let other_shape = "cuCtxGetCurrent cuLaunchKernelEx";
    let allowed = "cuCtxGetCurrent cuFuncSetAttribute cuCtxGetCurrent cuLaunchKernelEx";
    assert_eq!(told, [again, allowed, again, other_shape, allowed, again]);
}

fn calls(work: impl FnOnce() -> GpuResult<()>) {
    let (result, calls) = injection::watch(work);
    result.unwrap();
    let names: Vec<_> = calls.iter().map(|call| call.function).collect();
    println!("calls: {}", names.join(" "));
}

#[test]
#[ignore = "run in a process of its own by the test above"]
fn print_calls() {
    let mut words = DeviceBuffer::<u32>::zeroed(gpu(), 4).unwrap();
    fill(gpu(), &mut words, 1).unwrap();
    launch(gpu(), &LAST_WORD, Linear::new(1, 1).shared_mem(1024), &mut words, 1024).unwrap();
    // Both kernels may be remembered at one place.
    fill(gpu(), &mut words, 1).unwrap();
    calls(|| fill(gpu(), &mut words, 2));
    for bytes in [60 << 10, 60 << 10, 50 << 10, 61 << 10] {
        let config = Linear::new(1, 1).shared_mem(bytes);
        calls(|| launch(gpu(), &LAST_WORD, config, &mut words, bytes));
    }
    fill(gpu(), &mut words, 1).unwrap();
    calls(|| operation(|on: &Stream| fill(on, &mut words, 2)).enqueue_on(gpu()));
}

/// What one thread was allowed another one may not take back.
#[test]
fn threads_that_want_different_amounts_of_shared_memory_get_them() -> GpuResult<()> {
    let gpu = Gpu::with_images(IMAGES)?;
    let large = |bytes: u32| {
        let mut word = DeviceBuffer::zeroed(&gpu, 1)?;
        launch(&gpu, &LAST_WORD, Linear::new(1, 1).shared_mem(bytes), &mut word, bytes)?;
        assert_eq!(word.to_vec()?, [77]);
        GpuResult::Ok(())
    };
    large(90 << 10)?;
    std::thread::scope(|scope| scope.spawn(|| large(60 << 10)).join().expect("no panic"))?;
    large(90 << 10)
}

/// A thread remembers what it has looked up: of a module that is gone it must not use anything.
#[test]
fn devices_come_and_go_with_their_kernels() -> GpuResult<()> {
    for round in 1..=100 {
        let gpu = Gpu::with_images(IMAGES)?;
        let mut words = DeviceBuffer::zeroed(&gpu, 4)?;
        launch(&gpu, &FILL, Linear::new(1, 4), &mut words, round)?;
        assert_eq!(words.to_vec()?, [round; 4]);
    }
    Ok(())
}
