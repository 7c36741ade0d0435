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
        kernel, gpu_only, externally_visible, address_space, half, f16, bf16, glam, prelude,
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
    cuda_builder: builder {
        CudaBuilder, CudaBuilderError, DebugInfo, EmitOption, NvvmArch,
    }
}

/// The rows of the book's tables: what is said of each name.
fn rows() -> BTreeMap<String, String> {
    let book = include_str!("../../../book/src/coming-from-rust-cuda.md");
    let row = |line: &'static str| {
        let mut cells = line.strip_prefix("| `")?.split('|').map(str::trim);
        let name = cells.next()?.trim_end_matches('`').to_owned();
        Some((name, cells.next()?.to_owned()))
    };
    book.lines().filter_map(row).collect()
}

fn named() -> Vec<String> {
    let plain = |name: &&str| name.replace(' ', "");
    let builder = builder::ALL.iter().map(|name| format!("cuda_builder::{}", plain(name)));
    device::ALL.iter().map(plain).chain(builder).collect()
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
