//! Streams that wait for one another, events, host callbacks, futures and pipelines.

use ferrowarp::completion::block_on;
use ferrowarp::memory::DeviceBuffer;
use ferrowarp::ops;
use ferrowarp::pipeline::{Buffering, FrameShape, Pipeline};
use ferrowarp::{GpuResult, Stream};

use super::super::counts::Flow;
use super::super::error::SoakError;
use super::super::random::Random;
use super::super::site::Site;

const MOST: usize = 5000;

/// Branches update one array in turn, each after the event of the one before; then the host is called, and a future has
/// the result.
pub(super) fn run(site: &Site, random: &mut Random) -> Result<(), SoakError> {
    let (n, branches) = (random.len(MOST), random.below(4) + 1);
    let (x, y) = (random.wholes(n), random.wholes(n));
    let trunk = site.gpu.create_stream()?;
    let on_x = DeviceBuffer::from_slice_in(&site.memory, &trunk, &x)?;
    let mut on_y = DeviceBuffer::from_slice_in(&site.memory, &trunk, &y)?;
    let branches = trunk.fork(branches)?;
    let mut before = trunk.record_event()?;
    for branch in &branches {
        branch.wait_event(&before)?;
        ops::saxpy(branch, 1.0, &on_x, &mut on_y)?;
        before = branch.record_event()?;
    }
    trunk.join(&branches)?;
    called(site, &trunk)?;
    let expected = reference::saxpy::saxpy(branches.len() as f32, &x, &y);
    site.counts.begin(Flow::Futures, 2);
    // A future that is dropped leaves its copy to end by itself.
    drop(on_y.to_vec_async());
    let found = on_y.to_vec_async();
    block_on(before.completed())?;
    let found = block_on(found)?;
    site.counts.end(Flow::Futures, 2);
    site.counts.same("saxpy on branches", &found, &expected)
}

fn called(site: &Site, on: &Stream) -> GpuResult<()> {
    site.counts.begin(Flow::Callbacks, 1);
    if on.launch_host_func(|| true)?.wait()? {
        site.counts.end(Flow::Callbacks, 1);
    }
    Ok(())
}

/// Frames through a pipeline.
pub(super) fn frames(site: &Site, random: &mut Random) -> Result<(), SoakError> {
    let (len, count) = (random.len(MOST), random.below(8) as u64);
    let buffering = [Buffering::Single, Buffering::Double, Buffering::Triple][random.below(3)];
    let (x, shape) = (random.wholes(len), FrameShape { input_len: len, output_len: len });
    let mut pipeline = Pipeline::new(&site.gpu, shape, buffering, |mut frame| {
        ops::vecadd(frame.stream, &frame.input, &frame.input, &mut frame.output)
    })?;
    let fill = |number, input: &mut [f32]| {
        input.iter_mut().zip(&x).for_each(|(input, x)| *input = x + number as f32);
        if number < count {
            site.counts.begin(Flow::Frames, 1);
        }
        number < count
    };
    let mut checked = Ok(());
    pipeline.run(fill, |number, output: &[f32]| {
        site.counts.end(Flow::Frames, 1);
        let expected: Vec<f32> = x.iter().map(|x| 2.0 * (x + number as f32)).collect();
        let same = site.counts.same("a frame", output, &expected);
        if checked.is_ok() {
            checked = same;
        }
    })?;
    checked
}
