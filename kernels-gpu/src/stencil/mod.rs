//! Stencils: every cell of a grid becomes a weighted sum of itself and its nearest neighbours.
//!
//! In two dimensions five cells, `centre * c + x * (left + right) + y * (up + down)`; in three dimensions seven,
//! `… + z * (front + back)`. The order is fixed: the product of the centre, then a fused multiply-add for each axis, x first, of
//! the rounded sum of two neighbours. So all forms give the same bits, on every device, however many steps
//! are fused.
//!
//! * [`stencil_plane_plain`](fn@stencil_plane_plain), [`stencil_volume_plain`](fn@stencil_volume_plain): one thread a cell. What to read first.
//! * [`plane`]: warps that stream down the rows with all steps of several in registers.
//! * [`volume`]: blocks that stream through the planes.
//!
//! Grids are row-major, x fastest. What lies beyond an edge says the [boundary](FIXED).

// The host's compiler does not know `compute_90`.
#![allow(unexpected_cfgs)]

pub mod plane;
pub mod smoothing;
pub mod volume;

pub use plane::stencil_plane;
#[cfg(any(not(target_os = "cuda"), target_feature = "compute_90"))]
pub use smoothing::smooth_cluster;
pub use smoothing::{smooth, smooth_cooperative, smooth_dependent};
pub use volume::{stencil_volume, stencil_volume_twice};

use crate::prelude::*;
use bytemuck::Pod;
use cuda_std::access::{self, ReadOnlyHint, StoreHint};

/// Boundary: cells on an edge keep their values.
pub const FIXED: u32 = 0;
/// Boundary: beyond an edge lies the opposite one.
pub const PERIODIC: u32 = 1;
/// Boundary: beyond an edge lies the grid's mirror image, so that nothing flows over it: the neighbour of a cell on an edge is
/// that cell.
pub const INSULATED: u32 = 2;

/// What cells hold: `f32` in fours, or `f64` in twos, of 16 bytes.
///
/// # Safety
/// `LANES` cells have 16 bytes.
pub unsafe trait Cell<const LANES: usize>: Pod + Real {
    /// 16 bytes of memory that the kernel does not write, by one instruction.
    ///
    /// # Safety
    /// `from` is valid for a read of as many cells, which no thread writes while the kernel runs, and aligned to 16 bytes.
    unsafe fn load(from: *const Self) -> [Self; LANES];

    /// 16 bytes, by one instruction.
    ///
    /// # Safety
    /// `to` is valid for a write of as many cells, and aligned to 16 bytes.
    unsafe fn store(to: *mut Self, cells: [Self; LANES]);
}

/// A number with the arithmetic of a stencil.
pub trait Real: Pod {
    /// Zero.
    const ZERO: Self;
    /// `self + other`.
    fn plus(self, other: Self) -> Self;
    /// `self * other`.
    fn times(self, other: Self) -> Self;
    /// `self * factor + other`, rounded once.
    fn fused(self, factor: Self, other: Self) -> Self;
}

macro_rules! real {
    ($($ty:ty)*) => {$(
        impl Real for $ty {
            const ZERO: Self = 0.0;

            #[inline(always)]
            fn plus(self, other: Self) -> Self {
                self + other
            }

            #[inline(always)]
            fn times(self, other: Self) -> Self {
                self * other
            }

            #[inline(always)]
            fn fused(self, factor: Self, other: Self) -> Self {
                self.mul_add(factor, other)
            }
        }
    )*};
}

real!(f32 f64);

// SAFETY: four times four bytes.
unsafe impl Cell<4> for f32 {
    #[inline(always)]
    unsafe fn load(from: *const f32) -> [f32; 4] {
        // SAFETY: the caller's promise.
        let from = unsafe { &*from.cast::<Vec4<f32>>() };
        // Said as an instruction: beside a way that loads cell by cell, the compiler would make one of both.
        // SAFETY: the caller's promise.
        unsafe { access::load_read_only(from, ReadOnlyHint::AllLevels) }.to_array()
    }

    #[inline(always)]
    unsafe fn store(to: *mut f32, [x, y, z, w]: [f32; 4]) {
        // SAFETY: the caller's promise.
        let to = unsafe { &mut *to.cast::<Vec4<f32>>() };
        access::store(to, Vec4::new(x, y, z, w), StoreHint::WriteBack);
    }
}

