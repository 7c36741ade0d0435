//! Rust does not say where the fields of such a struct lie: the derive asks for `#[repr(C)]`.

use cuda_std::prelude::*;

#[derive(Clone, Copy, bytemuck::NoUninit)]
struct Scale {
    by: f32,
    and: u32,
}

#[kernel]
fn scale(scale: Scale) {
    let _ = (scale.by, scale.and);
}

fn main() {}
