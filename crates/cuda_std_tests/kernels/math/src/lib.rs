//! The mathematical functions, by number, over bit patterns: for the device and for the host.

#![allow(missing_docs)]

pub mod bits;
pub mod pointers;
pub mod speed;
pub mod survey;
pub mod waves;

/// A kernel that calls the function with number `op`, a host function that does the same, and the
/// names. Groups are the arguments of functions, then where they lie, then their names.
macro_rules! functions {
    ($(#[$doc:meta])* $module:ident, $kernel:ident: $($args:tt in $path:tt [$($name:ident)*])*) => {
        $(#[$doc])*
        pub mod $module {
            use crate::bits::{Bits, Results};
            use cuda_std::prelude::*;

            #[allow(non_camel_case_types)]
            enum Op {
                $($($name,)*)*
            }

            /// Names and kinds of arguments, by number.
            pub const NAMES: &[(&str, &str)] = &[$($((stringify!($name), stringify!($args)),)*)*];

            /// Calls function `op`.
            #[inline(always)]
            pub fn call(op: u32, args: [u64; 3]) -> [u64; 2] {
                $($(
                    if op == Op::$name as u32 {
                        return crate::call!(args $args $path $name);
                    }
                )*)*
                [0; 2]
            }

            /// Calls function `op` for each element.
            #[kernel]
            pub fn $kernel(
                index: ThreadIndex,
                op: u32,
                args: &[[u64; 3]],
                mut out: DisjointSlice<[u64; 2]>,
            ) {
                if let Some(out) = out.get_mut(index) {
                    *out = call(op, args[index.get()]);
                }
            }
        }
    };
}

macro_rules! call {
    ($args:ident ($($arg:ident: $t:ty),+) [$($path:tt)*] $name:ident) => {{
        let mut rest = $args.into_iter();
        $(let $arg = <$t as Bits>::take(rest.next().unwrap_or_default());)+
        $($path)*::$name($($arg),+).pack()
    }};
}
pub(crate) use call;

functions! {
    /// Functions of floats.
    single, run_single:
    (x: f32) in [cuda_std::intrinsics] [
        acosf acoshf asinf asinhf atanf atanhf cbrtf ceilf cosf coshf cospif erfcf
        erfcinvf erfcxf erff erfinvf exp10f exp2f expf expm1f fabsf fast_cosf fast_exp10f
        fast_expf fast_log10f fast_log2f fast_logf fast_sinf fast_tanf floorf j0f j1f
        lgammaf log10f log1pf log2f logbf logf nearbyintf normcdff normcdfinvf rcbrtf
        rintf roundf rsqrtf saturatef sinf sinhf sinpif sqrtf tanf tanhf tgammaf truncf
        y0f y1f
    ]
    (x: f32, y: f32) in [cuda_std::intrinsics] [
        atan2f copysignf fast_fdividef fast_powf fdimf fmaxf fminf fmodf hypotf nextafterf
        powf remainderf
    ]
    (x: f32) in [cuda_std::intrinsics] [
        finitef float_as_int ilogbf isinff isnanf signbitf
    ]
    (x: f32) in [cuda_std::intrinsics] [
        llrintf llroundf
    ]
    (x: i32) in [cuda_std::intrinsics] [
        int_as_float
    ]
    (x: f32, y: f32, z: f32) in [cuda_std::intrinsics] [
        fmaf
    ]
    (x: f32, y: i32) in [cuda_std::intrinsics] [
        ldexpf powif scalbnf
    ]
    (x: i32, y: f32) in [cuda_std::intrinsics] [
        jnf ynf
    ]
    (x: f32) in [cuda_std::intrinsics] [
        fast_tanhf
    ]
}

functions! {
    /// Functions of doubles.
    double, run_double:
    (x: f64) in [cuda_std::intrinsics] [
        acos acosh asin asinh atan atanh cbrt ceil cos cosh cospi erf erfc erfcinv erfcx
        erfinv exp exp10 exp2 expm1 fabs floor j0 j1 lgamma log log10 log1p log2 logb
        nearbyint normcdf normcdfinv rcbrt rint round rsqrt sin sinh sinpi sqrt tan tanh
        tgamma trunc y0 y1
    ]
    (x: f64, y: f64) in [cuda_std::intrinsics] [
        atan2 copysign fdim fmax fmin fmod hypot nextafter pow remainder
    ]
    (x: f64) in [cuda_std::intrinsics] [
        ilogb isfinited isinfd isnand signbitd
    ]
    (x: f64) in [cuda_std::intrinsics] [
        double_as_longlong llrint llround
    ]
    (x: i64) in [cuda_std::intrinsics] [
        longlong_as_double
    ]
    (x: f64, y: f64, z: f64) in [cuda_std::intrinsics] [
        fma
    ]
    (x: f64, y: i32) in [cuda_std::intrinsics] [
        ldexp powi scalbn
    ]
    (x: i32, y: f64) in [cuda_std::intrinsics] [
        jn yn
    ]
}

functions! {
    /// Arithmetic with a rounding in its name.
    rounding, run_rounding:
    (x: f32) in [cuda_std::intrinsics] [
        frcp_rd frcp_rn frcp_ru frcp_rz frsqrt_rn fsqrt_rd fsqrt_rn fsqrt_ru fsqrt_rz
    ]
    (x: f64) in [cuda_std::intrinsics] [
        drcp_rd drcp_rn drcp_ru drcp_rz dsqrt_rd dsqrt_rn dsqrt_ru dsqrt_rz
    ]
    (x: f32, y: f32) in [cuda_std::intrinsics] [
        fadd_rd fadd_rn fadd_ru fadd_rz fdiv_rd fdiv_rn fdiv_ru fdiv_rz fmul_rd fmul_rn
        fmul_ru fmul_rz fsub_rd fsub_rn fsub_ru fsub_rz
    ]
    (x: f64, y: f64) in [cuda_std::intrinsics] [
        dadd_rd dadd_rn dadd_ru dadd_rz ddiv_rd ddiv_rn ddiv_ru ddiv_rz dmul_rd dmul_rn
        dmul_ru dmul_rz
    ]
    (x: f64, y: f64, z: f64) in [cuda_std::intrinsics] [
        fma_rd fma_rn fma_ru fma_rz
    ]
    (x: f32, y: f32, z: f32) in [cuda_std::intrinsics] [
        fmaf_rd fmaf_rn fmaf_ru fmaf_rz
    ]
}

functions! {
    /// Conversions.
    convert, run_convert:
    (x: f64) in [cuda_std::intrinsics] [
        double2hiint double2int_rd double2int_rn double2int_ru double2int_rz double2loint
        double2uint_rd double2uint_rn double2uint_ru double2uint_rz
    ]
    (x: f32) in [cuda_std::intrinsics] [
        float2int_rd float2int_rn float2int_ru float2int_rz float2uint_rd float2uint_rn
        float2uint_ru float2uint_rz
    ]
    (x: f64) in [cuda_std::intrinsics] [
        double2ll_rd double2ll_rn double2ll_ru double2ll_rz double2ull_rd double2ull_rn
        double2ull_ru double2ull_rz
    ]
    (x: f32) in [cuda_std::intrinsics] [
        float2ll_rd float2ll_rn float2ll_ru float2ll_rz float2ull_rd float2ull_rn
        float2ull_ru float2ull_rz
    ]
    (x: i32) in [cuda_std::intrinsics] [
        int2float_rd int2float_rn int2float_ru int2float_rz uint2float_rd uint2float_rn
        uint2float_ru uint2float_rz
    ]
    (x: i64) in [cuda_std::intrinsics] [
        ll2double_rd ll2double_rn ll2double_ru ll2double_rz ull2double_rd ull2double_rn
        ull2double_ru ull2double_rz
    ]
    (x: i64) in [cuda_std::intrinsics] [
        ll2float_rd ll2float_rn ll2float_ru ll2float_rz ull2float_rd ull2float_rn
        ull2float_ru ull2float_rz
    ]
    (x: f64) in [cuda_std::intrinsics] [
        double2float_rd double2float_rn double2float_ru double2float_rz
    ]
    (x: i32) in [cuda_std::intrinsics] [
        int2double_rn uint2double_rn
    ]
    (x: f32) in [cuda_std::intrinsics] [
        float2half_rn
    ]
    (x: i16) in [cuda_std::intrinsics] [
        half2float
    ]
    (x: i32, y: i32) in [cuda_std::intrinsics] [
        hiloint2double
    ]
}

functions! {
    /// Integer functions.
    integer, run_integer:
    (x: i32, y: i32) in [cuda_std::intrinsics] [
        hadd max min mul24 mulhi rhadd uhadd umax umin umul24 umulhi urhadd
    ]
    (x: i64, y: i64) in [cuda_std::intrinsics] [
        llmax llmin mul64hi ullmax ullmin umul64hi
    ]
    (x: i32) in [cuda_std::intrinsics] [
        abs brev clz ffs popc
    ]
    (x: i32, y: i32, z: i32) in [cuda_std::intrinsics] [
        byte_perm sad usad
    ]
    (x: i64) in [cuda_std::intrinsics] [
        clzll ffsll popcll
    ]
    (x: i64) in [cuda_std::intrinsics] [
        brevll llabs
    ]
}

functions! {
    /// The methods of `GpuFloat` and `FloatExt` for f32.
    methods32, run_methods32:
    (x: f32) in [<f32 as cuda_std::GpuFloat>] [
        floor ceil round trunc fract abs signum sqrt exp exp2 ln log2 log10 cbrt sin cos
        tan asin acos atan sin_cos exp_m1 ln_1p sinh cosh tanh asinh acosh atanh
    ]
    (x: f32, y: f32) in [<f32 as cuda_std::GpuFloat>] [
        copysign div_euclid rem_euclid powf log hypot atan2
    ]
    (x: f32, y: f32, z: f32) in [<f32 as cuda_std::GpuFloat>] [
        mul_add
    ]
    (x: f32, y: i32) in [<f32 as cuda_std::GpuFloat>] [
        powi
    ]
    (x: f32) in [<f32 as cuda_std::FloatExt>] [
        cospi error_function complementary_error_function inv_complementary_error_function
        scaled_complementary_error_function frexp unbiased_exp j0 j1 log_gamma log1p
        norm_cdf inv_norm_cdf rcbrt saturate sincospi sinpi gamma y0 y1
    ]
    (x: f32, y: i32) in [<f32 as cuda_std::FloatExt>] [
        jn ldexp scale_by_n yn
    ]
}

functions! {
    /// The methods of `GpuFloat` and `FloatExt` for f64.
    methods64, run_methods64:
    (x: f64) in [<f64 as cuda_std::GpuFloat>] [
        floor ceil round trunc fract abs signum sqrt exp exp2 ln log2 log10 cbrt sin cos
        tan asin acos atan sin_cos exp_m1 ln_1p sinh cosh tanh asinh acosh atanh
    ]
    (x: f64, y: f64) in [<f64 as cuda_std::GpuFloat>] [
        copysign div_euclid rem_euclid powf log hypot atan2
    ]
    (x: f64, y: f64, z: f64) in [<f64 as cuda_std::GpuFloat>] [
        mul_add
    ]
    (x: f64, y: i32) in [<f64 as cuda_std::GpuFloat>] [
        powi
    ]
    (x: f64) in [<f64 as cuda_std::FloatExt>] [
        cospi error_function complementary_error_function inv_complementary_error_function
        scaled_complementary_error_function frexp unbiased_exp j0 j1 log_gamma log1p
        norm_cdf inv_norm_cdf rcbrt saturate sincospi sinpi gamma y0 y1
    ]
    (x: f64, y: i32) in [<f64 as cuda_std::FloatExt>] [
        jn ldexp scale_by_n yn
    ]
}

functions! {
    /// Functions that write through pointers.
    pointer, run_pointer:
    (x: f32) in [crate::pointers] [
        sincosf sincospif fast_sincosf frexpf modff
    ]
    (x: f64) in [crate::pointers] [
        sincos sincospi frexp modf
    ]
    (x: f32, y: f32) in [crate::pointers] [
        remquof
    ]
    (x: f64, y: f64) in [crate::pointers] [
        remquo
    ]
    (x: i32) in [crate::pointers] [
        nanf nan
    ]
}
