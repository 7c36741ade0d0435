//! The products of a warp: its rows by keys, and exponentials by values.
//!
//! Rows in shared memory are `2 D` bytes. Their pieces of 16 bytes are exchanged with each other, by the row's number, so that the eight rows that
//! `ldmatrix` reads together are in different banks.

#![cfg_attr(not(target_os = "cuda"), allow(dead_code, unused_imports))]

use super::super::scores::{Tiles, unmerged};
use super::Multiplies;
use cuda_std::matrix::{converge, load_matrices};
use cuda_std::{gpu_only, unrolled};

/// Where in a tile of rows of `D` elements a piece of 16 bytes is.
#[inline(always)]
pub const fn place_of_piece<const D: usize>(row: usize, piece: usize) -> usize {
    row * 2 * D + ((piece ^ (row % 8)) * 16)
}

/// The address of a piece of a lane, of two neighbouring pieces, and of the rows and pieces from constants on, multiples of 8 and of 2. The constants come last: so a lane has four
/// addresses in a tile, to which instructions add them. Otherwise the compiler keeps each address of a loop in a register of its own.
#[inline(always)]
fn address<const D: usize>(
    tile: *const u8,
    (row, piece): (usize, usize),
    (first_row, first_piece): (usize, usize),
) -> *const u8 {
    let of_lane = tile.wrapping_add(place_of_piece::<D>(row, first_piece % 8 + piece));
    of_lane.wrapping_add(first_row * 2 * D + first_piece / 8 * 128)
}

/// A lane's number, of which the compiler knows no more than that it is below 32 where rows are long: so addresses are computed in the loop in which they are used. There are more of
/// them than registers, and those that are kept from before the loop would go to local memory.
#[gpu_only]
#[inline(always)]
fn lane_here<const D: usize>(lane: usize) -> usize {
    if D <= 128 { lane } else { unmerged(lane as u32) as usize % 32 }
}

/// The scores of 16 rows by `8 E` keys.
///
/// # Safety
/// All lanes of the warp call this together; both tiles are in shared memory.
#[gpu_only]
#[inline(always)]
pub unsafe fn multiply_keys<T: Multiplies, const D: usize, const E: usize>(
    q: *const u8,
    k: *const u8,
    lane: usize,
) -> Tiles<E> {
    let (mut scores, lane) = (Tiles::<E>::zeroed(), lane_here::<D>(lane));
    // SAFETY: the caller's promise.
    unrolled!(D / 16, |step| unsafe { multiply_step::<T, D, E>(&mut scores, q, k, step, lane) });
    scores
}

/// Adds the products of 16 elements of each row.
///
/// # Safety
/// As [`multiply_keys`].
#[gpu_only]
#[inline(always)]
unsafe fn multiply_step<T: Multiplies, const D: usize, const E: usize>(
    scores: &mut Tiles<E>,
    q: *const u8,
    k: *const u8,
    step: usize,
    lane: usize,
) {
    // SAFETY: the caller's promise.
    unsafe {
        converge();
        let a = address::<D>(q, (lane % 16, lane / 16), (0, 2 * step));
        let a = load_matrices::<4, false>(a);
        // Two matrices of 8 keys along the row, then the next 8 keys.
        let of_lane = (lane % 8 + lane / 16 * 8, lane / 8 % 2);
        unrolled!(E / 2, |two| {
            let b = address::<D>(k, of_lane, (16 * two, 2 * step));
            let b = load_matrices::<4, false>(b);
            scores.0[2 * two] = T::multiply(a, [b[0], b[1]], scores.0[2 * two]);
            scores.0[2 * two + 1] = T::multiply(a, [b[2], b[3]], scores.0[2 * two + 1]);
        });
    }
}

/// Adds the products of 16 rows of exponentials of `16 G` keys by their values.
///
/// # Safety
/// As [`multiply_keys`].
#[gpu_only]
#[inline(always)]
pub unsafe fn multiply_values<
    T: Multiplies,
    const D: usize,
    const COLUMNS: usize,
    const G: usize,
>(
    sums: &mut Tiles<COLUMNS>,
    weights: [[u32; 4]; G],
    v: *const u8,
    lane: usize,
) {
    let lane = lane_here::<D>(lane);
    // SAFETY: the caller's promise.
    unrolled!(G, |sixteen| unsafe {
        add_values::<T, D, COLUMNS>(sums, weights[sixteen], v, 16 * sixteen, lane);
    });
}

/// Adds the products of 16 keys, from `first` on.
///
/// # Safety
/// As [`multiply_keys`].
#[gpu_only]
#[inline(always)]
unsafe fn add_values<T: Multiplies, const D: usize, const COLUMNS: usize>(
    sums: &mut Tiles<COLUMNS>,
    a: [u32; 4],
    v: *const u8,
    first: usize,
    lane: usize,
) {
    // SAFETY: the caller's promise.
    unsafe {
        converge();
        // Two matrices of 8 values below each other, then the next 8 columns.
        unrolled!(COLUMNS / 2, |two| {
            let b = address::<D>(v, (lane % 16, lane / 16), (first, 2 * two));
            let b = load_matrices::<4, true>(b);
            sums.0[2 * two] = T::multiply(a, [b[0], b[1]], sums.0[2 * two]);
            sums.0[2 * two + 1] = T::multiply(a, [b[2], b[3]], sums.0[2 * two + 1]);
        });
    }
}
