//! Frames that are copied in, computed and copied out: one at a time, and with two and three in flight.
//!
//! The load is balanced first: the copies of a frame are measured, and the kernel is given as many rounds
//! as last as long as one of them. `pageable` is what a program writes that knows nothing of all this:
//! copies from and to ordinary memory, each waited for.

use std::time::Instant;

use cuda_driver::Backend;
use cuda_std::launch::{Args, Contract, Kernel, Launch, LaunchConfig, Param, ParamKind};
use ferrowarp::module::Image;
use ferrowarp::{
    Buffering, DeviceBuffer, DeviceSliceMut, Frame, FrameShape, Gpu, GpuError, GpuResult, Pipeline,
};

/// The tests' kernels, for `churn`, which steps each word so many times in a register.
// SAFETY: `churn` stays inside the words that its launcher gives.
const IMAGES: &[Image] =
    &[unsafe { Image::from_ptx("sm_70", include_str!("../tests/host/kernels.ptx")) }];

static CHURN: Kernel = Kernel {
    name: "churn",
    params: &[
        Param { name: "p", kind: ParamKind::Pointer, size_bytes: 8 },
        Param { name: "len", kind: ParamKind::Length, size_bytes: 8 },
        Param { name: "rounds", kind: ParamKind::Value, size_bytes: 4 },
    ],
    contract: Contract::NONE,
};

#[derive(Clone, Copy)]
struct Plan {
    /// Words of a frame.
    len: usize,
    frames: u64,
    sittings: usize,
}

impl Plan {
    fn suited_to(backend: Backend) -> Self {
        match backend {
            Backend::Cuda => Self { len: 4 << 20, frames: 300, sittings: 7 },
            Backend::Emulator => Self { len: 1 << 12, frames: 12, sittings: 3 },
        }
    }
}

fn churn(
    on: &impl Launch<Error = GpuError>,
    words: &mut DeviceSliceMut<'_, u32>,
    rounds: u32,
) -> GpuResult<()> {
    let config = LaunchConfig::for_num_elems(words.len());
    let mut args = Args::new();
    args.push_write(words);
    args.push_value(rounds);
    // SAFETY: the arguments are the kernel's, which stays inside the words.
    unsafe { on.launch(&CHURN, config.into(), &args) }
}

fn compute(mut frame: Frame<'_, u32, u32>, rounds: u32) -> GpuResult<()> {
    frame.output.copy_from_device(&frame.input)?;
    churn(frame.stream, &mut frame.output, rounds)
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Milliseconds of the work on the device: the median of several runs.
fn timed(gpu: &Gpu, mut work: impl FnMut() -> GpuResult<()>) -> GpuResult<f64> {
    work()?;
    let times = (0..9).map(|_| Ok(gpu.stream().time(&mut work)?.1)).collect::<GpuResult<_>>()?;
    Ok(median(times))
}

/// Milliseconds a frame, start to end, on the host's clock.
fn per_frame(plan: Plan, buffering: Buffering, gpu: &Gpu, rounds: u32) -> GpuResult<f64> {
    let shape = FrameShape { input_len: plan.len, output_len: plan.len };
    let mut pipeline = Pipeline::new(gpu, shape, buffering, |frame| compute(frame, rounds))?;
    let mut run = |frames: u64| {
        let mut left = frames;
        pipeline.run(
            |number, input: &mut [u32]| {
                input[0] = number as u32;
                left = left.saturating_sub(1);
                left > 0
            },
            |number, output: &[u32]| {
                assert_eq!(output[0], churned(number as u32, rounds), "frame {number}");
            },
        )
    };
    run(8)?;
    let start = Instant::now();
    let frames = run(plan.frames)?;
    Ok(start.elapsed().as_secs_f64() * 1e3 / frames as f64)
}

fn churned(word: u32, rounds: u32) -> u32 {
    (0..rounds).fold(word, |word, _| word.wrapping_mul(1_664_525).wrapping_add(1_013_904_223))
}

fn pageable(plan: Plan, gpu: &Gpu, rounds: u32) -> GpuResult<f64> {
    let (mut host, mut out) = (vec![0u32; plan.len], vec![0u32; plan.len]);
    let mut words = DeviceBuffer::<u32>::zeroed(gpu, plan.len)?;
    let frames = plan.frames.min(60);
    let start = Instant::now();
    for number in 0..frames {
        host[0] = number as u32;
        words.copy_from_host(&host)?;
        churn(gpu, &mut words.as_mut_slice(), rounds)?;
        words.copy_to_host(&mut out)?;
    }
    Ok(start.elapsed().as_secs_f64() * 1e3 / frames as f64)
}

/// Milliseconds of a pinned copy of one frame, in and out: a pipeline of one frame without a kernel is
/// both, and the host's turn.
fn copies(plan: Plan, gpu: &Gpu) -> GpuResult<f64> {
    let shape = FrameShape { input_len: plan.len, output_len: plan.len };
    let mut pipeline = Pipeline::new(gpu, shape, Buffering::Single, |_| Ok(()))?;
    let mut times = Vec::new();
    for _ in 0..20 {
        let start = Instant::now();
        pipeline.push(|_: &mut [u32]| ())?;
        pipeline.pop(|_: &[u32]| ())?;
        times.push(start.elapsed().as_secs_f64() * 1e3);
    }
    Ok(median(times))
}

/// As many rounds as last about `target` milliseconds.
fn balanced(plan: Plan, gpu: &Gpu, target: f64) -> GpuResult<u32> {
    let mut words = DeviceBuffer::<u32>::zeroed(gpu, plan.len)?;
    let mut rounds = 1;
    loop {
        let ms = timed(gpu, || churn(gpu, &mut words.as_mut_slice(), rounds))?;
        if ms >= target || rounds > 1 << 24 {
            return Ok((f64::from(rounds) * target / ms).max(1.0) as u32);
        }
        rounds *= 2;
    }
}

fn run() -> GpuResult<()> {
    let gpu = Gpu::with_images(IMAGES)?;
    let plan = Plan::suited_to(gpu.backend());
    let both = copies(plan, &gpu)?;
    let rounds = balanced(plan, &gpu, both / 2.0)?;
    println!(
        "{}: frames of {} KiB, copies {:.3} ms in and out, {rounds} rounds; medians of {} sittings",
        gpu.name(),
        plan.len * 4 / 1024,
        both,
        plan.sittings
    );
    let ways = [
        ("single", Buffering::Single),
        ("double", Buffering::Double),
        ("triple", Buffering::Triple),
    ];
    let mut times = vec![Vec::new(); ways.len() + 1];
    for _ in 0..plan.sittings {
        times[0].push(pageable(plan, &gpu, rounds)?);
        for (way, (_, buffering)) in ways.iter().enumerate() {
            times[way + 1].push(per_frame(plan, *buffering, &gpu, rounds)?);
        }
    }
    let times: Vec<f64> = times.into_iter().map(median).collect();
    println!("{:<10} {:>12} {:>10} {:>12}", "frames", "ms a frame", "a second", "to single");
    let names = ["pageable", ways[0].0, ways[1].0, ways[2].0];
    for (name, ms) in names.into_iter().zip(&times) {
        println!("{name:<10} {ms:>12.4} {:>10.0} {:>12.2}", 1e3 / ms, times[1] / ms);
    }
    Ok(())
}

fn main() {
    if let Err(error) = run() {
        eprintln!("pipeline: {error}");
        std::process::exit(1);
    }
}
