//! Stencils: steps of heat, of waves, or of any weighted sum of a cell and its nearest neighbours.
//!
//! ```
//! use ferrowarp::ops::stencil::{self, Boundary, PlaneStencil};
//! use ferrowarp::{DeviceBuffer, Gpu};
//!
//! let gpu = Gpu::new()?;
//! // A hot cell in the middle of a plate of 5 by 5, whose edges stay cold.
//! let mut plate = vec![0.0f32; 25];
//! plate[12] = 1.0;
//! let mut heat = DeviceBuffer::from_slice(&gpu, &plate)?;
//! let mut spare = DeviceBuffer::zeroed(&gpu, 25)?;
//! let spread = PlaneStencil::diffusion(0.25, Boundary::Fixed);
//! stencil::plane_steps(&gpu, &mut heat, &mut spare, [5, 5], &spread, 1)?;
//! assert_eq!(heat.to_vec()?[11..14], [0.25, 0.0, 0.25]);
//! # Ok::<(), ferrowarp::GpuError>(())
//! ```
//!
//! The order of additions is fixed (see [the kernels](kernels_gpu::stencil)), so results have the same bits on every
//! device, and however the steps are fused. NaN and infinities propagate to the neighbours.

use std::mem;

use bytemuck::Pod;
use cuda_std::launch::{DeviceRead, DeviceWrite, Grid1, Instance, LaunchConfig};
use kernels_gpu::stencil as kernels;
use kernels_gpu::stencil::plane::{self as plane_kernel, stencil_plane};
use kernels_gpu::stencil::volume::{self as volume_kernel, stencil_volume, stencil_volume_twice};
use kernels_gpu::stencil::{
    stencil_plane_plain, stencil_volume_plain, stencil_wave, stencil_wave_volume,
};

use super::same_len;
use super::sealed::Sealed;
use crate::error::{GpuError, GpuResult};
use crate::memory::{DeviceBuffer, DeviceSliceMut};
use crate::stream::{AsStream, Stream};

const OPERATION: &str = "making a step of a stencil";
/// Steps of a plane that one launch makes.
const PLANE_STEPS: [usize; 3] = [4, 2, 1];
/// Steps of a volume that one launch makes.
const VOLUME_STEPS: [usize; 2] = [2, 1];

/// What lies beyond the edges of a grid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Boundary {
    /// Nothing: cells on an edge keep their values.
    Fixed,
    /// The opposite edge.
    Periodic,
    /// The mirror image, so that nothing flows over the edge.
    Insulated,
}

impl Boundary {
    fn number(self) -> u32 {
        match self {
            Self::Fixed => kernels::FIXED,
            Self::Periodic => kernels::PERIODIC,
            Self::Insulated => kernels::INSULATED,
        }
    }
}

/// A five-point stencil: `centre * c + x * (left + right) + y * (above + below)`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PlaneStencil<T> {
    /// Weight of the cell itself.
    pub centre: T,
    /// Weight of both neighbours in its row.
    pub x: T,
    /// Weight of both neighbours in its column.
    pub y: T,
    /// What lies beyond the edges.
    pub boundary: Boundary,
}

/// A seven-point stencil: a [`PlaneStencil`] with two more neighbours, in the planes before and after.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct VolumeStencil<T> {
    /// Weight of the cell itself.
    pub centre: T,
    /// Weight of both neighbours in its row.
    pub x: T,
    /// Weight of both neighbours in its column.
    pub y: T,
    /// Weight of both neighbours in other planes.
    pub z: T,
    /// What lies beyond the edges.
    pub boundary: Boundary,
}

impl<T: Cell> PlaneStencil<T> {
    /// A step of heat: `rate` is the diffusivity times the time step over the square of the distance of cells. Up to
    /// 1/4 it is stable.
    #[must_use]
    pub fn diffusion(rate: T, boundary: Boundary) -> Self {
        Self { centre: T::rest(4.0, rate), x: rate, y: rate, boundary }
    }
}

impl PlaneStencil<f32> {
    /// A step of waves, for [`wave_steps`]: `courant` is the speed times the time step over the distance of cells. Up to
    /// √½ it is stable.
    #[must_use]
    pub fn wave(courant: f32, boundary: Boundary) -> Self {
        let square = courant * courant;
        Self { centre: 2.0 - 4.0 * square, x: square, y: square, boundary }
    }
}

