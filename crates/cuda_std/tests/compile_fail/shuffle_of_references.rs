use cuda_std::prelude::*;

#[kernel]
pub fn exchange(x: &[u32]) {
    Warp::current().shuffle(&x[0], 1);
}

fn main() {}
