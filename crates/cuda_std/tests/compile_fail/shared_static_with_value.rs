use cuda_std::address_space;

#[address_space(shared)]
static mut TILE: [f32; 16] = [0.0; 16];

fn main() {}