impl<T: Cell> VolumeStencil<T> {
    /// A step of heat, as [`PlaneStencil::diffusion`]; stable up to a rate of 1/6.
    #[must_use]
    pub fn diffusion(rate: T, boundary: Boundary) -> Self {
        Self { centre: T::rest(6.0, rate), x: rate, y: rate, z: rate, boundary }
    }
}

impl VolumeStencil<f32> {
    /// A step of waves, for [`volume_wave_steps`], as [`PlaneStencil::wave`]; stable up to a `courant` of √⅓.
    #[must_use]
    pub fn wave(courant: f32, boundary: Boundary) -> Self {
        let square = courant * courant;
        Self { centre: 2.0 - 6.0 * square, x: square, y: square, z: square, boundary }
    }
}

/// The operations of a stencil on grids of `$dimensions` dimensions.
macro_rules! forms {
    ($(
        $method:ident, $stencil:ident, $dimensions:literal, $shape:literal, $sizes:ident, $counts:literal, $order:literal:
            $into:ident $fused_into:ident $steps:ident;
    )*) => {$(
        #[doc = concat!("`out: shape` becomes `cells: shape` one step further. `shape` is `", $shape, "`; best if the width")]
        /// is a multiple of 16 bytes.
        ///
        /// # Errors
        /// [`SizeMismatch`](crate::GpuError::SizeMismatch) for other lengths; errors of the driver.
        pub fn $into<T: Cell>(
            on: &impl AsStream,
            cells: &impl DeviceRead<T>,
            out: &mut impl DeviceWrite<T>,
            shape: [usize; $dimensions],
            stencil: &$stencil<T>,
        ) -> GpuResult<()> {
            check_lens(&shape, cells, out)?;
            T::$method(on.as_stream(), cells, out, shape, stencil, 1)
        }

        #[doc = concat!("[`", stringify!($into), "`], ", $counts, " steps further in one pass over the memory.")]
        ///
        /// # Errors
        /// [`InvalidArgument`](GpuError::InvalidArgument) for another number of steps;
        #[doc = concat!("as [`", stringify!($into), "`].")]
        pub fn $fused_into<T: Cell>(
            on: &impl AsStream,
            cells: &impl DeviceRead<T>,
            out: &mut impl DeviceWrite<T>,
            shape: [usize; $dimensions],
            stencil: &$stencil<T>,
            steps: usize,
        ) -> GpuResult<()> {
            check_lens(&shape, cells, out)?;
            check_steps(&$sizes, steps)?;
            T::$method(on.as_stream(), cells, out, shape, stencil, steps)
        }

        #[doc = concat!("`steps` steps of `cells: ", $shape, "`, ", $order, ". The result is")]
        /// in `cells` again; `spare`, as long, holds the step between. Nothing is allocated.
        ///
        /// # Errors
        #[doc = concat!("As [`", stringify!($into), "`].")]
        pub fn $steps<T: Cell>(
            on: &impl AsStream,
            cells: &mut DeviceBuffer<T>,
            spare: &mut DeviceBuffer<T>,
            shape: [usize; $dimensions],
            stencil: &$stencil<T>,
            steps: usize,
        ) -> GpuResult<()> {
            check_lens(&shape, cells, spare)?;
            fused(&$sizes, steps, |together| {
                T::$method(on.as_stream(), cells, spare, shape, stencil, together)?;
                mem::swap(cells, spare);
                Ok(())
            })
        }
    )*};
}

forms! {
    plane, PlaneStencil, 2, "[height, width]", PLANE_STEPS, "1, 2 or 4",
        "four at a time in one pass over the memory, then two, then one":
        plane_into plane_fused_into plane_steps;
    volume, VolumeStencil, 3, "[depth, height, width]", VOLUME_STEPS, "1 or 2",
        "two at a time in one pass over the memory, and the last one alone if they are odd":
        volume_into volume_fused_into volume_steps;
}

