//! Random data for measurements, made where it is needed, and a kernel that only takes time.
//!
//! Each word is a hash of its place, so that a host can tell any of them without a copy of all.

use crate::prelude::*;
use cuda_std::{bf16, gpu_only};

/// Numbers in a memory of 32-bit words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Noise {
    /// Any bits: integers of 1 to 8 bytes, over their whole range.
    Bits,
    /// `f32`, even in -0.5..0.5.
    F32,
    /// `f64`, even in -0.5..0.5.
    F64,
    /// `f16` of either sign, with magnitudes even in 0.25..0.5.
    F16,
    /// `bf16`, likewise.
    Bf16,
    /// `f32`, each of them [`normal`].
    NormalF32,
    /// `f64`, likewise.
    NormalF64,
    /// `f16`, likewise, rounded to the nearest.
    NormalF16,
    /// `bf16`, likewise.
    NormalBf16,
    /// [`E4m3`](cuda_std::number::E4m3), likewise, with 0 in place of magnitudes below 2^-6.
    NormalE4m3,
}

/// The integer hash with low bias that Chris Wellons found by search (2018).
const fn hash(mut x: u32) -> u32 {
    x ^= x >> 16;
    x = x.wrapping_mul(0x7feb_352d);
    x ^= x >> 15;
    x = x.wrapping_mul(0x846c_a68b);
    x ^ (x >> 16)
}

/// 32 random bits for a place.
const fn bits(seed: u32, place: u64) -> u32 {
    hash(place as u32 ^ hash((place >> 32) as u32 ^ hash(seed)))
}

/// Word `place` of the numbers of `kind` under `seed`: the device's, bit for bit.
#[must_use]
pub const fn word(kind: u32, seed: u32, place: u64) -> u32 {
    const SIGNS: u32 = 0x8000_8000;
    if kind == Noise::Bits as u32 {
        bits(seed, place)
    } else if kind == Noise::F32 as u32 {
        ((bits(seed, place) >> 8) as f32 / 16_777_216.0 - 0.5).to_bits()
    } else if kind == Noise::F64 as u32 {
        let (low, high) = (bits(seed, place & !1), bits(seed, place | 1));
        let fraction = ((high as u64) << 32 | low as u64) >> 11;
        let double = (fraction as f64 / 9_007_199_254_740_992.0 - 0.5).to_bits();
        (double >> (32 * (place & 1))) as u32
    } else if kind == Noise::F16 as u32 {
        bits(seed, place) & (SIGNS | 0x03ff_03ff) | 0x3400_3400
    } else if kind == Noise::Bf16 as u32 {
        bits(seed, place) & (SIGNS | 0x007f_007f) | 0x3e80_3e80
    } else if kind == Noise::NormalF32 as u32 {
        normal(seed, place).to_bits()
    } else if kind == Noise::NormalF64 as u32 {
        ((normal(seed, place / 2) as f64).to_bits() >> (32 * (place & 1))) as u32
    } else if kind == Noise::NormalE4m3 as u32 {
        let (mut word, mut index) = (0, 0);
        while index < 4 {
            word |= e4m3(normal(seed, 4 * place + index)) << (8 * index);
            index += 1;
        }
        word
    } else {
        let (low, high) = (normal(seed, 2 * place), normal(seed, 2 * place + 1));
        if kind == Noise::NormalF16 as u32 {
            let [low, high] = [f16::from_f32_const(low), f16::from_f32_const(high)];
            low.to_bits() as u32 | (high.to_bits() as u32) << 16
        } else {
            let [low, high] = [bf16::from_f32_const(low), bf16::from_f32_const(high)];
            low.to_bits() as u32 | (high.to_bits() as u32) << 16
        }
    }
}

/// The bits of a normal number, of a smaller magnitude than 2^8, as [`E4m3`](cuda_std::number::E4m3); 0 below 2^-6.
const fn e4m3(value: f32) -> u32 {
    /// What exponents of `f32` are larger by, above three bits of fraction.
    const BIAS: u32 = (127 - 7) << 3;
    /// Half of the last bit that stays.
    const HALF: u32 = 1 << 19;
    let bits = value.to_bits();
    let rounded = (((bits & !(1 << 31)) + HALF) >> 20).saturating_sub(BIAS);
    let magnitude = if rounded < 1 << 3 { 0 } else { rounded };
    bits >> 31 << 7 | magnitude
}

/// Nearly normal, with mean 0 and variance 1: the sum of four even numbers of 16 bits. Number `index` under `seed`.
#[must_use]
pub const fn normal(seed: u32, index: u64) -> f32 {
    /// `√3 / 2^16`: the reciprocal of the deviation.
    const SCALE: f32 = 2.6429e-5;
    let (a, b) = (bits(seed, index), bits(!seed, index));
    let sum = (a & 0xffff) + (a >> 16) + (b & 0xffff) + (b >> 16);
    (sum as i32 - 131_070) as f32 * SCALE
}

/// Fills `out: [words]` with the numbers of a [`Noise`]. Any grid.
#[kernel]
pub fn noise(index: ThreadIndex, kind: u32, seed: u32, mut out: DisjointSlice<u32>) {
    for i in index.grid_stride(out.len()) {
        if let Some(out) = out.get_mut(i) {
            *out = word(kind, seed, i.get() as u64);
        }
    }
}

/// A random number below `limit` for a place: the device's, bit for bit.
#[must_use]
pub const fn below(seed: u32, limit: u32, place: u64) -> u32 {
    ((bits(seed, place) as u64 * limit as u64) >> 32) as u32
}

/// Fills `out: [n]` with random numbers [`below`] a limit. Any grid.
#[kernel]
pub fn noise_below(index: ThreadIndex, seed: u32, limit: u32, mut out: DisjointSlice<u32>) {
    for i in index.grid_stride(out.len()) {
        if let Some(out) = out.get_mut(i) {
            *out = below(seed, limit, i.get() as u64);
        }
    }
}

/// Takes about `nanoseconds`, so that what is enqueued after it is there when it ends. One thread.
#[kernel(block = 1)]
pub fn hold(nanoseconds: u64) {
    let start = now();
    while now() - start < nanoseconds {
        thread::nanosleep(500);
    }
}

/// The device's clock in nanoseconds.
#[gpu_only]
fn now() -> u64 {
    let time: u64;
    // SAFETY: reading a special register has no precondition.
    unsafe {
        core::arch::asm!("mov.u64 {0}, %globaltimer;", out(reg64) time, options(nomem, nostack))
    };
    time
}
