//! What operations on rows share: the element types, and the choice of the kernel by the length of a row.

use bytemuck::Pod;
use cuda_std::launch::{DeviceRead, DeviceWrite, Grid2, LaunchConfig, Linear};
use cuda_std::vector::Vec2;
use cuda_std::{bf16, f16};
use kernels_gpu::rows::norm::{NormKind, PACKS};
use kernels_gpu::rows::softmax::MAX_SHARED_BYTES;
use kernels_gpu::rows::staged::{STAGE_BYTES, THREADS as STAGED_THREADS, WORKERS, static_bytes};
use kernels_gpu::rows::stages::{MAX_STAGES, shared_bytes};
use kernels_gpu::rows::{
    CLUSTER, MAX_COLUMNS, MAX_THREADS, SMALL_CLUSTER, STREAM_THREADS, Shape, VECTOR_BYTES, WARP,
    packs_held,
};

use super::sealed::Sealed;
use crate::device::DeviceInfo;
use crate::error::{GpuError, GpuResult};
use crate::launch::ClustersAtOnce;
use crate::stream::{AsStream, Stream};

/// Threads of a block in which several rows have a part of a warp each.
const SHARED_BLOCK: u32 = 256;
/// Vectors that a lane should have, so that a few lanes read neighbouring lines.
const VECTORS_PER_LANE: u32 = 4;
/// Threads of the largest block of which a multiprocessor holds two: longer rows are better off in stages.
const EASY_THREADS: u32 = 512;
/// Stages that a block should have beside those of a row.
const STAGES_AHEAD: u32 = 2;
/// Static shared memory of the kernels, in bytes, with room to spare.
pub(super) const STATIC_SHARED_BYTES: u32 = 2048;
/// The alignment of dynamic shared memory in the kernels that ship: the largest one that any of them asks for, which is that of the
/// matrix products. What a kernel's fixed arrays leave of it is empty.
const DYNAMIC_ALIGN_BYTES: u32 = 1024;

/// Vectors of `v` elements that a thread of a kernel holds of each input.
macro_rules! packs {
    ($v:literal held of $inputs:literal) => {
        packs_held($v, $inputs)
    };
    ($v:literal packed) => {
        PACKS
    };
}

/// Declares [`RowValue`] with a launcher for each kernel, and implements it for the three types. In brackets stands
/// what a thread holds of a row: as [`packs!`] has it.
macro_rules! row_values {
    (@trait $($name:ident [$($held:ident $(of $inputs:literal)?)?] ($($arg:ident: $ty:ty),*);)*) => {
        /// An element of rows: `f32`, [`f16`](struct@f16) or [`bf16`]. Everything is computed in `f32`.
        pub trait RowValue: Pod + PartialEq + Sealed {$(
            #[doc(hidden)]
            #[allow(clippy::missing_safety_doc, clippy::missing_errors_doc, clippy::too_many_arguments)]
            unsafe fn $name(on: &Stream, $($arg: $ty),*) -> GpuResult<()>;
        )*
            /// How many clusters of `blocks` blocks of the pipelined norm, launched with `config`, the device runs at once.
            #[doc(hidden)]
            #[allow(clippy::missing_errors_doc)]
            fn pipelined_at_once(on: &Stream, config: LaunchConfig, blocks: u32) -> GpuResult<u32>;
        }
    };
    (@impl $t:ident $v:literal; $($name:ident [$($held:ident $(of $inputs:literal)?)?] ($($arg:ident: $ty:ty),*);)*) => {
        impl RowValue for $t {$(
            unsafe fn $name(on: &Stream, $($arg: $ty),*) -> GpuResult<()> {
                // SAFETY: the caller's promise is the kernel's.
                #[allow(unused_unsafe)]
                unsafe {
                    kernels_gpu::rows::$name::<$t, $v $(, { packs!($v $held $(of $inputs)?) })?>::launch(on, $($arg),*)
                }
            }
        )*
            fn pipelined_at_once(stream: &Stream, config: LaunchConfig, blocks: u32) -> GpuResult<u32> {
                let of = &ClustersAtOnce { stream, config };
                match blocks {
                    CLUSTER => kernels_gpu::rows::norm_pipelined::<$t, $v, PACKS>::occupancy(of),
                    _ => kernels_gpu::rows::norm_pipelined_small::<$t, $v, PACKS>::occupancy(of),
                }
            }
        }
    };
    ($($list:tt)*) => {
        row_values!(@trait $($list)*);
        row_values!(@impl f32 4; $($list)*);
        row_values!(@impl f16 8; $($list)*);
        row_values!(@impl bf16 8; $($list)*);
    };
}

