//! `ferrowarp sort`: the rows of a table by a column of numbers, or a file of raw numbers.

use std::cmp::Ordering;
use std::io::{self, Write};
use std::ops::Range;
use std::path::PathBuf;

use bytemuck::Pod;

use super::error::CliError;
use super::memory;
use super::numbers::{Parsed, Table, read_numbers, read_table};
use super::output::Output;
use super::progress::Progress;
use super::rows::BYTE_ORDER_MARK;
use ferrowarp::error::{GpuContext, GpuResult};
use ferrowarp::graph::GraphBuilder;
use ferrowarp::ops::Scratch;
use ferrowarp::ops::sort::{SortKey, SortOptions, argsort_into, sort_into};
use ferrowarp::{DeviceBuffer, Gpu};

/// Options of `ferrowarp sort`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  ferrowarp sort prices.csv --column price -o sorted.csv
  ferrowarp sort numbers.txt --type i64 --descending
  ferrowarp sort samples.u32 -o sorted.u32
  ferrowarp sort dump.bin --type f64 -o sorted.bin

Rows stay as they are, with the ends of their lines, a header stays in front, and rows with equal numbers
keep their order. Floats are in total order: -NaN, -inf, ..., -0.0, 0.0, ..., inf, NaN. A column's number
counts from 1. The order of the result is checked on the CPU; how long the device took stands on
standard error.

All of the file is held in memory, and 20 to 28 bytes more for each row of a table; where there is too
little memory, nothing is written.")]
pub(super) struct Args {
    /// A text with a number in each line, a table with commas (.tsv: tabs) between fields, or
    /// little-endian raw numbers (.u8 to .u64, .i8 to .i64, .f32, .f64, .bin, or any file with --raw);
    /// - is standard input
    file: PathBuf,
    /// Where the result goes; a table goes to standard output without it
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// The column to sort by, by name or by number from 1
    #[arg(short, long, value_name = "NAME|NUMBER")]
    column: Option<String>,
    /// The type of the numbers; f64 in a table, and what the name says for raw numbers
    #[arg(short = 't', long = "type", value_name = "TYPE")]
    element: Option<Element>,
    /// The largest first
    #[arg(short, long)]
    descending: bool,
    /// Read the file as raw numbers, whatever its name
    #[arg(long, conflicts_with = "column")]
    raw: bool,
}

/// A type of numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Element {
    U8,
    U16,
    U32,
    U64,
    I8,
    I16,
    I32,
    I64,
    F32,
    F64,
}

impl Args {
    /// The end of the file's name.
    fn extension(&self) -> &str {
        self.file.extension().and_then(|end| end.to_str()).unwrap_or_default()
    }

    /// The type that the file's name says.
    fn named(&self) -> Option<Element> {
        clap::ValueEnum::from_str(self.extension(), true).ok()
    }

    fn is_raw(&self) -> bool {
        self.raw || self.named().is_some() || self.extension().eq_ignore_ascii_case("bin")
    }

    fn element(&self) -> Result<Element, CliError> {
        if !self.is_raw() {
            return Ok(self.element.unwrap_or(Element::F64));
        }
        let unknown = || CliError::UnknownElement { path: self.file.clone() };
        self.element.or(self.named()).ok_or_else(unknown)
    }

    fn options(&self) -> SortOptions {
        if self.descending { SortOptions::DESCENDING } else { SortOptions::ASCENDING }
    }

    /// How two numbers stand to one another in the result.
    fn order<T: Number>(&self, a: T, b: T) -> Ordering {
        if self.descending { b.total_order(a) } else { a.total_order(b) }
    }
}

pub(super) fn run(args: &Args, out: &mut impl Write) -> Result<(), CliError> {
    let sort = match args.element()? {
        Element::U8 => sort_file::<u8, _>,
        Element::U16 => sort_file::<u16, _>,
        Element::U32 => sort_file::<u32, _>,
        Element::U64 => sort_file::<u64, _>,
        Element::I8 => sort_file::<i8, _>,
        Element::I16 => sort_file::<i16, _>,
        Element::I32 => sort_file::<i32, _>,
        Element::I64 => sort_file::<i64, _>,
        Element::F32 => sort_file::<f32, _>,
        Element::F64 => sort_file::<f64, _>,
    };
    sort(args, out)
}

/// A number that is sorted, and checked by the CPU.
trait Number: SortKey + Parsed {
    /// The type's name.
    const NAME: &'static str;

