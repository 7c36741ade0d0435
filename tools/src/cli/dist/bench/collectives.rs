//! Collectives: time, algorithm bandwidth and bus bandwidth by size.

use ferrowarp::DeviceBuffer;
use ferrowarp::memory::{DeviceSlice, DeviceSliceMut};
use ferrowarp_dist::{Communicator, DistResult, Reduction};

use super::super::super::error::CliError;
use super::super::super::table::{Side, Table};
use super::Print;
use super::measure::Bench;
use super::sizes::shown;

/// A call, with the buffers of one size: `[n]` each, of which parts are one rank's.
type Call = fn(&Communicator, DeviceSlice<'_, f32>, DeviceSliceMut<'_, f32>) -> DistResult<()>;

struct Collective {
    name: &'static str,
    /// How often the size crosses the link, for `n` ranks.
    on_bus: fn(f64) -> f64,
    call: Call,
}

/// The part of the data that is not a rank's own.
fn others(n: f64) -> f64 {
    (n - 1.0) / n
}

const ALL: [Collective; 9] = [
    Collective { name: "all-reduce", on_bus: |n| 2.0 * others(n), call: all_reduce },
    Collective { name: "reduce", on_bus: |_| 1.0, call: reduce },
    Collective { name: "broadcast", on_bus: |_| 1.0, call: broadcast },
    Collective { name: "all-gather", on_bus: others, call: all_gather },
    Collective { name: "reduce-scatter", on_bus: others, call: reduce_scatter },
    Collective { name: "all-to-all", on_bus: others, call: all_to_all },
    Collective { name: "gather", on_bus: others, call: gather },
    Collective { name: "scatter", on_bus: others, call: scatter },
    Collective { name: "send and receive", on_bus: |_| 1.0, call: ring },
];

/// The bandwidth of the link, in bytes a second: a rank sends so many bytes to its neighbour while it receives as many from another.
pub(super) fn link(bench: &Bench<'_>, bytes: usize) -> DistResult<f64> {
    let from = DeviceBuffer::<f32>::zeroed(bench.gpu(), bytes / 4)?;
    let mut to = DeviceBuffer::<f32>::zeroed(bench.gpu(), bytes / 4)?;
    let seconds =
        bench.seconds(batch(bytes), || ring(bench.ranks, from.as_slice(), to.as_mut_slice()))?;
    Ok((bytes / 4 * 4) as f64 / seconds)
}

/// Measures and prints all of them.
pub(super) fn run(bench: &Bench<'_>, sizes: &[usize], print: Print<'_>) -> Result<(), CliError> {
    let ranks = bench.ranks.size() as usize;
    // Whole elements of each rank.
    let lens = sizes.iter().map(|bytes| (bytes / 4).next_multiple_of(ranks));
    let lens: Vec<usize> = lens.collect();
    let largest = lens.iter().copied().max().unwrap_or(0);
    let from = DeviceBuffer::<f32>::zeroed(bench.gpu(), largest)?;
    let mut to = DeviceBuffer::<f32>::zeroed(bench.gpu(), largest)?;
    for collective in &ALL {
        let mut table = Table::new([
            (collective.name, Side::Right),
            ("µs", Side::Right),
            ("algorithm GB/s", Side::Right),
            ("bus GB/s", Side::Right),
        ]);
        for len in &lens {
            let bytes = len * 4;
            let seconds = bench.seconds(batch(bytes), || {
                (collective.call)(bench.ranks, from.slice(..*len), to.slice_mut(..*len))
            })?;
            let rate = bytes as f64 / seconds;
            let bus = rate * (collective.on_bus)(ranks as f64);
            let cells = [seconds * 1e6, rate / 1e9, bus / 1e9].map(|number| format!("{number:.2}"));
            let [micros, rate, bus] = cells;
            table.add([shown(bytes), micros, rate, bus]);
        }
        let mut lines = Vec::new();
        table.print(&mut lines)?;
        print(format!("{}\n", String::from_utf8_lossy(&lines)))?;
    }
    Ok(())
}

/// How many calls a round has, as in `tools/peers/nccl.cu`: enough that what is around them costs little.
fn batch(bytes: usize) -> u32 {
    match bytes {
        0..=0x10_0000 => 100,
        0x10_0001..=0x400_0000 => 20,
        _ => 5,
    }
}

fn all_reduce(
    ranks: &Communicator,
    from: DeviceSlice<'_, f32>,
    mut to: DeviceSliceMut<'_, f32>,
) -> DistResult<()> {
    ranks.all_reduce(ranks.gpu(), &from, &mut to, Reduction::Sum)
}

fn reduce(
    ranks: &Communicator,
    from: DeviceSlice<'_, f32>,
    mut to: DeviceSliceMut<'_, f32>,
) -> DistResult<()> {
    ranks.reduce(ranks.gpu(), &from, Some(&mut to), Reduction::Sum, 0)
}

fn broadcast(
    ranks: &Communicator,
    _: DeviceSlice<'_, f32>,
    mut to: DeviceSliceMut<'_, f32>,
) -> DistResult<()> {
    ranks.broadcast(ranks.gpu(), &mut to, 0)
}

/// One rank's part of the size.
fn part<'a>(ranks: &Communicator, of: &DeviceSlice<'a, f32>) -> DeviceSlice<'a, f32> {
    of.slice(..len(of) / ranks.size() as usize)
}

fn len(of: &DeviceSlice<'_, f32>) -> usize {
    cuda_std::launch::DeviceRead::len(of)
}

fn all_gather(
    ranks: &Communicator,
    from: DeviceSlice<'_, f32>,
    mut to: DeviceSliceMut<'_, f32>,
) -> DistResult<()> {
    ranks.all_gather(ranks.gpu(), &part(ranks, &from), &mut to)
}

fn reduce_scatter(
    ranks: &Communicator,
    from: DeviceSlice<'_, f32>,
    mut to: DeviceSliceMut<'_, f32>,
) -> DistResult<()> {
    let len = len(&from) / ranks.size() as usize;
    ranks.reduce_scatter(ranks.gpu(), &from, &mut to.slice_mut(..len), Reduction::Sum)
}

fn all_to_all(
    ranks: &Communicator,
    from: DeviceSlice<'_, f32>,
    mut to: DeviceSliceMut<'_, f32>,
) -> DistResult<()> {
    ranks.all_to_all(ranks.gpu(), &from, &mut to)
}

fn gather(
    ranks: &Communicator,
    from: DeviceSlice<'_, f32>,
    mut to: DeviceSliceMut<'_, f32>,
) -> DistResult<()> {
    ranks.gather(ranks.gpu(), &part(ranks, &from), Some(&mut to), 0)
}

fn scatter(
    ranks: &Communicator,
    from: DeviceSlice<'_, f32>,
    mut to: DeviceSliceMut<'_, f32>,
) -> DistResult<()> {
    let len = len(&from) / ranks.size() as usize;
    ranks.scatter(ranks.gpu(), Some(&from), &mut to.slice_mut(..len), 0)
}

/// To the right, while it receives from the left.
fn ring(
    ranks: &Communicator,
    from: DeviceSlice<'_, f32>,
    mut to: DeviceSliceMut<'_, f32>,
) -> DistResult<()> {
    let (rank, size) = (ranks.rank(), ranks.size());
    let (left, right) = ((rank + size - 1) % size, (rank + 1) % size);
    ranks.group().send(&from, right)?.receive(&mut to, left)?.enqueue(ranks.gpu())
}
