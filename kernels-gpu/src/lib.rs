//! The kernels that ship with Ferrowarp, by scope first and algorithm second.
//!
//! * [`warp`]: what the 32 threads of a warp do together, through registers.
//! * [`block`]: what the threads of a block do together, through shared memory.
//! * [`grid`]: whole kernels, which a host launches.
//!
//! On the GPU this crate is `no_std` (the builder says so); on the host it is an ordinary crate, in
//! which every kernel has a typed launcher of its own name: `kernels_gpu::grid::vecadd::vecadd::launch`.

pub mod block;
pub mod grid;
pub mod warp;
