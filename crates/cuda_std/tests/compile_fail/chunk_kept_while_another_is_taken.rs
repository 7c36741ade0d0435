use cuda_std::prelude::*;

#[kernel]
fn double(index: ThreadIndex, mut x: DisjointChunks<f32, 4>) {
    let first = x.slice_mut(index);
    let second = x.slice_mut(index);
    first[0] = second[0];
}

fn main() {}
