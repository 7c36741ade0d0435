use cuda_std::prelude::*;

#[kernel]
async fn nothing() {}

fn main() {}