// SAFETY: twice eight bytes.
unsafe impl Cell<2> for f64 {
    #[inline(always)]
    unsafe fn load(from: *const f64) -> [f64; 2] {
        // SAFETY: the caller's promise.
        let from = unsafe { &*from.cast::<Vec2<f64>>() };
        // As above.
        // SAFETY: the caller's promise.
        unsafe { access::load_read_only(from, ReadOnlyHint::AllLevels) }.to_array()
    }

    #[inline(always)]
    unsafe fn store(to: *mut f64, [x, y]: [f64; 2]) {
        // SAFETY: the caller's promise.
        let to = unsafe { &mut *to.cast::<Vec2<f64>>() };
        access::store(to, Vec2::new(x, y), StoreHint::WriteBack);
    }
}

/// Where cell `i` of an axis with `n` cells lies: itself, or for one beyond an edge what the boundary puts there. A fixed
/// boundary puts the nearest cell there, of which no result depends. Cells are never many times `n` beyond an edge.
#[inline(always)]
pub fn place(i: isize, n: usize, boundary: u32) -> usize {
    if (i as usize) < n {
        return i as usize;
    }
    if boundary == FIXED || n == 0 {
        return if i < 0 { 0 } else { n.wrapping_sub(1) };
    }
    let period = if boundary == PERIODIC { n } else { 2 * n } as isize;
    // Few rounds, which are much less code than a division of 64 bits.
    let mut i = i;
    while i < 0 {
        i += period;
    }
    while i >= period {
        i -= period;
    }
    if (i as usize) < n { i as usize } else { 2 * n - 1 - i as usize }
}

/// The weights of two or three axes.
#[derive(Clone, Copy)]
pub(crate) struct Weights<T> {
    pub(crate) centre: T,
    pub(crate) x: T,
    pub(crate) y: T,
    pub(crate) z: T,
}

impl<T: Real> Weights<T> {
    /// The sum over a plane: of the cell and two pairs of neighbours.
    #[inline(always)]
    pub(crate) fn plane(&self, centre: T, x: [T; 2], y: [T; 2]) -> T {
        let sum = self.centre.times(centre);
        let sum = x[0].plus(x[1]).fused(self.x, sum);
        y[0].plus(y[1]).fused(self.y, sum)
    }

    /// The sum over a volume: of the cell and three pairs of neighbours.
    #[inline(always)]
    pub(crate) fn volume(&self, centre: T, x: [T; 2], y: [T; 2], z: [T; 2]) -> T {
        z[0].plus(z[1]).fused(self.z, self.plane(centre, x, y))
    }
}

/// The five-point stencil at a cell of `x: [height, width]`, without the rule for fixed edges.
#[inline(always)]
fn at_plane<T: Real>(
    cells: &[T],
    [width, height]: [usize; 2],
    [x, y]: [usize; 2],
    weights: Weights<T>,
    boundary: u32,
) -> T {
    let at = |dx: isize, dy: isize| {
        let column = place(x as isize + dx, width, boundary);
        cells[place(y as isize + dy, height, boundary) * width + column]
    };
    weights.plane(at(0, 0), [at(-1, 0), at(1, 0)], [at(0, -1), at(0, 1)])
}

/// Whether `i` is the first or the last of `n`.
#[inline(always)]
pub(crate) fn is_edge(i: usize, n: usize) -> bool {
    i == 0 || i.wrapping_add(1) == n
}

/// The plain five-point stencil. `cells: [height, width]`, `out` likewise; one thread a cell.
#[kernel(f32, f64)]
pub fn stencil_plane_plain<T: Real>(
    index: ThreadIndex2,
    cells: &[T],
    centre: T,
    weights: [T; 2],
    boundary: u32,
    mut out: DisjointGrid<T>,
) {
    let shape = [out.width(), out.height()];
    let (x, y) = (index.x(), index.y());
    let weights = Weights { centre, x: weights[0], y: weights[1], z: T::ZERO };
    let Some(out) = out.get_mut(index) else { return };
    let is_kept = boundary == FIXED && (is_edge(x, shape[0]) || is_edge(y, shape[1]));
    *out = if is_kept {
        cells[y * shape[0] + x]
    } else {
        at_plane(cells, shape, [x, y], weights, boundary)
    };
}

