use cuda_std::prelude::*;

#[kernel]
fn scale([a, b]: [f32; 2]) {
    let _ = a * b;
}

fn main() {}
