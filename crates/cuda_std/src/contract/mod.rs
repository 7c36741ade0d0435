//! Launch contracts: what a kernel demands of its launch, as a constant of the kernel.
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

use crate::signature::Parameter;

/// Most threads in a block, on every device so far.
const MOST_THREADS: u32 = 1024;
/// Most threads in a block along z.
const MOST_THREADS_Z: u32 = 64;
/// Most blocks on a multiprocessor.
const MOST_BLOCKS: u32 = 32;
/// Most blocks in a cluster.
const MOST_CLUSTER: u32 = 16;
/// Fewest and most registers of a thread that can be asked for.
const LEAST_REGISTERS: u32 = 16;
const MOST_REGISTERS: u32 = 255;
/// More shared memory in bytes than any device has for a block.
const MOST_SHARED: u32 = 1 << 20;

/// What a kernel demands of its launch. `#[kernel(…)]` writes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Contract {
    /// Threads of a block along x, y and z, if the kernel fixes them.
    pub block: Option<(u32, u32, u32)>,
    /// Most threads of a block.
    pub max_threads: Option<u32>,
    /// Blocks that a multiprocessor must be able to hold at once.
    pub min_blocks: Option<u32>,
    /// Most registers of a thread.
    pub max_registers: Option<u32>,
    /// Blocks of a cluster along x, y and z.
    pub cluster: Option<(u32, u32, u32)>,
    /// Whether all blocks run at the same time.
    pub cooperative: bool,
    /// Whether it may start while the kernel before it still runs.
    pub dependent: bool,
    /// Dynamic shared memory of each block.
    pub dynamic_shared: DynamicShared,
    /// The dimensions of the thread index that the kernel takes, 0 if it takes none. Not known of a kernel that was
    /// described by hand.
    pub index: Option<u32>,
    /// The size of an element of the kernel's dynamic shared array, if it takes one.
    pub dynamic_element_bytes: Option<usize>,
    /// Whether safe code may launch the kernel: it is no `unsafe fn`. Never of a kernel that was described by hand.
    pub is_safe: bool,
    /// The types of the parameters, where they are known: what the kernel takes from the hardware is not
    /// among them.
    pub signature: &'static [Parameter],
}

/// How much dynamic shared memory a block is given, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DynamicShared {
    /// The least.
    pub least_bytes: u32,
    /// The most. If it is the least, the launcher gives it without being asked.
    pub most_bytes: u32,
    /// Every size is a multiple of this.
    pub unit_bytes: u32,
}

impl DynamicShared {
    /// Any size.
    pub const ANY: Self = Self { least_bytes: 0, most_bytes: u32::MAX, unit_bytes: 1 };

    /// The size that the kernel fixes, if it fixes one.
    #[must_use]
    pub const fn fixed_bytes(&self) -> Option<u32> {
        if self.least_bytes == self.most_bytes { Some(self.least_bytes) } else { None }
    }

    /// Whether a launch may give `bytes`.
    #[must_use]
    pub const fn allows(&self, bytes: u32) -> bool {
        let inside = self.least_bytes <= bytes && bytes <= self.most_bytes;
        inside && bytes.is_multiple_of(self.unit_bytes)
    }
}

impl Contract {
    /// Of a kernel that demands nothing.
    pub const NONE: Self = Self {
        block: None,
        max_threads: None,
        min_blocks: None,
        max_registers: None,
        cluster: None,
        cooperative: false,
        dependent: false,
        dynamic_shared: DynamicShared::ANY,
        index: None,
        dynamic_element_bytes: None,
        is_safe: false,
        signature: &[],
    };

    /// Threads of a block, if the kernel fixes them.
    #[must_use]
    pub const fn threads(&self) -> Option<u32> {
        match self.block {
            Some((x, y, z)) => Some(x * y * z),
            None => None,
        }
    }

    /// Fixes the block.
    #[must_use]
    pub const fn with_block(self, extents: [u64; 3]) -> Self {
        Self { block: Some(three(extents)), ..self }
    }

    /// Limits the threads of a block.
    #[must_use]
    pub const fn with_max_threads(self, threads: u64) -> Self {
        Self { max_threads: Some(clamped(threads)), ..self }
    }

    /// Asks for blocks side by side.
    #[must_use]
    pub const fn with_min_blocks(self, blocks: u64) -> Self {
        Self { min_blocks: Some(clamped(blocks)), ..self }
    }

    /// Limits the registers.
    #[must_use]
    pub const fn with_max_registers(self, registers: u64) -> Self {
        Self { max_registers: Some(clamped(registers)), ..self }
    }

    /// Groups blocks into clusters.
    #[must_use]
    pub const fn with_cluster(self, extents: [u64; 3]) -> Self {
        Self { cluster: Some(three(extents)), ..self }
    }

