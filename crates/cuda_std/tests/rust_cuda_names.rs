//! The book's table of rust-cuda's names is about this crate: every name that it calls the same or
//! better is here, and every one here is in the table.

use std::collections::BTreeMap;

/// Imports each name, so that a missing one does not compile, and lists them as text.
macro_rules! names {
    ($($root:ident: $list:ident { $($($name:ident)::+),* $(,)? })*) => {$(
        #[allow(unused_imports)]
        mod $list {
            $(pub use $root::$($name)::+ as _;)*

            pub const ALL: &[&str] = &[$(stringify!($($name)::+)),*];
        }
    )*};
}

names! {
    cuda_std: device {
        kernel, gpu_only, externally_visible, address_space, half, f16, bf16, glam, prelude, io,
        print, println, assert_eq, assert_ne,
        thread::thread_idx_x, thread::thread_idx_y, thread::thread_idx_z, thread::block_idx_x,
        thread::block_idx_y, thread::block_idx_z, thread::block_dim_x, thread::block_dim_y,
        thread::block_dim_z, thread::grid_dim_x, thread::grid_dim_y, thread::grid_dim_z,
        thread::thread_idx, thread::block_idx, thread::block_dim, thread::grid_dim, thread::index_2d,
        thread::index_3d, thread::index, thread::index_1d, thread::first, thread::warp_size,
        thread::sync_threads, thread::sync_threads_count, thread::sync_threads_and,
        thread::sync_threads_or, thread::grid_fence, thread::device_fence, thread::system_fence,
        thread::nanosleep, warp::sync_warp, warp::lane_id, warp::activemask, warp::warp_vote_all,
        warp::warp_vote_any, warp::warp_vote_ballot, warp::warp_reduce, warp::WarpReductionOp,
        warp::WarpReduceValue, warp::warp_match_any, warp::warp_match_all, warp::WarpMatchValue,
        warp::warp_shuffle_down, warp::warp_shuffle_up, warp::warp_shuffle_idx,
        warp::warp_shuffle_xor, warp::WarpShuffleValue, shared::dynamic_shared_mem,
        mem::CUDAAllocator, mem::GLOBAL_ALLOCATOR, mem::malloc, mem::free, mem::dynamic_smem_size,
        mem::total_smem_size, misc::breakpoint, misc::profiler_counter, misc::clock,
        ptr::AddressSpace, ptr::is_in_address_space, ptr::convert_generic_to_specific_address_space,
        ptr::convert_specific_address_space_to_generic, atomic::AtomicF32, atomic::AtomicF64,
        atomic::BlockAtomicF32, atomic::BlockAtomicF64, atomic::SystemAtomicF32,
        atomic::SystemAtomicF64, atomic::mid, atomic::intrinsics,
    }
    cuda_std: floats {
        GpuFloat, FloatExt,
    }
    cuda_builder: builder {
        CudaBuilder, CudaBuilderError, DebugInfo, EmitOption, NvvmArch,
    }
}

