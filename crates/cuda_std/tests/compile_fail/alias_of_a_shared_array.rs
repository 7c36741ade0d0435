//! Each array has the number that its type says, and no other.

use cuda_std::block::Block;
use cuda_std::kernel;

type Shared<L, const ID: u32> = cuda_std::shared::Shared<L, 7>;

#[kernel]
pub fn renumbered(_block: Block<32>, _a: Shared<[u32; 32], 0>, _b: Shared<[u32; 32], 1>) {}

fn main() {}
