//! What a step makes of a grid: the stencils of one device.

use bytemuck::Pod;
use ferrowarp::memory::{DeviceSlice, DeviceSliceMut};
use ferrowarp::ops::stencil::{self, Boundary, Cell, PlaneStencil, VolumeStencil};
use ferrowarp::{GpuResult, Stream};

mod sealed {
    pub trait Sealed {}
}

/// The wave equation with the stencil: a step's result is the stencil's sum minus what was before.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Wave<S>(pub S);

/// What a step makes of a grid of `D` dimensions: a [`PlaneStencil`], a [`VolumeStencil`], or [`Wave`] of one of `f32`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a step of a grid of {D} dimensions",
    note = "a `PlaneStencil` has 2 dimensions, a `VolumeStencil` 3; `Wave` of one has cells of `f32`"
)]
pub trait SlabRule<const D: usize>: Copy + sealed::Sealed {
    /// What cells hold.
    type Cell: Pod;
    /// How many steps one pass over the memory can make, the most first. Each takes a halo as thick.
    #[doc(hidden)]
    const PASSES: &'static [usize];
    /// Whether the result depends on what was there before.
    #[doc(hidden)]
    const KEEPS_BEFORE: bool;

    #[doc(hidden)]
    fn boundary(&self) -> Boundary;

    /// `out` becomes `cells` that many steps further. A wave's `out` is `cells` one step before.
    #[doc(hidden)]
    fn pass(
        &self,
        on: &Stream,
        cells: &DeviceSlice<'_, Self::Cell>,
        out: DeviceSliceMut<'_, Self::Cell>,
        shape: [usize; D],
        steps: usize,
    ) -> GpuResult<()>;
}

macro_rules! rules {
    ($($stencil:ident, $dimensions:literal, $passes:expr, $fused:ident, $wave:ident;)*) => {$(
        impl<T: Cell> sealed::Sealed for $stencil<T> {}

        impl<T: Cell> SlabRule<$dimensions> for $stencil<T> {
            type Cell = T;
            const PASSES: &'static [usize] = &$passes;
            const KEEPS_BEFORE: bool = false;

            fn boundary(&self) -> Boundary {
                self.boundary
            }

            fn pass(
                &self,
                on: &Stream,
                cells: &DeviceSlice<'_, T>,
                mut out: DeviceSliceMut<'_, T>,
                shape: [usize; $dimensions],
                steps: usize,
            ) -> GpuResult<()> {
                stencil::$fused(on, cells, &mut out, shape, self, steps)
            }
        }

        impl sealed::Sealed for Wave<$stencil<f32>> {}

        impl SlabRule<$dimensions> for Wave<$stencil<f32>> {
            type Cell = f32;
            const PASSES: &'static [usize] = &[1];
            const KEEPS_BEFORE: bool = true;

            fn boundary(&self) -> Boundary {
                self.0.boundary
            }

            fn pass(
                &self,
                on: &Stream,
                cells: &DeviceSlice<'_, f32>,
                out: DeviceSliceMut<'_, f32>,
                shape: [usize; $dimensions],
                _one: usize,
            ) -> GpuResult<()> {
                stencil::$wave(on, cells, out, shape, &self.0)
            }
        }
    )*};
}

rules! {
    PlaneStencil, 2, [4, 2, 1], plane_fused_into, wave_into;
    VolumeStencil, 3, [2, 1], volume_fused_into, volume_wave_into;
}
