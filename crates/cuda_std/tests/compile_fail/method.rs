use cuda_std::prelude::*;

struct Pixels;

impl Pixels {
    #[kernel]
    fn invert(&self) {}
}

fn main() {}
