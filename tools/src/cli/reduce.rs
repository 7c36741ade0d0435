//! `ferrowarp reduce`: the sum of a file's numbers.

use std::io::Write;
use std::path::{Path, PathBuf};

use super::error::CliError;
use super::memory;
use super::numbers::{each_float, each_in_column};
use ferrowarp::error::{GpuContext, GpuResult};
use ferrowarp::graph::GraphBuilder;
use ferrowarp::ops::{Scratch, reduce};
use ferrowarp::{DeviceBuffer, Gpu};

/// What the f32 sum may be off, in parts of the sum of magnitudes: each of a thread's additions
/// rounds by at most 2^-24, and a thread has at most some thousand of them.
const TOLERANCE: f64 = 1e-4;

/// Options of `ferrowarp reduce`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  ferrowarp reduce prices.csv --column price
  ferrowarp reduce prices.csv --column 3
  ferrowarp reduce samples.f32

A column's number counts from 1. The first row is a header if its field is a word. Numbers are
added as 32-bit floats on the device, 4 Mi of them at a time; the CPU adds them again in 64 bits, as a
check. The file is never held in memory as a whole, so it may be of any size.")]
pub(super) struct Args {
    /// A table with commas (.tsv: tabs) between fields, or little-endian 32-bit floats
    /// (.f32, .bin, or any file with --raw); - is standard input
    file: PathBuf,
    /// The column to add, by name or by number from 1
    #[arg(short, long, value_name = "NAME|NUMBER")]
    column: Option<String>,
    /// Read the file as raw 32-bit floats, whatever its name
    #[arg(long, conflicts_with = "column")]
    raw: bool,
}

impl Args {
    fn is_raw(&self) -> bool {
        let end = self.file.extension().and_then(|end| end.to_str()).unwrap_or_default();
        self.raw || ["f32", "bin"].iter().any(|raw| end.eq_ignore_ascii_case(raw))
    }

    /// Calls `each` with every number; gives the column's name.
    fn read(&self, each: impl FnMut(f32) -> Result<(), CliError>) -> Result<String, CliError> {
        if !self.is_raw() {
            return each_in_column(&self.file, self.column.as_deref(), each);
        }
        if let Some(column) = &self.column {
            let (path, column) = (self.file.clone(), column.clone());
            return Err(CliError::RawColumn { path, column });
        }
        each_float(&self.file, each)?;
        Ok("raw floats".to_owned())
    }
}

pub(super) fn run(args: &Args, out: &mut impl Write) -> Result<(), CliError> {
    let mut sums = Sums::new(&args.file, CHUNK);
    let name = args.read(|value| sums.push(value))?;
    let total = sums.finish()?;
    let check = Check::of(&total);
    check.verdict(&total.device)?;
    writeln!(out, "column  {name}")?;
    writeln!(out, "count   {}", total.count)?;
    writeln!(out, "sum     {}", total.found)?;
    writeln!(out, "check   {} in 64 bits on the CPU; difference {:.1e}", check.sum, check.error)?;
    writeln!(out, "device  {} ({:.3} ms)", total.device, total.milliseconds)?;
    Ok(())
}

/// The numbers that are on the device at a time, 16 MiB of them: a file of any size is added.
const CHUNK: usize = 1 << 22;

/// A sum that grows by a chunk of numbers at a time.
struct Sums<'a> {
    path: &'a Path,
    chunk: Vec<f32>,
    chunk_len: usize,
    /// What is on the device, from the first chunk on: numbers that are refused need none.
    on: Option<OnDevice>,
    count: usize,
    /// The device's sums of the chunks, added up.
    found: f64,
    /// The CPU's sums of the numbers and of their magnitudes.
    sum: f64,
    magnitude: f64,
    milliseconds: f64,
}

struct OnDevice {
    gpu: Gpu,
    numbers: DeviceBuffer<f32>,
    total: DeviceBuffer<f32>,
    scratch: Scratch,
}

/// All numbers, added up.
struct Total {
    device: String,
    count: usize,
    found: f32,
    sum: f64,
    magnitude: f64,
    milliseconds: f64,
}

impl<'a> Sums<'a> {
    fn new(path: &'a Path, chunk_len: usize) -> Self {
        let [found, sum, magnitude, milliseconds] = [0.0; 4];
        let (chunk, on, count) = (Vec::new(), None, 0);
        Self { path, chunk, chunk_len, on, count, found, sum, magnitude, milliseconds }
    }

    fn push(&mut self, value: f32) -> Result<(), CliError> {
        if self.chunk.len() == self.chunk.capacity() {
            let more = self.chunk.len().max(1024).min(self.chunk_len);
            memory::reserve(&mut self.chunk, self.path, more)?;
        }
        self.chunk.push(value);
        if self.chunk.len() < self.chunk_len { Ok(()) } else { Ok(self.add()?) }
    }

