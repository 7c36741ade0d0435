//! Blocks of rows of more than 128 elements, of which shared memory holds one alone.
//!
//! A block has two tensors, keys and values or queries and gradients of results, and each product takes rows of one of them. So the two are halves of a block with copies of their own:
//! while the products with one half are computed, the other one is copied. The products of a block are put in such an order that each half is used in one stretch:
//!
//! | gradients of | first half | products | second half | products |
//! |---|---|---|---|---|
//! | queries | values | `do · vᵀ` | keys | `q · kᵀ`, `ds · k` |
//! | keys | gradients of results | `v · doᵀ` | queries | `k · qᵀ`, `dsᵀ · q` |
//! | values | queries | `k · qᵀ` | gradients of results | `pᵀ · do` |
//!
//! A block takes two barriers, as many as one of a ring with two stages.

#![cfg_attr(not(target_os = "cuda"), allow(dead_code, unused_imports))]

use crate::prelude::*;
use cuda_std::copy::{commit_group, wait_groups};
use cuda_std::gpu_only;

/// What a block of threads does with the halves of each block of rows. Methods are called by all of its threads together, with the index of a block of rows. (Closures that are
/// called at two places are not inlined, and what they borrow would go to local memory.)
pub trait Halves {
    /// What the products with the first half leave for those with the second one, in registers.
    type Between;

    /// Starts to copy the first half to its place, that of a block before it.
    ///
    /// # Safety
    /// No thread uses the place before a barrier, at which all threads have waited for their copies.
    unsafe fn copy_first(&self, at: u32);

    /// Starts to copy the second half.
    ///
    /// # Safety
    /// As [`copy_first`](Self::copy_first).
    unsafe fn copy_second(&self, at: u32);

    /// Multiplies with the first half, and uses nothing of the second one.
    ///
    /// # Safety
    /// The half is there.
    unsafe fn first(&mut self, at: u32) -> Self::Between;

    /// Multiplies with the second half, and uses nothing of the first one.
    ///
    /// # Safety
    /// As [`first`](Self::first).
    unsafe fn second(&mut self, at: u32, between: Self::Between);
}

/// Takes blocks 0 to `len - 1`. A half is copied as soon as no warp uses its place, that is during the products with the other one.
///
/// # Safety
/// - All threads of the block call this together, with the same `len`, and nothing else uses the places of the halves until it returns.
/// - Copies that the threads started before belong to the first half of block 0.
#[gpu_only]
#[inline(always)]
pub unsafe fn each_block<H: Halves>(of: &mut H, len: u32) {
    // SAFETY: the caller's promise; the barriers keep copies and products apart, as is said there.
    unsafe {
        if len > 0 {
            of.copy_first(0);
        }
        commit_group();
        let mut at = 0;
        while at < len {
            wait_groups::<0>();
            // The first half is there for all warps, and all are done with the second half of the block before, whose place is filled next.
            thread::sync_threads();
            of.copy_second(at);
            commit_group();
            let between = of.first(at);
            wait_groups::<0>();
            // The second half is there for all warps, and all are done with the first one, whose place is filled next.
            thread::sync_threads();
            if at + 1 < len {
                of.copy_first(at + 1);
            }
            commit_group();
            of.second(at, between);
            at += 1;
        }
    }
}
