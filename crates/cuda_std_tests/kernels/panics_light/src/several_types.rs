//! Messages with values of several types, and of none.

use cuda_std::prelude::*;

/// Panics with an index, with other values, or with a text.
#[kernel]
pub fn mixed(kind: u32, x: &[f32]) {
    match kind {
        0 => panic!("{} of {:?}", x[3], kind),
        1 => panic!("nothing else"),
        2 => panic!("{:.2} and {}", x[0], "a text"),
        _ => {}
    }
}