    /// Lets all blocks run at the same time.
    #[must_use]
    pub const fn with_cooperative(self) -> Self {
        Self { cooperative: true, ..self }
    }

    /// Lets the kernel start while the one before it still runs.
    #[must_use]
    pub const fn with_dependent(self) -> Self {
        Self { dependent: true, ..self }
    }

    /// Bounds the dynamic shared memory: the least, the most and the unit, in bytes.
    #[must_use]
    pub const fn with_dynamic_shared(self, least: u64, most: u64, unit: u64) -> Self {
        let (least_bytes, most_bytes) = (clamped(least), clamped(most));
        let unit_bytes = clamped(unit);
        Self { dynamic_shared: DynamicShared { least_bytes, most_bytes, unit_bytes }, ..self }
    }

    /// Says what the kernel takes from the hardware: a thread index of so many dimensions, 0 for none, and a dynamic
    /// shared array of such elements.
    #[must_use]
    pub const fn with_hardware(self, index: u32, dynamic_element_bytes: Option<usize>) -> Self {
        Self { index: Some(index), dynamic_element_bytes, ..self }
    }

    /// Says that safe code may launch the kernel.
    #[must_use]
    pub const fn with_safe_launch(self) -> Self {
        Self { is_safe: true, ..self }
    }

    /// Says what the parameters are.
    #[must_use]
    pub const fn with_signature(self, signature: &'static [Parameter]) -> Self {
        Self { signature, ..self }
    }

    /// Why no device can keep the contract. `#[kernel]` makes a compile error of it.
    #[must_use]
    pub const fn fault(&self) -> Option<&'static str> {
        let shared = &self.dynamic_shared;
        if !within(self.block, [MOST_THREADS, MOST_THREADS, MOST_THREADS_Z], MOST_THREADS) {
            return Some("a block has 1 to 1024 threads, at most 64 along z");
        }
        if !in_range(self.max_threads, 1, MOST_THREADS) {
            return Some("a block has 1 to 1024 threads");
        }
        if !in_range(self.min_blocks, 1, MOST_BLOCKS) {
            return Some("a multiprocessor holds 1 to 32 blocks");
        }
        if !in_range(self.max_registers, LEAST_REGISTERS, MOST_REGISTERS) {
            return Some("a thread has 16 to 255 registers");
        }
        if !within(self.cluster, [MOST_CLUSTER; 3], MOST_CLUSTER) {
            return Some("a cluster has 1 to 16 blocks");
        }
        if shared.least_bytes > shared.most_bytes {
            return Some("`dynamic_shared` is an empty range");
        }
        if shared.least_bytes > MOST_SHARED {
            return Some("`dynamic_shared` is more than any device has");
        }
        if shared.unit_bytes == 0 {
            return Some("the element of `dynamic_shared` has no size");
        }
        None
    }
}

/// The number, or the largest one if it does not fit: that is too large for everything here.
const fn clamped(number: u64) -> u32 {
    if number > u32::MAX as u64 { u32::MAX } else { number as u32 }
}

const fn three([x, y, z]: [u64; 3]) -> (u32, u32, u32) {
    (clamped(x), clamped(y), clamped(z))
}

const fn in_range(number: Option<u32>, least: u32, most: u32) -> bool {
    match number {
        Some(number) => least <= number && number <= most,
        None => true,
    }
}

const fn within(extents: Option<(u32, u32, u32)>, limits: [u32; 3], product: u32) -> bool {
    let Some((x, y, z)) = extents else { return true };
    let positive = x > 0 && y > 0 && z > 0;
    let inside = x <= limits[0] && y <= limits[1] && z <= limits[2];
    positive && inside && x * y * z <= product
}

/// One extent, for the assembly comment that becomes a launch bound.
#[doc(hidden)]
#[must_use]
pub const fn extent(extents: Option<(u32, u32, u32)>, dim: usize) -> u32 {
    match (extents, dim) {
        (Some((x, _, _)), 0) => x,
        (Some((_, y, _)), 1) => y,
        (Some((_, _, z)), 2) => z,
        _ => 1,
    }
}

/// One number, for the assembly comment that becomes a launch bound.
#[doc(hidden)]
#[must_use]
pub const fn number(number: Option<u32>) -> u32 {
    match number {
        Some(number) => number,
        None => 0,
    }
}

