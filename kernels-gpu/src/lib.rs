//! The kernels that ship with Ferrowarp, by scope first and algorithm second.
//!
//! * [`mod@thread`]: what one thread does alone, in registers.
//! * [`grid`]: whole kernels, which a host launches.
//!
//! On the GPU this crate is `no_std`; on the host it is an ordinary crate, in
//! which every kernel has a typed launcher of its own name: `kernels_gpu::vecadd::launch`.
//!
//! A kernel crate that wants the algorithms in kernels of its own, with its own operators, leaves the feature `entries` out
//! (`default-features = false`): then every kernel here is a function and no more, and the PTX has the other crate's
//! entries alone. [`grid::reduce`] and [`grid::scan`] show such kernels.

// The builder says so of the crate that it builds, but not of one that this crate is a library of.
#![cfg_attr(target_os = "cuda", no_std)]
#![cfg_attr(
    target_os = "cuda",
    feature(abi_ptx, asm_experimental_arch, f16, link_llvm_intrinsics, stdarch_nvptx)
)]
#![cfg_attr(target_os = "cuda", allow(internal_features, unused_features))]
// What the lists of instances alone name is not used without them.
#![cfg_attr(not(feature = "entries"), allow(unused_imports, dead_code))]

pub mod grid;
mod prelude;
pub mod thread;

pub use grid::blur::{blur_columns, blur_rows};
pub use grid::copy::{
    copy_bytes, copy_coalesced, copy_quads, copy_rows, copy_strided, copy_vectors,
};
pub use grid::equalize::{equalize_apply, equalize_table};
pub use grid::fill::fill;
pub use grid::grayscale::grayscale;
pub use grid::histogram::{
    histogram, histogram_global, histogram_search, shared::histogram_bytes,
    shared::histogram_ranges, shared::histogram_shared,
};
pub use grid::map::{map_bits, map_convert, map_scale, triad, zip_product, zip_sum};
pub use grid::merge::{merge_partners, merge_plain, merge_splits, merge_tile_pairs, merge_tiles};
pub use grid::norm::{
    norm_plain, norm_registers, norm_streamed, norm_sum_registers, norm_sum_streamed,
};
pub use grid::norm_backward::{norm_backward_registers, norm_backward_streamed};
pub use grid::norm_weights::{norm_weights_finish, norm_weights_partial};
pub use grid::particles::{
    particles_bin, particles_energy, particles_move, particles_order, particles_sort,
};
pub use grid::random::{random_fill, random_normal_plain, random_uniform_plain};
pub use grid::reduce::{
    column_extreme, column_sum, reduce_extreme, reduce_place, reduce_product, reduce_sum,
    reduce_tree_f32, segment_extreme, segment_sum,
};
pub use grid::ring::{ring_echo, ring_relay, ring_saxpy};
pub use grid::saxpy::saxpy;
pub use grid::scan::{
    scan_bit_flagged, scan_by_key, scan_flagged, scan_mark_offsets, scan_running, scan_tiles,
};
pub use grid::search::{search_plain, search_sorted};
pub use grid::select::{
    run_lengths, select_above, select_flagged, select_nonzero, select_running, select_unique,
};
pub use grid::smooth::{smooth, smooth_cooperative, smooth_dependent};
pub use grid::sobel::sobel;
pub use grid::softmax::{
    softmax_backward_registers, softmax_backward_streamed, softmax_plain, softmax_registers,
    softmax_streamed,
};
pub use grid::sort::histogram::sort_histogram;
pub use grid::sort::pass::sort_pass;
pub use grid::sort::plain::{sort_count, sort_move, sort_sums};
pub use grid::sort::segments::sort_segments;
pub use grid::sort::top_k::{top_k_collect, top_k_count};
pub use grid::spheres::{spheres_colour, spheres_draw};
pub use grid::spmv::{rows_to_offsets, spmv_carry, spmv_plain, spmv_rows, spmv_splits, spmv_tiles};
pub use grid::stencil::{
    plane::stencil_plane, stencil_plane_plain, stencil_volume_plain, stencil_wave,
    volume::stencil_volume, volume::stencil_volume_twice,
};
pub use grid::transpose::{
    transpose_naive, transpose_tiled, vectors::permute_elements, vectors::transpose_vectors,
};
pub use grid::vecadd::vecadd;
pub use grid::zero_copy::answer_words;
// On the device they are there from compute capability 9.0.
#[cfg(not(target_os = "cuda"))]
pub use grid::{
    norm::{norm_clusters, norm_pipelined, norm_pipelined_small, norm_sum_clusters},
    norm_backward::norm_backward_fused,
    smooth::smooth_cluster,
    softmax::{softmax_clusters, softmax_staged, softmax_staged_pairs},
};