row_values! {
    softmax_registers [held of 1] (config: LaunchConfig, shape: Shape, is_log: bool, x: &impl DeviceRead<Self>, out: &mut impl DeviceWrite<Self>);
    softmax_clusters [held of 1] (config: LaunchConfig, shape: Shape, is_log: bool, x: &impl DeviceRead<Self>, out: &mut impl DeviceWrite<Self>);
    softmax_streamed [held of 1] (config: LaunchConfig, shape: Shape, is_log: bool, x: &impl DeviceRead<Self>, out: &mut impl DeviceWrite<Self>);
    softmax_staged [] (config: LaunchConfig, shape: Shape, is_log: bool, x: &impl DeviceRead<Self>, out: &mut impl DeviceWrite<Self>);
    softmax_staged_pairs [] (config: LaunchConfig, shape: Shape, is_log: bool, x: &impl DeviceRead<Self>, out: &mut impl DeviceWrite<Self>);
    softmax_backward_registers [held of 2] (
        config: LaunchConfig, shape: Shape, is_log: bool, y: &impl DeviceRead<Self>, dy: &impl DeviceRead<Self>,
        dx: &mut impl DeviceWrite<Self>
    );
    softmax_backward_streamed [held of 2] (
        config: LaunchConfig, shape: Shape, is_log: bool, y: &impl DeviceRead<Self>, dy: &impl DeviceRead<Self>,
        dx: &mut impl DeviceWrite<Self>
    );
    norm_registers [packed] (
        config: LaunchConfig, shape: Shape, kind: NormKind, x: &impl DeviceRead<Self>, weight: &impl DeviceRead<Self>,
        bias: &impl DeviceRead<Self>, out: &mut impl DeviceWrite<Self>
    );
    norm_clusters [packed] (
        config: LaunchConfig, shape: Shape, kind: NormKind, x: &impl DeviceRead<Self>, weight: &impl DeviceRead<Self>,
        bias: &impl DeviceRead<Self>, out: &mut impl DeviceWrite<Self>
    );
    norm_pipelined [packed] (
        config: LaunchConfig, shape: Shape, kind: NormKind, x: &impl DeviceRead<Self>, weight: &impl DeviceRead<Self>,
        bias: &impl DeviceRead<Self>, out: &mut impl DeviceWrite<Self>
    );
    norm_pipelined_small [packed] (
        config: LaunchConfig, shape: Shape, kind: NormKind, x: &impl DeviceRead<Self>, weight: &impl DeviceRead<Self>,
        bias: &impl DeviceRead<Self>, out: &mut impl DeviceWrite<Self>
    );
    norm_streamed [packed] (
        config: LaunchConfig, shape: Shape, kind: NormKind, x: &impl DeviceRead<Self>, weight: &impl DeviceRead<Self>,
        bias: &impl DeviceRead<Self>, out: &mut impl DeviceWrite<Self>
    );
    norm_sum_registers [held of 2] (
        config: LaunchConfig, shape: Shape, kind: NormKind, x: &impl DeviceRead<Self>, residual: &impl DeviceRead<Self>,
        weight: &impl DeviceRead<Self>, bias: &impl DeviceRead<Self>, out: &mut impl DeviceWrite<Self>,
        sum: &mut impl DeviceWrite<Self>
    );
    norm_sum_clusters [held of 2] (
        config: LaunchConfig, shape: Shape, kind: NormKind, x: &impl DeviceRead<Self>, residual: &impl DeviceRead<Self>,
        weight: &impl DeviceRead<Self>, bias: &impl DeviceRead<Self>, out: &mut impl DeviceWrite<Self>,
        sum: &mut impl DeviceWrite<Self>
    );
    norm_sum_streamed [held of 2] (
        config: LaunchConfig, shape: Shape, kind: NormKind, x: &impl DeviceRead<Self>, residual: &impl DeviceRead<Self>,
        weight: &impl DeviceRead<Self>, bias: &impl DeviceRead<Self>, out: &mut impl DeviceWrite<Self>,
        sum: &mut impl DeviceWrite<Self>
    );
    norm_backward_registers [held of 2] (
        config: LaunchConfig, shape: Shape, kind: NormKind, x: &impl DeviceRead<Self>, dy: &impl DeviceRead<Self>,
        weight: &impl DeviceRead<Self>, addend: &impl DeviceRead<Self>, dx: &mut impl DeviceWrite<Self>,
        stats: &mut impl DeviceWrite<Vec2<f32>>
    );
    norm_backward_streamed [held of 2] (
        config: LaunchConfig, shape: Shape, kind: NormKind, x: &impl DeviceRead<Self>, dy: &impl DeviceRead<Self>,
        weight: &impl DeviceRead<Self>, addend: &impl DeviceRead<Self>, dx: &mut impl DeviceWrite<Self>,
        stats: &mut impl DeviceWrite<Vec2<f32>>
    );
    norm_backward_fused [held of 2] (
        config: LaunchConfig, shape: Shape, kind: NormKind, x: &impl DeviceRead<Self>, dy: &impl DeviceRead<Self>,
        weight: &impl DeviceRead<Self>, addend: &impl DeviceRead<Self>, dx: &mut impl DeviceWrite<Self>,
        partials: &mut impl DeviceWrite<f32>
    );
    norm_weights_partial [] (
        grid: Grid2, rows: usize, columns: u32, x: &impl DeviceRead<Self>, dy: &impl DeviceRead<Self>,
        stats: &impl DeviceRead<Vec2<f32>>, partials: &mut impl DeviceWrite<f32>
    );
    norm_weights_finish [] (
        grid: Grid2, columns: usize, partials: &impl DeviceRead<f32>,
        dweight: &mut impl DeviceWrite<Self>, dbias: &mut impl DeviceWrite<Self>
    );
}

