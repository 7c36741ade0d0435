use cuda_std::prelude::*;

#[kernel]
fn map(f: impl Fn(f32) -> f32) {
    f(1.0);
}

fn main() {}