/// The functions of `intrinsics`, which are one row of the table.
#[test]
fn all_intrinsics_are_here() {
    macro_rules! count {
        ($($name:ident)*) => {{
            #[allow(unused_imports)]
            mod used {
                $(pub use cuda_std::intrinsics::$name as _;)*
            }
            [$(stringify!($name)),*].len()
        }};
    }
    let count = count!(
            acosf acoshf asinf asinhf atanf atanhf cbrtf ceilf cosf coshf cospif erfcf
            erfcinvf erfcxf erff erfinvf exp10f exp2f expf expm1f fabsf fast_cosf
            fast_exp10f fast_expf fast_log10f fast_log2f fast_logf fast_sinf fast_tanf
            floorf frcp_rd frcp_rn frcp_ru frcp_rz frsqrt_rn fsqrt_rd fsqrt_rn fsqrt_ru
            fsqrt_rz j0f j1f lgammaf log10f log1pf log2f logbf logf nearbyintf normcdff
            normcdfinvf rcbrtf rintf roundf rsqrtf saturatef sinf sinhf sinpif sqrtf
            tanf tanhf tgammaf truncf y0f y1f acos acosh asin asinh atan atanh cbrt
            ceil cos cosh cospi drcp_rd drcp_rn drcp_ru drcp_rz dsqrt_rd dsqrt_rn
            dsqrt_ru dsqrt_rz erf erfc erfcinv erfcx erfinv exp exp10 exp2 expm1 fabs
            floor j0 j1 lgamma log log10 log1p log2 logb nearbyint normcdf normcdfinv
            rcbrt rint round rsqrt sin sinh sinpi sqrt tan tanh tgamma trunc y0 y1
            atan2f copysignf fadd_rd fadd_rn fadd_ru fadd_rz fast_fdividef fast_powf
            fdimf fdiv_rd fdiv_rn fdiv_ru fdiv_rz fmaxf fminf fmodf fmul_rd fmul_rn
            fmul_ru fmul_rz fsub_rd fsub_rn fsub_ru fsub_rz hypotf nextafterf powf
            remainderf atan2 copysign dadd_rd dadd_rn dadd_ru dadd_rz ddiv_rd ddiv_rn
            ddiv_ru ddiv_rz dmul_rd dmul_rn dmul_ru dmul_rz fdim fmax fmin fmod hypot
            nextafter pow remainder double2hiint double2int_rd double2int_rn double2int_ru
            double2int_rz double2loint double2uint_rd double2uint_rn double2uint_ru
            double2uint_rz ilogb isfinited isinfd isnand signbitd finitef float2int_rd
            float2int_rn float2int_ru float2int_rz float2uint_rd float2uint_rn float2uint_ru
            float2uint_rz float_as_int ilogbf isinff isnanf signbitf hadd max min mul24
            mulhi rhadd uhadd umax umin umul24 umulhi urhadd double2ll_rd double2ll_rn
            double2ll_ru double2ll_rz double2ull_rd double2ull_rn double2ull_ru
            double2ull_rz double_as_longlong llrint llround float2ll_rd float2ll_rn
            float2ll_ru float2ll_rz float2ull_rd float2ull_rn float2ull_ru float2ull_rz
            llrintf llroundf int2float_rd int2float_rn int2float_ru int2float_rz
            int_as_float uint2float_rd uint2float_rn uint2float_ru uint2float_rz
            ll2double_rd ll2double_rn ll2double_ru ll2double_rz longlong_as_double
            ull2double_rd ull2double_rn ull2double_ru ull2double_rz ll2float_rd ll2float_rn
            ll2float_ru ll2float_rz ull2float_rd ull2float_rn ull2float_ru ull2float_rz
            llmax llmin mul64hi ullmax ullmin umul64hi abs brev clz ffs popc fma
            fma_rd fma_rn fma_ru fma_rz fmaf fmaf_rd fmaf_rn fmaf_ru fmaf_rz
            double2float_rd double2float_rn double2float_ru double2float_rz byte_perm sad
            usad clzll ffsll popcll fast_sincosf sincosf sincospif ldexp powi scalbn
            ldexpf powif scalbnf brevll llabs int2double_rn uint2double_rn jn yn jnf
            ynf sincos sincospi float2half_rn frexp frexpf half2float hiloint2double modf
            modff nan nanf remquo remquof
    );
    assert_eq!(count, 319);
}

/// The methods of the float traits.
#[test]
fn floats_have_their_methods() {
    use cuda_std::{FloatExt, GpuFloat};
    macro_rules! methods {
        ($($ty:ident)*) => {$(
            let _ = (
                <$ty as GpuFloat>::floor, <$ty as GpuFloat>::ceil, <$ty as GpuFloat>::round,
                <$ty as GpuFloat>::trunc, <$ty as GpuFloat>::fract, <$ty as GpuFloat>::abs,
                <$ty as GpuFloat>::signum, <$ty as GpuFloat>::copysign,
                <$ty as GpuFloat>::mul_add, <$ty as GpuFloat>::div_euclid,
                <$ty as GpuFloat>::rem_euclid, <$ty as GpuFloat>::powi, <$ty as GpuFloat>::powf,
                <$ty as GpuFloat>::sqrt, <$ty as GpuFloat>::exp, <$ty as GpuFloat>::exp2,
                <$ty as GpuFloat>::ln, <$ty as GpuFloat>::log, <$ty as GpuFloat>::log2,
            );
            let _ = (
                <$ty as GpuFloat>::log10, <$ty as GpuFloat>::cbrt, <$ty as GpuFloat>::hypot,
                <$ty as GpuFloat>::sin, <$ty as GpuFloat>::cos, <$ty as GpuFloat>::tan,
                <$ty as GpuFloat>::asin, <$ty as GpuFloat>::acos, <$ty as GpuFloat>::atan,
                <$ty as GpuFloat>::atan2, <$ty as GpuFloat>::sin_cos, <$ty as GpuFloat>::exp_m1,
                <$ty as GpuFloat>::ln_1p, <$ty as GpuFloat>::sinh, <$ty as GpuFloat>::cosh,
                <$ty as GpuFloat>::tanh, <$ty as GpuFloat>::asinh, <$ty as GpuFloat>::acosh,
                <$ty as GpuFloat>::atanh,
            );
            let _ = (
                <$ty as FloatExt>::cospi, <$ty as FloatExt>::error_function,
                <$ty as FloatExt>::complementary_error_function,
                <$ty as FloatExt>::inv_complementary_error_function,
                <$ty as FloatExt>::scaled_complementary_error_function, <$ty as FloatExt>::frexp,
                <$ty as FloatExt>::unbiased_exp, <$ty as FloatExt>::j0, <$ty as FloatExt>::j1,
                <$ty as FloatExt>::jn, <$ty as FloatExt>::ldexp, <$ty as FloatExt>::log_gamma,
            );
            let _ = (
                <$ty as FloatExt>::log1p, <$ty as FloatExt>::norm_cdf,
                <$ty as FloatExt>::inv_norm_cdf, <$ty as FloatExt>::rcbrt,
                <$ty as FloatExt>::saturate, <$ty as FloatExt>::scale_by_n,
                <$ty as FloatExt>::sincospi, <$ty as FloatExt>::sinpi, <$ty as FloatExt>::gamma,
                <$ty as FloatExt>::y0, <$ty as FloatExt>::y1, <$ty as FloatExt>::yn,
            );
        )*};
    }
    methods!(f32 f64);
}

