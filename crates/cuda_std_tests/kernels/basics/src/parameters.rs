//! Every kind of parameter.

use cuda_std::prelude::*;
use cuda_std::vector::split_vectors;

#[kernel]
pub fn saxpy(index: ThreadIndex, alpha: f32, x: &[f32], mut y: DisjointSlice<f32>) {
    if let Some(y) = y.get_mut(index) {
        *y += alpha * x[index.get()];
    }
}

/// Copies `x` in another order: element `i` goes to `step * i` modulo the length.
///
/// # Safety
/// `step` and the length have no common divisor, and `y` is as long as `x`.
#[kernel]
pub unsafe fn permute(index: ThreadIndex, step: usize, x: &[u32], mut y: DisjointSlice<u32>) {
    if let Some(value) = x.get(index.get()) {
        let to = index.get() * step % x.len();
        // SAFETY: such a step makes a permutation, so `to` is another element in each thread; the launcher lends the
        // slice for the launch, the borrow is one expression long, and `to < x.len()`.
        unsafe { *y.get_unchecked_mut(to) = *value };
    }
}

/// As one writes it for rust-cuda.
#[kernel]
#[allow(improper_ctypes_definitions, clippy::missing_safety_doc)]
pub unsafe fn vecadd(a: &[f32], b: &[f32], c: *mut f32) {
    let idx = thread::index_1d() as usize;
    if idx < a.len() {
        // SAFETY: the caller's promise.
        let elem = unsafe { &mut *c.add(idx) };
        *elem = a[idx] + b[idx];
    }
}

/// Sums what each thread reaches by 16-byte loads.
#[kernel]
pub fn vector_sums(index: ThreadIndex, x: &[f32], mut out: DisjointSlice<f32>) {
    let (head, body, tail) = split_vectors(x);
    let mut sum = 0.0;
    for i in index.grid_stride(body.len()) {
        sum += body[i.get()].to_array().iter().sum::<f32>();
    }
    if index.get() == 0 {
        sum += head.iter().chain(tail).sum::<f32>();
    }
    if let Some(out) = out.get_mut(index) {
        *out = sum;
    }
}

#[kernel]
pub fn brighten(mut image: DisjointGrid<u8>, index: ThreadIndex2, by: &u8) {
    if let Some(pixel) = image.get_mut(index) {
        *pixel = pixel.saturating_add(*by);
    }
}

/// Padding and fields of several sizes.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Mixed {
    pub byte: u8,
    pub word: u32,
    pub half: u16,
}

/// Sums its arguments.
///
/// # Safety
/// `out` is valid.
#[kernel]
pub unsafe fn by_value(
    byte: u8,
    flag: bool,
    mixed: Mixed,
    vector: Vec4<f32>,
    wide: u128,
    array: [u32; 3],
    out: *mut u64,
) {
    let sum = u64::from(byte) + u64::from(flag) + u64::from(mixed.byte);
    let sum = sum + u64::from(mixed.word) + u64::from(mixed.half);
    let sum = sum + vector.y as u64 + wide as u64 + u64::from(array[2]);
    // SAFETY: the caller's promise.
    unsafe { *out = sum };
}
