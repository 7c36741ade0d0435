//! Launch contracts: what a kernel requires of its launch, as a constant of the kernel.
//!
//! | in `#[kernel(…)]` | means | wrong launches are |
//! |---|---|---|
//! | `block = 256`, `block = (32, 8)`, `block = (8, 8, 4)` | threads of a block along x, y, z | not expressible: the launch takes a number of blocks |
//! | `max_threads = 512` | most threads of a block | an error |
//! | `min_blocks = 2` | blocks that a multiprocessor must hold at once | a hint to the compiler |
//! | `max_registers = 64` | most registers of a thread | a hint to the compiler |
//! | `cluster = 2`, `cluster = (2, 2)` | blocks of a cluster along x, y, z | an error |
//! | `cooperative` | all blocks run at the same time | an error |
//! | `dependent` | starts while the kernel before it on the stream still runs | not possible |
//! | `dynamic_shared = 4096`, `= [f32; 1024]` | that many bytes, given by the launcher | an error |
//! | `dynamic_shared = [f32]`, `= 1024..=65536` | whole elements, or bytes in a range | an error |
//!
//! Each number is any constant expression that the kernel's module can name. What is known when the
//! kernel is compiled is checked then; the rest is checked by [`Contract::apply`] before the driver
//! sees the launch.
//!
//! # Why a fixed block can be relied upon
//!
//! 1. The launcher of a kernel with `block` takes no block: it passes the contract's own.
//! 2. The kernel's PTX says `.reqntid`, so a driver refuses every other block, whoever asks for it.
//! 3. Hence the entry may tell the optimiser the block's extents, and that each thread's index is
//!    below them, before any of the kernel's own code runs.
//!
//! ```
//! use cuda_std::prelude::*;
//!
//! const TILE: usize = 32;
//!
//! /// Reverses the elements of each block.
//! #[kernel(block = TILE * 8, min_blocks = 2)]
//! pub fn reverse(index: ThreadIndex, x: &[u32], mut y: DisjointSlice<u32>) {
//!     let last = thread::block_dim_x() as usize - 1; // a constant to the compiler
//!     if let Some(y) = y.get_mut(index) {
//!         *y = x[index.get() - thread::thread_idx_x() as usize + last];
//!     }
//! }
//!
//! # fn main() {
//! # use cuda_std::launch::Grid1;
//! assert_eq!(reverse::KERNEL.contract.block, Some((256, 1, 1)));
//! assert_eq!(reverse::grid_for(1000), Grid1::new(4));
//! # }
//! ```

mod bounds;
#[cfg(not(target_os = "cuda"))]
mod check;
#[cfg(not(target_os = "cuda"))]
mod error;
mod limits;
mod terms;

#[cfg(target_os = "cuda")]
pub use bounds::assume;
pub use bounds::{extent, number};
#[cfg(not(target_os = "cuda"))]
pub use error::ContractError;
pub use terms::{Contract, DynamicShared};
