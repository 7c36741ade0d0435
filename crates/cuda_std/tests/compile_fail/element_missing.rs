use cuda_std::prelude::*;

#[kernel]
fn fill(out: DisjointSlice) {
    let _ = out;
}

fn main() {}