/// How rows are shared out to threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    Registers,
    Staged,
    StagedPairs,
    PipelinedSmall,
    Pipelined,
    Clusters,
    Streamed,
}

/// Which forms an operation has for long rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Long {
    /// [`Form::Streamed`] alone.
    Streamed,
    /// Clusters too.
    Clusters,
    /// Clusters, and one or two blocks' shared memory. All that is moved in vectors has these addresses, or-ed.
    Staged { addresses: u64 },
    /// Clusters, and the shared memory of four or eight blocks, for a norm. Addresses as above.
    Pipelined { addresses: u64 },
}

/// A form with its launch.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan {
    pub form: Form,
    pub shape: Shape,
    pub config: LaunchConfig,
}

/// A form with its blocks, their threads, and the dynamic shared memory of each in bytes.
type Launched = (Form, (usize, u32, u32));

/// Rows of `columns` in `len` elements.
pub(super) fn rows_of(operation: &'static str, len: usize, columns: usize) -> GpuResult<usize> {
    if columns > MAX_COLUMNS as usize {
        let reason = "a row has at most 2^31 - 1 elements";
        return Err(GpuError::InvalidArgument { operation, reason: reason.into() });
    }
    let rows = len.checked_div(columns).unwrap_or(0);
    if rows * columns != len {
        let reason = format!("{len} elements are no whole number of rows of {columns} elements");
        return Err(GpuError::InvalidArgument { operation, reason });
    }
    Ok(rows)
}

/// What a thread holds of a row.
#[derive(Clone, Copy, Debug)]
pub(super) struct Held {
    /// Matrices that are read.
    pub inputs: usize,
    /// Vectors of each of them.
    pub packs: usize,
}

impl Held {
    /// As many of each of `inputs` as fit, as `f32`.
    pub fn of<T>(inputs: usize) -> Self {
        Self { inputs, packs: packs_held(VECTOR_BYTES / size_of::<T>(), inputs) }
    }
}

/// The form for `rows` of `columns` elements. `None` if there is nothing to do.
pub(super) fn plan<T: RowValue>(
    on: &impl AsStream,
    (rows, columns): (usize, usize),
    held: Held,
    long: Long,
) -> GpuResult<Option<Plan>> {
    if rows == 0 || columns == 0 {
        return Ok(None);
    }
    let info = on.as_stream().inner().context().info();
    let vectors = columns.div_ceil(VECTOR_BYTES / size_of::<T>()) as u32;
    let per_thread = held.packs as u32;
    let whole_warps = |threads: u32| threads.next_multiple_of(WARP);
    let shape = |threads| Shape { rows, columns: columns as u32, threads };

    let (form, threads, config) = if vectors <= WARP * per_thread {
        let lanes = vectors.div_ceil(VECTORS_PER_LANE.min(per_thread)).next_power_of_two();
        let threads = lanes.min(WARP);
        let per_block = (SHARED_BLOCK / threads) as usize;
        (Form::Registers, threads, (rows.div_ceil(per_block), SHARED_BLOCK, 0))
    } else if vectors > EASY_THREADS * per_thread
        && let Some((form, config)) = staged(info, rows, columns * size_of::<T>(), long)
    {
        (form, 0, config)
    } else if vectors <= MAX_THREADS * per_thread {
        (Form::Registers, 0, (rows, whole_warps(vectors.div_ceil(per_thread)), 0))
    } else if let Some((form, config)) = pipelined::<T>(on, (rows, columns), long)? {
        (form, 0, config)
    } else if long != Long::Streamed && clusters_hold(info, vectors, per_thread) {
        let block = whole_warps(vectors.div_ceil(per_thread * CLUSTER));
        (Form::Clusters, 0, (rows * CLUSTER as usize, block, 0))
    } else {
        let bytes = cache_bytes(info, vectors, held.inputs);
        (Form::Streamed, 0, (rows, STREAM_THREADS, bytes))
    };
    let config = Linear::new(blocks(config.0)?, config.1).shared_mem(config.2);
    Ok(Some(Plan { form, shape: shape(threads), config: config.into() }))
}

