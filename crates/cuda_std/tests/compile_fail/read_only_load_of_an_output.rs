//! A reference does not say that nobody writes while the kernel runs: this thread does.

use cuda_std::access::{ReadOnlyHint, load_read_only};
use cuda_std::prelude::*;

#[kernel]
pub fn read_only_after_store(index: ThreadIndex, mut y: DisjointSlice<u32>) {
    if let Some(y) = y.get_mut(index) {
        *y = 5;
        *y += load_read_only(y, ReadOnlyHint::AllLevels);
    }
}

fn main() {}
