//! Any bytes, alone and as the body of a kernel: a module or an error, and no memory without bound.

#![no_main]

use emulator::{Device, Profile};
use libfuzzer_sys::fuzz_target;

const HEAD: &str = ".version 8.6\n.target sm_90a\n.address_size 64\n";
const REGISTERS: &str = ".reg .pred p<4>; .reg .b16 h<4>; .reg .b32 r<8>; .reg .b64 d<8>; \
                         .shared .align 16 .b8 tile[256];";

fuzz_target!(|bytes: &[u8]| {
    let text = String::from_utf8_lossy(bytes);
    let device = Device::new(Profile { worker_threads: 1, ..Profile::hopper() });
    let _ = device.load(&text);
    let _ = device.load(&format!("{HEAD}{text}"));
    let _ = device.load(&format!("{HEAD}.entry k(.param .u64 a) {{ {REGISTERS} {text} }}"));
});