/// The rows of the book's tables: what is said of each name.
fn rows() -> BTreeMap<String, String> {
    let book = include_str!("../../../book/src/coming-from-rust-cuda.md");
    let row = |line: &'static str| {
        let mut cells = line.strip_prefix("| `")?.split('|').map(str::trim);
        let name = cells.next()?.trim_end_matches('`').to_owned();
        Some((name, cells.next()?.to_owned()))
    };
    let (_, tables) = book.split_once("## Every name").expect("the tables have a title");
    tables.lines().filter_map(row).collect()
}

fn named() -> Vec<String> {
    let plain = |name: &&str| name.replace(' ', "");
    let builder = builder::ALL.iter().map(|name| format!("cuda_builder::{}", plain(name)));
    let device = device::ALL.iter().chain(floats::ALL).map(plain);
    device.chain(["intrinsics".to_owned()]).chain(builder).collect()
}

#[test]
fn the_table_names_what_is_here() {
    let rows = rows();
    assert!(rows.len() > 80, "{} rows", rows.len());
    for (name, status) in &rows {
        let is_here = named().contains(name);
        assert_eq!(is_here, status != "not here", "{name}: {status}");
        assert!(matches!(status.as_str(), "same" | "better" | "not here"), "{name}: {status}");
    }
}

#[test]
fn what_is_here_is_in_the_table() {
    let rows = rows();
    let missing: Vec<_> = named().into_iter().filter(|name| !rows.contains_key(name)).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

/// The methods of the float atomics, in every scope.
#[test]
fn float_atomics_have_their_methods() {
    use cuda_std::atomic::*;
    macro_rules! methods {
        ($($ty:ident)*) => {$(
            let _ = ($ty::new, $ty::into_inner, $ty::load, $ty::store);
            let _ = ($ty::fetch_add, $ty::fetch_sub, $ty::fetch_and, $ty::fetch_or, $ty::fetch_xor);
        )*};
    }
    methods!(AtomicF32 AtomicF64 BlockAtomicF32 BlockAtomicF64 SystemAtomicF32 SystemAtomicF64);
}

/// A build script's use of every option, as for rust-cuda.
#[test]
fn the_builder_has_its_options() {
    use cuda_builder::{CudaBuilder, CudaBuilderError, DebugInfo, NvvmArch};
    let builder = CudaBuilder::new("does/not/exist")
        .build_args(&["--features=a"])
        .debug(DebugInfo::LineTables)
        .release(true)
        .generate_line_info(true)
        .nvvm_opts(true)
        .arch(NvvmArch::Compute90)
        .ftz(false)
        .fast_sqrt(false)
        .fast_div(false)
        .fma_contraction(true)
        .emit_llvm_ir(false)
        .emit_llvm_bitcode(false)
        .copy_to("kernels.ptx")
        .optix(false)
        .override_libm(false)
        .use_constant_memory_space(false)
        .final_module_path("kernels.bc");
    let error = builder.build().unwrap_err();
    assert!(matches!(error, CudaBuilderError::CratePathDoesntExist(_)), "{error}");
    let _ = CudaBuilderError::FailedToCopyPtxFile;
    let unsupported = CudaBuilder::new("does/not/exist").optix(true).build().unwrap_err();
    assert!(unsupported.to_string().contains("optix(true)"), "{unsupported}");
    let arch = NvvmArch::default();
    assert_eq!((arch.major_version(), arch.minor_version(), arch.capability_value()), (7, 5, 75));
    assert!(arch.is_base_variant() && !arch.is_family_variant() && !arch.is_architecture_variant());
    assert_eq!((arch.target_feature(), arch.base_architecture()), ("compute_75".into(), arch));
    assert_eq!(arch.get_variants(), NvvmArch::variants_for_capability(75));
    assert!(arch.all_target_features().contains(&"compute_70".to_owned()));
}
