//! Every kind of parameter.

use core::marker::PhantomData;
use core::mem::offset_of;

use bytemuck::NoUninit;
use cuda_std::Aligned;
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

/// A row of 48 words that begins at a multiple of 256 bytes.
pub type AlignedRow = Aligned<[u32; 48], 256>;

/// For each row the sum of its words plus both of `plus`, and how far the row and its result are from a multiple of 256 bytes.
#[kernel]
pub fn aligned_rows(
    index: ThreadIndex,
    plus: Aligned<[u32; 2], 16>,
    rows: &[AlignedRow],
    mut out: DisjointSlice<Aligned<[u32; 3], 256>>,
) {
    if let (Some(out), Some(row)) = (out.get_mut(index), rows.get(index.get())) {
        let offset = |address: usize| (address % 256) as u32;
        let sum = row.iter().chain(plus.iter()).sum();
        let offsets = [(&raw const *row).addr(), (&raw const *out).addr()].map(offset);
        *out = Aligned::new([sum, offsets[0], offsets[1]]);
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

/// What is applied to each element.
pub trait Map: Copy {
    /// Of one element.
    fn of(self, x: f32) -> f32;
}

/// A functor without captured values: the entry has no parameter for it.
#[derive(Clone, Copy, NoUninit)]
#[repr(C)]
pub struct Twice;

impl Map for Twice {
    fn of(self, x: f32) -> f32 {
        2.0 * x
    }
}

/// A functor with a captured value.
#[derive(Clone, Copy, NoUninit)]
#[repr(C)]
pub struct Plus {
    /// What is added.
    pub by: f32,
}

impl Map for Plus {
    fn of(self, x: f32) -> f32 {
        x + self.by
    }
}

/// `out[i] = map.of(x[i])`. All `[n]`.
#[kernel(Twice, Plus)]
pub fn mapped<M: Map>(
    index: ThreadIndex,
    nothing: (),
    map: M,
    x: &[f32],
    none: [u64; 0],
    mut out: DisjointSlice<f32>,
) {
    let ((), []) = (nothing, none);
    if let Some(out) = out.get_mut(index) {
        *out = map.of(x[index.get()]);
    }
}

/// Values without a size before, between and after others, by an unsafe kernel's rules too.
///
/// # Safety
/// `out` is valid.
#[kernel]
pub unsafe fn nothing_between(
    _first: PhantomData<u64>,
    a: u8,
    _between: Twice,
    _array: [u128; 0],
    b: u32,
    out: *mut u64,
    _last: PhantomData<f64>,
) {
    // SAFETY: the caller's promise.
    unsafe { *out = u64::from(a) + u64::from(b) };
}

/// Nothing but values without a size: an entry without parameters.
#[kernel]
pub fn nothing_at_all(_a: (), _b: Twice) {}

/// A struct whose fields the compiler lays out as it likes.
#[derive(Clone, Copy)]
pub struct Unordered {
    /// One byte.
    pub byte: u8,
    /// Eight bytes.
    pub wide: u64,
    /// Two bytes.
    pub half: u16,
    /// Sixteen bytes, aligned to as many.
    pub widest: u128,
    /// A tuple, which has no order either.
    pub pair: (u8, u32, u16),
    /// One byte.
    pub flag: bool,
    /// Eight bytes.
    pub float: f64,
}

impl Unordered {
    /// Its size, its alignment and where its fields lie.
    pub fn layout() -> [u64; 12] {
        [
            size_of::<Self>(),
            align_of::<Self>(),
            offset_of!(Self, byte),
            offset_of!(Self, wide),
            offset_of!(Self, half),
            offset_of!(Self, widest),
            offset_of!(Self, pair.0),
            offset_of!(Self, pair.1),
            offset_of!(Self, pair.2),
            offset_of!(Self, flag),
            offset_of!(Self, float),
            align_of::<(u8, u32, u16)>(),
        ]
        .map(|number| number as u64)
    }

    /// A number of all its fields.
    pub fn digest(self) -> u64 {
        let (a, b, c) = self.pair;
        let parts = [
            u64::from(self.byte),
            self.wide,
            u64::from(self.half),
            self.widest as u64,
            (self.widest >> 64) as u64,
            u64::from(a),
            u64::from(b),
            u64::from(c),
            u64::from(self.flag),
            self.float.to_bits(),
        ];
        parts.iter().fold(0, |all: u64, part| all.rotate_left(7) ^ part)
    }
}

/// The layout of a struct on the device, and what it holds there: `out: [13]`.
///
/// # Safety
/// `out` is that long, and host and device lay out the struct alike.
#[kernel]
pub unsafe fn unordered(value: Unordered, out: *mut u64) {
    for (i, number) in Unordered::layout().into_iter().enumerate() {
        // SAFETY: the caller's promise.
        unsafe { out.add(i).write(number) };
    }
    // SAFETY: the caller's promise.
    unsafe { out.add(12).write(value.digest()) };
}
