//! The first step: one thread an element.
//!
//! A warp has 32 neighbours of a row of D. For each k its threads load one element of A, the same for all, and 32 of B: two
//! loads a multiplication, all of which the L1 and L2 caches have to serve.

use super::output::Output;
use super::{Epilogue, Plain, Problem, Value};
use crate::prelude::*;
use cuda_std::{bf16, f16};

/// Threads of a block.
pub const NAIVE_BLOCK: usize = 256;

/// Multiplies. Launch a thread for each element of D, columns fastest and batches outermost.
///
/// # Safety
/// The matrices and vectors are as large as `problem` says, and D's elements are not those of another matrix.
#[kernel((bf16, bf16, Plain), (f16, f16, Plain), (f32, f32, Plain), block = NAIVE_BLOCK)]
pub unsafe fn naive<T: Value, Out: Value, E: Epilogue>(
    index: ThreadIndex,
    problem: Problem,
    a: &[T],
    b: &[T],
    c: &[Out],
    c_from: *const Out,
    per_row: &[Out],
    per_column: &[Out],
    mut d: DisjointSlice<Out>,
    epilogue: E,
) {
    let (m, n) = (problem.m as usize, problem.n as usize);
    let (column, rest) = (index.get() % n, index.get() / n);
    let (row, batch) = (rest % m, rest / m);
    if batch >= problem.batches as usize {
        return;
    }
    let mut sum = 0.0;
    for k in 0..problem.k as usize {
        let left = a[problem.a.index(batch, row, k)].widen();
        let right = b[problem.b.index(batch, k, column)].widen();
        sum += left * right;
    }
    let vectors = [per_row.as_ptr(), per_column.as_ptr()];
    // `c` orders the launch after what wrote C, which may be D itself: no slice may be.
    let _ = c;
    // SAFETY: the caller's promise.
    let output = unsafe { Output::new(&problem, c_from, vectors, d.as_mut_ptr(), epilogue) };
    // SAFETY: inside, by the comparison of the batch; the rest is the caller's promise.
    unsafe { output.write(sum, batch, row, column) };
}