    /// Adds the chunk on the device and on the CPU, and empties it.
    fn add(&mut self) -> GpuResult<()> {
        let on = match &mut self.on {
            Some(on) => on,
            on => on.insert(OnDevice::new(self.chunk.len())?),
        };
        let (found, milliseconds) = on.sum(&self.chunk)?;
        self.found += f64::from(found);
        self.milliseconds += milliseconds;
        self.count += self.chunk.len();
        let wide = || self.chunk.iter().copied().map(f64::from);
        self.sum += wide().sum::<f64>();
        self.magnitude += wide().map(f64::abs).sum::<f64>();
        self.chunk.clear();
        Ok(())
    }

    fn finish(mut self) -> Result<Total, CliError> {
        if !self.chunk.is_empty() {
            self.add()?;
        }
        let Self { on, count, found, sum, magnitude, milliseconds, .. } = self;
        let device = on.map(|on| on.gpu.name().to_owned()).unwrap_or_default();
        Ok(Total { device, count, found: found as f32, sum, magnitude, milliseconds })
    }
}

impl OnDevice {
    /// Room for so many numbers, and the kernel that adds them.
    fn new(len: usize) -> GpuResult<Self> {
        let gpu = Gpu::new()?;
        let numbers = DeviceBuffer::zeroed(&gpu, len).gpu_context("allocating the numbers")?;
        let (total, scratch) = (DeviceBuffer::zeroed(&gpu, 1)?, Scratch::new(&gpu)?);
        let mut on = Self { gpu, numbers, total, scratch };
        on.scratch.reserve(&on.gpu, reduce::scratch_bytes())?;
        // The kernel is loaded here, not while the sum is timed.
        GraphBuilder::new(&on.gpu)
            .capture(|| reduce::sum_into(&on.gpu, &on.numbers, &mut on.total, &mut on.scratch))?;
        Ok(on)
    }

    /// The sum of numbers, and the milliseconds that it took.
    fn sum(&mut self, numbers: &[f32]) -> GpuResult<(f32, f64)> {
        let Self { gpu, numbers: all, total, scratch } = self;
        let mut own = all.slice_mut(..numbers.len());
        own.copy_from_host(numbers).gpu_context("copying the numbers")?;
        let ((), milliseconds) = gpu.time(|| reduce::sum_into(gpu, &own, total, scratch))?;
        let mut found = [0.0];
        total.copy_to_host(&mut found).gpu_context("reading the result")?;
        Ok((found[0], milliseconds))
    }
}

/// The CPU's sum and how far the device's is from it.
struct Check {
    found: f32,
    sum: f64,
    magnitude: f64,
    error: f64,
}

impl Check {
    fn of(&Total { found, sum, magnitude, .. }: &Total) -> Self {
        let same = f64::from(found) == sum || (found.is_nan() && sum.is_nan());
        let error = if same { 0.0 } else { (f64::from(found) - sum).abs() };
        Self { found, sum, magnitude, error }
    }

    fn verdict(&self, device: &str) -> Result<(), CliError> {
        let &Self { found, sum, magnitude, error } = self;
        if sum.is_finite() && magnitude > f64::from(f32::MAX) && !found.is_finite() {
            return Err(CliError::SumTooLarge { sum });
        }
        let small = error.is_finite() && error <= TOLERANCE * magnitude;
        if small || error == 0.0 {
            return Ok(());
        }
        Err(CliError::WrongSum { device: device.to_owned(), found, expected: sum })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(values: &[f32], found: f32) -> Result<(), CliError> {
        let wide = || values.iter().copied().map(f64::from);
        let (sum, magnitude) = (wide().sum(), wide().map(f64::abs).sum());
        let (device, count, milliseconds) = ("a device".to_owned(), values.len(), 0.0);
        let total = Total { device, count, found, sum, magnitude, milliseconds };
        Check::of(&total).verdict("a device")
    }

    #[test]
    fn chunks_add_up() {
        let mut sums = Sums::new(Path::new("n.csv"), 1000);
        (0..2500).for_each(|i| sums.push(i as f32).unwrap());
        let total = sums.finish().unwrap();
        assert_eq!((total.count, total.found, total.sum), (2500, 3_123_750.0, 3_123_750.0));
        assert_eq!(total.magnitude, 3_123_750.0);
    }

    #[test]
    fn rounding_passes_and_a_wrong_sum_does_not() {
        verdict(&[1.0, 2.0], 3.0).unwrap();
        verdict(&[1e8, 1.0, -1e8], 0.0).unwrap();
        assert!(matches!(verdict(&[1.0, 2.0], 3.1), Err(CliError::WrongSum { .. })));
        assert!(matches!(verdict(&[1.0], f32::NAN), Err(CliError::WrongSum { .. })));
    }

    #[test]
    fn values_without_a_finite_sum() {
        verdict(&[f32::NAN, 1.0], f32::NAN).unwrap();
        verdict(&[f32::INFINITY, 1.0], f32::INFINITY).unwrap();
        assert!(matches!(verdict(&[f32::INFINITY], 1.0), Err(CliError::WrongSum { .. })));
        let huge = verdict(&[f32::MAX, f32::MAX], f32::INFINITY);
        assert!(matches!(huge, Err(CliError::SumTooLarge { .. })));
    }
}
