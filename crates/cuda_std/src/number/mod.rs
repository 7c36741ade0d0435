//! Numbers of 16 and 8 bits: arithmetic of single instructions, pairs, and conversions.
//!
//! | | type | what |
//! |---|---|---|
//! | [`Half`] | [`struct@f16`], [`bf16`] | arithmetic and conversions of the `half` crate's types, one instruction each |
//! | [`F16x2`], [`Bf16x2`] | 2 × 16 bits | two at once, in one register |
//! | [`E4m3`], [`E5m2`] | 8 bits | storage; computing goes through halves |
//! | [`E4m3x2`], [`E5m2x2`] | 2 × 8 bits | converted two at a time, as the hardware does |
//!
//! The operators of the `half` crate (`a + b` of two [`struct@f16`]s) are right on the device too, but they
//! go through `f32` in a dozen instructions each; the functions here are one.
//!
//! Everything here runs on the host as well, and gives the device's bits there: results are rounded
//! once, a NaN that an instruction makes is `0x7fff`. The exceptions are the approximations
//! ([`Half::ex2`], [`Half::htanh`]), which the host rounds correctly.
//!
//! The functions need `sm_80`, those of [`bf16`] that add, subtract, multiply or approximate and
//! those of 8 bits `sm_90`; the driver refuses a module that uses them on an older GPU.

mod fp8;
mod pair;
mod scalar;
#[cfg(not(target_os = "cuda"))]
mod soft;

pub use self::fp8::{E4m3, E4m3x2, E5m2, E5m2x2};
pub use self::pair::{Bf16x2, F16x2, Mask2};
pub use self::scalar::{Half, f16_down, f16_up};
pub use ::half::{bf16, f16};

/// One instruction without side effects on the device; on the host the expression behind it.
///
/// `instruction!("add.rn.f16", reg16 u16: reg16 a, reg16 b; host)` computes from bits.
macro_rules! instruction {
    ($name:expr, $out:ident $ty:ty: $($class:ident $value:expr),+; $host:expr) => {{
        #[cfg(target_os = "cuda")]
        {
            let result: $ty;
            // SAFETY: arithmetic on registers has no precondition.
            unsafe {
                $crate::number::assembly!($name, $out result, $($class $value),+);
            }
            result
        }
        #[cfg(not(target_os = "cuda"))]
        {
            let result: $ty = $host;
            result
        }
    }};
}

/// The assembly of [`instruction`], with as many operands as there are.
#[cfg(target_os = "cuda")]
macro_rules! assembly {
    ($name:expr, $out:ident $result:ident, $c0:ident $v0:expr) => {
        core::arch::asm!(concat!($name, " {0}, {1};"), out($out) $result, in($c0) $v0,
            options(pure, nomem, nostack))
    };
    ($name:expr, $out:ident $result:ident, $c0:ident $v0:expr, $c1:ident $v1:expr) => {
        core::arch::asm!(concat!($name, " {0}, {1}, {2};"), out($out) $result, in($c0) $v0,
            in($c1) $v1, options(pure, nomem, nostack))
    };
    ($name:expr, $out:ident $result:ident, $c0:ident $v0:expr, $c1:ident $v1:expr,
        $c2:ident $v2:expr) => {
        core::arch::asm!(concat!($name, " {0}, {1}, {2}, {3};"), out($out) $result, in($c0) $v0,
            in($c1) $v1, in($c2) $v2, options(pure, nomem, nostack))
    };
}

#[cfg(target_os = "cuda")]
use assembly;
use instruction;
