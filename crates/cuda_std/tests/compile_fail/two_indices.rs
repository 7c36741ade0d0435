use cuda_std::prelude::*;

#[kernel]
fn twice(a: ThreadIndex, b: ThreadIndex, mut y: DisjointSlice<f32>) {
    *y.get_mut(a).unwrap() = 1.0;
    *y.get_mut(b).unwrap() = 2.0;
}

fn main() {}
