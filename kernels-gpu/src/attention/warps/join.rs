//! The results of warps that divide the keys of a tile, brought together.

#![cfg_attr(not(target_os = "cuda"), allow(dead_code, unused_imports))]

use super::super::scores::Tiles;
use super::super::softmax::{Rows, exp2_flushed};
use crate::prelude::*;
use cuda_std::vector::Vec4;
use cuda_std::{gpu_only, unrolled};

/// Adds the sums of all warps to those of the first, relative to the largest of their maxima. Returns whether this is the first
/// warp.
///
/// # Safety
/// All threads of the block call this together. `shared` has place for 16 bytes of each thread, and then for the sums of all warps but one, and
/// nothing else uses it.
#[gpu_only]
#[inline(always)]
pub unsafe fn bring_together<const COLUMNS: usize>(
    sums: &mut Tiles<COLUMNS>,
    rows: &mut Rows,
    factor: f32,
    shared: *mut u8,
    warp: usize,
    warps: usize,
) -> bool {
    let lane = thread::index_in_block() as usize % 32;
    let of_rows = shared.cast::<Vec4<f32>>();
    let of_sums = of_rows.wrapping_add(32 * warps);
    let place = |warp: usize, column: usize| {
        of_sums.wrapping_add(((warp - 1) * COLUMNS + column) * 32 + lane)
    };
    // SAFETY: each thread writes its own places, and reads others behind a barrier.
    unsafe {
        let ([above, below], [sum, of_below]) = (rows.max, rows.sum);
        of_rows.add(32 * warp + lane).write(Vec4::new(above, below, sum, of_below));
        thread::sync_threads();
        let mut max = [f32::NEG_INFINITY; 2];
        for other in 0..warps {
            let of = of_rows.add(32 * other + lane).read();
            max = [max[0].max(of.x), max[1].max(of.y)];
        }
        let weight = |own: f32, max: f32| {
            if own == f32::NEG_INFINITY { 0.0 } else { exp2_flushed((own - max) * factor) }
        };
        let own = [weight(rows.max[0], max[0]), weight(rows.max[1], max[1])];
        unrolled!(COLUMNS, |e| {
            let [a, b, c, d] = sums.0[e];
            sums.0[e] = [a * own[0], b * own[0], c * own[1], d * own[1]];
            if warp > 0 {
                let [a, b, c, d] = sums.0[e];
                place(warp, e).write(Vec4::new(a, b, c, d));
            }
        });
        thread::sync_threads();
        if warp > 0 {
            return false;
        }
        let mut totals = [0.0; 2];
        for other in 0..warps {
            let of = of_rows.add(32 * other + lane).read();
            totals[0] += of.z * weight(of.x, max[0]);
            totals[1] += of.w * weight(of.y, max[1]);
        }
        for other in 1..warps {
            unrolled!(COLUMNS, |e| {
                let of = place(other, e).read();
                let [a, b, c, d] = sums.0[e];
                sums.0[e] = [a + of.x, b + of.y, c + of.z, d + of.w];
            });
        }
        (rows.max, rows.sum) = (max, totals);
    }
    true
}
