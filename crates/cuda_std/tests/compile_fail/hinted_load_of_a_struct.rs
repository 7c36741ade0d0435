use cuda_std::access::{self, LoadHint};
use cuda_std::prelude::*;

#[kernel]
pub fn gather(index: ThreadIndex, x: &[[f32; 3]], mut y: DisjointSlice<f32>) {
    if let Some(y) = y.get_mut(index) {
        *y = access::load(&x[index.get()], LoadHint::Streaming)[0];
    }
}

fn main() {}
