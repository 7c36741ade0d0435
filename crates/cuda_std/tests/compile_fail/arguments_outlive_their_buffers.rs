//! Arguments borrow the buffers that were pushed, and homes the `Arc` that they were made of.

#[path = "../mock/mod.rs"]
mod mock;

use std::sync::Arc;

use cuda_std::launch::{Args, DeviceRead, Home};
use mock::Buffer;

fn arguments_of_a_local_buffer() -> Args<'static> {
    let buffer = Buffer::<f32>::new(0x100, 8);
    let mut args = Args::new();
    args.push_read::<f32>(&buffer);
    args
}

fn main() {
    let buffer = Buffer::<f32>::new(0x100, 8);
    let mut args = Args::new();
    args.push_read::<f32>(&buffer);
    drop(buffer);
    println!("{}", args.len());

    let mut written = Buffer::<f32>::new(0x200, 8);
    let mut args = Args::new();
    args.push_write::<f32>(&mut written);
    let read = DeviceRead::<f32>::raw(&written);
    println!("{} {}", args.len(), read.len);

    let kept = arguments_of_a_local_buffer().keep();
    let memory = kept.memory()[0];
    drop(kept);
    println!("{memory:?}");

    let stream = Arc::new("a stream");
    let home = Home::from(&stream);
    drop(stream);
    println!("{home:?}");
}
