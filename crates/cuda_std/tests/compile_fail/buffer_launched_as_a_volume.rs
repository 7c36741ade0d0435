#[path = "../mock/mod.rs"]
mod mock;

use cuda_std::launch::LaunchConfig;
use cuda_std::prelude::*;
use mock::{Buffer, Recorder};

#[kernel]
fn fill(index: ThreadIndex3, mut volume: DisjointVolume<f32>) {
    if let Some(value) = volume.get_mut(index) {
        *value = 1.0;
    }
}

#[kernel]
fn rows(index: ThreadIndex2, mut rows: DisjointPitched<f32>) {
    if let Some(value) = rows.get_mut(index) {
        *value = 1.0;
    }
}

fn main() {
    let (gpu, mut buffer) = (Recorder::default(), Buffer::<f32>::new(0x200, 6));
    let _ = fill::launch(&gpu, LaunchConfig::for_volume(3, 2, 1), &mut buffer);
    let _ = rows::launch(&gpu, LaunchConfig::for_grid(3, 2), &mut buffer);
}
