//! Arithmetic that rounds as its name says: `_rn` to nearest even, `_rd` down, `_ru` up, `_rz` towards
//! zero. Each is one PTX instruction; on the host the same is computed in exact integers.

#[cfg(not(target_os = "cuda"))]
use super::soft::{self, DOUBLE, Mode, SINGLE};

macro_rules! rounding {
    ($($(#[$doc:meta])* $name:ident($($arg:ident),+) $t:ident $reg:ident $ptx:literal = $host:expr;)+) => { $(
        $(#[$doc])*
        #[inline(always)]
        pub fn $name($($arg: $t),+) -> $t {
            #[cfg(target_os = "cuda")]
            {
                let r: $t;
                // SAFETY: arithmetic in registers.
                unsafe {
                    core::arch::asm!(
                        concat!($ptx, " {r}", $(", {", stringify!($arg), "}",)+ ";"),
                        r = lateout($reg) r, $($arg = in($reg) $arg,)+
                        options(pure, nomem, nostack, preserves_flags)
                    );
                }
                r
            }
            #[cfg(not(target_os = "cuda"))]
            {
                $host
            }
        }
    )+ };
}

rounding! {
    /// Sum, rounded down.
    fadd_rd(x, y) f32 reg32 "add.rm.f32" = f32::from_bits(soft::fma(f64::from(x), 1.0, f64::from(y), SINGLE, Mode::Rd, (x + y).to_bits().into()) as u32);
    /// Difference, rounded down.
    fsub_rd(x, y) f32 reg32 "sub.rm.f32" = f32::from_bits(soft::fma(f64::from(x), 1.0, f64::from(-y), SINGLE, Mode::Rd, (x - y).to_bits().into()) as u32);
    /// Product, rounded down.
    fmul_rd(x, y) f32 reg32 "mul.rm.f32" = f32::from_bits(soft::fma(f64::from(x), f64::from(y), signed_zero(f64::from(x), f64::from(y)), SINGLE, Mode::Rd, (x * y).to_bits().into()) as u32);
    /// Quotient, rounded down.
    fdiv_rd(x, y) f32 reg32 "div.rm.f32" = f32::from_bits(soft::div(f64::from(x), f64::from(y), SINGLE, Mode::Rd, (x / y).to_bits().into()) as u32);
    /// `x·y + z`, rounded once, down.
    fmaf_rd(x, y, z) f32 reg32 "fma.rm.f32" = f32::from_bits(soft::fma(f64::from(x), f64::from(y), f64::from(z), SINGLE, Mode::Rd, (x.mul_add(y, z)).to_bits().into()) as u32);
    /// Reciprocal, rounded down.
    frcp_rd(x) f32 reg32 "rcp.rm.f32" = f32::from_bits(soft::div(1.0, f64::from(x), SINGLE, Mode::Rd, (1.0 / x).to_bits().into()) as u32);
    /// Square root, rounded down.
    fsqrt_rd(x) f32 reg32 "sqrt.rm.f32" = f32::from_bits(soft::sqrt(f64::from(x), SINGLE, Mode::Rd, (x.sqrt()).to_bits().into()) as u32);
    /// Sum, rounded to nearest even.
    fadd_rn(x, y) f32 reg32 "add.rn.f32" = f32::from_bits(soft::fma(f64::from(x), 1.0, f64::from(y), SINGLE, Mode::Rn, (x + y).to_bits().into()) as u32);
    /// Difference, rounded to nearest even.
    fsub_rn(x, y) f32 reg32 "sub.rn.f32" = f32::from_bits(soft::fma(f64::from(x), 1.0, f64::from(-y), SINGLE, Mode::Rn, (x - y).to_bits().into()) as u32);
    /// Product, rounded to nearest even.
    fmul_rn(x, y) f32 reg32 "mul.rn.f32" = f32::from_bits(soft::fma(f64::from(x), f64::from(y), signed_zero(f64::from(x), f64::from(y)), SINGLE, Mode::Rn, (x * y).to_bits().into()) as u32);
    /// Quotient, rounded to nearest even.
    fdiv_rn(x, y) f32 reg32 "div.rn.f32" = f32::from_bits(soft::div(f64::from(x), f64::from(y), SINGLE, Mode::Rn, (x / y).to_bits().into()) as u32);
    /// `x·y + z`, rounded once, to nearest even.
    fmaf_rn(x, y, z) f32 reg32 "fma.rn.f32" = f32::from_bits(soft::fma(f64::from(x), f64::from(y), f64::from(z), SINGLE, Mode::Rn, (x.mul_add(y, z)).to_bits().into()) as u32);
    /// Reciprocal, rounded to nearest even.
    frcp_rn(x) f32 reg32 "rcp.rn.f32" = f32::from_bits(soft::div(1.0, f64::from(x), SINGLE, Mode::Rn, (1.0 / x).to_bits().into()) as u32);
    /// Square root, rounded to nearest even.
    fsqrt_rn(x) f32 reg32 "sqrt.rn.f32" = f32::from_bits(soft::sqrt(f64::from(x), SINGLE, Mode::Rn, (x.sqrt()).to_bits().into()) as u32);
    /// Sum, rounded up.
    fadd_ru(x, y) f32 reg32 "add.rp.f32" = f32::from_bits(soft::fma(f64::from(x), 1.0, f64::from(y), SINGLE, Mode::Ru, (x + y).to_bits().into()) as u32);
    /// Difference, rounded up.
    fsub_ru(x, y) f32 reg32 "sub.rp.f32" = f32::from_bits(soft::fma(f64::from(x), 1.0, f64::from(-y), SINGLE, Mode::Ru, (x - y).to_bits().into()) as u32);
    /// Product, rounded up.
    fmul_ru(x, y) f32 reg32 "mul.rp.f32" = f32::from_bits(soft::fma(f64::from(x), f64::from(y), signed_zero(f64::from(x), f64::from(y)), SINGLE, Mode::Ru, (x * y).to_bits().into()) as u32);
    /// Quotient, rounded up.
    fdiv_ru(x, y) f32 reg32 "div.rp.f32" = f32::from_bits(soft::div(f64::from(x), f64::from(y), SINGLE, Mode::Ru, (x / y).to_bits().into()) as u32);
    /// `x·y + z`, rounded once, up.
    fmaf_ru(x, y, z) f32 reg32 "fma.rp.f32" = f32::from_bits(soft::fma(f64::from(x), f64::from(y), f64::from(z), SINGLE, Mode::Ru, (x.mul_add(y, z)).to_bits().into()) as u32);
    /// Reciprocal, rounded up.
    frcp_ru(x) f32 reg32 "rcp.rp.f32" = f32::from_bits(soft::div(1.0, f64::from(x), SINGLE, Mode::Ru, (1.0 / x).to_bits().into()) as u32);
    /// Square root, rounded up.
    fsqrt_ru(x) f32 reg32 "sqrt.rp.f32" = f32::from_bits(soft::sqrt(f64::from(x), SINGLE, Mode::Ru, (x.sqrt()).to_bits().into()) as u32);
    /// Sum, rounded towards zero.
    fadd_rz(x, y) f32 reg32 "add.rz.f32" = f32::from_bits(soft::fma(f64::from(x), 1.0, f64::from(y), SINGLE, Mode::Rz, (x + y).to_bits().into()) as u32);
    /// Difference, rounded towards zero.
    fsub_rz(x, y) f32 reg32 "sub.rz.f32" = f32::from_bits(soft::fma(f64::from(x), 1.0, f64::from(-y), SINGLE, Mode::Rz, (x - y).to_bits().into()) as u32);
    /// Product, rounded towards zero.
    fmul_rz(x, y) f32 reg32 "mul.rz.f32" = f32::from_bits(soft::fma(f64::from(x), f64::from(y), signed_zero(f64::from(x), f64::from(y)), SINGLE, Mode::Rz, (x * y).to_bits().into()) as u32);
    /// Quotient, rounded towards zero.
    fdiv_rz(x, y) f32 reg32 "div.rz.f32" = f32::from_bits(soft::div(f64::from(x), f64::from(y), SINGLE, Mode::Rz, (x / y).to_bits().into()) as u32);
    /// `x·y + z`, rounded once, towards zero.
    fmaf_rz(x, y, z) f32 reg32 "fma.rz.f32" = f32::from_bits(soft::fma(f64::from(x), f64::from(y), f64::from(z), SINGLE, Mode::Rz, (x.mul_add(y, z)).to_bits().into()) as u32);
    /// Reciprocal, rounded towards zero.
    frcp_rz(x) f32 reg32 "rcp.rz.f32" = f32::from_bits(soft::div(1.0, f64::from(x), SINGLE, Mode::Rz, (1.0 / x).to_bits().into()) as u32);
    /// Square root, rounded towards zero.
    fsqrt_rz(x) f32 reg32 "sqrt.rz.f32" = f32::from_bits(soft::sqrt(f64::from(x), SINGLE, Mode::Rz, (x.sqrt()).to_bits().into()) as u32);
}

rounding! {
    /// Sum, rounded down.
    dadd_rd(x, y) f64 reg64 "add.rm.f64" = f64::from_bits(soft::fma(x, 1.0, y, DOUBLE, Mode::Rd, (x + y).to_bits()));
    /// Difference, rounded down.
    dsub_rd(x, y) f64 reg64 "sub.rm.f64" = f64::from_bits(soft::fma(x, 1.0, -y, DOUBLE, Mode::Rd, (x - y).to_bits()));
    /// Product, rounded down.
    dmul_rd(x, y) f64 reg64 "mul.rm.f64" = f64::from_bits(soft::fma(x, y, signed_zero(x, y), DOUBLE, Mode::Rd, (x * y).to_bits()));
    /// Quotient, rounded down.
    ddiv_rd(x, y) f64 reg64 "div.rm.f64" = f64::from_bits(soft::div(x, y, DOUBLE, Mode::Rd, (x / y).to_bits()));
    /// `x·y + z`, rounded once, down.
    fma_rd(x, y, z) f64 reg64 "fma.rm.f64" = f64::from_bits(soft::fma(x, y, z, DOUBLE, Mode::Rd, (x.mul_add(y, z)).to_bits()));
    /// Reciprocal, rounded down.
    drcp_rd(x) f64 reg64 "rcp.rm.f64" = f64::from_bits(soft::div(1.0, x, DOUBLE, Mode::Rd, (1.0 / x).to_bits()));
    /// Square root, rounded down.
    dsqrt_rd(x) f64 reg64 "sqrt.rm.f64" = f64::from_bits(soft::sqrt(x, DOUBLE, Mode::Rd, (x.sqrt()).to_bits()));
    /// Sum, rounded to nearest even.
    dadd_rn(x, y) f64 reg64 "add.rn.f64" = f64::from_bits(soft::fma(x, 1.0, y, DOUBLE, Mode::Rn, (x + y).to_bits()));
    /// Difference, rounded to nearest even.
    dsub_rn(x, y) f64 reg64 "sub.rn.f64" = f64::from_bits(soft::fma(x, 1.0, -y, DOUBLE, Mode::Rn, (x - y).to_bits()));
    /// Product, rounded to nearest even.
    dmul_rn(x, y) f64 reg64 "mul.rn.f64" = f64::from_bits(soft::fma(x, y, signed_zero(x, y), DOUBLE, Mode::Rn, (x * y).to_bits()));
    /// Quotient, rounded to nearest even.
    ddiv_rn(x, y) f64 reg64 "div.rn.f64" = f64::from_bits(soft::div(x, y, DOUBLE, Mode::Rn, (x / y).to_bits()));
    /// `x·y + z`, rounded once, to nearest even.
    fma_rn(x, y, z) f64 reg64 "fma.rn.f64" = f64::from_bits(soft::fma(x, y, z, DOUBLE, Mode::Rn, (x.mul_add(y, z)).to_bits()));
    /// Reciprocal, rounded to nearest even.
    drcp_rn(x) f64 reg64 "rcp.rn.f64" = f64::from_bits(soft::div(1.0, x, DOUBLE, Mode::Rn, (1.0 / x).to_bits()));
    /// Square root, rounded to nearest even.
    dsqrt_rn(x) f64 reg64 "sqrt.rn.f64" = f64::from_bits(soft::sqrt(x, DOUBLE, Mode::Rn, (x.sqrt()).to_bits()));
    /// Sum, rounded up.
    dadd_ru(x, y) f64 reg64 "add.rp.f64" = f64::from_bits(soft::fma(x, 1.0, y, DOUBLE, Mode::Ru, (x + y).to_bits()));
    /// Difference, rounded up.
    dsub_ru(x, y) f64 reg64 "sub.rp.f64" = f64::from_bits(soft::fma(x, 1.0, -y, DOUBLE, Mode::Ru, (x - y).to_bits()));
    /// Product, rounded up.
    dmul_ru(x, y) f64 reg64 "mul.rp.f64" = f64::from_bits(soft::fma(x, y, signed_zero(x, y), DOUBLE, Mode::Ru, (x * y).to_bits()));
    /// Quotient, rounded up.
    ddiv_ru(x, y) f64 reg64 "div.rp.f64" = f64::from_bits(soft::div(x, y, DOUBLE, Mode::Ru, (x / y).to_bits()));
    /// `x·y + z`, rounded once, up.
    fma_ru(x, y, z) f64 reg64 "fma.rp.f64" = f64::from_bits(soft::fma(x, y, z, DOUBLE, Mode::Ru, (x.mul_add(y, z)).to_bits()));
    /// Reciprocal, rounded up.
    drcp_ru(x) f64 reg64 "rcp.rp.f64" = f64::from_bits(soft::div(1.0, x, DOUBLE, Mode::Ru, (1.0 / x).to_bits()));
    /// Square root, rounded up.
    dsqrt_ru(x) f64 reg64 "sqrt.rp.f64" = f64::from_bits(soft::sqrt(x, DOUBLE, Mode::Ru, (x.sqrt()).to_bits()));
    /// Sum, rounded towards zero.
    dadd_rz(x, y) f64 reg64 "add.rz.f64" = f64::from_bits(soft::fma(x, 1.0, y, DOUBLE, Mode::Rz, (x + y).to_bits()));
    /// Difference, rounded towards zero.
    dsub_rz(x, y) f64 reg64 "sub.rz.f64" = f64::from_bits(soft::fma(x, 1.0, -y, DOUBLE, Mode::Rz, (x - y).to_bits()));
    /// Product, rounded towards zero.
    dmul_rz(x, y) f64 reg64 "mul.rz.f64" = f64::from_bits(soft::fma(x, y, signed_zero(x, y), DOUBLE, Mode::Rz, (x * y).to_bits()));
    /// Quotient, rounded towards zero.
    ddiv_rz(x, y) f64 reg64 "div.rz.f64" = f64::from_bits(soft::div(x, y, DOUBLE, Mode::Rz, (x / y).to_bits()));
    /// `x·y + z`, rounded once, towards zero.
    fma_rz(x, y, z) f64 reg64 "fma.rz.f64" = f64::from_bits(soft::fma(x, y, z, DOUBLE, Mode::Rz, (x.mul_add(y, z)).to_bits()));
    /// Reciprocal, rounded towards zero.
    drcp_rz(x) f64 reg64 "rcp.rz.f64" = f64::from_bits(soft::div(1.0, x, DOUBLE, Mode::Rz, (1.0 / x).to_bits()));
    /// Square root, rounded towards zero.
    dsqrt_rz(x) f64 reg64 "sqrt.rz.f64" = f64::from_bits(soft::sqrt(x, DOUBLE, Mode::Rz, (x.sqrt()).to_bits()));
}

/// The zero that changes no product: of its sign.
#[cfg(not(target_os = "cuda"))]
fn signed_zero(x: f64, y: f64) -> f64 {
    if x.is_sign_negative() == y.is_sign_negative() { 0.0 } else { -0.0 }
}

/// Reciprocal square root, rounded once: the sum of an estimate and the half of its residual, from
/// both in more bits than a float has.
#[inline(always)]
pub fn frsqrt_rn(x: f32) -> f32 {
    // A double's 53 bits leave no float near enough to a tie (it would need a square of 25 bits).
    (1.0 / crate::math::hw::sqrt64(x.into())) as f32
}
