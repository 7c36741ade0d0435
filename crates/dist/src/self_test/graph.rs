//! Collectives within a graph, where the backend has them; elsewhere the error that says that it has not.

use ferrowarp::{GpuError, GraphBuilder};

use super::tester::Tester;
use crate::element::Reduction;
use crate::error::{DistError, DistResult};
use crate::transport::Backend;

pub(super) fn run(tester: &mut Tester<'_>) -> DistResult<()> {
    const LEN: usize = 100;
    const REPLAYS: u32 = 3;
    let (ranks, gpu) = (tester.ranks, tester.ranks.gpu());
    let mut values = tester.words(LEN, |index| index as u64)?;
    let mut sums = tester.poisoned(LEN)?;
    // The first use of a communicator connects the ranks, which is not to be captured.
    ranks.all_reduce(gpu, &values, &mut sums, Reduction::Sum)?;
    let builder = GraphBuilder::new(gpu);
    let mut failure = None;
    let captured = builder.capture(|| {
        let reduced = ranks.all_reduce(gpu, &values, &mut sums, Reduction::Sum);
        let copied = reduced.and_then(|()| Ok(values.copy_from_device(&sums)?));
        copied.map_err(|error| {
            failure = Some(error);
            GpuError::Unsupported { what: "a collective in a graph" }
        })
    });
    match (failure, captured, ranks.backend()) {
        (Some(DistError::NotInGraphs { .. }), _, Backend::Mpi { .. }) => {
            tester.count("in a graph (refused)", 1, 0);
            return Ok(());
        }
        (Some(error), ..) => return Err(error),
        (None, captured, _) => captured?,
    }
    let mut graph = builder.build((values, sums))?;
    for _ in 0..REPLAYS {
        graph.launch(gpu)?;
    }
    ranks.synchronize(gpu)?;
    let factor = u64::from(ranks.size()).pow(REPLAYS);
    let (values, _) = graph.into_buffers();
    tester.compare("in a graph", &values, |index| index as u64 * factor)
}
