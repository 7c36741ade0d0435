use cuda_std::prelude::*;

#[kernel]
fn count(bytes: AtomicSlice<u8>) {
    let _ = bytes;
}

fn main() {}
