use cuda_std::prelude::*;

#[kernel]
pub fn sum() {
    Warp::current().sum([1.0f32; 3]);
}

fn main() {}
