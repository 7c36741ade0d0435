//! A panic in a module that `cust` loaded: the driver's assertion, with the message, and a lost context.

use std::env;
use std::process::Command;

use cust::error::CudaError;
use cust::launch;
use cust::memory::DeviceBuffer;
use cust::module::Module;
use cust::stream::{Stream, StreamFlags};
use cust::util::SliceExt;

// The driver's functions come from the front, as in the host crate.
extern crate ferrowarp as _;

static IMAGES: &[ferrowarp::module::Image] = ferrowarp::include_kernels!("panics_light.rs");

#[test]
fn the_driver_tells_the_message_and_ends_the_context() {
    let name = "panics_without_the_host_crate";
    let output = Command::new(env::current_exe().expect("this executable"))
        .args(["--ignored", "--exact", "--nocapture", name])
        .output()
        .expect("the executable starts again");
    let text =
        [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
    let text = text.concat();
    assert!(output.status.success(), "{text}");
    for words in ["index out of bounds: the len is ", "panics_light/src/lib.rs", "error: 710"] {
        assert!(text.contains(words), "{words} is not in: {text}");
    }
}

#[test]
#[ignore = "costs the process its device"]
fn panics_without_the_host_crate() {
    let _context = cust::quick_init().expect("a device");
    let module = Module::from_ptx(IMAGES[0].ptx(), &[]).expect("it loads");
    let stream = Stream::new(StreamFlags::NON_BLOCKING, None).expect("a stream");
    let x = [1f32; 5].as_slice().as_dbuf().expect("memory");
    let out = DeviceBuffer::<f32>::zeroed(1).expect("memory");
    // SAFETY: what the kernel takes, with room for one value.
    let launched = unsafe {
        launch!(module.gather<<<1, 1, 0, stream>>>(
            7u32, x.as_device_ptr(), x.len(), out.as_device_ptr(), out.len()
        ))
    };
    let error = launched.and_then(|()| stream.synchronize()).expect_err("index 7 of 5");
    assert_eq!(error, CudaError::AssertError);
    println!("error: {}", error as u32);
    // What follows fails too: nothing here can be freed.
    std::mem::forget((x, out, stream, module));
}