/// Tells the optimiser the block's shape.
///
/// # Safety
/// The kernel was launched as `contract` says.
#[cfg(target_os = "cuda")]
#[doc(hidden)]
#[inline(always)]
pub unsafe fn assume(contract: Contract) {
    use crate::thread::*;
    use core::hint::assert_unchecked;
    let Some((x, y, z)) = contract.block else { return };
    // SAFETY: the caller's promise; a thread's index is below the block's extent.
    unsafe {
        assert_unchecked(block_dim_x() == x);
        assert_unchecked(block_dim_y() == y);
        assert_unchecked(block_dim_z() == z);
        assert_unchecked(thread_idx_x() < x);
        assert_unchecked(thread_idx_y() < y);
        assert_unchecked(thread_idx_z() < z);
    }
}

#[cfg(not(target_os = "cuda"))]
pub use host::ContractError;

#[cfg(not(target_os = "cuda"))]
mod host {
    use super::Contract;
    use crate::launch::LaunchConfig;
    use std::fmt;

    /// Why a launch breaks its kernel's contract.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    #[non_exhaustive]
    pub enum ContractError {
        /// The kernel fixes another block.
        Block {
            /// Threads of a block along x, y and z as the kernel fixes them.
            expected: (u32, u32, u32),
            /// Those of the launch.
            found: (u32, u32, u32),
        },
        /// The block has more threads than the kernel allows.
        Threads {
            /// Most threads of a block.
            most: u32,
            /// Those of the launch.
            found: u64,
        },
        /// The grid is not a whole number of clusters.
        Cluster {
            /// Blocks of a cluster along x, y and z.
            cluster: (u32, u32, u32),
            /// Blocks of the grid.
            grid: (u32, u32, u32),
        },
        /// Too little dynamic shared memory, in bytes.
        SharedTooLittle {
            /// What the kernel needs.
            least: u32,
            /// What the launch gives.
            found: u32,
        },
        /// Too much dynamic shared memory, in bytes.
        SharedTooMuch {
            /// What the kernel allows.
            most: u32,
            /// What the launch gives.
            found: u32,
        },
        /// The dynamic shared memory is not a whole number of elements.
        SharedNotWhole {
            /// Bytes of an element.
            unit: u32,
            /// What the launch gives, in bytes.
            found: u32,
        },
    }

