use cuda_std::prelude::*;

#[kernel]
fn both(a: ThreadIndex, b: ThreadIndex2) {
    let _ = (a, b);
}

fn main() {}
