use cuda_std::prelude::*;

#[kernel]
pub fn k() {
    static mut FITS: SharedArray<f64, 6144> = SharedArray::UNINIT;
    static mut TILE: SharedArray<f64, 6145> = SharedArray::UNINIT;
}

fn main() {}
