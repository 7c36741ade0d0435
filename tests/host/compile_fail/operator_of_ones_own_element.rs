//! An operator of this crate has kernels for some elements, and no other crate says how it is launched for more.

use bytemuck::{Pod, Zeroable};
use ferrowarp::GpuResult;
use ferrowarp::ops::scan::{Arguments, ScanOperator, Sum};

#[derive(Clone, Copy)]
#[repr(transparent)]
struct Byte(u8);

// SAFETY: a byte.
unsafe impl Zeroable for Byte {}
// SAFETY: a byte.
unsafe impl Pod for Byte {}

impl ScanOperator<Byte> for Sum {
    fn states_len(_: usize) -> usize {
        1
    }

    fn launch(arguments: Arguments<'_>) -> GpuResult<()> {
        <Sum as ScanOperator<f64>>::launch(arguments)
    }
}

fn main() {}
