//! An operator of this crate has kernels for some elements, and no other crate adds one of its own.

use bytemuck::{Pod, Zeroable};
use ferrowarp::ops::Number;
use ferrowarp::ops::scan::{ScanOperator, Sum};

#[derive(Clone, Copy)]
#[repr(transparent)]
struct Byte(u8);

// SAFETY: a byte.
unsafe impl Zeroable for Byte {}
// SAFETY: a byte.
unsafe impl Pod for Byte {}

impl Number for Byte {
    type Bits = u64;
    type Unsigned = u64;
}

impl ScanOperator<Byte> for Sum {
    type Shipped = u64;
    type Carry = u64;
}

fn main() {}
