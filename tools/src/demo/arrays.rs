//! Demos on arrays and matrices.

use super::{Check, Outcome, Scale, timed};
use ferrowarp::Gpu;
use ferrowarp::error::GpuResult;
use ferrowarp::memory::DeviceBuffer;
use ferrowarp::ops::{self, Scratch, reduce};

/// Relative size of half a unit in the last place of an f32.
pub(super) const HALF_ULP: f64 = 1.0 / (1 << 24) as f64;

/// `n` floats in -1..1, the same on every run.
pub(super) fn floats(n: usize, seed: u32) -> Vec<f32> {
    let mut state = seed;
    (0..n)
        .map(|_| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 8) as f32 / 8_388_608.0 - 1.0
        })
        .collect()
}

pub(super) fn elements(n: usize) -> String {
    format!("{n} elements")
}

/// Pairs to be compared in f64.
pub(super) fn widened<'a>(
    found: &'a [f32],
    expected: &'a [f32],
) -> impl Iterator<Item = (f64, f64)> + 'a {
    found.iter().zip(expected).map(|(&a, &b)| (f64::from(a), f64::from(b)))
}

pub(super) fn vecadd(gpu: &Gpu, Scale { n, .. }: Scale) -> GpuResult<Outcome> {
    let (a, b) = (floats(n, 1), floats(n, 2));
    let (on_a, on_b) = (DeviceBuffer::from_slice(gpu, &a)?, DeviceBuffer::from_slice(gpu, &b)?);
    let mut out = DeviceBuffer::zeroed(gpu, n)?;
    let time = timed(gpu, || ops::vecadd(gpu, &on_a, &on_b, &mut out))?;
    let check = Check::exact(&out.to_vec()?, &reference::vecadd::vecadd(&a, &b));
    Ok(Outcome { size: elements(n), time, bytes: 12 * n, check, picture: None })
}

pub(super) fn saxpy(gpu: &Gpu, Scale { n, .. }: Scale) -> GpuResult<Outcome> {
    let (x, y) = (floats(n, 3), floats(n, 4));
    let (on_x, mut on_y) = (DeviceBuffer::from_slice(gpu, &x)?, DeviceBuffer::from_slice(gpu, &y)?);
    ops::saxpy(gpu, 0.5, &on_x, &mut on_y)?;
    // One rounding of at most 1.5, and the reference's own.
    let check = Check::within(
        3.0 * HALF_ULP,
        widened(&on_y.to_vec()?, &reference::saxpy::saxpy(0.5, &x, &y)),
    );
    let time = timed(gpu, || ops::saxpy(gpu, 0.5, &on_x, &mut on_y))?;
    Ok(Outcome { size: elements(n), time, bytes: 12 * n, check, picture: None })
}

pub(super) fn copy_strided(gpu: &Gpu, Scale { n, .. }: Scale) -> GpuResult<Outcome> {
    copied(gpu, n, |x, out| ops::copy_strided(gpu, 32, x, out))
}

pub(super) fn copy_coalesced(gpu: &Gpu, Scale { n, .. }: Scale) -> GpuResult<Outcome> {
    copied(gpu, n, |x, out| ops::copy::copy_coalesced(gpu, x, out))
}

fn copied(
    gpu: &Gpu,
    n: usize,
    copy: impl Fn(&DeviceBuffer<f32>, &mut DeviceBuffer<f32>) -> GpuResult<()>,
) -> GpuResult<Outcome> {
    let x = floats(n, 5);
    let on_x = DeviceBuffer::from_slice(gpu, &x)?;
    let mut out = DeviceBuffer::zeroed(gpu, n)?;
    let time = timed(gpu, || copy(&on_x, &mut out))?;
    let check = Check::exact(&out.to_vec()?, &x);
    Ok(Outcome { size: elements(n), time, bytes: 8 * n, check, picture: None })
}

/// The check of an f32 sum: its rounding grows with the magnitudes and with the additions that one element passes.
pub(super) fn sum_check(found: f32, x: &[f32]) -> Check {
    let additions = x.len() as f64 / 540_000.0 + 64.0;
    let allowed = additions * HALF_ULP * reference::reduce::sum_of_magnitudes(x);
    Check::within(allowed, [(f64::from(found), reference::reduce::sum_f32(x))].into_iter())
}

pub(super) fn reduce_tree(gpu: &Gpu, Scale { n, .. }: Scale) -> GpuResult<Outcome> {
    let x = floats(n, 6);
    let on_x = DeviceBuffer::from_slice(gpu, &x)?;
    let check = sum_check(reduce::sum_tree_f32(gpu, &on_x)?, &x);
    let time = timed(gpu, || reduce::sum_tree_f32(gpu, &on_x).map(drop))?;
    Ok(Outcome { size: elements(n), time, bytes: 4 * n, check, picture: None })
}

pub(super) fn reduce_f32(gpu: &Gpu, Scale { n, .. }: Scale) -> GpuResult<Outcome> {
    let x = floats(n, 6);
    let on_x = DeviceBuffer::from_slice(gpu, &x)?;
    let (mut out, mut scratch) = (DeviceBuffer::zeroed(gpu, 1)?, Scratch::new(gpu)?);
    let time = timed(gpu, || reduce::sum_into(gpu, &on_x, &mut out, &mut scratch))?;
    let check = sum_check(out.to_vec()?[0], &x);
    Ok(Outcome { size: elements(n), time, bytes: 4 * n, check, picture: None })
}

pub(super) fn reduce_i32(gpu: &Gpu, Scale { n, .. }: Scale) -> GpuResult<Outcome> {
    let x: Vec<i32> = floats(n, 7).into_iter().map(|x| x.to_bits() as i32).collect();
    let on_x = DeviceBuffer::from_slice(gpu, &x)?;
    let (mut out, mut scratch) = (DeviceBuffer::zeroed(gpu, 1)?, Scratch::new(gpu)?);
    let time = timed(gpu, || reduce::sum_into(gpu, &on_x, &mut out, &mut scratch))?;
    let check = Check::exact(&out.to_vec()?, &[reference::reduce::sum_i32(&x)]);
    Ok(Outcome { size: elements(n), time, bytes: 4 * n, check, picture: None })
}

pub(super) fn transpose_naive(gpu: &Gpu, scale: Scale) -> GpuResult<Outcome> {
    transposed(gpu, scale.side, |input, out, side| {
        ops::transpose::transpose_naive(gpu, input, out, side, side)
    })
}

pub(super) fn transpose_tiled(gpu: &Gpu, scale: Scale) -> GpuResult<Outcome> {
    transposed(gpu, scale.side, |input, out, side| {
        ops::transpose::transpose_tiled(gpu, input, out, side, side)
    })
}

fn transposed(
    gpu: &Gpu,
    side: usize,
    transpose: impl Fn(&DeviceBuffer<f32>, &mut DeviceBuffer<f32>, usize) -> GpuResult<()>,
) -> GpuResult<Outcome> {
    let cells = side * side;
    let input = floats(cells, 10);
    let on_input = DeviceBuffer::from_slice(gpu, &input)?;
    let mut out = DeviceBuffer::zeroed(gpu, cells)?;
    let time = timed(gpu, || transpose(&on_input, &mut out, side))?;
    let check = Check::exact(&out.to_vec()?, &reference::transpose::transpose(&input, side, side));
    Ok(Outcome { size: format!("{side} × {side}"), time, bytes: 8 * cells, check, picture: None })
}
