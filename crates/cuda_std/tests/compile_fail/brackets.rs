use cuda_std::prelude::*;

#[kernel]
fn fill(index: ThreadIndex, mut out: DisjointSlice<f32>) {
    out[index] = 1.0;
}

#[kernel]
fn fill_grid(index: ThreadIndex2, mut out: DisjointGrid<f32>) {
    out[(index.x(), index.y())] += 1.0;
}

fn main() {}