/// The launch of rows that one or two blocks keep in shared memory, with some stages more for the next row, on a device
/// that has bulk copies.
fn staged(info: &DeviceInfo, rows: usize, row_bytes: usize, long: Long) -> Option<Launched> {
    let Long::Staged { addresses } = long else { return None };
    let (form, blocks, stages) =
        [(Form::Staged, 1), (Form::StagedPairs, 2)].into_iter().find_map(|(form, blocks)| {
            let stages = stages(info, addresses, row_bytes, blocks, [1, STAGES_AHEAD])?;
            Some((form, blocks as usize, stages))
        })?;
    let at_once = (info.multiprocessors as usize / blocks).max(1);
    Some((form, (rows.min(at_once) * blocks, STAGED_THREADS, shared_bytes(stages, STAGE_BYTES))))
}

/// The launch of a norm's rows that four or eight blocks keep in shared memory, two at a time and more on the way, on a device
/// that has bulk copies.
fn pipelined<T: RowValue>(
    on: &impl AsStream,
    (rows, columns): (usize, usize),
    long: Long,
) -> GpuResult<Option<Launched>> {
    let Long::Pipelined { addresses } = long else { return Ok(None) };
    let (stream, row_bytes) = (on.as_stream(), columns * size_of::<T>());
    let sizes = [(Form::PipelinedSmall, SMALL_CLUSTER), (Form::Pipelined, CLUSTER)];
    let hold = |blocks| row_bytes <= (blocks * WORKERS) as usize * PACKS * VECTOR_BYTES;
    let Some((form, blocks)) = sizes.into_iter().find(|&(_, blocks)| hold(blocks)) else {
        return Ok(None);
    };
    let info = stream.inner().context().info();
    let Some(stages) = stages(info, addresses, row_bytes, blocks, [2, 1]) else { return Ok(None) };
    let shared = shared_bytes(stages, STAGE_BYTES);
    let one = Linear::new(blocks, STAGED_THREADS).shared_mem(shared);
    let at_once = T::pipelined_at_once(stream, one.into(), blocks)? as usize;
    let config = (rows.min(at_once) * blocks as usize, STAGED_THREADS, shared);
    Ok((at_once > 0).then_some((form, config)))
}

/// The stages of each of `blocks` blocks, if together they hold `rows` rows and `more` stages, and the device has bulk
/// copies. `addresses`, all that are moved or-ed together, must be aligned.
fn stages(
    info: &DeviceInfo,
    addresses: u64,
    row_bytes: usize,
    blocks: u32,
    [rows, more]: [u32; 2],
) -> Option<u32> {
    let is_aligned = (addresses | row_bytes as u64).is_multiple_of(VECTOR_BYTES as u64);
    if !is_aligned || info.compute_capability < (9, 0) {
        return None;
    }
    let shared = info.shared_mem_per_block_optin_bytes.min(MAX_SHARED_BYTES);
    let taken =
        static_bytes(blocks).next_multiple_of(DYNAMIC_ALIGN_BYTES) + shared_bytes(0, STAGE_BYTES);
    let stages = shared.saturating_sub(taken) / STAGE_BYTES;
    let part = (row_bytes / VECTOR_BYTES).div_ceil(blocks as usize) * VECTOR_BYTES;
    let needed = rows * part.div_ceil(STAGE_BYTES as usize) as u32 + more;
    (needed <= stages).then_some(stages.min(MAX_STAGES as u32))
}

/// Whether the registers of a cluster hold a row, on a device that has clusters.
fn clusters_hold(info: &DeviceInfo, vectors: u32, per_thread: u32) -> bool {
    info.compute_capability >= (9, 0) && vectors <= CLUSTER * MAX_THREADS * per_thread
}

/// The dynamic shared memory that holds as much of a row as the device allows.
fn cache_bytes(info: &DeviceInfo, vectors: u32, inputs: usize) -> u32 {
    let limit = info.shared_mem_per_block_optin_bytes.saturating_sub(STATIC_SHARED_BYTES);
    let of_each = STREAM_THREADS * (VECTOR_BYTES * inputs) as u32;
    let wanted = vectors.div_ceil(STREAM_THREADS);
    wanted.min(limit.min(MAX_SHARED_BYTES) / of_each) * of_each
}

/// A grid along x.
fn blocks(blocks: usize) -> GpuResult<u32> {
    let reason = || "more rows than a grid has blocks, 2^31 - 1".into();
    let invalid = |_| GpuError::InvalidArgument { operation: "rows", reason: reason() };
    i32::try_from(blocks).map_err(invalid).map(i32::cast_unsigned)
}
