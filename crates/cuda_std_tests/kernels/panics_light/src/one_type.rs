//! Messages with one value each, all of one type, and a text.

use cuda_std::prelude::*;

/// Panics with the first value, in some form.
#[kernel]
pub fn single(kind: u32, x: &[i64]) {
    let Some(&value) = x.first() else { panic!("there is no value") };
    match kind {
        0 => panic!("only {value}"),
        1 => panic!("{value:>+8}|{value:<4}|"),
        _ => {}
    }
}
