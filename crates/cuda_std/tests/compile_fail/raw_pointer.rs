use cuda_std::prelude::*;

#[kernel]
fn fill(out: *mut f32) {
    unsafe { *out = 1.0 };
}

fn main() {}
