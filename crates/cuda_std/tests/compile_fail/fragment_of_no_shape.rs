use cuda_std::bf16;
use cuda_std::matrix::*;

fn main() {
    // 32 along K is for elements of 8 bits.
    let _ = FragmentA::<M16N8K32, bf16>::zeroed();
}