    fn total_order(self, other: Self) -> Ordering;
}

macro_rules! numbers {
    ($($ty:ident: $order:ident;)*) => {$(
        impl Number for $ty {
            const NAME: &'static str = stringify!($ty);

            fn total_order(self, other: Self) -> Ordering {
                self.$order(&other)
            }
        }
    )*};
}

numbers! {
    u8: cmp;
    u16: cmp;
    u32: cmp;
    u64: cmp;
    i8: cmp;
    i16: cmp;
    i32: cmp;
    i64: cmp;
    f32: total_cmp;
    f64: total_cmp;
}

fn sort_file<T: Number, W: Write>(args: &Args, out: &mut W) -> Result<(), CliError> {
    if args.is_raw() { sort_raw::<T>(args) } else { sort_table::<T>(args, out) }
}

/// Sorts raw numbers.
fn sort_raw<T: Number>(args: &Args) -> Result<(), CliError> {
    if let Some(column) = &args.column {
        let (path, column) = (args.file.clone(), column.clone());
        return Err(CliError::RawColumn { path, column });
    }
    let output = Output::create(args.output.as_deref().ok_or(CliError::NoOutput)?)?;
    let numbers = read_numbers::<T>(&args.file, T::NAME)?;
    let gpu = Gpu::new()?;
    let sorted: Vec<T> = timed(&gpu, numbers.len(), || {
        let x = DeviceBuffer::from_slice(&gpu, &numbers).gpu_context("copying the numbers")?;
        let (mut sorted, mut scratch) = (DeviceBuffer::zeroed(&gpu, x.len())?, Scratch::new(&gpu)?);
        scratch.reserve(&gpu, ferrowarp::ops::sort::scratch_bytes::<T>(x.len()))?;
        let milliseconds =
            time(&gpu, || sort_into(&gpu, &x, &mut sorted, args.options(), &mut scratch))?;
        let mut host = memory::collect(&args.file, numbers.len(), numbers.iter().copied())?;
        sorted.copy_to_host(&mut host)?;
        Ok((host, milliseconds))
    })?;
    let in_order = sorted.is_sorted_by(|a, b| args.order(*a, *b).is_le());
    let complete = print_of(&numbers) == print_of(&sorted);
    verdict(&gpu, sorted.len(), in_order, complete)?;
    output.finish(|file| Ok(file.write_all(bytemuck::cast_slice(&sorted))?))
}

/// Sorts the rows of a table.
fn sort_table<T: Number>(args: &Args, out: &mut impl Write) -> Result<(), CliError> {
    let output = args.output.as_deref().map(Output::create).transpose()?;
    let table = read_table::<T>(&args.file, args.column.as_deref())?;
    let gpu = Gpu::new()?;
    let places: Vec<u32> = timed(&gpu, table.values.len(), || {
        let x = DeviceBuffer::from_slice(&gpu, &table.values).gpu_context("copying the numbers")?;
        let (mut places, mut scratch) = (DeviceBuffer::zeroed(&gpu, x.len())?, Scratch::new(&gpu)?);
        scratch.reserve(&gpu, ferrowarp::ops::sort::argsort_scratch_bytes::<T>(x.len()))?;
        let milliseconds =
            time(&gpu, || argsort_into(&gpu, &x, &mut places, args.options(), &mut scratch))?;
        let mut host = memory::collect(&args.file, x.len(), std::iter::repeat_n(0, x.len()))?;
        places.copy_to_host(&mut host)?;
        Ok((host, milliseconds))
    })?;
    let seen = memory::collect(&args.file, places.len(), std::iter::repeat_n(false, places.len()))?;
    let complete = is_permutation(&places, seen);
    let ordered = |a: &u32, b: &u32| {
        let numbers = [a, b].map(|place| table.values[*place as usize]);
        args.order(numbers[0], numbers[1]).then(a.cmp(b)).is_lt()
    };
    verdict(&gpu, places.len(), complete && places.is_sorted_by(ordered), complete)?;
    match output {
        Some(output) => output.finish(|file| Ok(write_rows(file, &table, &places)?)),
        None => Ok(write_rows(out, &table, &places)?),
    }
}

