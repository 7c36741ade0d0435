use cuda_std::prelude::*;

#[kernel]
pub fn thirds() {
    Warp::current().tile::<3>().sync();
}

fn main() {}
