//! A kernel that faults ends its process's device, so these run in a process of their own.

use std::env;
use std::process::{Command, Output};

use ferrowarp::{DeviceBuffer, GpuError, GpuResult, Linear};

use crate::kernels::{WILD, fill, gpu, launch};

/// Runs the ignored test `name` of this file alone in another process.
fn child(name: &str, device: Option<&str>) -> Output {
    let mut command = Command::new(env::current_exe().unwrap());
    command.args(["--ignored", "--exact", "--nocapture", &format!("faults::{name}")]);
    if let Some(device) = device {
        command.env("FERROWARP_DEVICE", device);
    }
    command.output().unwrap()
}

/// The child's lines that begin with `prefix`, without it; the child must have passed.
#[track_caller]
fn lines(output: &Output, prefix: &str) -> Vec<String> {
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && text.contains("1 passed"), "{text}\n{errors}");
    text.lines().filter_map(|line| line.strip_prefix(prefix)).map(str::to_owned).collect()
}

#[test]
fn a_fault_is_reported_and_the_device_is_lost() {
    let output = child("fault_and_go_on", None);
    let causes = lines(&output, "lost: ");
    assert_eq!(causes.len(), 6, "{causes:?}");
    assert!(causes.iter().all(|cause| *cause == causes[0]), "the first cause stays: {causes:?}");
}

#[test]
fn the_emulator_names_kernel_thread_and_address() {
    let output = child("fault_and_go_on", Some("emulator"));
    let cause = &lines(&output, "lost: ")[0];
    for words in ["`wild`", "block (2,0,0)", "thread (0,0,0)", "store of 4 bytes"] {
        assert!(cause.contains(words), "{words} in {cause}");
    }
}

#[test]
#[ignore = "run in a process of its own by the tests above"]
fn fault_and_go_on() {
    let mut words = DeviceBuffer::zeroed(gpu(), 4).unwrap();
    let fault =
        launch(gpu(), &WILD, Linear::new(3, 1), &mut words, 1).and_then(|()| gpu().synchronize());
    report(fault);
    report(gpu().synchronize());
    report(words.to_vec());
    report(fill(gpu(), &mut words, 1));
    report(DeviceBuffer::<u8>::zeroed(gpu(), 1));
    report(gpu().create_stream());
    // Drops must neither panic nor hang.
}

/// Codes that `cust` lacks, and one that nobody has, in the place of an allocation's answer.
#[test]
fn codes_of_newer_drivers_keep_their_number() {
    for (code, name, lost) in [
        (912, "CUDA_ERROR_INVALID_CLUSTER_SIZE", false),
        (46, "CUDA_ERROR_DEVICE_UNAVAILABLE", false),
        (226, "CUDA_ERROR_CONTAINED", true),
        (4321, "an unknown code", false),
    ] {
        let mut command = Command::new(env::current_exe().unwrap());
        command.args(["--ignored", "--exact", "--nocapture", "faults::fail_to_allocate"]);
        command.env("FERROWARP_DEVICE", "emulator");
        command.env("FERROWARP_EMULATOR_FAIL", format!("cuMemAlloc_v2:{code}"));
        let told = lines(&command.output().unwrap(), "failed: ");
        assert_eq!(told, [format!("{code} {name} {lost}")]);
    }
}

#[test]
#[ignore = "run in a process of its own by the test above"]
fn fail_to_allocate() {
    let Err(error) = DeviceBuffer::<u8>::zeroed(gpu(), 1) else { panic!("it was told to fail") };
    let driver = error.driver().expect("a driver error");
    let lost = matches!(error.root(), GpuError::DeviceLost { .. });
    println!("failed: {} {} {lost}", driver.code(), driver.name());
}

fn report<T>(result: GpuResult<T>) {
    let error = result.err().expect("the device is lost");
    let GpuError::DeviceLost { cause } = error.root() else { panic!("{error}") };
    assert_eq!(cause.driver().expect("a driver error").code(), 700, "{error}");
    println!("lost: {cause}");
}
