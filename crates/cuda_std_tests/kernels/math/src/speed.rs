//! Kernels that do nothing but call one function, for its throughput.
//!
//! Arguments are spread at random over `[low, low + span)`, so that the lanes of a warp differ.
//! tools/peers/math.cu does the same with CUDA's functions.

use cuda_std::intrinsics as c;
use cuda_std::math::{double_trig, trig};
use cuda_std::prelude::*;

/// Calls of one thread in a round.
pub const CALLS: u32 = 4;

/// The next number of a linear congruential generator (W. H. Press et al., "Numerical Recipes").
#[inline(always)]
fn next(state: u32) -> u32 {
    state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223)
}

macro_rules! speed {
    ($t:ty, $fma:path, $unit:expr, $at_once:literal; $($kernel:ident = $f:expr;)+) => { $(
        #[kernel]
        pub fn $kernel(index: ThreadIndex, rounds: u32, low: $t, span: $t, mut out: DisjointSlice<$t>) {
            let unit: fn(u32) -> $t = $unit;
            let f: fn($t) -> $t = $f;
            let seed = index.get() as u32;
            if let Some(out) = out.get_mut(index) {
                let mut states = [seed, seed ^ 0x5555_5555, seed ^ 0x3333_3333, seed ^ 0x0f0f_0f0f];
                let mut sums = [0.0; CALLS as usize];
                let mut call = |i: usize| {
                    states[i] = next(states[i]);
                    sums[i] += f($fma(unit(states[i]), span, low));
                };
                let mut round = || {
                    call(0);
                    call(1);
                    call(2);
                    call(3);
                };
                // `rounds` is a multiple of four.
                for _ in 0..rounds / $at_once {
                    round();
                    if $at_once == 4 {
                        round();
                        round();
                        round();
                    }
                }
                *out = sums[0] + sums[1] + sums[2] + sums[3];
            }
        }
    )+ };
}

/// A float in [1, 2).
#[inline(always)]
fn unit32(state: u32) -> f32 {
    f32::from_bits(state >> 9 | 0x3f80_0000)
}

/// A double in [1, 2).
#[inline(always)]
fn unit64(state: u32) -> f64 {
    f64::from_bits(u64::from(state >> 12 | 0x3ff0_0000) << 32 | u64::from(state))
}

speed! {
    f32, c::fmaf, unit32, 4;
    speed_nonef = |x| x;
    speed_expf = c::expf;
    speed_exp2f = c::exp2f;
    speed_exp10f = c::exp10f;
    speed_expm1f = c::expm1f;
    speed_logf = c::logf;
    speed_log2f = c::log2f;
    speed_log10f = c::log10f;
    speed_log1pf = c::log1pf;
    speed_tanf = c::tanf;
    speed_sinpif = c::sinpif;
    speed_asinf = c::asinf;
    speed_acosf = c::acosf;
    speed_atanf = c::atanf;
    speed_sinhf = c::sinhf;
    speed_coshf = c::coshf;
    speed_tanhf = c::tanhf;
    speed_asinhf = c::asinhf;
    speed_acoshf = c::acoshf;
    speed_atanhf = c::atanhf;
    speed_sqrtf = c::sqrtf;
    speed_rsqrtf = c::rsqrtf;
    speed_cbrtf = c::cbrtf;
    speed_rcbrtf = c::rcbrtf;
    speed_erff = c::erff;
    speed_erfcf = c::erfcf;
    speed_erfinvf = c::erfinvf;
    speed_normcdff = c::normcdff;
    speed_powf = |x| c::powf(x, 2.3);
    speed_atan2f = |x| c::atan2f(x, 1.5);
    speed_hypotf = |x| c::hypotf(x, 1.5);
}

// More copies of these would outgrow the instruction cache.
speed! {
    f32, c::fmaf, unit32, 1;
    speed_sinf = c::sinf;
    speed_cosf = c::cosf;
    speed_sincosf = |x| { let (s, c) = trig::sincosf(x); s + c };
    speed_tgammaf = c::tgammaf;
    speed_lgammaf = c::lgammaf;
}

speed! {
    f64, c::fma, unit64, 4;
    speed_none = |x| x;
    speed_exp = c::exp;
    speed_exp2 = c::exp2;
    speed_exp10 = c::exp10;
    speed_expm1 = c::expm1;
    speed_log = c::log;
    speed_log2 = c::log2;
    speed_log10 = c::log10;
    speed_log1p = c::log1p;
    speed_sinpi = c::sinpi;
    speed_asin = c::asin;
    speed_acos = c::acos;
    speed_atan = c::atan;
    speed_cosh = c::cosh;
    speed_tanh = c::tanh;
    speed_sqrt = c::sqrt;
    speed_rsqrt = c::rsqrt;
    speed_cbrt = c::cbrt;
    speed_erf = c::erf;
    speed_erfc = c::erfc;
    speed_pow = |x| c::pow(x, 2.3);
    speed_atan2 = |x| c::atan2(x, 1.5);
    speed_hypot = |x| c::hypot(x, 1.5);
}

// More copies of these would outgrow the instruction cache.
speed! {
    f64, c::fma, unit64, 1;
    speed_sin = c::sin;
    speed_cos = c::cos;
    speed_tan = c::tan;
    speed_sincos = |x| { let (s, c) = double_trig::sincos(x); s + c };
    speed_sinh = c::sinh;
    speed_tgamma = c::tgamma;
    speed_lgamma = c::lgamma;
}
