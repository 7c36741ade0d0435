//! Effective bandwidth of our kernels, beside CUB, the textbook in CUDA C++ and the driver's copy in the same run.
//!
//! The peers (benches/peers/cub.cu) are compiled where `nvcc` is on the machine, and run as a process of their own.
//! Ours and theirs take turns, so that a drift of the clocks touches both; medians are compared.

#[path = "peers/mod.rs"]
mod peers;

use std::collections::BTreeMap;
use std::path::Path;

use cuda_driver::Backend;
use cuda_std::launch::Linear;
use ferrowarp::memory::DeviceBuffer;
use ferrowarp::ops::{self, Scratch};
use ferrowarp::{Gpu, GpuResult};
use kernels_gpu::grid::copy::copy_vectors;
use serde::Deserialize;

const PEERS: &str = include_str!("peers/cub.cu");
const USAGE: &str = "usage: bandwidth [REDUCE_LOG2 [SIDE [ROUNDS [SITTINGS]]]]";

/// Times of one operation on one size.
#[derive(Deserialize)]
struct Case {
    name: String,
    n: usize,
    /// Bytes that must move: each input read once, each output written once.
    bytes: usize,
    /// Milliseconds, one an iteration.
    ms: Vec<f64>,
}

/// What to measure: 2^`log2` elements, a matrix of `side`², `rounds` iterations in each of `sittings` turns.
#[derive(Clone, Copy)]
struct Plan {
    log2: u32,
    side: usize,
    rounds: usize,
    sittings: usize,
}

impl Plan {
    /// From the command line; sizes that suit the device where it is silent.
    fn from_args(backend: Option<Backend>) -> Result<Self, String> {
        let mut args = std::env::args().skip(1).filter(|arg| !arg.starts_with("--"));
        let mut next = |default: usize| match args.next() {
            None => Ok(default),
            Some(text) => text.parse().map_err(|_| format!("`{text}` is not a number; {USAGE}")),
        };
        let defaults = match backend {
            Some(Backend::Cuda) => [28, 16384, 20, 5],
            _ => [20, 512, 3, 1],
        };
        let [log2, side, rounds, sittings] = defaults;
        let plan = Self {
            log2: next(log2)? as u32,
            side: next(side)?,
            rounds: next(rounds)?,
            sittings: next(sittings)?,
        };
        let fits =
            plan.log2 < 40 && plan.side.is_multiple_of(32) && plan.rounds > 0 && plan.sittings > 0;
        fits.then_some(plan)
            .ok_or_else(|| format!("SIDE is a multiple of 32, the others above 0; {USAGE}"))
    }
}

/// `n` floats in -0.5..0.5 from a hash of their index.
fn random(n: usize) -> Vec<f32> {
    (0..n as u32)
        .map(|i| {
            let mut hash = i.wrapping_mul(2_654_435_761);
            hash ^= hash >> 15;
            hash = hash.wrapping_mul(2_246_822_519);
            hash ^= hash >> 13;
            (hash >> 8) as f32 / 16_777_216.0 - 0.5
        })
        .collect()
}

fn measure(
    gpu: &Gpu,
    rounds: usize,
    (name, n, bytes): (&str, usize, usize),
    mut run: impl FnMut() -> GpuResult<()>,
) -> GpuResult<Case> {
    for _ in 0..3 {
        run()?;
    }
    let ms = (0..rounds).map(|_| Ok(gpu.stream().time(&mut run)?.1)).collect::<GpuResult<_>>()?;
    Ok(Case { name: name.into(), n, bytes, ms })
}

/// Device memory of our side, kept over the sittings.
struct Ours {
    x: DeviceBuffer<f32>,
    out: DeviceBuffer<f32>,
    sum: DeviceBuffer<f32>,
    scratch: Scratch,
}

impl Ours {
    fn new(gpu: &Gpu, plan: Plan) -> GpuResult<Self> {
        let floats = (1 << plan.log2).max(plan.side * plan.side);
        Ok(Self {
            x: DeviceBuffer::from_slice(gpu, &random(floats))?,
            out: DeviceBuffer::from_slice(gpu, &vec![f32::NAN; floats])?,
            sum: DeviceBuffer::zeroed(gpu, 1)?,
            scratch: Scratch::new(gpu)?,
        })
    }

