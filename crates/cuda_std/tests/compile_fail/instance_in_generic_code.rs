//! A generic function has the instances that its bound promises, for the types that have one.

#[path = "../mock/mod.rs"]
mod mock;

use cuda_std::launch::{DeviceWrite, Instance, LaunchConfig};
use cuda_std::prelude::*;
use mock::{Buffer, Recorder};

#[kernel(f32, f64)]
pub fn fill<T: Copy>(index: ThreadIndex, value: T, mut x: DisjointSlice<T>) {
    if let Some(x) = x.get_mut(index) {
        *x = value;
    }
}

fn filled<T>(value: T, x: &mut impl DeviceWrite<T>)
where
    fill<T>: Instance,
{
    let _ = fill::launch(&Recorder::default(), LaunchConfig::for_num_elems(3), value, x);
}

fn forgotten<T>(value: T, x: &mut impl DeviceWrite<T>) {
    let _ = fill::launch(&Recorder::default(), LaunchConfig::for_num_elems(3), value, x);
}

struct Mine;

impl Instance for fill<Mine> {
    const KERNEL: &'static cuda_std::launch::Kernel = fill::<f32>::KERNEL;
}

fn main() {
    filled(1.0f32, &mut Buffer::new(256, 3));
    filled(1u8, &mut Buffer::new(256, 3));
}
