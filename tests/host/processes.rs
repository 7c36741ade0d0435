//! Processes and what they do to a driver: forks, resets, ends.

use std::ptr;
use std::sync::OnceLock;

use cuda_driver::sys;
use ferrowarp::{DeviceBuffer, Gpu, GpuResult};

use crate::child::{child, lines};
use crate::kernels::{IMAGES, churn, fill, gpu};

#[cfg(unix)]
#[test]
fn a_forked_child_is_told_so_and_its_parent_works_on() {
    let told = lines(&child("processes::fork_after_use", &[]), "child: ");
    assert_eq!(told, ["7 of 7 forked"]);
}

/// The child ends by `_exit`, so nothing of this process's is written or dropped twice.
#[cfg(unix)]
#[test]
#[ignore = "run in a process of its own by the test above"]
fn fork_after_use() {
    use std::io::{self, Write as _};

    use ferrowarp::GpuError;

    let stream = gpu().create_stream().unwrap();
    let mut words = DeviceBuffer::from_slice(gpu(), &[1u32; 64]).unwrap();
    stream.synchronize().unwrap();
    // SAFETY: the child calls what needs no other thread, prints, and ends.
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        let results = [
            Gpu::new().map(drop),
            gpu().synchronize(),
            gpu().create_stream().map(drop),
            words.to_vec().map(drop),
            fill(gpu(), &mut words, 1),
            stream.record_event().map(drop),
            ferrowarp::completion::block_on(stream.completed()),
        ];
        let forked = |result: &GpuResult<()>| {
            result.as_ref().is_err_and(|error| matches!(error.root(), GpuError::Forked))
        };
        let count = results.iter().filter(|result| forked(result)).count();
        // Drops call no driver either.
        drop((words, stream));
        let line = format!("child: {count} of {} forked\n", results.len());
        io::stdout().write_all(line.as_bytes()).unwrap();
        io::stdout().flush().unwrap();
        // SAFETY: ends the process at once.
        unsafe { libc::_exit(0) };
    }
    let mut status = 0;
    // SAFETY: `status` is writable, and the child is this process's own.
    assert_eq!(unsafe { libc::waitpid(pid, &mut status, 0) }, pid);
    assert_eq!(status, 0);
    fill(&stream, &mut words, 9).unwrap();
    assert_eq!(words.to_vec().unwrap(), [9; 64]);
}

/// Somebody else in the process resets the device.
#[test]
fn a_reset_device_is_an_error_and_no_crash() {
    let told = lines(&child("processes::reset_and_go_on", &[]), "after the reset: ");
    assert_eq!(told, ["an error"]);
}

#[test]
#[ignore = "run in a process of its own by the test above"]
fn reset_and_go_on() {
    let own = Gpu::with_images(IMAGES).unwrap();
    let stream = own.create_stream().unwrap();
    let words = DeviceBuffer::from_slice(&stream, &[1u32; 64]).unwrap();
    let event = stream.record_event().unwrap();
    stream.synchronize().unwrap();
    // SAFETY: what uses the device afterwards is what this test is about; the driver answers.
    assert_eq!(unsafe { sys::cuDevicePrimaryCtxReset_v2(0) }, sys::CUresult::CUDA_SUCCESS);
    let failed = words.to_vec().is_err();
    drop((words, event, stream, own));
    println!("after the reset: {}", if failed { "an error" } else { "no error" });
}

/// The driver ends before the program's last functions, which still hold memory and streams.
#[test]
fn what_lives_longer_than_the_driver_ends_in_peace() {
    let told = lines(&child("processes::use_at_exit", &[]), "at exit: ");
    assert_eq!(told, ["no crash"]);
}

/// The driver's codes at its end, at every call that a drop makes.
#[test]
fn drops_after_the_drivers_end_are_silent() {
    let gone = ["cuMemFree_v2", "cuStreamDestroy_v2", "cuEventDestroy_v2", "cuStreamSynchronize"];
    let gone = gone.map(|name| format!("{name}:4")).join(",");
    let variables = [("FERROWARP_DEVICE", "emulator"), ("FERROWARP_EMULATOR_FAIL", &gone)];
    let told = lines(&child("processes::use_at_exit", &variables), "at exit: ");
    assert_eq!(told, ["no crash"]);
}

static LAST: OnceLock<(Gpu, DeviceBuffer<u32>)> = OnceLock::new();

#[test]
#[ignore = "run in a process of its own by the tests above"]
fn use_at_exit() {
    extern "C" fn at_exit() {
        let (gpu, words) = LAST.get().expect("it was set");
        // Errors or not, by what the driver's own exit has done before.
        let _ = (gpu.synchronize(), words.to_vec(), gpu.create_stream());
        let _ = DeviceBuffer::from_slice(gpu, &[1u32; 4]).map(drop);
        println!("at exit: no crash");
    }
    // Before the driver's own, so that it runs after it.
    // SAFETY: the function is of the right type and lives as long as the program.
    assert_eq!(unsafe { libc::atexit(at_exit) }, 0);
    let own = Gpu::with_images(IMAGES).unwrap();
    // SAFETY: the words are written next.
    let mut words = unsafe { DeviceBuffer::uninitialized(&own, 64) }.unwrap();
    churn(&own, &mut words, 10).unwrap();
    assert!(LAST.set((own, words)).is_ok());
}

/// The driver wants a context to be current on each thread; every call sees to it.
#[test]
fn a_thread_that_never_saw_the_device_uses_it() -> GpuResult<()> {
    let mut words = DeviceBuffer::from_slice(gpu(), &[1u32; 64])?;
    std::thread::scope(|scope| {
        scope
            .spawn(|| {
                let mut current = ptr::null_mut();
                // SAFETY: `current` is writable.
                let code = unsafe { sys::cuCtxGetCurrent(&mut current) };
                assert_eq!((code, current), (sys::CUresult::CUDA_SUCCESS, ptr::null_mut()));
                fill(gpu(), &mut words, 3)?;
                assert_eq!(words.to_vec()?, [3; 64]);
                // And after somebody has taken it away again.
                // SAFETY: null is no context.
                let code = unsafe { sys::cuCtxSetCurrent(ptr::null_mut()) };
                assert_eq!(code, sys::CUresult::CUDA_SUCCESS);
                DeviceBuffer::from_slice(gpu(), &[2u32; 8]).map(drop)
            })
            .join()
            .expect("no panic")
    })
}
