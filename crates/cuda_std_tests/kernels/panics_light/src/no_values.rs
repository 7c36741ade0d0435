//! Messages without values.

use cuda_std::prelude::*;

/// A text that is longer than a record.
macro_rules! long {
    () => {
        long!(long!(long!("0123456789abcdef")))
    };
    ($text:expr) => {
        concat!($text, $text, $text, $text, $text, $text)
    };
}

/// That text.
pub const LONG: &str = long!();

/// Panics with a text of some length.
#[kernel]
pub fn texts(index: ThreadIndex, kind: u32, divisor: u32, mut out: DisjointSlice<u32>) {
    match kind {
        0 => panic!(""),
        1 => panic!("seven b"),
        2 => panic!("eight by"),
        3 => panic!("Größe: naïve 字"),
        4 => panic!(long!()),
        _ => {}
    }
    if let Some(out) = out.get_mut(index) {
        *out = 84 / divisor;
    }
}
