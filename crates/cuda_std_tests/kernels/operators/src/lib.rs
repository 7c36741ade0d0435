//! Kernels of a user's own: the shipped reduction and scan by operators that do not ship.

#![allow(missing_docs)]

use cuda_std::prelude::*;
use kernels_gpu::grid::reduce::{self, BLOCK, whole_to};
use kernels_gpu::grid::scan::{self, Whole, scan_grid};

/// How far elements lie from a centre: the least and the greatest difference. The centre comes with the launch.
#[derive(Clone, Copy, Debug)]
pub struct Span {
    pub centre: f32,
}

impl reduce::Operator for Span {
    type Input = f32;
    type Value = [f32; 2];
    type Output = [f32; 2];

    fn identity(self) -> [f32; 2] {
        [f32::INFINITY, f32::NEG_INFINITY]
    }

    fn value(self, element: f32) -> [f32; 2] {
        [element - self.centre; 2]
    }

    fn join(self, [least, greatest]: [f32; 2], b: [f32; 2]) -> [f32; 2] {
        [least.min(b[0]), greatest.max(b[1])]
    }

    fn finish(self, all: [f32; 2]) -> [f32; 2] {
        all
    }
}

/// [`Span`] of `x: [n]` into `out[0]`; launch and scratch as for `kernels_gpu::reduce_sum`.
#[kernel]
pub fn span(
    mut block: Block<{ BLOCK as usize }>,
    index: ThreadIndex,
    centre: f32,
    x: &[f32],
    partials: AtomicSlice<u32>,
    finished: AtomicSlice<u32>,
    mut out: DisjointSlice<[f32; 2]>,
) {
    whole_to(&mut block, index, Span { centre }, x, partials, finished, &mut out);
}

/// A matrix of 2 × 2 numbers modulo 2³², row by row.
pub type Matrix = [u32; 4];

/// Products of matrices, in their order: it matters.
#[derive(Clone, Copy, Debug)]
pub struct Times;

impl scan::Operator<Matrix> for Times {
    type Joined = Matrix;
    const NEUTRAL: Matrix = [1, 0, 0, 1];

    fn lift(x: Matrix) -> Matrix {
        x
    }

    fn join([a, b, c, d]: Matrix, [e, f, g, h]: Matrix) -> Matrix {
        let sum = |x: u32, y, z: u32, w| x.wrapping_mul(y).wrapping_add(z.wrapping_mul(w));
        [sum(a, e, b, g), sum(a, f, b, h), sum(c, e, d, g), sum(c, f, d, h)]
    }

    fn lower(joined: Matrix) -> Matrix {
        joined
    }
}

/// `out[i] = x[0] × … × x[i]`, or without `x[i]`; launch and scratch as for `kernels_gpu::scan_tiles`.
#[kernel(
    max_registers = scan::MAX_REGISTERS,
    dynamic_shared = scan::LEAST_SHARED_BYTES..=scan::MOST_SHARED_BYTES
)]
pub fn matrix_products(
    block: Block<{ scan::BLOCK }>,
    x: &[Matrix],
    exclusive: bool,
    states: AtomicSlice<u64>,
    out: DisjointSlice<Matrix>,
) {
    scan_grid::<Matrix, Whole<Times>>(block, x, Whole::new(), exclusive, states, out);
}
