#[path = "../mock/mod.rs"]
mod mock;

use cuda_std::launch::LaunchConfig;
use cuda_std::prelude::*;
use mock::{Buffer, Recorder};

#[kernel(f32, f64)]
pub fn fill<T: Copy>(index: ThreadIndex, value: T, mut x: DisjointSlice<T>) {
    if let Some(x) = x.get_mut(index) {
        *x = value;
    }
}

fn main() {
    let mut x = Buffer::new(256, 3);
    let _ = fill::<u8>::launch(&Recorder::default(), LaunchConfig::for_num_elems(3), 1, &mut x);
}
