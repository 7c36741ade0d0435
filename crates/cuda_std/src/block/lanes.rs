//! Shuffles, reductions and scans of whole warps of a block.

use super::item::Item;
use crate::warp::Warp;

/// The value of the lane `delta` above; the own one where there is none.
///
/// # Safety
/// All 32 lanes call it together.
#[inline(always)]
pub unsafe fn down<T: Item>(value: T, delta: u32) -> T {
    // SAFETY: the caller's promise.
    unsafe { Warp::assume_full() }.shuffle_down(value, delta)
}

/// The value of the lane `delta` below; the own one where there is none.
///
/// # Safety
/// All 32 lanes call it together.
#[inline(always)]
pub unsafe fn up<T: Item>(value: T, delta: u32) -> T {
    // SAFETY: the caller's promise.
    unsafe { Warp::assume_full() }.shuffle_up(value, delta)
}

/// The value of `lane`.
///
/// # Safety
/// All 32 lanes call it together.
#[inline(always)]
pub unsafe fn of<T: Item>(value: T, lane: u32) -> T {
    // SAFETY: the caller's promise.
    unsafe { Warp::assume_full() }.shuffle(value, lane)
}

/// In lane 0 the values of the first `lanes` lanes, combined in order; an unspecified value in the others.
///
/// # Safety
/// All 32 lanes call it together; `lanes` is the same in all, and at least 1.
#[inline(always)]
pub unsafe fn reduce<T: Item>(
    mut value: T,
    lane: usize,
    lanes: usize,
    op: impl Fn(T, T) -> T,
) -> T {
    let mut distance = 1;
    while distance < lanes {
        // SAFETY: the caller's promise.
        let other = unsafe { down(value, distance as u32) };
        // Where the warp is full, what lane 0 gets never comes from past its end.
        if lanes.is_power_of_two() || lane + distance < lanes {
            value = op(value, other);
        }
        distance *= 2;
    }
    value
}

/// In each lane the values of the lanes up to it, combined in order.
///
/// # Safety
/// All 32 lanes call it together.
#[inline(always)]
pub unsafe fn scan<T: Item>(mut value: T, lane: usize, op: impl Fn(T, T) -> T) -> T {
    let mut distance = 1;
    while distance < 32 {
        // SAFETY: the caller's promise.
        let other = unsafe { up(value, distance as u32) };
        if lane >= distance {
            value = op(other, value);
        }
        distance *= 2;
    }
    value
}
