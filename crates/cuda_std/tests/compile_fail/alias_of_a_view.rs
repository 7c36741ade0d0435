//! The launcher of `SystemAtomics` lends the words to others too.

use cuda_std::kernel;

type SystemAtomics<'a, T> = cuda_std::disjoint::DisjointSlice<'a, T>;

#[kernel]
pub fn twice(_a: SystemAtomics<u32>, _b: SystemAtomics<u32>) {}

fn main() {}
