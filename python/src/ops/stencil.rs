//! Steps of stencils.

use ferrowarp::ops::stencil::{
    Boundary, Cell, PlaneStencil, VolumeStencil, plane_fused_into, volume_fused_into,
};
use ferrowarp::{DeviceSlice, DeviceSliceMut, GpuResult, Stream};
use pyo3::prelude::*;

use crate::call::{Call, Outcome};
use crate::dtype::{Element, with_type};

/// Steps of a stencil on x: each cell becomes centre times itself plus, for each axis, that axis's weight times the sum of its two
/// neighbours along the axis.
///
/// neighbours: a weight for each axis of x, in the order of the axes. boundary: what lies beyond the edges, "fixed" (cells on an
/// edge keep their values), "periodic" (the opposite edge) or "insulated" (the mirror image). Several steps are made in one pass
/// over the memory, with the same bits as one at a time.
///
/// x: float32, float64, with two or three axes.
#[pyfunction]
#[pyo3(name = "stencil", signature = (x, centre, neighbours, *, steps = 1, boundary = "fixed"))]
pub fn stencil<'py>(
    py: Python<'py>,
    x: &Bound<'py, PyAny>,
    centre: f64,
    neighbours: Vec<f64>,
    steps: usize,
    boundary: &str,
) -> PyResult<Bound<'py, PyAny>> {
    let call = Call::new("stencil", &[("x", Some(x))])?;
    let x = call.input(0);
    x.check_contiguous("stencil")?;
    let axes = x.shape().len();
    if !matches!(axes, 2 | 3) {
        return Err(call.wrong(format!("`x` has {axes} axes, and needs two or three")));
    }
    if neighbours.len() != axes {
        let weights = neighbours.len();
        return Err(call.wrong(format!("`neighbours` has {weights} weights, and `x` {axes} axes")));
    }
    let boundary = match boundary {
        "fixed" => Boundary::Fixed,
        "periodic" => Boundary::Periodic,
        "insulated" => Boundary::Insulated,
        other => {
            return Err(call.wrong(format!(
                "boundary is {other:?}, and has to be \"fixed\", \"periodic\" or \"insulated\""
            )));
        }
    };
    let cells = with_type!("stencil", x.dtype(), [f32 f64], T => {
        let weights = Weights {
            centre: centre as T,
            neighbours: neighbours.iter().map(|weight| *weight as T).collect(),
            boundary,
        };
        weights.run(py, &call, steps)
    })?;
    call.give(py, cells)
}

/// A stencil of two or three axes.
struct Weights<T> {
    centre: T,
    neighbours: Vec<T>,
    boundary: Boundary,
}

impl<T: Cell + Element> Weights<T> {
    fn run(&self, py: Python<'_>, call: &Call, steps: usize) -> PyResult<Outcome> {
        let x = call.input(0);
        let mut out = call.output::<T>(py, x.shape())?;
        call.run(py, |on| {
            if x.len() > 0 {
                let values = x.values::<T>(call.lease())?;
                let (cells, mut last) = (values.as_slice(), out.buffer.as_mut_slice());
                let passes = self.passes(steps);
                let mut spare =
                    call.lease().unwritten(if passes.len() > 1 { x.len() } else { 0 })?;
                if passes.is_empty() {
                    last.copy_from_device(cells)?;
                }
                for (pass, steps) in passes.iter().enumerate() {
                    // So that the last pass writes the result.
                    let writes_result = (passes.len() - pass) % 2 == 1;
                    match (pass, writes_result) {
                        (0, true) => self.pass(on, cells, last.slice_mut(..), x.shape(), *steps)?,
                        (0, false) => {
                            self.pass(on, cells, spare.as_mut_slice(), x.shape(), *steps)?
                        }
                        (_, true) => {
                            self.pass(on, spare.as_slice(), last.slice_mut(..), x.shape(), *steps)?
                        }
                        (_, false) => {
                            self.pass(on, last.as_slice(), spare.as_mut_slice(), x.shape(), *steps)?
                        }
                    }
                }
            }
            call.finish(out)
        })
    }

    /// How many steps each pass over the memory makes.
    fn passes(&self, steps: usize) -> Vec<usize> {
        let most = if self.neighbours.len() == 2 { 4 } else { 2 };
        let mut passes = vec![most; steps / most];
        let rest = steps % most;
        passes.extend([2, 1].into_iter().filter(|size| rest & size != 0));
        passes
    }

    fn pass(
        &self,
        on: &Stream,
        cells: DeviceSlice<'_, T>,
        mut out: DeviceSliceMut<'_, T>,
        shape: &[usize],
        steps: usize,
    ) -> GpuResult<()> {
        let (centre, boundary) = (self.centre, self.boundary);
        match (shape, &self.neighbours[..]) {
            (&[height, width], &[y, x]) => {
                let stencil = PlaneStencil { centre, x, y, boundary };
                plane_fused_into(on, &cells, &mut out, [height, width], &stencil, steps)
            }
            (&[depth, height, width], &[z, y, x]) => {
                let stencil = VolumeStencil { centre, x, y, z, boundary };
                volume_fused_into(on, &cells, &mut out, [depth, height, width], &stencil, steps)
            }
            _ => unreachable!("there are two or three axes, and a weight for each"),
        }
    }
}
