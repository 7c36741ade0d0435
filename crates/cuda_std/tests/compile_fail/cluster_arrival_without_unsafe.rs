//! An arrival that nobody waits for would meet the next one in its phase.

use cuda_std::prelude::*;

#[kernel(block = 64, cluster = 2)]
pub fn twice(index: ThreadIndex) {
    let _ = (cuda_std::cluster::arrive(), cuda_std::cluster::arrive_relaxed(), index);
}

fn main() {}
