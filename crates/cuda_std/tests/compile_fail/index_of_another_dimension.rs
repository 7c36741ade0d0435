use cuda_std::prelude::*;

#[kernel]
fn fill(index: ThreadIndex2, mut volume: DisjointVolume<f32>) {
    if let Some(value) = volume.get_mut(index) {
        *value = 1.0;
    }
}

fn main() {}
