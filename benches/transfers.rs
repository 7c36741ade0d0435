//! The bandwidth between host and device: page-locked memory, the driver's copy of pageable memory, and
//! ours through the ring, in one run.
//!
//! The ways take turns within each round, so that a drift of the clocks touches all; medians are
//! compared. `transfers [MOST_MIB [ROUNDS]]`.

use cuda_driver::Backend;
use ferrowarp::{DeviceBuffer, Gpu, GpuResult, PinnedBuffer, Transfer};

const USAGE: &str = "usage: transfers [MOST_MIB [ROUNDS]]";

/// One column: which way, and whether the host's memory is page-locked.
struct Column {
    name: &'static str,
    way: Transfer,
    pinned: bool,
    up: bool,
}

const COLUMNS: [Column; 6] = [
    column("pinned up", Transfer::Asynchronous, true, true),
    column("driver up", Transfer::Synchronous, false, true),
    column("staged up", Transfer::Staged, false, true),
    column("pinned down", Transfer::Asynchronous, true, false),
    column("driver down", Transfer::Synchronous, false, false),
    column("staged down", Transfer::Staged, false, false),
];

const fn column(name: &'static str, way: Transfer, pinned: bool, up: bool) -> Column {
    Column { name, way, pinned, up }
}

/// Memory of the largest size, touched once, so that no page is new when time is taken.
struct Memory {
    pageable: Vec<u64>,
    pinned: PinnedBuffer<u64>,
    device: DeviceBuffer<u64>,
}

impl Memory {
    fn new(gpu: &Gpu, words: usize) -> GpuResult<Self> {
        let pageable: Vec<u64> =
            (0..words as u64).map(|i| i.wrapping_mul(0x9e37_79b9_7f4a_7c15)).collect();
        let pinned = PinnedBuffer::from_slice(gpu, &pageable)?;
        let device = DeviceBuffer::from_slice(gpu, &pageable)?;
        Ok(Self { pageable, pinned, device })
    }

    /// Gigabytes a second of one copy of the first `words` words.
    fn measure(&mut self, gpu: &Gpu, column: &Column, words: usize) -> GpuResult<f64> {
        let Self { pageable, pinned, device } = self;
        let host: &mut [u64] = if column.pinned { pinned } else { pageable };
        let host = &mut host[..words];
        let report = match column.up {
            true => column.way.upload(gpu, host, &mut device.slice_mut(..words))?,
            false => column.way.download(gpu, &device.slice(..words), host)?,
        };
        Ok(report.gigabytes_per_second())
    }

    /// Whether the host's memory still holds what it held, after all went to the device and back.
    fn is_whole(&self) -> bool {
        let word = |i: usize| (i as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let whole = |words: &[u64]| words.iter().enumerate().all(|(i, &found)| found == word(i));
        whole(&self.pageable) && whole(&self.pinned)
    }
}

fn median(mut rates: Vec<f64>) -> f64 {
    rates.sort_by(f64::total_cmp);
    rates[rates.len() / 2]
}

/// Each column's median for a size.
fn row(gpu: &Gpu, memory: &mut Memory, words: usize, rounds: usize) -> GpuResult<Vec<f64>> {
    let mut rates = vec![Vec::new(); COLUMNS.len()];
    // The first round warms up.
    for round in 0..=rounds {
        for (column, rates) in COLUMNS.iter().zip(&mut rates) {
            let rate = memory.measure(gpu, column, words)?;
            rates.extend((round > 0).then_some(rate));
        }
    }
    Ok(rates.into_iter().map(median).collect())
}

fn run() -> Result<(), Box<dyn std::error::Error>> {
    let gpu = Gpu::new()?;
    let defaults = if gpu.backend() == Backend::Cuda { [1024, 15] } else { [16, 3] };
    let mut args = std::env::args().skip(1).filter(|arg| !arg.starts_with("--"));
    let mut next = |default: usize| match args.next() {
        Some(text) => text.parse().map_err(|_| format!("`{text}` is not a number; {USAGE}")),
        None => Ok(default),
    };
    let (most_mib, rounds) = (next(defaults[0])?.max(1), next(defaults[1])?.max(1));
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    println!("{} ({cores} cores; GB/s, medians of {rounds} rounds, all in turn)", gpu.name());
    print!("{:>6}", "MiB");
    COLUMNS.iter().for_each(|column| print!(" {:>12}", column.name));
    println!(" {:>8} {:>8}", "up ×", "down ×");
    let mut memory = Memory::new(&gpu, most_mib << 17)?;
    for mib in (0..).map(|power| 1usize << power).take_while(|&mib| mib <= most_mib) {
        let rates = row(&gpu, &mut memory, mib << 17, rounds)?;
        print!("{mib:>6}");
        rates.iter().for_each(|rate| print!(" {rate:>12.1}"));
        println!(" {:>8.2} {:>8.2}", rates[2] / rates[1], rates[5] / rates[4]);
    }
    if !memory.is_whole() {
        return Err("a copy changed the data".into());
    }
    println!("all data came back as it went");
    Ok(())
}

fn main() {
    if let Err(error) = run() {
        eprintln!("transfers: {error}");
        std::process::exit(1);
    }
}
