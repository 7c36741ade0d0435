use cuda_std::address_space;

#[address_space(texture)]
static A: u32 = 0;

#[address_space]
static B: u32 = 0;

#[address_space(constant)]
fn c() {}

fn main() {}