fn write_rows<T>(
    out: &mut (impl Write + ?Sized),
    table: &Table<T>,
    places: &[u32],
) -> io::Result<()> {
    let bytes = &table.bytes;
    if bytes.starts_with(BYTE_ORDER_MARK) {
        out.write_all(BYTE_ORDER_MARK)?;
    }
    // The last row of the file may have no end of its line, and another row is the last one now.
    let first = table.header.as_ref().or(table.rows.first());
    let usual = first.and_then(|row| end_of_line(bytes, row)).unwrap_or(b"\n");
    let mut line = |row: &Range<usize>| {
        out.write_all(&bytes[row.clone()])?;
        out.write_all(end_of_line(bytes, row).unwrap_or(usual))
    };
    table.header.iter().try_for_each(&mut line)?;
    places.iter().try_for_each(|&place| line(&table.rows[place as usize]))
}

/// What ends the line of a row; nothing at the end of the file.
fn end_of_line(bytes: &[u8], row: &Range<usize>) -> Option<&'static [u8]> {
    match bytes[row.end..] {
        [] => None,
        [b'\r', b'\n', ..] => Some(b"\r\n"),
        [b'\r', ..] => Some(b"\r"),
        _ => Some(b"\n"),
    }
}

/// Runs `work`, which gives a result and the milliseconds that the device took, and tells of them.
fn timed<R>(
    gpu: &Gpu,
    n: usize,
    work: impl FnOnce() -> Result<(R, f64), CliError>,
) -> Result<R, CliError> {
    let progress = Progress::unknown(format!("sorting {n} numbers"));
    let (result, milliseconds) = work()?;
    drop(progress);
    let rate = n as f64 / milliseconds.max(1e-6) / 1e6;
    let line =
        format!("sorted {n} numbers in {milliseconds:.3} ms, {rate:.3} G/s, on {}", gpu.name());
    // Nothing is left to do if standard error is closed.
    let _ = writeln!(io::stderr(), "{line}");
    Ok(result)
}

/// The milliseconds that a sort takes on the device. It is recorded first, which loads its kernels and runs none.
fn time(gpu: &Gpu, mut sort: impl FnMut() -> GpuResult<()>) -> GpuResult<f64> {
    GraphBuilder::new(gpu).capture(&mut sort)?;
    let ((), milliseconds) = gpu.time(sort)?;
    Ok(milliseconds)
}

fn verdict(gpu: &Gpu, n: usize, in_order: bool, complete: bool) -> Result<(), CliError> {
    let what = match (complete, in_order) {
        (true, true) => return Ok(()),
        (false, _) => "came back as other numbers",
        (true, false) => "came back out of order",
    };
    Err(CliError::WrongSort { device: gpu.name().to_owned(), n, what })
}

/// Whether each place is there once; `seen` has `false` for each.
fn is_permutation(places: &[u32], mut seen: Vec<bool>) -> bool {
    places.iter().all(|&place| {
        seen.get_mut(place as usize).is_some_and(|seen| !std::mem::replace(seen, true))
    })
}

/// A sum over the numbers that does not depend on their order, and changes with any one of them.
fn print_of<T: Pod>(numbers: &[T]) -> u64 {
    let mixed = |number: &T| {
        let mut bytes = [0; 8];
        bytes[..size_of::<T>()].copy_from_slice(bytemuck::bytes_of(number));
        // The finaliser of SplitMix64 (Steele, Lea and Flood, 2014).
        let x = u64::from_le_bytes(bytes).wrapping_add(0x9e37_79b9_7f4a_7c15);
        let x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ x >> 31
    };
    numbers.iter().map(mixed).fold(0, u64::wrapping_add)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lost_and_doubled_places_are_seen() {
        let is_whole = |places: &[u32]| is_permutation(places, vec![false; places.len()]);
        assert!(is_whole(&[]) && is_whole(&[2, 0, 1]));
        assert!(!is_whole(&[2, 2, 1]) && !is_whole(&[0, 3, 1]));
    }

    #[test]
    fn another_number_changes_the_print_and_another_order_does_not() {
        let print = print_of(&[1.5f32, -0.0, f32::NAN]);
        assert_eq!(print, print_of(&[f32::NAN, 1.5, -0.0]));
        assert_ne!(print, print_of(&[1.5f32, 0.0, f32::NAN]));
        assert_ne!(print_of(&[1u8, 1]), print_of(&[1u8, 2]));
        assert_ne!(print_of(&[0u8]), print_of(&[0u8, 0]));
    }
}
