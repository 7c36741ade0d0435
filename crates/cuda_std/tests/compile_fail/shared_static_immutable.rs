use core::mem::MaybeUninit;
use cuda_std::address_space;

#[address_space(shared)]
static TILE: MaybeUninit<u32> = MaybeUninit::uninit();

fn main() {}
