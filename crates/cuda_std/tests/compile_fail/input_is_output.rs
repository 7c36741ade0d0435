#[path = "../mock/mod.rs"]
mod mock;

use cuda_std::launch::*;
use cuda_std::prelude::*;
use mock::{Buffer, Recorder};

#[kernel]
fn saxpy(index: ThreadIndex, alpha: f32, x: &[f32], mut y: DisjointSlice<f32>) {
    if let Some(y) = y.get_mut(index) {
        *y += alpha * x[index.get()];
    }
}

fn main() {
    let gpu = Recorder::default();
    let mut y = Buffer::<f32>::new(0x200, 5);
    saxpy::launch(&gpu, LaunchConfig::for_num_elems(5), 2.0, &y, &mut y).unwrap();
}
