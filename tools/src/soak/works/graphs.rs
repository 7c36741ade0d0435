//! Graphs that are built, launched, changed and dropped.

use ferrowarp::LaunchConfig;
use ferrowarp::graph::GraphBuilder;
use ferrowarp::memory::DeviceBuffer;
use kernels_gpu::elementwise::saxpy;

use super::super::counts::Flow;
use super::super::error::SoakError;
use super::super::random::Random;
use super::super::site::Site;

const MOST: usize = 2000;

/// Launches in a row; between two replays the factor of the first one changes.
pub(super) fn run(site: &Site, random: &mut Random) -> Result<(), SoakError> {
    let (n, nodes, launches) = (random.len(MOST), random.below(12) + 1, random.below(6) + 1);
    let x = random.wholes(n);
    let stream = site.gpu.create_stream()?;
    let on_x = DeviceBuffer::from_slice_in(&site.memory, &stream, &x)?;
    let mut on_y = DeviceBuffer::zeroed_in(&site.memory, &stream, n)?;
    let (config, builder) = (LaunchConfig::for_num_elems(n), GraphBuilder::new(&stream));
    let first = builder.node("first");
    saxpy::launch(&first, config, 1.0, &on_x, &mut on_y)?;
    for _ in 1..nodes {
        saxpy::launch(&builder, config, 1.0, &on_x, &mut on_y)?;
    }
    let mut graph = builder.build((on_x, on_y))?;
    // A launch of no threads is no node, and has no parameters.
    let alpha = if n > 0 { Some(graph.parameter::<f32>(&first, "alpha")?) } else { None };
    let mut expected = vec![0.0; n];
    for launch in 0..launches {
        let factor = 1.0 + launch as f32;
        if let Some(alpha) = alpha {
            graph.set(alpha, factor)?;
        }
        site.counts.begin(Flow::Graphs, 1);
        graph.launch(&stream)?;
        expected = reference::saxpy::saxpy(factor + (nodes - 1) as f32, &x, &expected);
    }
    let found = graph.wait()?.1.to_vec()?;
    site.counts.end(Flow::Graphs, launches);
    site.counts.same("a graph", &found, &expected)
}
