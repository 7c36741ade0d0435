use cuda_std::prelude::*;

#[kernel]
fn nothing(mut y: DisjointSlice<f32>) {
    *y.get_mut(3).unwrap() = 1.0;
}

fn main() {}
