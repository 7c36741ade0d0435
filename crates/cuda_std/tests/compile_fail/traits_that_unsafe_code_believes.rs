//! What unsafe code believes of a type cannot be said by anyone.

use cuda_std::copy::{Extents, TensorElement, TensorType};
use cuda_std::matrix::{Columns, Width};

#[derive(Clone, Copy, Debug)]
struct Wide(u8);

impl Extents for Wide {
    type Element = u64;
    const RANK: usize = 1;
    const EXTENTS: [u32; 5] = [256; 5];
}

#[derive(Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(transparent)]
struct Mine(u8);

impl TensorElement for Mine {
    const TYPE: TensorType = TensorType::F64;
}

#[derive(Clone, Copy, Debug)]
struct Registers(&'static [Wide; 4]);

impl AsRef<[Wide]> for Registers {
    fn as_ref(&self) -> &[Wide] {
        self.0
    }
}

impl Width<Wide> for Columns<8> {
    type Registers = Registers;

    fn pairs(_: &Registers, _: impl FnMut(usize, [Wide; 2])) {}
}

fn main() {}
