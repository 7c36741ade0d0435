//! Scales of 8-bit floats: those of A and B, by which sums are multiplied, and that of D.
//!
//! A number of 8 bits has few of exponent, so that matrices are stored beside scales: the value is the number times its scale.
//!
//! | scales | of A | of B | where they are applied |
//! |---|---|---|---|
//! | of the tensor | one | one | to the whole sum, before alpha |
//! | vectors | one for each row | one for each column | to the whole sum, before alpha |
//! | blocks | one for each row and 128 along K | one for 128 columns and 128 along K | to the sums over 128 along K, as these are added |

#![cfg_attr(not(target_os = "cuda"), allow(unused_imports, unused_variables))]

use core::cell::Cell;
use core::sync::atomic::Ordering;

use super::Problem;
use crate::prelude::*;
use bytemuck::{Pod, Zeroable};
use cuda_std::atomic::{Atomic, scope};
use cuda_std::gpu_only;
use cuda_std::warp::{WarpReductionOp, warp_reduce};

/// Rows, or columns, and elements along K that have a scale in common, where there are blocks. (Of A these are blocks of one row.)
pub const BLOCK: usize = 128;

/// How the scales of an operand lie.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct ScaleLayout {
    /// What there is: [`NONE`](Self::NONE), [`LINES`](Self::LINES) or [`BLOCKS`](Self::BLOCKS).
    pub kind: u64,
    /// From the scale of a row of A, a column of B or [`BLOCK`] columns of B to the next, in elements: 0 if one is for all.
    pub line: u64,
    /// From the scale of [`BLOCK`] along K to the next.
    pub along_k: u64,
    /// From a matrix of the batch to the next: 0 if all have the same. Lines have the same.
    pub batch: u64,
}

impl ScaleLayout {
    /// No scales: all are 1.
    pub const NONE: u64 = 0;
    /// One for each row of A, or column of B, or for all.
    pub const LINES: u64 = 1;
    /// One for each [`BLOCK`] along K of a row of A, or of [`BLOCK`] columns of B.
    pub const BLOCKS: u64 = 2;
}

/// How the scales of A and of B lie.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct ScaleLayouts {
    /// Of A.
    pub a: ScaleLayout,
    /// Of B.
    pub b: ScaleLayout,
}

/// What a sum is multiplied by before alpha, and D after its epilogue. Rows and columns are those of the kernel.
pub trait Scaling {
    /// The scale of a row.
    ///
    /// # Safety
    /// The row is one of D.
    unsafe fn of_row(&self, row: usize) -> f32;

    /// The scale of a column.
    ///
    /// # Safety
    /// The column is one of D.
    unsafe fn of_column(&self, column: usize) -> f32;

    /// The element that is stored for the value of the epilogue at a row and a column, which may be outside of D.
    fn of_result(&self, problem: &Problem, value: f32, at: [u32; 2]) -> f32;

    /// Publishes what [`of_result`](Self::of_result) has seen.
    ///
    /// # Safety
    /// All lanes of the warp call this together, once, after their last element.
    unsafe fn end(&self);
}

/// No scales.
#[derive(Clone, Copy, Debug)]
pub struct Unscaled;

impl Scaling for Unscaled {
    #[inline(always)]
    unsafe fn of_row(&self, _: usize) -> f32 {
        1.0
    }

    #[inline(always)]
    unsafe fn of_column(&self, _: usize) -> f32 {
        1.0
    }

    #[inline(always)]
    fn of_result(&self, _: &Problem, value: f32, _: [u32; 2]) -> f32 {
        value
    }

    #[inline(always)]
    unsafe fn end(&self) {}
}

/// The scales of a kernel's arguments.
#[derive(Clone, Copy, Debug)]
pub struct Pointers {
    /// Of A; anything if there are none.
    pub a: *const f32,
    /// Of B, likewise.
    pub b: *const f32,
    /// Of D, or null.
    pub d: *const f32,
    /// Raised to the largest magnitude of D before its scale, or null.
    pub largest: *mut u32,
}

impl Pointers {
    /// Those of slices: `of_d` and `largest` have one element, or none.
    #[inline(always)]
    pub fn new(a: &[f32], b: &[f32], of_d: &[f32], largest: &mut DisjointSlice<'_, u32>) -> Self {
        let (d, has_largest) = (of_d.as_ptr(), !largest.is_empty());
        Self {
            a: a.as_ptr(),
            b: b.as_ptr(),
            d: if of_d.is_empty() { core::ptr::null() } else { d },
            largest: if has_largest { largest.as_mut_ptr() } else { core::ptr::null_mut() },
        }
    }
}

/// Scales of lines, and of D.
#[derive(Debug)]
pub struct LineScales {
    layouts: ScaleLayouts,
    pointers: Pointers,
    /// The scale of D.
    of_d: f32,
    /// The bits of the largest magnitude of this thread: those of positive floats are ordered as the floats are, and NaN is above.
    largest: Cell<u32>,
}

impl LineScales {
    /// Of a kernel's arguments.
    ///
    /// # Safety
    /// The scales are there for all rows and columns of D, and no thread writes them while the kernel runs.
    #[inline(always)]
    pub unsafe fn new(layouts: ScaleLayouts, pointers: Pointers) -> Self {
        // SAFETY: the caller's promise.
        let of_d = if pointers.d.is_null() { 1.0 } else { unsafe { pointers.d.read() } };
        Self { layouts, pointers, of_d, largest: Cell::new(0) }
    }
}

impl Scaling for LineScales {
    #[inline(always)]
    unsafe fn of_row(&self, row: usize) -> f32 {
        if self.layouts.a.kind != ScaleLayout::LINES {
            return 1.0;
        }
        // SAFETY: the caller's promise, and that of `new`.
        unsafe { self.pointers.a.add(row * self.layouts.a.line as usize).read() }
    }

    #[inline(always)]
    unsafe fn of_column(&self, column: usize) -> f32 {
        if self.layouts.b.kind != ScaleLayout::LINES {
            return 1.0;
        }
        // SAFETY: the caller's promise, and that of `new`.
        unsafe { self.pointers.b.add(column * self.layouts.b.line as usize).read() }
    }

    #[inline(always)]
    fn of_result(&self, problem: &Problem, value: f32, [row, column]: [u32; 2]) -> f32 {
        if !self.pointers.largest.is_null() && row < problem.m && column < problem.n {
            self.largest.set(self.largest.get().max(value.to_bits() & 0x7fff_ffff));
        }
        value * self.of_d
    }

    #[gpu_only]
    #[inline(always)]
    unsafe fn end(&self) {
        if self.pointers.largest.is_null() {
            return;
        }
        // SAFETY: all lanes are here; the element exists.
        unsafe {
            let largest = warp_reduce(!0, self.largest.get(), WarpReductionOp::Max);
            if cuda_std::thread::index_in_block() % 32 == 0 {
                let shared = Atomic::<u32, scope::Device>::from_ptr(self.pointers.largest);
                let _ = shared.fetch_max(largest, Ordering::Relaxed);
            }
        }
    }
}
