//! `ferrowarp reduce`: the sum of a file's numbers.

use std::io::Write;
use std::path::PathBuf;

use super::error::CliError;
use super::numbers::{Column, read_column, read_raw};
use super::progress::Progress;
use crate::error::GpuContext;
use crate::{DeviceBuffer, Gpu, ops};

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
added as 32-bit floats on the device; the CPU adds them again in 64 bits, as a check.")]
pub(super) struct Args {
    /// A table with commas (.tsv: tabs) between fields, or little-endian 32-bit floats
    /// (.f32, .bin, or any file with --raw)
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

    fn read(&self) -> Result<Column, CliError> {
        if !self.is_raw() {
            return read_column(&self.file, self.column.as_deref());
        }
        if let Some(column) = &self.column {
            let (path, column) = (self.file.clone(), column.clone());
            return Err(CliError::RawColumn { path, column });
        }
        Ok(Column { name: "raw floats".to_owned(), values: read_raw(&self.file)? })
    }
}

pub(super) fn run(args: &Args, out: &mut impl Write) -> Result<(), CliError> {
    let Column { name, values } = args.read()?;
    let gpu = Gpu::new()?;
    let (sum, milliseconds) = {
        let _progress = Progress::unknown(format!("adding {} numbers", values.len()));
        let buffer = DeviceBuffer::from_slice(&gpu, &values).gpu_context("copying the numbers")?;
        gpu.load_kernels()?;
        gpu.time(|| ops::reduce::sum(&gpu, &buffer))?
    };
    let check = Check::of(&values, sum);
    check.verdict(gpu.name())?;
    writeln!(out, "column  {name}")?;
    writeln!(out, "count   {}", values.len())?;
    writeln!(out, "sum     {sum}")?;
    writeln!(out, "check   {} in 64 bits on the CPU; difference {:.1e}", check.sum, check.error)?;
    writeln!(out, "device  {} ({milliseconds:.3} ms)", gpu.name())?;
    Ok(())
}

/// The CPU's sum and how far the device's is from it.
struct Check {
    found: f32,
    sum: f64,
    magnitude: f64,
    error: f64,
}

impl Check {
    fn of(values: &[f32], found: f32) -> Self {
        let wide = || values.iter().copied().map(f64::from);
        let (sum, magnitude): (f64, f64) = (wide().sum(), wide().map(f64::abs).sum());
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
        Check::of(values, found).verdict("a device")
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
