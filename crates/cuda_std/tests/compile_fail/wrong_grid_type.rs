#[path = "../mock/mod.rs"]
mod mock;

use cuda_std::launch::*;
use cuda_std::prelude::*;
use mock::{Buffer, Recorder};

#[kernel]
fn invert(index: ThreadIndex2, mut image: DisjointGrid<u8>) {
    if let Some(pixel) = image.get_mut(index) {
        *pixel = !*pixel;
    }
}

fn main() {
    let gpu = Recorder::default();
    let mut image = Buffer::<f32>::new(0x200, 6);
    invert::launch(&gpu, LaunchConfig::for_grid(3, 2), &mut image).unwrap();
}
