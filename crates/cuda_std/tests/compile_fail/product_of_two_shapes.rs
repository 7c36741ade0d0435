use cuda_std::f16;
use cuda_std::matrix::*;
use cuda_std::warp::Warp;

fn product(
    warp: Warp,
    a: FragmentA<M16N8K16, f16>,
    b: FragmentB<M16N8K8, f16>,
    c: FragmentC<M16N8K16, f32>,
) -> FragmentC<M16N8K16, f32> {
    mma(warp, a, b, c)
}

fn main() {}