/// [`plane_into`] with a thread for each cell: the form to read first.
///
/// # Errors
/// As [`plane_into`].
pub fn plane_plain_into<T: Pod>(
    on: &impl AsStream,
    cells: &impl DeviceRead<T>,
    out: &mut DeviceBuffer<T>,
    shape: [usize; 2],
    stencil: &PlaneStencil<T>,
) -> GpuResult<()>
where
    stencil_plane_plain<T>: Instance,
{
    check_lens(&shape, cells, out)?;
    let [height, width] = shape;
    let PlaneStencil { centre, x, y, boundary } = *stencil;
    let (grid, edge) = (LaunchConfig::for_grid(width, height), boundary.number());
    let out = &mut out.grid_mut(width, height)?;
    stencil_plane_plain::<T>::launch(on.as_stream(), grid, cells, centre, [x, y], edge, out)
}

/// [`volume_into`] with a thread for each cell: the form to read first.
///
/// # Errors
/// As [`volume_into`].
pub fn volume_plain_into<T: Pod>(
    on: &impl AsStream,
    cells: &impl DeviceRead<T>,
    out: &mut DeviceBuffer<T>,
    shape: [usize; 3],
    stencil: &VolumeStencil<T>,
) -> GpuResult<()>
where
    stencil_volume_plain<T>: Instance,
{
    check_lens(&shape, cells, out)?;
    let [depth, height, width] = shape;
    let VolumeStencil { centre, x, y, z, boundary } = *stencil;
    let (grid, edge) = (LaunchConfig::for_volume(width, height, depth), boundary.number());
    let out = &mut out.volume_mut(width, height, depth)?;
    stencil_volume_plain::<T>::launch(on.as_stream(), grid, cells, centre, [x, y, z], edge, out)
}

/// `previous: [height, width]`, a step of the wave equation before `cells: [height, width]`, becomes what comes a step after
/// it: the stencil's sum over `cells` minus `previous`.
///
/// # Errors
/// As [`plane_into`].
pub fn wave_into(
    on: &impl AsStream,
    cells: &impl DeviceRead<f32>,
    mut previous: DeviceSliceMut<'_, f32>,
    shape: [usize; 2],
    stencil: &PlaneStencil<f32>,
) -> GpuResult<()> {
    check_lens(&shape, cells, &mut previous)?;
    let [height, width] = shape;
    let PlaneStencil { centre, x, y, boundary } = *stencil;
    let (grid, edge) = (LaunchConfig::for_grid(width, height), boundary.number());
    let out = &mut previous.into_grid(width, height)?;
    stencil_wave::launch(on.as_stream(), grid, cells, centre, [x, y], edge, out)
}

/// [`wave_into`] for a volume: `cells` and `previous` are `[depth, height, width]`.
///
/// # Errors
/// As [`volume_into`].
pub fn volume_wave_into(
    on: &impl AsStream,
    cells: &impl DeviceRead<f32>,
    mut previous: DeviceSliceMut<'_, f32>,
    shape: [usize; 3],
    stencil: &VolumeStencil<f32>,
) -> GpuResult<()> {
    check_lens(&shape, cells, &mut previous)?;
    let [depth, height, width] = shape;
    let VolumeStencil { centre, x, y, z, boundary } = *stencil;
    let (grid, edge) = (LaunchConfig::for_volume(width, height, depth), boundary.number());
    let out = &mut previous.into_volume(width, height, depth)?;
    stencil_wave_volume::launch(on.as_stream(), grid, cells, centre, [x, y, z], edge, out)
}

/// `steps` steps of the wave equation from `cells: [height, width]` and `previous`, the same one step earlier: each step's
/// result is the stencil's sum minus what was before. Both are further in time afterwards.
///
/// # Errors
/// As [`plane_into`].
pub fn wave_steps(
    on: &impl AsStream,
    cells: &mut DeviceBuffer<f32>,
    previous: &mut DeviceBuffer<f32>,
    shape: [usize; 2],
    stencil: &PlaneStencil<f32>,
    steps: usize,
) -> GpuResult<()> {
    check_lens(&shape, cells, previous)?;
    for _ in 0..steps {
        wave_into(on, cells, previous.as_mut_slice(), shape, stencil)?;
        mem::swap(cells, previous);
    }
    Ok(())
}

