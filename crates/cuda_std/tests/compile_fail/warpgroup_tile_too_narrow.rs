use cuda_std::bf16;
use cuda_std::copy::{Swizzle128, Tile};
use cuda_std::matrix::Accumulator;

unsafe fn product(
    sums: &mut Accumulator<f32, 64>,
    a: *const Tile<[[bf16; 64]; 64], Swizzle128>,
    b: *const Tile<[[bf16; 64]; 32], Swizzle128>,
) {
    unsafe { sums.multiply(a, 0, b, true) }
}

fn main() {}
