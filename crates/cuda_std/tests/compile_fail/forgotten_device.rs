//! A launch names the device or the stream first.

#[path = "../mock/mod.rs"]
mod mock;

use cuda_std::launch::LaunchConfig;
use cuda_std::prelude::*;
use mock::Buffer;

#[kernel]
pub fn scale(index: ThreadIndex, factor: f32, mut x: DisjointSlice<f32>) {
    if let Some(x) = x.get_mut(index) {
        *x *= factor;
    }
}

fn main() {
    let mut x = Buffer::<f32>::new(256, 3);
    let _ = scale::launch(&mut x, LaunchConfig::for_num_elems(3), 2.0);
    let _ = scale::launch(&x, LaunchConfig::for_num_elems(3), 2.0, &mut x);
}
