//! The gradient before an epilogue from the one after it, for the backward pass of a product: `dZ = dD · f'(Z)`, and the gradient of a bias of
//! columns, which is the sum of the rows of dZ.
//!
//! Memory bounds it: dD and Z are read once, dZ is written once, and the sums of columns are taken on the way. A block adds [`ROWS`] rows, and a second
//! kernel adds what the blocks have, in their order, so that the sums are the same bits from run to run.

use super::form::take_turn;
use super::{
    Strides, Value, gelu_derivative, gelu_tanh_derivative, relu_derivative, silu_derivative,
};
use crate::prelude::*;
use bytemuck::{Pod, Zeroable};
use cuda_std::{bf16, f16};

/// Threads of a block.
pub const BLOCK: usize = 128;
/// Columns of a block: two neighbours for each thread.
pub const COLUMNS: usize = 2 * BLOCK;
/// Rows of a block.
pub const ROWS: usize = 64;
/// Rows that a thread has on the way at a time.
const AT_ONCE: usize = 8;

/// The function whose derivative is taken: its number for a kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u32)]
pub enum Activation {
    /// None: the derivative is 1.
    #[default]
    Identity,
    /// [`Relu`](super::Relu). The derivative at 0 is 0.
    Relu,
    /// [`Gelu`](super::Gelu).
    Gelu,
    /// [`GeluTanh`](super::GeluTanh).
    GeluTanh,
    /// [`Silu`](super::Silu).
    Silu,
}

impl Activation {
    /// The derivative at `x`, of the activation with this number.
    #[inline(always)]
    fn derivative(number: u32, x: f32) -> f32 {
        match number {
            1 => relu_derivative(x),
            2 => gelu_derivative(x),
            3 => gelu_tanh_derivative(x),
            4 => silu_derivative(x),
            _ => 1.0,
        }
    }
}

/// What is computed: matrices of `rows` × `columns`, without batches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct Gradient {
    /// Where the elements of dD, of Z and of dZ are.
    pub of_d: Strides,
    /// Anything for [`Activation::Identity`].
    pub z: Strides,
    #[allow(missing_docs)]
    pub of_z: Strides,
    #[allow(missing_docs)]
    pub rows: u32,
    #[allow(missing_docs)]
    pub columns: u32,
    /// The [`Activation`].
    pub activation: u32,
    /// Not 0: pairs of neighbours that begin in even columns are aligned in all three matrices.
    pub has_pairs: u32,
}

impl Gradient {
    /// Tiles down, and across.
    #[must_use]
    pub const fn tiles(&self) -> [usize; 2] {
        [(self.rows as usize).div_ceil(ROWS), (self.columns as usize).div_ceil(COLUMNS)]
    }
}

/// Two neighbours of a row, of which the second may not exist.
///
/// # Safety
/// The first exists, and the second if `has_second`; with `is_pair` they are aligned.
#[inline(always)]
unsafe fn load<T: Value>(
    from: *const T,
    strides: Strides,
    [row, column]: [usize; 2],
    (is_pair, has_second): (bool, bool),
) -> [f32; 2] {
    // SAFETY: the caller's promise.
    unsafe {
        let first = from.add(strides.index(0, row, column));
        if is_pair && has_second {
            return T::unpair(first.cast::<T::Pair>().read());
        }
        let second = if has_second { first.add(strides.column as usize) } else { first };
        [first.read().widen(), second.read().widen()]
    }
}

/// `dZ = dD · f'(Z)`; and, if `sums` has elements, those of its columns over the rows of each block: `sums: [tiles down, columns]`. Launch a block for each
/// tile, those across innermost. Sums are of dZ before it is rounded.
///
/// # Safety
/// The matrices have every element that the strides lead to, and elements of dZ are no others.
#[kernel(bf16, f16, f32, dependent, block = BLOCK)]
pub unsafe fn activation_gradient<T: Value>(
    gradient: Gradient,
    of_d: &[T],
    z: &[T],
    mut sums: DisjointSlice<f32>,
    mut of_z: DisjointSlice<T>,
) {
    take_turn();
    let [_, across] = gradient.tiles();
    let block = thread::block_idx_x() as usize;
    let (down, across) = (block / across, block % across);
    let (rows, columns) = (gradient.rows as usize, gradient.columns as usize);
    let column = across * COLUMNS + 2 * thread::thread_idx_x() as usize;
    if column >= columns {
        return;
    }
    let (of_d, z, out) = (of_d.as_ptr(), z.as_ptr(), of_z.as_mut_ptr());
    let (first, end) = (down * ROWS, (down * ROWS + ROWS).min(rows));
    let pairs = (gradient.has_pairs != 0, column + 1 < columns);
    let mut totals = [0.0f32; 2];
    let mut row = first;
    while row < end {
        // SAFETY: rows below the end, and columns of the matrices, of which this thread alone writes these.
        unsafe {
            let at = |i: usize| [(row + i).min(end - 1), column];
            let values: [[f32; 2]; AT_ONCE] =
                cuda_std::unroll::build(|i| load(of_d, gradient.of_d, at(i), pairs));
            let before: [[f32; 2]; AT_ONCE] = match gradient.activation {
                0 => [[0.0; 2]; AT_ONCE],
                _ => cuda_std::unroll::build(|i| load(z, gradient.z, at(i), pairs)),
            };
            cuda_std::unroll::each::<AT_ONCE>(|i| {
                if row + i < end {
                    let slope = before[i].map(|x| Activation::derivative(gradient.activation, x));
                    let found = [values[i][0] * slope[0], values[i][1] * slope[1]];
                    totals = [totals[0] + found[0], totals[1] + found[1]];
                    store(out, gradient.of_z, at(i), pairs, found);
                }
            });
        }
        row += AT_ONCE;
    }
    if !sums.is_empty() {
        let to = sums.as_mut_ptr().wrapping_add(down * columns + column);
        // SAFETY: `sums` has the columns of all tiles down, and these are this thread's.
        unsafe {
            to.write(totals[0]);
            if pairs.1 {
                to.add(1).write(totals[1]);
            }
        }
    }
}

/// Stores two neighbours of a row.
///
/// # Safety
/// As [`load`], and no other thread writes them.
#[inline(always)]
unsafe fn store<T: Value>(
    to: *mut T,
    strides: Strides,
    [row, column]: [usize; 2],
    (is_pair, has_second): (bool, bool),
    values: [f32; 2],
) {
    // SAFETY: the caller's promise.
    unsafe {
        let first = to.add(strides.index(0, row, column));
        if is_pair && has_second {
            return first.cast::<T::Pair>().write(T::pair(values));
        }
        first.write(T::narrow(values[0]));
        if has_second {
            first.add(strides.column as usize).write(T::narrow(values[1]));
        }
    }
}

/// Adds the sums of all tiles down, in their order: `sums: [down, columns]`, `out: [columns]`.
#[kernel(bf16, f16, f32)]
pub fn bias_gradient<T: Value>(index: ThreadIndex, sums: &[f32], mut out: DisjointSlice<T>) {
    let columns = out.len();
    for own in index.grid_stride(columns) {
        let mut total = 0.0;
        let mut at = own.get();
        while let Some(sum) = sums.get(at) {
            total += sum;
            at += columns;
        }
        if let Some(out) = out.get_mut(own) {
            *out = T::narrow(total);
        }
    }
}
