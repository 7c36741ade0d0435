#[path = "../mock/mod.rs"]
mod mock;

use cuda_std::launch::{Grid1, Grid2};
use cuda_std::prelude::*;
use mock::{Buffer, Recorder};

#[kernel(block = 256)]
pub fn double(index: ThreadIndex, mut x: DisjointSlice<f32>) {
    if let Some(x) = x.get_mut(index) {
        *x *= 2.0;
    }
}

#[kernel(block = (16, 16))]
pub fn triple(index: ThreadIndex2, mut x: DisjointGrid<f32>) {
    if let Some(x) = x.get_mut(index) {
        *x *= 3.0;
    }
}

#[kernel(block = 32)]
pub fn count(counter: AtomicSlice<u32>) {
    counter.fetch_add(0, 1, Relaxed);
}

fn main() {
    let gpu = Recorder::default();
    let _ = double::launch(&gpu, Grid2::new(1, 1), &mut Buffer::new(256, 3));
    let _ = triple::launch(&gpu, Grid1::new(1), &mut Buffer::new(256, 3));
    let _ = count::launch(&gpu, 5, &mut Buffer::<u32>::new(256, 3));
}
