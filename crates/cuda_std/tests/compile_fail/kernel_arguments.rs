use cuda_std::prelude::*;

#[kernel(fast)]
fn nothing() {}

fn main() {}
