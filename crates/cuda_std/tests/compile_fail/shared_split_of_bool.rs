use cuda_std::prelude::*;

#[kernel]
pub fn k(mut block: Block<64>, memory: Shared<[u8]>) {
    let _ = memory.split::<(u32, bool)>(&mut block, [4, 4]);
}

fn main() {}
