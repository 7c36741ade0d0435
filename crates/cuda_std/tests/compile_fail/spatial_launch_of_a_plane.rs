#[path = "../mock/mod.rs"]
mod mock;

use cuda_std::launch::{LaunchConfig, Spatial};
use cuda_std::prelude::*;
use mock::{Buffer, Recorder};

#[kernel]
fn invert(index: ThreadIndex2, mut image: DisjointGrid<u8>) {
    if let Some(pixel) = image.get_mut(index) {
        *pixel = !*pixel;
    }
}

#[kernel]
fn count(index: ThreadIndex3, cells: AtomicSlice<u32>) {
    cells.fetch_add(index.z(), 1, Relaxed);
}

fn main() {
    let gpu = Recorder::default();
    let config = Spatial::new((1, 1, 1), (8, 8, 8));
    let _ = invert::launch(&gpu, config, &mut Buffer::<u8>::new(0x200, 6));
    let _ = count::launch(&gpu, LaunchConfig::for_grid(3, 2), &mut Buffer::<u32>::new(0x200, 6));
}
