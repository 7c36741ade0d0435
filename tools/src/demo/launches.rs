//! Demos of launches. All smooth the same cells in the same rounds (see [`mod@kernels_gpu::stencil::smoothing`]), and
//! between two rounds all threads have to meet: what the table shows is the price of the meeting.

use std::time::Duration;

use cuda_std::launch::{Launch, Linear};
use kernels_gpu::stencil::smoothing::{
    CLUSTER, CLUSTER_CELLS, smooth, smooth_cluster, smooth_cooperative, smooth_dependent,
};

use super::arrays::floats;
use super::{Check, Outcome, Scale, timed};
use ferrowarp::error::{GpuError, GpuResult};
use ferrowarp::memory::DeviceBuffer;
use ferrowarp::{Gpu, Grid1};

/// An even number: then the result is where the cells were.
const ROUNDS: usize = 16;

type Cells = DeviceBuffer<f32>;

/// A launch for each round, in blocks that fill a multiprocessor.
pub(super) fn plain(gpu: &Gpu, scale: Scale) -> GpuResult<Outcome> {
    let all = config(gpu, scale)?;
    smoothed(gpu, scale, |cells, next| rounds(gpu, all, cells, next))
}

/// The threads of each launch take their places while the one before still runs.
pub(super) fn dependent(gpu: &Gpu, scale: Scale) -> GpuResult<Outcome> {
    let all = smooth_dependent::occupancy(gpu)?.for_num_elems(cells_of(scale));
    smoothed(gpu, scale, |cells, next| {
        (0..ROUNDS / 2).try_for_each(|_| {
            smooth_dependent::launch(gpu, all, &*cells, next)?;
            smooth_dependent::launch(gpu, all, &*next, cells)
        })
    })
}

/// On a stream that the cells are not at home on: what each launch would do for the order is done once.
pub(super) fn batch(gpu: &Gpu, scale: Scale) -> GpuResult<Outcome> {
    let (stream, all) = (gpu.create_stream()?, config(gpu, scale)?);
    smoothed(gpu, scale, |cells, next| {
        stream.batch((cells, next), |batch, (cells, next)| rounds(batch, all, cells, next))
    })
}

/// The launches as they are, captured from the stream: one graph, which is launched again and again.
pub(super) fn capture(gpu: &Gpu, scale: Scale) -> GpuResult<Outcome> {
    let (x, all) = (floats(cells_of(scale), 18), config(gpu, scale)?);
    let (mut cells, mut next) = both(gpu, &x)?;
    let builder = gpu.stream().capture(|stream| rounds(stream, all, &mut cells, &mut next))?;
    let mut graph = builder.build((cells, next))?;
    graph.launch(gpu)?;
    let found = graph.wait()?.0.to_vec()?;
    outcome(&x, &found, timed(gpu, || graph.launch(gpu))?)
}

/// One launch, of as many blocks as the device holds at once, which meet at a barrier.
pub(super) fn cooperative(gpu: &Gpu, scale: Scale) -> GpuResult<Outcome> {
    let most = smooth_cooperative::occupancy(gpu)?.resident().grid;
    let grid = Grid1::new(smooth_cooperative::grid_for(cells_of(scale)).blocks.min(most));
    let mut counter = DeviceBuffer::zeroed(gpu, 1)?;
    smoothed(gpu, scale, |cells, next| {
        smooth_cooperative::launch(gpu, grid, ROUNDS as u32, &mut counter, cells, next)
    })
}

/// One launch, of eight blocks that reach one another's shared memory.
pub(super) fn clusters(gpu: &Gpu, scale: Scale) -> GpuResult<Outcome> {
    smoothed(gpu, scale, |cells, _| {
        smooth_cluster::launch(gpu, Grid1::new(CLUSTER), ROUNDS as u32, cells)
    })
}

/// As many as a cluster holds: small work, where the launches count.
fn cells_of(scale: Scale) -> usize {
    scale.n.min(CLUSTER_CELLS)
}

/// The block that keeps most threads of the kernel on a multiprocessor, and enough of them.
fn config(gpu: &Gpu, scale: Scale) -> GpuResult<Linear> {
    Ok(smooth::occupancy(gpu)?.for_num_elems(cells_of(scale)))
}

/// The rounds, from one buffer to the other and back.
fn rounds(
    on: &impl Launch<Error = GpuError>,
    all: Linear,
    cells: &mut Cells,
    next: &mut Cells,
) -> GpuResult<()> {
    (0..ROUNDS / 2).try_for_each(|_| {
        smooth::launch(on, all, &*cells, next)?;
        smooth::launch(on, all, &*next, cells)
    })
}

fn both(gpu: &Gpu, x: &[f32]) -> GpuResult<(Cells, Cells)> {
    Ok((DeviceBuffer::from_slice(gpu, x)?, DeviceBuffer::zeroed(gpu, x.len())?))
}

/// Checks and times `run`, which does all rounds.
fn smoothed(
    gpu: &Gpu,
    scale: Scale,
    mut run: impl FnMut(&mut Cells, &mut Cells) -> GpuResult<()>,
) -> GpuResult<Outcome> {
    let x = floats(cells_of(scale), 18);
    let (mut cells, mut next) = both(gpu, &x)?;
    run(&mut cells, &mut next)?;
    let found = cells.to_vec()?;
    outcome(&x, &found, timed(gpu, || run(&mut cells, &mut next))?)
}

fn outcome(x: &[f32], found: &[f32], time: Duration) -> GpuResult<Outcome> {
    let check = Check::exact(found, &reference::smooth::smooth(x, ROUNDS));
    let size = format!("{ROUNDS} rounds of {}", x.len());
    Ok(Outcome { size, time, bytes: ROUNDS * 8 * x.len(), check, picture: None })
}