    fn measure(&mut self, gpu: &Gpu, plan: Plan) -> GpuResult<Vec<Case>> {
        let (n, side, rounds) = (1 << plan.log2, plan.side, plan.rounds);
        let cells = side * side;
        let Self { x, out, sum, scratch } = self;
        let reduce = measure(gpu, rounds, ("reduce_sum_f32", n, 4 * n), || {
            ops::reduce::sum_into(gpu, &x.slice(..n), sum, scratch)
        })?;
        let vectors = Linear::new((n / 4).div_ceil(256).min(16 * 132) as u32, 256);
        let copy = measure(gpu, rounds, ("copy", n, 8 * n), || {
            let mut out = out.slice_mut(..n);
            copy_vectors::launch(gpu, vectors, &x.slice(..n).cast()?, &mut out.cast_mut()?)
        })?;
        let mut matrix = DeviceBuffer::zeroed(gpu, cells)?;
        let transpose = measure(gpu, rounds, ("transpose_tiled", cells, 8 * cells), || {
            ops::transpose(gpu, &x.slice(..cells), &mut matrix, side, side)
        })?;
        let naive = measure(gpu, rounds, ("transpose_naive", cells, 8 * cells), || {
            ops::transpose::transpose_naive(gpu, &x.slice(..cells), &mut matrix, side, side)
        })?;
        Ok(vec![reduce, copy, transpose, naive])
    }
}

fn run_peers(program: &Path, plan: Plan) -> Result<Vec<Case>, String> {
    let args = [plan.log2.to_string(), plan.side.to_string(), plan.rounds.to_string()];
    let text = peers::run(program, &args)?;
    let case = |line| serde_json::from_str(line).map_err(|error| format!("{error} in {line}"));
    text.lines().map(case).collect()
}

/// All times of each case over the sittings, by name.
#[derive(Default)]
struct Results(BTreeMap<String, Case>);

impl Results {
    fn add(&mut self, cases: Vec<Case>) {
        for case in cases {
            match self.0.get_mut(&case.name) {
                Some(known) => known.ms.extend(case.ms),
                None => drop(self.0.insert(case.name.clone(), case)),
            }
        }
    }
}

/// Gigabytes a second at the median, and at the slowest and fastest tenth.
fn bandwidth(case: &Case) -> [f64; 3] {
    let mut ms = case.ms.clone();
    ms.sort_by(f64::total_cmp);
    let at = |share: f64| case.bytes as f64 / ms[((ms.len() - 1) as f64 * share) as usize] / 1e6;
    [at(0.5), at(0.9), at(0.1)]
}

fn print(ours: &Results, peers: &Results) {
    println!(
        "{:<16} {:>12} {:>10} {:>17} {:>10} {:>7}",
        "case", "n", "ours GB/s", "10%..90%", "peer GB/s", "ratio"
    );
    for (name, case) in &ours.0 {
        let [median, low, high] = bandwidth(case);
        let spread = format!("{low:.0}..{high:.0}");
        let peer = peers.0.get(name).map(|peer| bandwidth(peer)[0]);
        let [peer_text, ratio] = peer.map_or(["-".into(), "-".into()], |peer| {
            [format!("{peer:.0}"), format!("{:.3}", median / peer)]
        });
        println!(
            "{name:<16} {:>12} {median:>10.0} {spread:>17} {peer_text:>10} {ratio:>7}",
            case.n
        );
    }
}

fn run() -> Result<(), Box<dyn std::error::Error>> {
    let gpu = Gpu::new()?;
    let plan = Plan::from_args(cuda_driver::backend())?;
    println!("{} ({} sittings of {} rounds; medians)", gpu.name(), plan.sittings, plan.rounds);
    let dir = tempfile::tempdir()?;
    let peers = match cuda_driver::backend() {
        Some(Backend::Cuda) => peers::build(dir.path(), "cub", PEERS),
        _ => Err("the peers need a GPU".into()),
    };
    if let Err(why) = &peers {
        println!("no peers: {why}");
    }

    let (mut ours, mut theirs) = (Results::default(), Results::default());
    let mut memory = Ours::new(&gpu, plan)?;
    for _ in 0..plan.sittings {
        ours.add(memory.measure(&gpu, plan)?);
        if let Ok(program) = &peers {
            theirs.add(run_peers(program, plan)?);
        }
    }
    print(&ours, &theirs);
    Ok(())
}

fn main() {
    if let Err(error) = run() {
        eprintln!("bandwidth: {error}");
        std::process::exit(1);
    }
}