/// [`wave_steps`] in a volume: `cells` and `previous` are `[depth, height, width]`.
///
/// # Errors
/// As [`volume_into`].
pub fn volume_wave_steps(
    on: &impl AsStream,
    cells: &mut DeviceBuffer<f32>,
    previous: &mut DeviceBuffer<f32>,
    shape: [usize; 3],
    stencil: &VolumeStencil<f32>,
    steps: usize,
) -> GpuResult<()> {
    check_lens(&shape, cells, previous)?;
    for _ in 0..steps {
        volume_wave_into(on, cells, previous.as_mut_slice(), shape, stencil)?;
        mem::swap(cells, previous);
    }
    Ok(())
}

fn check_lens<T: Pod>(
    shape: &[usize],
    cells: &impl DeviceRead<T>,
    out: &mut impl DeviceWrite<T>,
) -> GpuResult<()> {
    let n = shape.iter().try_fold(1_usize, |n, len| n.checked_mul(*len)).unwrap_or(usize::MAX);
    same_len(OPERATION, n, cells.len())?;
    same_len(OPERATION, n, out.len())
}

fn check_steps(known: &[usize], steps: usize) -> GpuResult<()> {
    if known.contains(&steps) {
        return Ok(());
    }
    let most = known[0];
    Err(GpuError::InvalidArgument {
        operation: OPERATION,
        reason: format!("one pass makes a power of two of steps up to {most}, and not {steps}"),
    })
}

/// Makes `steps` steps, as many of `sizes` at a time as there are left.
fn fused(
    sizes: &[usize],
    steps: usize,
    mut make: impl FnMut(usize) -> GpuResult<()>,
) -> GpuResult<()> {
    let mut left = steps;
    for size in sizes {
        while left >= *size {
            make(*size)?;
            left -= size;
        }
    }
    Ok(())
}

/// What cells hold: `f32` (vectors of four in the kernels) or `f64` (vectors of two).
#[diagnostic::on_unimplemented(
    message = "the kernels `stencil_plane` and `stencil_volume` have no instance for cells of `{Self}`",
    note = "they have instances for `f32` and `f64`"
)]
pub trait Cell: Pod + Sealed {
    /// `1 - n * rate`.
    #[doc(hidden)]
    fn rest(n: f32, rate: Self) -> Self;

    #[doc(hidden)]
    fn plane(
        stream: &Stream,
        cells: &impl DeviceRead<Self>,
        out: &mut impl DeviceWrite<Self>,
        shape: [usize; 2],
        stencil: &PlaneStencil<Self>,
        steps: usize,
    ) -> GpuResult<()>;

    #[doc(hidden)]
    fn volume(
        stream: &Stream,
        cells: &impl DeviceRead<Self>,
        out: &mut impl DeviceWrite<Self>,
        shape: [usize; 3],
        stencil: &VolumeStencil<Self>,
        steps: usize,
    ) -> GpuResult<()>;
}

macro_rules! cells {
    ($($ty:ty, $lanes:literal;)*) => {$(
        impl Cell for $ty {
            fn rest(n: f32, rate: Self) -> Self {
                1.0 - Self::from(n) * rate
            }

            fn plane(
                stream: &Stream,
                cells: &impl DeviceRead<Self>,
                out: &mut impl DeviceWrite<Self>,
                shape: [usize; 2],
                stencil: &PlaneStencil<Self>,
                steps: usize,
            ) -> GpuResult<()> {
                plane::<Self, $lanes>(stream, cells, out, shape, stencil, steps)
            }

            fn volume(
                stream: &Stream,
                cells: &impl DeviceRead<Self>,
                out: &mut impl DeviceWrite<Self>,
                shape: [usize; 3],
                stencil: &VolumeStencil<Self>,
                steps: usize,
            ) -> GpuResult<()> {
                volume::<Self, $lanes>(stream, cells, out, shape, stencil, steps)
            }
        }
    )*};
}

cells! {
    f32, 4;
    f64, 2;
}

