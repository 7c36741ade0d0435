//! A token comes from the entry of a kernel alone.

use cuda_std::prelude::*;

fn forged() -> Block<256> {
    Block { turn: 0, not_send: core::marker::PhantomData }
}

fn main() {}
