//! A polynomial of each element, with its coefficients in constant memory.
//!
//! The coefficients are the same for all threads and all launches until the host writes others: a calibration curve, say.
//! All threads of a warp read one coefficient at one time, which is what constant memory is made for: its cache
//! broadcasts a word to a whole warp, and leaves the other caches to the elements.
//!
//! A variable in constant memory is one for all launches of a module: the host must not write it while another launch
//! reads it. Where each launch has numbers of its own, as a blur has its weights, a slice or an argument by value is the
//! better way.

use cuda_std::{address_space, externally_visible};

use crate::prelude::*;

/// The most coefficients of a polynomial.
pub const MAX_COEFFICIENTS: usize = 16;

/// The name of the coefficients in the PTX, by which the host finds them.
pub const COEFFICIENTS: &str = "ferrowarp_coefficients";

/// `c[0]`, `c[1]`, …, that of the lowest power first; the host writes them before a launch.
#[address_space(constant)]
#[externally_visible]
#[unsafe(export_name = "ferrowarp_coefficients")]
static mut OWN: [f32; MAX_COEFFICIENTS] = [0.0; MAX_COEFFICIENTS];

/// One step of Horner's scheme (Horner, 1819): `sum * x + coefficient`, rounded once.
#[inline(always)]
pub fn horner(sum: f32, x: f32, coefficient: f32) -> f32 {
    x.mul_add(sum, coefficient)
}

/// `y[i] = c[0] + c[1] x[i] + … + c[count - 1] x[i]^(count - 1)` by Horner's scheme, 0 without coefficients. `x: [n]`,
/// `y: [n]` f32, `count <= MAX_COEFFICIENTS`. One thread an element.
#[kernel]
pub fn polynomial(index: ThreadIndex, count: u32, x: &[f32], mut y: DisjointSlice<f32>) {
    let Some(y) = y.get_mut(index) else { return };
    let (x, count) = (x[index.get()], (count as usize).min(MAX_COEFFICIENTS));
    // SAFETY: `k < count` is inside, no kernel writes constant memory, and the host writes it while no kernel that reads
    // it runs: what `Global::copy_from` asks of its callers.
    let coefficient = |k: usize| unsafe { *(&raw const OWN).cast::<f32>().add(k) };
    // Without a step for the highest power: infinity times 0 would be NaN.
    let mut sum = if count > 0 { coefficient(count - 1) } else { 0.0 };
    for k in (1..count).rev() {
        sum = horner(sum, x, coefficient(k - 1));
    }
    *y = sum;
}
