#[path = "../mock/mod.rs"]
mod mock;

use cuda_std::launch::*;
use cuda_std::prelude::*;
use mock::Recorder;

#[derive(Clone, Copy)]
struct Scale {
    by: f32,
    twice: u8,
}

#[kernel]
fn scale(scale: Scale) {
    let _ = (scale.by, scale.twice);
}

fn main() {
    let gpu = Recorder::default();
    scale::launch(&gpu, Linear::new(1, 1), Scale { by: 2.0, twice: 1 }).unwrap();
}
