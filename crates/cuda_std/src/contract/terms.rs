//! What a contract is: the terms that a kernel's attribute can set.

use crate::signature::Parameter;

/// What a kernel requires of its launch. `#[kernel(…)]` writes it.
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
    /// The dimensions of the thread index that the kernel takes, 0 if it takes none; `None` for a kernel that was
    /// described by hand.
    pub index: Option<u32>,
    /// The size of an element of the kernel's dynamic shared array, if it takes one.
    pub dynamic_element_bytes: Option<usize>,
    /// Whether safe code may launch the kernel, with any values of its parameters' types: it is not an `unsafe fn`. False for a kernel
    /// that was described by hand, unless [`with_safe_launch`](Self::with_safe_launch) is called.
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
    /// The contract of a kernel that requires nothing.
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

    /// Asks for this number of resident blocks of a multiprocessor.
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

    /// Sets what the kernel takes from the hardware: the dimensions of its thread index, 0 for none, and the size of an
    /// element of its dynamic shared array.
    #[must_use]
    pub const fn with_hardware(self, index: u32, dynamic_element_bytes: Option<usize>) -> Self {
        Self { index: Some(index), dynamic_element_bytes, ..self }
    }

    /// Lets safe code launch the kernel, with any values of its parameters' types.
    #[must_use]
    pub const fn with_safe_launch(self) -> Self {
        Self { is_safe: true, ..self }
    }

    /// Sets the types of the parameters.
    #[must_use]
    pub const fn with_signature(self, signature: &'static [Parameter]) -> Self {
        Self { signature, ..self }
    }
}

/// The number, or the largest one if it does not fit: that is too large for everything here.
const fn clamped(number: u64) -> u32 {
    if number > u32::MAX as u64 { u32::MAX } else { number as u32 }
}

const fn three([x, y, z]: [u64; 3]) -> (u32, u32, u32) {
    (clamped(x), clamped(y), clamped(z))
}
