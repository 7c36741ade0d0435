//! The token would say that the block has other extents than the launch gives it.

use cuda_std::block::Block as Real;
use cuda_std::kernel;

pub struct Threads<const N: usize>;

pub trait Chosen {
    type Block;
}

impl<const N: usize> Chosen for Threads<N> {
    type Block = Real<16>;
}

type Block<const N: usize> = <Threads<N> as Chosen>::Block;

#[kernel]
pub fn sixteen(_block: Block<256>) {}

fn main() {}
