use cuda_std::prelude::*;

#[kernel]
fn double(index: ThreadIndex, mut x: DisjointVectors<f32, 3>) {
    x.each(index, |_, x| *x *= 2.0);
}

#[kernel]
fn flip(index: ThreadIndex, mut x: DisjointVectors<bool>) {
    x.each(index, |_, x| *x = !*x);
}

fn main() {}