    impl fmt::Display for ContractError {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            match *self {
                Self::Block { expected: (x, y, z), found } => {
                    let (a, b, c) = found;
                    write!(f, "its block is {x} × {y} × {z} threads, not {a} × {b} × {c}")
                }
                Self::Threads { most, found } => {
                    write!(f, "its block has at most {most} threads, not {found}")
                }
                Self::Cluster { cluster: (x, y, z), grid: (a, b, c) } => write!(
                    f,
                    "its clusters are {x} × {y} × {z} blocks, \
                     and a grid of {a} × {b} × {c} is not a whole number of them"
                ),
                Self::SharedTooLittle { least, found } => {
                    write!(f, "it needs {least} bytes of dynamic shared memory, and got {found}")
                }
                Self::SharedTooMuch { most, found } => {
                    write!(f, "it takes at most {most} bytes of dynamic shared memory, not {found}")
                }
                Self::SharedNotWhole { unit, found } => write!(
                    f,
                    "its dynamic shared memory is a whole number of elements of {unit} bytes, \
                     and {found} bytes are not"
                ),
            }
        }
    }

    impl std::error::Error for ContractError {}

    impl Contract {
        /// The configuration that the launch runs with: `config` with the dynamic shared memory that
        /// the kernel fixes. Every implementation of [`Launch`](crate::launch::Launch) calls it
        /// first.
        ///
        /// # Errors
        /// What `config` breaks.
        pub fn apply(&self, mut config: LaunchConfig) -> Result<LaunchConfig, ContractError> {
            if let (Some(bytes), 0) = (self.dynamic_shared.fixed_bytes(), config.shared_mem_bytes) {
                config.shared_mem_bytes = bytes;
            }
            self.check_block(config.block)?;
            self.check_cluster(config.grid)?;
            self.check_shared(config.shared_mem_bytes)?;
            Ok(config)
        }

        fn check_block(&self, found: (u32, u32, u32)) -> Result<(), ContractError> {
            let threads = u64::from(found.0) * u64::from(found.1) * u64::from(found.2);
            match (self.block, self.max_threads) {
                (Some(expected), _) if expected != found => {
                    Err(ContractError::Block { expected, found })
                }
                (_, Some(most)) if threads > u64::from(most) => {
                    Err(ContractError::Threads { most, found: threads })
                }
                _ => Ok(()),
            }
        }

        fn check_cluster(&self, grid: (u32, u32, u32)) -> Result<(), ContractError> {
            let Some(cluster) = self.cluster else { return Ok(()) };
            let whole = grid.0.is_multiple_of(cluster.0)
                && grid.1.is_multiple_of(cluster.1)
                && grid.2.is_multiple_of(cluster.2);
            if whole { Ok(()) } else { Err(ContractError::Cluster { cluster, grid }) }
        }

        fn check_shared(&self, found: u32) -> Result<(), ContractError> {
            let shared = &self.dynamic_shared;
            let (least, most, unit) = (shared.least_bytes, shared.most_bytes, shared.unit_bytes);
            match () {
                () if shared.allows(found) => Ok(()),
                () if found < least => Err(ContractError::SharedTooLittle { least, found }),
                () if found > most => Err(ContractError::SharedTooMuch { most, found }),
                () => Err(ContractError::SharedNotWhole { unit, found }),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::launch::LaunchConfig;

    #[test]
    fn a_contract_of_nothing_changes_nothing() {
        let config = LaunchConfig { grid: (3, 2, 1), block: (7, 5, 2), shared_mem_bytes: 99 };
        assert_eq!(Contract::NONE.apply(config), Ok(config));
        assert_eq!(Contract::NONE.threads(), None);
    }

    #[test]
    fn fixed_shared_memory_is_given_unasked() {
        let contract = Contract::NONE.with_block([64, 1, 1]).with_dynamic_shared(512, 512, 1);
        let config = LaunchConfig { grid: (1, 1, 1), block: (64, 1, 1), shared_mem_bytes: 0 };
        assert_eq!(contract.apply(config).unwrap().shared_mem_bytes, 512);
        let less = LaunchConfig { shared_mem_bytes: 256, ..config };
        let error = contract.apply(less).unwrap_err();
        assert_eq!(error, ContractError::SharedTooLittle { least: 512, found: 256 });
        let text = "it needs 512 bytes of dynamic shared memory, and got 256";
        assert_eq!(error.to_string(), text);
        assert_eq!(contract.threads(), Some(64));
    }

    #[test]
    fn clusters_fill_the_grid_in_each_dimension() {
        let contract = Contract::NONE.with_cluster([2, 1, 3]).with_cooperative();
        let config = |grid| LaunchConfig { grid, block: (1, 1, 1), shared_mem_bytes: 0 };
        assert!(contract.cooperative);
        assert!(contract.apply(config((4, 5, 6))).is_ok());
        for grid in [(3, 5, 6), (4, 5, 7)] {
            let cluster = (2, 1, 3);
            let expected = Err(ContractError::Cluster { cluster, grid });
            assert_eq!(contract.apply(config(grid)), expected);
        }
    }

    #[test]
    fn what_no_device_can_keep_is_a_fault() {
        let block = |extents| Contract::NONE.with_block(extents).fault();
        for extents in [[1024, 1, 1], [1, 1024, 1], [1, 16, 64], [32, 8, 4], [1, 1, 1]] {
            assert_eq!(block(extents), None, "{extents:?}");
        }
        for extents in [[0, 1, 1], [1025, 1, 1], [1, 1025, 1], [1, 1, 65], [33, 32, 1]] {
            assert!(block(extents).is_some_and(|why| why.contains("64 along z")), "{extents:?}");
        }
        let cluster = |extents| Contract::NONE.with_cluster(extents).fault();
        assert!(cluster([16, 1, 1]).is_none() && cluster([1, 4, 4]).is_none());
        assert!(cluster([1, 1, 17]).is_some() && cluster([4, 5, 1]).is_some());
        let registers = |number| Contract::NONE.with_max_registers(number);
        assert_eq!(registers(64).max_registers, Some(64));
        assert!(registers(16).fault().is_none() && registers(255).fault().is_none());
        assert!(registers(15).fault().is_some() && registers(u64::MAX).fault().is_some());
        let shared = |least, most| Contract::NONE.with_dynamic_shared(least, most, 4).fault();
        assert!(shared(0, u64::MAX).is_none() && shared(1 << 20, 1 << 20).is_none());
        assert!(shared(8, 4).is_some() && shared((1 << 20) + 4, u64::MAX).is_some());
    }

    #[test]
    fn huge_blocks_do_not_wrap() {
        let contract = Contract::NONE.with_max_threads(1024).with_max_registers(64);
        let block = (u32::MAX, u32::MAX, 1);
        let config = LaunchConfig { grid: (1, 1, 1), block, shared_mem_bytes: 0 };
        let found = u64::from(u32::MAX) * u64::from(u32::MAX);
        let expected = Err(ContractError::Threads { most: 1024, found });
        assert_eq!(contract.apply(config), expected);
    }

    #[test]
    fn bounds_are_numbers() {
        let contract = Contract::NONE.with_block([8, 4, 2]).with_min_blocks(3);
        assert_eq!([0, 1, 2, 3].map(|dim| extent(contract.block, dim)), [8, 4, 2, 1]);
        assert_eq!((number(contract.min_blocks), number(None)), (3, 0));
    }
}
