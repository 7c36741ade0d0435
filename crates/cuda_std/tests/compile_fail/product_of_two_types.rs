use cuda_std::matrix::*;
use cuda_std::warp::Warp;
use cuda_std::{bf16, f16};

fn product(
    warp: Warp,
    a: FragmentA<M16N8K16, f16>,
    b: FragmentB<M16N8K16, bf16>,
    c: FragmentC<M16N8K16, f32>,
) -> FragmentC<M16N8K16, f32> {
    mma(warp, a, b, c)
}

fn main() {}