/// The seven-point stencil at a cell of `x: [depth, height, width]`, without the rule for fixed edges.
#[inline(always)]
fn at_volume<T: Real>(
    cells: &[T],
    [width, height, depth]: [usize; 3],
    [x, y, z]: [usize; 3],
    weights: Weights<T>,
    boundary: u32,
) -> T {
    let at = |dx: isize, dy: isize, dz: isize| {
        let plane = place(z as isize + dz, depth, boundary) * height;
        let row = (plane + place(y as isize + dy, height, boundary)) * width;
        cells[row + place(x as isize + dx, width, boundary)]
    };
    let (x, y) = ([at(-1, 0, 0), at(1, 0, 0)], [at(0, -1, 0), at(0, 1, 0)]);
    weights.volume(at(0, 0, 0), x, y, [at(0, 0, -1), at(0, 0, 1)])
}

/// The plain seven-point stencil. `cells: [depth, height, width]`, `out` likewise; one thread a cell.
#[kernel(f32, f64)]
pub fn stencil_volume_plain<T: Real>(
    index: ThreadIndex3,
    cells: &[T],
    centre: T,
    weights: [T; 3],
    boundary: u32,
    mut out: DisjointVolume<T>,
) {
    let shape = [out.width(), out.height(), out.depth()];
    let place = [index.x(), index.y(), index.z()];
    let weights = Weights { centre, x: weights[0], y: weights[1], z: weights[2] };
    let Some(out) = out.get_mut(index) else { return };
    *out = if boundary == FIXED && is_on_edge(place, shape) {
        cells[(place[2] * shape[1] + place[1]) * shape[0] + place[0]]
    } else {
        at_volume(cells, shape, place, weights, boundary)
    };
}

/// Whether a cell of a volume is on one of its six faces.
#[inline(always)]
fn is_on_edge(place: [usize; 3], shape: [usize; 3]) -> bool {
    is_edge(place[0], shape[0]) || is_edge(place[1], shape[1]) || is_edge(place[2], shape[2])
}

/// A step of the wave equation: `previous` becomes what comes after `cells`, `S(cells) - previous`, where `S` is the
/// five-point stencil. Both are `[height, width]`; edges as in [`stencil_plane_plain`](fn@stencil_plane_plain). One thread a cell.
#[kernel(f32)]
pub fn stencil_wave<T: Real + core::ops::Sub<Output = T>>(
    index: ThreadIndex2,
    cells: &[T],
    centre: T,
    weights: [T; 2],
    boundary: u32,
    mut previous: DisjointGrid<T>,
) {
    let shape = [previous.width(), previous.height()];
    let (x, y) = (index.x(), index.y());
    let weights = Weights { centre, x: weights[0], y: weights[1], z: T::ZERO };
    let Some(previous) = previous.get_mut(index) else { return };
    let is_kept = boundary == FIXED && (is_edge(x, shape[0]) || is_edge(y, shape[1]));
    *previous = if is_kept {
        cells[y * shape[0] + x]
    } else {
        at_plane(cells, shape, [x, y], weights, boundary) - *previous
    };
}

/// A step of the wave equation in a volume: [`stencil_wave`](fn@stencil_wave) with the seven-point stencil. `cells` and `previous`
/// are `[depth, height, width]`; edges as in [`stencil_volume_plain`](fn@stencil_volume_plain). One thread a cell.
#[kernel(f32)]
pub fn stencil_wave_volume<T: Real + core::ops::Sub<Output = T>>(
    index: ThreadIndex3,
    cells: &[T],
    centre: T,
    weights: [T; 3],
    boundary: u32,
    mut previous: DisjointVolume<T>,
) {
    let shape = [previous.width(), previous.height(), previous.depth()];
    let place = [index.x(), index.y(), index.z()];
    let weights = Weights { centre, x: weights[0], y: weights[1], z: weights[2] };
    let Some(previous) = previous.get_mut(index) else { return };
    *previous = if boundary == FIXED && is_on_edge(place, shape) {
        cells[(place[2] * shape[1] + place[1]) * shape[0] + place[0]]
    } else {
        at_volume(cells, shape, place, weights, boundary) - *previous
    };
}
