//! A generic parameter may have any name; what the kernel takes is what its instance says.

use cuda_std::disjoint::DisjointSlice;
use cuda_std::index::ThreadIndex;
use cuda_std::kernel;

#[kernel(ThreadIndex)]
pub fn moved<ThreadIndex3: Copy>(_index: ThreadIndex3, _out: DisjointSlice<u32>) {}

fn main() {}
