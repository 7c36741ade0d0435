//! A crate whose panics trap: no message, no code for one, and the device is lost.

use cuda_std_tests::{device, done, download, error_of, fails, upload};
use ferrowarp::LaunchConfig;
use panics_trap_kernels::gather;

device!("panics_trap");

static IMAGES: &[ferrowarp::module::Image] = ferrowarp::include_kernels!("panics_trap.rs");

#[test]
fn no_code_for_messages_is_left() {
    let ptx = IMAGES[0].ptx();
    for words in ["ferrowarp_panic[", "ferrowarp_known", "6report", "4core3fmt"] {
        assert!(!ptx.contains(words), "{words} is in the module");
    }
    assert!(ptx.contains("trap;"), "a panic is no trap");
}

#[test]
fn a_panic_is_a_trap_and_the_device_is_lost() {
    let error = error_of("traps");
    for words in ["the device is lost", "a new process"] {
        assert!(error.contains(words), "{words} is not in: {error}");
    }
    assert!(!error.contains("index out of bounds"), "{error}");
}

#[test]
#[ignore = "costs the process its device"]
fn traps() {
    let (x, mut out) = (upload(gpu(), &[1f32; 10]), upload(gpu(), &[0f32; 5]));
    let config = LaunchConfig::for_num_elems(5);
    done(gather::launch(gpu(), config, 5, &x, &mut out));
    assert_eq!(download(&out), [1.0; 5]);
    done(gather::launch(gpu(), config, 6, &x, &mut out));
    fails(gpu().synchronize());
}
