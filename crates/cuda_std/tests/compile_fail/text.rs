use cuda_std::prelude::*;

#[kernel]
fn count(text: &str, mut words: DisjointSlice<u32>) {}

fn main() {}
