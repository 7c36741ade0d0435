use cuda_std::prelude::*;

#[kernel]
pub fn k() {
    static mut TILE: [f32; 256] = SharedArray::UNINIT;
}

fn main() {}
