//! Kernels of scans and selections trust the states of their tiles: only this crate's operators and selectors launch
//! them, and other crates can neither implement the traits nor name the states.
#![forbid(unsafe_code)]

use ferrowarp::ops::scan::ScanOperator;
use ferrowarp::ops::select::Selector;

struct Evil;

impl ScanOperator<u8> for Evil {
    type Shipped = u8;
    type Carry = u8;
}

impl Selector<u8> for Evil {}

fn main() {}
