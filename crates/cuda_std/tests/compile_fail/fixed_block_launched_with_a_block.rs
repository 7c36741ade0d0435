#[path = "../mock/mod.rs"]
mod mock;

use cuda_std::launch::{Linear, LaunchConfig};
use cuda_std::prelude::*;
use mock::{Buffer, Recorder};

#[kernel(block = 256)]
pub fn double(index: ThreadIndex, mut x: DisjointSlice<f32>) {
    if let Some(x) = x.get_mut(index) {
        *x *= 2.0;
    }
}

fn main() {
    let mut x = Buffer::new(256, 3);
    let _ = double::launch(&Recorder::default(), Linear::new(1, 128), &mut x);
    let _ = double::launch(&Recorder::default(), LaunchConfig::for_num_elems(3), &mut x);
}
