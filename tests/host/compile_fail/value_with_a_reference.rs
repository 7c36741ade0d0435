//! A value that a kernel takes by copy is plain: a reference of the host's would be a wild address on the device.
#![forbid(unsafe_code)]

use cuda_std::launch::KernelValue;

#[derive(Clone, Copy)]
struct Held(&'static u32);

impl KernelValue for Held {}

fn main() {
    let _of_the_host = *Held(&7).0;
}
