//! Values of every size travel whole.

use crate::Pixel;
use bytemuck::Pod;
use cuda_std::prelude::*;
use cuda_std::warp::Warp;

/// Each lane gets the value of the lane five above it, round the warp.
fn turn<T: Pod>(index: ThreadIndex, x: &[T], mut y: DisjointSlice<T>) {
    let warp = Warp::current();
    let moved = warp.shuffle(x[index.get()], warp.thread_rank() + 5);
    if let Some(y) = y.get_mut(index) {
        *y = moved;
    }
}

/// One kernel for each type.
macro_rules! turns {
    ($($name:ident: $ty:ty;)*) => {$(
        #[kernel]
        pub fn $name(index: ThreadIndex, x: &[$ty], y: DisjointSlice<$ty>) {
            turn(index, x, y);
        }
    )*};
}

turns! {
    turn_u8: u8;
    turn_i16: i16;
    turn_pixel: Pixel;
    turn_f32: f32;
    turn_five_bytes: [u8; 5];
    turn_three_halves: [u16; 3];
    turn_seven_bytes: [u8; 7];
    turn_f64: f64;
    turn_three_floats: [f32; 3];
    turn_u128: u128;
    turn_five_doubles: [f64; 5];
}
