use cuda_std::prelude::*;

#[kernel(block = 64, max_threads = 128)]
pub fn both(_index: ThreadIndex) {}

#[kernel(min_blocks = 2)]
pub fn neither(_index: ThreadIndex) {}

#[kernel(cooperative = true)]
pub fn with_value(_index: ThreadIndex) {}

#[kernel(dynamic_shared = 16..32)]
pub fn half_open(_index: ThreadIndex) {}

fn main() {}
