use cuda_std::prelude::*;

#[kernel]
fn twice(index: ThreadIndex, y: DisjointSlice<f32>) {
    let (mut a, mut b) = (y, y);
    let (a, b) = (a.get_mut(index), b.get_mut(index));
    let _ = (a, b);
}

fn main() {}
