use cuda_std::prelude::*;

#[kernel]
pub fn k() {
    let _tile = shared_array![f32; 256, aligned = 128];
}

fn main() {}
