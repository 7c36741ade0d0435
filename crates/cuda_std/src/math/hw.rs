//! The floating-point instructions that the functions are made of, each with a reference implementation on the host.
//!
//! On the device each is one PTX instruction. On the host the exact ones give the same bits, and
//! the approximate ones (`ex2`, `lg2`, `rcp`, `rsqrt`, …) the nearest float, as the emulator does.
//! A product that feeds a sum is written [`fma`] or [`mul`]: the compiler contracts a bare
//! `a * b + c` on the device alone, and the two would differ.

macro_rules! instructions {
    ($($(#[$doc:meta])* $name:ident($($arg:ident),+) -> $t:ident = $ptx:literal $reg:ident, $host:expr;)+) => { $(
        $(#[$doc])*
        #[inline(always)]
        pub(crate) fn $name($($arg: $t),+) -> $t {
            #[cfg(target_os = "cuda")]
            {
                let result: $t;
                // SAFETY: arithmetic in registers.
                unsafe {
                    core::arch::asm!(
                        $ptx, $($arg = in($reg) $arg,)+ r = lateout($reg) result,
                        options(pure, nomem, nostack, preserves_flags)
                    );
                }
                result
            }
            #[cfg(not(target_os = "cuda"))]
            $host
        }
    )+ };
}

instructions! {
    /// `2^x`, subnormal results flushed; off by 2 ulp at most.
    ex2(x) -> f32 = "ex2.approx.ftz.f32 {r}, {x};" reg32, flush((f64::from(flush(x))).exp2() as f32);
    /// `2^x`; off by 2 ulp at most.
    ex2_full(x) -> f32 = "ex2.approx.f32 {r}, {x};" reg32, (f64::from(x)).exp2() as f32;
    /// Logarithm to base 2, subnormals flushed.
    lg2(x) -> f32 = "lg2.approx.ftz.f32 {r}, {x};" reg32, f64::from(flush(x)).log2() as f32;
    /// Logarithm to base 2.
    lg2_full(x) -> f32 = "lg2.approx.f32 {r}, {x};" reg32, f64::from(x).log2() as f32;
    /// Sine, for small arguments.
    sin_approx(x) -> f32 = "sin.approx.f32 {r}, {x};" reg32, f64::from(x).sin() as f32;
    /// Cosine, for small arguments.
    cos_approx(x) -> f32 = "cos.approx.f32 {r}, {x};" reg32, f64::from(x).cos() as f32;
    /// Hyperbolic tangent, with a relative error of 2^-11.
    tanh_approx(x) -> f32 = "tanh.approx.f32 {r}, {x};" reg32, f64::from(x).tanh() as f32;
    /// Reciprocal, off by 1 ulp at most; subnormals flushed.
    rcp(x) -> f32 = "rcp.approx.ftz.f32 {r}, {x};" reg32, flush((1.0 / f64::from(flush(x))) as f32);
    /// Reciprocal square root, with a relative error of 2^-22.9.
    rsqrt(x) -> f32 = "rsqrt.approx.f32 {r}, {x};" reg32, (1.0 / f64::from(x).sqrt()) as f32;
    /// Square root, off by an ulp; subnormals flushed.
    sqrt_approx(x) -> f32 = "sqrt.approx.ftz.f32 {r}, {x};" reg32, flush(x).sqrt();
    /// Quotient, off by 2 ulp at most; magnitudes of `y` above 2^126 give zero.
    div_approx(x, y) -> f32 = "div.approx.f32 {r}, {x}, {y};" reg32, div_on_host(x, y);
    /// `x·y + z`, then limited to `[0, 1]`; of NaN it is 0.
    fma_sat(x, y, z) -> f32 = "fma.rn.sat.f32 {r}, {x}, {y}, {z};" reg32, saturate_on_host(x.mul_add(y, z));
    /// `x·y + z`, rounded down: on the host for `|x·y|` in `[0, 252]` and `z` = 1.5·2^23 + 1.
    fma_rd(x, y, z) -> f32 = "fma.rm.f32 {r}, {x}, {y}, {z};" reg32, (f64::from(x) * f64::from(y)).floor() as f32 + z;
    /// Reciprocal to about 20 bits.
    rcp64(x) -> f64 = "rcp.approx.ftz.f64 {r}, {x};" reg64, upper(1.0 / upper(x));
    /// Reciprocal square root to about 20 bits.
    rsqrt64(x) -> f64 = "rsqrt.approx.ftz.f64 {r}, {x};" reg64, upper(1.0 / upper(x).sqrt());
}

/// A subnormal number becomes the zero of its sign.
#[cfg(not(target_os = "cuda"))]
fn flush(x: f32) -> f32 {
    if x.is_subnormal() { 0f32.copysign(x) } else { x }
}

#[cfg(not(target_os = "cuda"))]
fn saturate_on_host(x: f32) -> f32 {
    // `max` drops a NaN.
    x.max(0.0).min(1.0)
}

#[cfg(not(target_os = "cuda"))]
fn div_on_host(x: f32, y: f32) -> f32 {
    if y.is_finite() && y.abs() > f32::from_bits(253 << 23) {
        let zero = 0f32.copysign(x * y);
        return if x.is_finite() { zero } else { f32::NAN };
    }
    (f64::from(x) / f64::from(y)) as f32
}

/// The upper 32 bits of a double, subnormals flushed.
#[cfg(not(target_os = "cuda"))]
fn upper(x: f64) -> f64 {
    let x = if x.is_subnormal() { 0f64.copysign(x) } else { x };
    f64::from_bits(x.to_bits() & 0xffff_ffff_0000_0000)
}

#[cfg(target_os = "cuda")]
mod llvm {
    unsafe extern "C" {
        #[link_name = "llvm.fma.f32"]
        pub safe fn fma32(x: f32, y: f32, z: f32) -> f32;
        #[link_name = "llvm.fma.f64"]
        pub safe fn fma64(x: f64, y: f64, z: f64) -> f64;
        #[link_name = "llvm.nvvm.mul.rn.f"]
        pub safe fn mul32(x: f32, y: f32) -> f32;
        #[link_name = "llvm.nvvm.mul.rn.d"]
        pub safe fn mul64(x: f64, y: f64) -> f64;
        #[link_name = "llvm.sqrt.f32"]
        pub safe fn sqrt32(x: f32) -> f32;
        #[link_name = "llvm.sqrt.f64"]
        pub safe fn sqrt64(x: f64) -> f64;
    }
    macro_rules! unary {
        ($($name:ident $t:ident $link:literal;)+) => {
            unsafe extern "C" { $(
                #[link_name = $link]
                pub safe fn $name(x: $t) -> $t;
            )+ }
        };
    }
    unary! {
        floor32 f32 "llvm.floor.f32"; floor64 f64 "llvm.floor.f64";
        ceil32 f32 "llvm.ceil.f32"; ceil64 f64 "llvm.ceil.f64";
        trunc32 f32 "llvm.trunc.f32"; trunc64 f64 "llvm.trunc.f64";
        rint32 f32 "llvm.rint.f32"; rint64 f64 "llvm.rint.f64";
    }
}

macro_rules! both {
    ($($(#[$doc:meta])* $name:ident, $name64:ident = $dev:ident, $dev64:ident, $host:ident;)+) => { $(
        $(#[$doc])*
        #[inline(always)]
        pub(crate) fn $name(x: f32) -> f32 {
            #[cfg(target_os = "cuda")]
            return llvm::$dev(x);
            #[cfg(not(target_os = "cuda"))]
            x.$host()
        }
        $(#[$doc])*
        #[inline(always)]
        pub(crate) fn $name64(x: f64) -> f64 {
            #[cfg(target_os = "cuda")]
            return llvm::$dev64(x);
            #[cfg(not(target_os = "cuda"))]
            x.$host()
        }
    )+ };
}

both! {
    /// Square root, rounded once.
    sqrt, sqrt64 = sqrt32, sqrt64, sqrt;
    /// Largest integer not above.
    floor, floor64 = floor32, floor64, floor;
    /// Smallest integer not below.
    ceil, ceil64 = ceil32, ceil64, ceil;
    /// Nearest integer towards zero.
    trunc, trunc64 = trunc32, trunc64, trunc;
    /// Nearest integer, ties to even.
    rint, rint64 = rint32, rint64, round_ties_even;
}

/// `x·y + z`, rounded once.
#[inline(always)]
pub(crate) fn fma(x: f32, y: f32, z: f32) -> f32 {
    #[cfg(target_os = "cuda")]
    return llvm::fma32(x, y, z);
    #[cfg(not(target_os = "cuda"))]
    x.mul_add(y, z)
}

/// `x·y + z`, rounded once.
#[inline(always)]
pub(crate) fn fma64(x: f64, y: f64, z: f64) -> f64 {
    #[cfg(target_os = "cuda")]
    return llvm::fma64(x, y, z);
    #[cfg(not(target_os = "cuda"))]
    x.mul_add(y, z)
}

/// `x·y`, never part of an fma.
#[inline(always)]
pub(crate) fn mul(x: f32, y: f32) -> f32 {
    #[cfg(target_os = "cuda")]
    return llvm::mul32(x, y);
    #[cfg(not(target_os = "cuda"))]
    return x * y;
}

/// `x·y`, never part of an fma.
#[inline(always)]
pub(crate) fn mul64(x: f64, y: f64) -> f64 {
    #[cfg(target_os = "cuda")]
    return llvm::mul64(x, y);
    #[cfg(not(target_os = "cuda"))]
    return x * y;
}

/// A polynomial by Horner's rule, coefficients from the constant up.
macro_rules! horner {
    ($x:expr; $c:expr) => { $c };
    ($x:expr; $c:expr, $($rest:expr),+) => {
        $crate::math::hw::fma($x, $crate::math::hw::horner!($x; $($rest),+), $c)
    };
}
/// As above, for doubles.
macro_rules! horner64 {
    ($x:expr; $c:expr) => { $c };
    ($x:expr; $c:expr, $($rest:expr),+) => {
        $crate::math::hw::fma64($x, $crate::math::hw::horner64!($x; $($rest),+), $c)
    };
}
pub(crate) use {horner, horner64};
