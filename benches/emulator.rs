//! How fast the emulator executes, and what each check and the counters cost: `cargo bench --bench emulator`.
//!
//! Elements are lane-instructions: instructions times the lanes that took part. One CPU thread, but for the
//! last group, which has two.

use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_main};
use emulator::exec::watch::Checks;
use emulator::{Device, Function, Launch, Profile, Stats};

/// Elements of the arrays; the side of the matrix that is transposed, squared.
const N: u64 = 1 << 20;
const SIDE: u64 = 1 << 10;
/// The side of the matrices that are multiplied.
const PRODUCT_SIDE: u64 = 256;
const BLOCK: u32 = 256;

/// A kernel on a device, and how to launch it.
struct Subject {
    device: Arc<Device>,
    function: Arc<Function>,
    grid: [u32; 3],
    block: [u32; 3],
    params: Vec<u8>,
}

const KERNELS: [&str; 5] = ["alu", "sum", "tree", "transpose", "product"];

impl Subject {
    fn new(kernel: &str, profile: &Profile) -> Self {
        let device = Device::new(profile.clone());
        let text = match kernel {
            "alu" => include_str!("emulator/alu.ptx"),
            "sum" => include_str!("emulator/sum.ptx"),
            "tree" => include_str!("emulator/tree.ptx"),
            "transpose" => include_str!("emulator/transpose.ptx"),
            _ => include_str!("emulator/product.ptx"),
        };
        let module = device.load(text).expect("the text is right");
        let function = module.function(kernel).expect("the kernel is there");
        let [input, other, output] = [0; 3].map(|_| device.memory().alloc(4 * N).expect("4 MiB"));
        for written in [input, other] {
            device.memory().fill32(written, 1f32.to_bits(), N).expect("a live buffer");
        }
        let line = [BLOCK, 1, 1];
        let (grid, block, params) = match kernel {
            "alu" => ([32, 1, 1], line, vec![output, 500]),
            "sum" => ([64, 1, 1], line, vec![input, N, output]),
            "tree" => ([N as u32 / BLOCK, 1, 1], line, vec![input, output]),
            "transpose" => {
                let tiles = (SIDE / 32) as u32;
                ([tiles, tiles, 1], [32, 8, 1], vec![input, output, SIDE])
            }
            _ => {
                let side = PRODUCT_SIDE as u32;
                ([side / 32, side / 8, 1], [32, 8, 1], vec![input, other, output, PRODUCT_SIDE])
            }
        };
        let params = params.iter().flat_map(|param| param.to_le_bytes()).collect();
        Self { device, function, grid, block, params }
    }

    fn run(&self) -> Stats {
        let (grid, block, params) = (self.grid, self.block, self.params.as_slice());
        let launch = Launch { grid, block, params, ..Launch::new(&self.function) };
        self.device.launch(&launch).expect("the kernel is right")
    }
}

fn profile(checks: Checks, worker_threads: usize) -> Profile {
    Profile { checks, worker_threads, ..Profile::hopper() }
}

/// All kernels, as one group of the report.
fn measure(criterion: &mut Criterion, name: &str, profile: &Profile) {
    let mut group = criterion.benchmark_group(name);
    group.sample_size(10).warm_up_time(Duration::from_millis(300));
    group.measurement_time(Duration::from_secs(1));
    for kernel in KERNELS {
        let subject = Subject::new(kernel, profile);
        group.throughput(Throughput::Elements(subject.run().lane_instructions));
        group.bench_function(BenchmarkId::from_parameter(kernel), |bencher| {
            bencher.iter(|| black_box(subject.run()));
        });
    }
    group.finish();
}

/// Threads a second of the reduction with a barrier a step.
fn threads(criterion: &mut Criterion) {
    let subject = Subject::new("tree", &profile(Checks::NONE, 1));
    let mut group = criterion.benchmark_group("threads");
    group.sample_size(10).throughput(Throughput::Elements(N));
    group.bench_function("tree", |bencher| bencher.iter(|| black_box(subject.run())));
    group.finish();
}

fn checks(criterion: &mut Criterion) {
    for text in ["none", "memory", "init", "race", "sync", "all"] {
        let checks = text.parse().expect("the name of a check");
        measure(criterion, &format!("checks {text}"), &profile(checks, 1));
    }
    measure(criterion, "two threads", &profile(Checks::NONE, 2));
}

fn counters(criterion: &mut Criterion) {
    let subject = Subject::new("transpose", &profile(Checks::NONE, 1));
    let mut group = criterion.benchmark_group("counters");
    group.sample_size(10).throughput(Throughput::Elements(subject.run().lane_instructions));
    subject.device.count(true);
    group.bench_function("transpose", |bencher| bencher.iter(|| black_box(subject.run())));
    group.finish();
}

#[allow(missing_docs)]
mod groups {
    use super::{checks, counters, threads};
    criterion::criterion_group!(benches, threads, checks, counters);
}

criterion_main!(groups::benches);
