//! What the compiler is told of a contract: the launch bounds in the PTX, and the block's extents.

#[cfg(target_os = "cuda")]
use super::Contract;

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::Contract;

    #[test]
    fn bounds_are_numbers() {
        let contract = Contract::NONE.with_block([8, 4, 2]).with_min_blocks(3);
        assert_eq!([0, 1, 2, 3].map(|dim| extent(contract.block, dim)), [8, 4, 2, 1]);
        assert_eq!((number(contract.min_blocks), number(None)), (3, 0));
    }
}
