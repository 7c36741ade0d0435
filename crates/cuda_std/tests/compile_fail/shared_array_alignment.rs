use cuda_std::prelude::*;

#[kernel]
pub fn k() {
    static mut TILE: SharedArray<f32, 4, 96> = SharedArray::UNINIT;
    let _of_the_macro = shared_array![f32; 4, align = 2048];
}

fn main() {}
