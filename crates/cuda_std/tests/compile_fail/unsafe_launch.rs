#[path = "../mock/mod.rs"]
mod mock;

use cuda_std::launch::*;
use cuda_std::prelude::*;
use mock::Recorder;

/// Sets one value.
///
/// # Safety
/// `out` is valid.
#[kernel]
unsafe fn fill(out: *mut f32) {
    unsafe { *out = 1.0 };
}

fn main() {
    let gpu = Recorder::default();
    fill::launch(&gpu, Linear::new(1, 1), DevicePtr::null()).unwrap();
}
