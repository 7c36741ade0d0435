#[path = "../mock/mod.rs"]
mod mock;

use cuda_std::launch::*;
use cuda_std::prelude::*;
use mock::Recorder;

#[kernel]
fn negate(value: &f32) {
    let _ = -*value;
}

fn main() {
    let gpu = Recorder::default();
    negate::launch(&gpu, Linear::new(1, 1), &1.0).unwrap();
}
