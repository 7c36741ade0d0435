//! Arithmetic that rounds as its name says: `_rn` to nearest even, `_rd` down, `_ru` up, `_rz` towards
//! zero. Each is one PTX instruction; on the host the same is computed in exact integers.

#[cfg(not(target_os = "cuda"))]
use super::soft::{self, DOUBLE, Mode, SINGLE};

/// One function: what it computes, how it rounds, its name and type, the instruction, and the host's way.
macro_rules! function {
    ($what:literal $how:literal $name:ident($($arg:ident),+) $t:ident $reg:ident
        $op:literal $modifiers:literal $module:ident::$host:ident $mode:ident) => {
        #[doc = concat!($what, ", rounded ", $how, ".")]
        #[inline(always)]
        pub fn $name($($arg: $t),+) -> $t {
            #[cfg(target_os = "cuda")]
            {
                let r: $t;
                // SAFETY: arithmetic in registers.
                unsafe {
                    core::arch::asm!(
                        concat!($op, $modifiers, " {r}", $(", {", stringify!($arg), "}",)+ ";"),
                        r = lateout($reg) r, $($arg = in($reg) $arg,)+
                        options(pure, nomem, nostack, preserves_flags)
                    );
                }
                r
            }
            #[cfg(not(target_os = "cuda"))]
            {
                $module::$host($($arg,)+ Mode::$mode)
            }
        }
    };
}

/// An operation a row: its names for floats, then for doubles, each rounded down, to nearest, up, and to zero.
macro_rules! rounding {
    ($($what:literal, $op:literal, $host:ident $args:tt:
        $f_rd:ident $f_rn:ident $f_ru:ident $f_rz:ident, $d_rd:ident $d_rn:ident $d_ru:ident $d_rz:ident;)+) => { $(
        function!($what "down" $f_rd $args f32 reg32 $op ".rm.f32" single::$host Rd);
        function!($what "to nearest even" $f_rn $args f32 reg32 $op ".rn.f32" single::$host Rn);
        function!($what "up" $f_ru $args f32 reg32 $op ".rp.f32" single::$host Ru);
        function!($what "towards zero" $f_rz $args f32 reg32 $op ".rz.f32" single::$host Rz);
        function!($what "down" $d_rd $args f64 reg64 $op ".rm.f64" double::$host Rd);
        function!($what "to nearest even" $d_rn $args f64 reg64 $op ".rn.f64" double::$host Rn);
        function!($what "up" $d_ru $args f64 reg64 $op ".rp.f64" double::$host Ru);
        function!($what "towards zero" $d_rz $args f64 reg64 $op ".rz.f64" double::$host Rz);
    )+ };
}

rounding! {
    "Sum", "add", sum(x, y):
        fadd_rd fadd_rn fadd_ru fadd_rz, dadd_rd dadd_rn dadd_ru dadd_rz;
    "Difference", "sub", difference(x, y):
        fsub_rd fsub_rn fsub_ru fsub_rz, dsub_rd dsub_rn dsub_ru dsub_rz;
    "Product", "mul", product(x, y):
        fmul_rd fmul_rn fmul_ru fmul_rz, dmul_rd dmul_rn dmul_ru dmul_rz;
    "Quotient", "div", quotient(x, y):
        fdiv_rd fdiv_rn fdiv_ru fdiv_rz, ddiv_rd ddiv_rn ddiv_ru ddiv_rz;
    "`x·y + z` in one rounding", "fma", product_sum(x, y, z):
        fmaf_rd fmaf_rn fmaf_ru fmaf_rz, fma_rd fma_rn fma_ru fma_rz;
    "Reciprocal", "rcp", reciprocal(x):
        frcp_rd frcp_rn frcp_ru frcp_rz, drcp_rd drcp_rn drcp_ru drcp_rz;
    "Square root", "sqrt", root(x):
        fsqrt_rd fsqrt_rn fsqrt_ru fsqrt_rz, dsqrt_rd dsqrt_rn dsqrt_ru dsqrt_rz;
}

/// The operations on the host, for one type. The last argument of each in [`soft`] is what the host's own
/// arithmetic gives, whose NaN and infinities are right.
#[cfg(not(target_os = "cuda"))]
macro_rules! on_host {
    ($module:ident $t:ident $bits:ident $format:ident) => {
        mod $module {
            use super::{Mode, soft, $format};

            pub fn sum(x: $t, y: $t, mode: Mode) -> $t {
                fused(x, 1.0, y, mode, x + y)
            }

            pub fn difference(x: $t, y: $t, mode: Mode) -> $t {
                fused(x, 1.0, -y, mode, x - y)
            }

            pub fn product(x: $t, y: $t, mode: Mode) -> $t {
                // The zero that changes no product is of its sign.
                let same = x.is_sign_negative() == y.is_sign_negative();
                fused(x, y, if same { 0.0 } else { -0.0 }, mode, x * y)
            }

            pub fn product_sum(x: $t, y: $t, z: $t, mode: Mode) -> $t {
                fused(x, y, z, mode, x.mul_add(y, z))
            }

            pub fn quotient(x: $t, y: $t, mode: Mode) -> $t {
                of(soft::div(x.into(), y.into(), $format, mode, bits(x / y)))
            }

            pub fn reciprocal(x: $t, mode: Mode) -> $t {
                quotient(1.0, x, mode)
            }

            pub fn root(x: $t, mode: Mode) -> $t {
                of(soft::sqrt(x.into(), $format, mode, bits(x.sqrt())))
            }

            fn fused(x: $t, y: $t, z: $t, mode: Mode, plain: $t) -> $t {
                of(soft::fma(x.into(), y.into(), z.into(), $format, mode, bits(plain)))
            }

            fn bits(x: $t) -> u64 {
                x.to_bits().into()
            }

            fn of(bits: u64) -> $t {
                $t::from_bits(bits as $bits)
            }
        }
    };
}

#[cfg(not(target_os = "cuda"))]
on_host!(single f32 u32 SINGLE);
#[cfg(not(target_os = "cuda"))]
on_host!(double f64 u64 DOUBLE);

/// Reciprocal square root, rounded once: the sum of an estimate and the half of its residual, from
/// both in more bits than a float has.
#[inline(always)]
pub fn frsqrt_rn(x: f32) -> f32 {
    // A double's 53 bits leave no float near enough to a tie (it would need a square of 25 bits).
    (1.0 / crate::math::hw::sqrt64(x.into())) as f32
}
