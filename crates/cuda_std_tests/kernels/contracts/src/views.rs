//! Views of device memory: volumes, pitched rows, vectors, chunks, matrices.

use cuda_std::prelude::*;
use cuda_std::vector::split_vectors;

/// Each element becomes its own position.
#[kernel]
pub fn volume(index: ThreadIndex3, mut out: DisjointVolume<[u16; 3]>) {
    if let Some(out) = out.get_mut(index) {
        *out = [index.x() as u16, index.y() as u16, index.z() as u16];
    }
}

/// The same with a fixed block.
#[kernel(block = (8, 4, 2))]
pub fn fixed_volume(index: ThreadIndex3, mut out: DisjointVolume<[u16; 3]>) {
    let next = out.get(index).map(|place| place[0] + 1);
    if let Some((out, next)) = out.get_mut(index).zip(next) {
        out[0] = next + thread::block_dim_z() as u16;
    }
}

/// Adds a number to what lies in the rows.
#[kernel]
pub fn pitched(index: ThreadIndex2, by: u32, mut rows: DisjointPitched<u32>) {
    let known = rows.get(index).copied().unwrap_or(0);
    if let Some(value) = rows.get_mut(index) {
        *value = known + by;
    }
}

macro_rules! vectors {
    ($($name:ident: $ty:ty, $lanes:literal;)*) => {$(
        /// Doubles every element and adds its number modulo 100.
        #[kernel]
        pub fn $name(index: ThreadIndex, mut x: DisjointVectors<$ty, $lanes>) {
            for i in index.grid_stride(x.steps()) {
                x.each(i, |at, x| *x = *x + *x + (at % 100) as $ty);
            }
        }
    )*};
}

vectors! {
    vectors_u8x2: u8, 2;
    vectors_u16x2: u16, 2;
    vectors_f32x2: f32, 2;
    vectors_f32x4: f32, 4;
    vectors_f64x2: f64, 2;
}

/// Each vector takes the numbers of its elements.
#[kernel]
pub fn vector_places(index: ThreadIndex, mut x: DisjointVectors<u32>) {
    for i in index.grid_stride(x.steps()) {
        let first = x.first_of(i) as u32;
        if let Some(x) = x.get_mut(i) {
            (x.x, x.y, x.z, x.w) = (first, first + 1, first + 2, first + 3);
        }
    }
}

/// The linear number of each block, and the number of blocks.
#[kernel]
pub fn block_numbers(index: ThreadIndex3, mut out: DisjointVolume<[u32; 2]>) {
    if let Some(out) = out.get_mut(index) {
        *out = [thread::block_in_grid() as u32, thread::blocks_in_grid() as u32];
    }
}

/// `y = alpha * x + y`, 16 bytes at a time where both are aligned alike.
#[kernel]
pub fn axpy_vectors(index: ThreadIndex, alpha: f32, x: &[f32], mut y: DisjointVectors<f32>) {
    let (head, body, tail) = split_vectors(x);
    assert!(head.len() == y.head_len() && tail.len() == y.tail_len() && x.len() == y.len());
    for i in index.grid_stride(y.steps()) {
        if let (Some(x), Some(y)) = (body.get(i.get()), y.get_mut(i)) {
            // All loads before the first store, so that each is one access.
            let (x, old) = (x.to_array(), y.to_array());
            let [a, b, c, d] = [0, 1, 2, 3].map(|lane| alpha * x[lane] + old[lane]);
            (y.x, y.y, y.z, y.w) = (a, b, c, d);
        }
        if let Some((at, y)) = y.head_mut(i) {
            *y += alpha * head[at];
        }
        if let Some((_, y)) = y.tail_mut(i) {
            *y += alpha * tail[i.get()];
        }
    }
}

/// Reverses each chunk of five; a last shorter one too.
#[kernel]
pub fn chunks(index: ThreadIndex, mut x: DisjointChunks<u32, 5>) {
    if let Some([a, b, _, d, e]) = x.get_mut(index) {
        core::mem::swap(a, e);
        core::mem::swap(b, d);
    } else {
        x.slice_mut(index).reverse();
    }
}

/// Sums of rows, and of every other row's columns, through a matrix with a pitch.
#[kernel]
pub fn sums(
    index: ThreadIndex,
    x: &[u32],
    size: [u32; 3],
    mut rows_out: DisjointSlice<u32>,
    mut columns_out: DisjointSlice<u32>,
) {
    let [rows, cols, pitch] = size.map(|n| n as usize);
    let matrix = Matrix::with_pitch(x, rows, cols, pitch);
    if let Some(out) = rows_out.get_mut(index) {
        *out = matrix.row(index.get()).iter().sum();
    }
    if let Some(out) = columns_out.get_mut(index) {
        *out = matrix.column(index.get()).iter().sum();
    }
}
