use cuda_std::prelude::*;

#[kernel]
fn nothing() {
    let _ = shared_array![f32];
}

fn main() {}
