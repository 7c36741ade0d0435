//! Kernels of a user's own: the shipped reduction and scan by operators that do not ship.

#![allow(missing_docs)]

use bytemuck::{Pod, Zeroable};
use cuda_std::block::SortKey;
use cuda_std::prelude::*;
use kernels_gpu::functor::{Functor, Predicate};
use kernels_gpu::matmul::{Entry, Epilogue, Operands};
use kernels_gpu::merge::{self, merge_splits};
use kernels_gpu::reduce::{self, BLOCK, whole_to};
use kernels_gpu::scan::{self, Whole, scan_grid};

/// How far elements lie from a centre: the least and the greatest difference. The centre comes with the launch.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
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

/// [`Span`] of `x: [n]` into `out[0]`; launch and scratch as for `kernels_gpu::reduce::reduce_sum`.
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

/// `out[i] = x[0] × … × x[i]`, or without `x[i]`; launch and scratch as for `kernels_gpu::scan::scan_tiles`.
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

/// Sums, by a kernel whose contract says nothing of shared memory; `states` may hold anything.
#[kernel]
pub fn sums_without_contract(
    block: Block<{ scan::BLOCK }>,
    x: &[u32],
    states: AtomicSlice<u64>,
    out: DisjointSlice<u32>,
) {
    scan_grid(block, x, Whole::<scan::Sum>::new(), false, states, out);
}

/// A key whose order cannot be told of `u32::MAX`.
#[derive(Clone, Copy, Debug, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(transparent)]
pub struct Ordered(u32);

impl SortKey for Ordered {
    type Bits = u32;

    fn to_ordered(self) -> u32 {
        assert!(self.0 != u32::MAX, "no place in the order");
        self.0
    }

    fn from_ordered(bits: u32) -> Self {
        Self(bits)
    }

    fn reversed(bits: u32) -> u32 {
        !bits
    }

    fn digit(bits: u32, shift: usize) -> u32 {
        bits >> shift
    }
}

/// [`merge_splits`] of keys of one's own, of which a whole warp may have left before: what the others get for its result is
/// anything.
#[kernel]
pub fn splits_of_keys(
    mut block: Block<{ merge::BLOCK }>,
    leaves: u32,
    a: &[Ordered],
    b: &[Ordered],
    splits: AtomicSlice<u64>,
) {
    // Leaves the largest numbers in the block's own memory.
    let _ = (block.broadcast(u64::MAX, 0), block.broadcast(u64::MAX, 0));
    if leaves != 0 && block.warp() == 1 {
        return;
    }
    merge_splits(block, a, b, splits);
}

/// `factor * x + shift`.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct Affine {
    pub factor: f32,
    pub shift: f32,
}

impl Functor<f32> for Affine {
    type Output = f32;

    fn apply(self, x: f32) -> f32 {
        self.factor.mul_add(x, self.shift)
    }
}

/// The nearest step below, as a byte: another size than the input.
impl Functor<f64> for Affine {
    type Output = u8;

    fn apply(self, x: f64) -> u8 {
        (f64::from(self.factor) * x + f64::from(self.shift)) as u8
    }
}

/// `-x`: a functor that captures nothing, and that no parameter of the kernel carries.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct Negate;

impl Functor<f32> for Negate {
    type Output = f32;

    fn apply(self, x: f32) -> f32 {
        -x
    }
}

/// `y + a * x`.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct Axpy {
    pub a: f32,
}

impl Functor<(f32, f32)> for Axpy {
    type Output = f32;

    fn apply(self, (x, y): (f32, f32)) -> f32 {
        self.a.mul_add(x, y)
    }
}

/// The elements from `low` up to `high`, both kept.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct Within {
    pub low: f32,
    pub high: f32,
}

// SAFETY: comparisons do not panic.
unsafe impl Predicate<f32> for Within {
    fn keeps(self, x: f32) -> bool {
        self.low <= x && x <= self.high
    }
}

/// `value` where it is above a threshold, else the row's element; columns from `columns` on are 0.
#[derive(Clone, Copy, Debug)]
pub struct Above {
    pub threshold: f32,
    pub columns: u32,
}

impl Epilogue for Above {
    const OPERANDS: Operands = Operands::PER_ROW;

    fn apply(self, entry: Entry) -> f32 {
        match entry.value {
            _ if entry.column >= self.columns => 0.0,
            value if value > self.threshold => value,
            _ => entry.per_row,
        }
    }
}

kernels_gpu::instances! {
    above_bf16: matmul(Above, cuda_std::bf16) -> f32;
    affine_f32: map(Affine, f32) -> f32;
    affine_f64: map(Affine, f64) -> u8;
    axpy_f32: zip(Axpy, f32, f32) -> f32;
    negate_f32: map(Negate, f32) -> f32;
    span_f32: reduce(Span, f32) -> [f32; 2];
    within_f32: select(Within, f32);
}

/// A functor in a generic kernel of this crate: `x[i] = f.apply(x[i])`, one thread an element.
#[kernel((f32, Affine), (u32, Xor))]
pub fn apply_in_place<T: Copy, F: Functor<T, Output = T>>(
    index: ThreadIndex,
    f: F,
    mut x: DisjointSlice<T>,
) {
    if let Some(x) = x.get_mut(index) {
        *x = f.apply(*x);
    }
}

/// `x ^ mask`.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct Xor {
    pub mask: u32,
}

impl Functor<u32> for Xor {
    type Output = u32;

    fn apply(self, x: u32) -> u32 {
        x ^ self.mask
    }
}
