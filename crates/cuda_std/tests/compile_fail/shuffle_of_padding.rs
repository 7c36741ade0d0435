use cuda_std::prelude::*;

#[kernel]
pub fn exchange() {
    let value: (u8, bool) = (1, true);
    Warp::current().shuffle_xor(value, 1);
}

fn main() {}
