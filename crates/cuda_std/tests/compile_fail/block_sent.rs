//! The token of a block belongs to its thread.

use cuda_std::prelude::*;

fn send<T: Send>(_: T) {}

#[kernel]
pub fn k(block: Block<256>) {
    send(block);
}

fn main() {}
