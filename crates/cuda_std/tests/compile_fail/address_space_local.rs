use cuda_std::address_space;

#[address_space(local)]
static mut SCRATCH: [u32; 4] = [0; 4];

fn main() {}