/// Makes 1, 2 or 4 steps of a plane in one launch.
fn plane<T: Pod, const LANES: usize>(
    stream: &Stream,
    cells: &impl DeviceRead<T>,
    out: &mut impl DeviceWrite<T>,
    shape: [usize; 2],
    stencil: &PlaneStencil<T>,
    steps: usize,
) -> GpuResult<()>
where
    stencil_plane<T, LANES, 1>: Instance,
    stencil_plane<T, LANES, 2>: Instance,
    stencil_plane<T, LANES, 4>: Instance,
{
    let PlaneStencil { centre, x, y, boundary } = *stencil;
    let (w, edge) = ([x, y], boundary.number());
    let (grid, rows) = plane_grid(stream, shape, plane_kernel::strip(LANES, steps));
    match steps {
        1 => stencil_plane::<T, LANES, 1>::launch(
            stream, grid, cells, shape, rows, centre, w, edge, out,
        ),
        2 => stencil_plane::<T, LANES, 2>::launch(
            stream, grid, cells, shape, rows, centre, w, edge, out,
        ),
        _ => stencil_plane::<T, LANES, 4>::launch(
            stream, grid, cells, shape, rows, centre, w, edge, out,
        ),
    }
}

/// Makes 1 or 2 steps of a volume in one launch.
fn volume<T: Pod, const LANES: usize>(
    stream: &Stream,
    cells: &impl DeviceRead<T>,
    out: &mut impl DeviceWrite<T>,
    shape: [usize; 3],
    stencil: &VolumeStencil<T>,
    steps: usize,
) -> GpuResult<()>
where
    stencil_volume<T, LANES>: Instance,
    stencil_volume_twice<T, LANES>: Instance,
{
    let VolumeStencil { centre, x, y, z, boundary } = *stencil;
    let (w, edge) = ([x, y, z], boundary.number());
    if steps == 1 {
        let planes = volume_kernel::planes(LANES);
        let grid = volume_grid(shape, [planes, volume_kernel::ROWS, volume_kernel::strip(LANES)]);
        stencil_volume::<T, LANES>::launch(stream, grid, cells, shape, planes, centre, w, edge, out)
    } else {
        let (rows, columns) = (volume_kernel::ROWS_TWICE, volume_kernel::strip_twice(LANES));
        let planes = volume_planes(stream, shape, [rows, columns]);
        let grid = volume_grid(shape, [planes, rows, columns]);
        stencil_volume_twice::<T, LANES>::launch(
            stream, grid, cells, shape, planes, centre, w, edge, out,
        )
    }
}

/// The length of the chunks of a line of `len`, such that all `lines` have about `per_processor` chunks for each
/// multiprocessor.
fn share(stream: &Stream, lines: usize, len: usize, per_processor: usize) -> usize {
    let wanted = stream.inner().context().info().multiprocessors as usize * per_processor;
    (len * lines).div_ceil(wanted.max(1))
}

/// The grid of the plane's kernel, and the rows of a warp.
fn plane_grid(stream: &Stream, [height, width]: [usize; 2], strip: usize) -> (Grid1, usize) {
    let strips = width.div_ceil(strip);
    let rows = share(stream, strips, height, 128).clamp(16, 128);
    let warps = strips * height.div_ceil(rows);
    let blocks = warps.div_ceil(plane_kernel::BLOCK / 32);
    (Grid1::new(u32::try_from(blocks).unwrap_or(u32::MAX)), rows)
}

/// The planes of blocks of `rows` by `columns`, where as few as may be computed twice.
fn volume_planes(
    stream: &Stream,
    [depth, height, width]: [usize; 3],
    [rows, columns]: [usize; 2],
) -> usize {
    let tiles = width.div_ceil(columns) * height.div_ceil(rows);
    share(stream, tiles, depth, 8).clamp(8, 256)
}

/// The grid of the volume's kernels for blocks of `block` planes, rows and columns.
fn volume_grid(shape: [usize; 3], block: [usize; 3]) -> Grid1 {
    let blocks: usize =
        shape.iter().zip(block).map(|(len, of_block)| len.div_ceil(of_block)).product();
    Grid1::new(u32::try_from(blocks).unwrap_or(u32::MAX))
}

/// The chapter's examples are tests.
#[cfg(doctest)]
#[doc = include_str!("../../../book/src/stencil.md")]
struct Chapter;
