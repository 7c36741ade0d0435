//! What can go wrong on the command line, each in one clear line.

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::process::ExitStatus;

use cuda_driver::counters::NotCounted;
use thiserror::Error;

use super::names::ends;
use crate::bench::BenchError;
use crate::demo::Lack;
use crate::soak::SoakError;
use ferrowarp::error::GpuError;
use ferrowarp_dist::DistError;

/// Why a command failed.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum CliError {
    /// The device or its driver.
    #[error(transparent)]
    Gpu(#[from] GpuError),

    /// A file could not be read.
    #[error("cannot read {}: {}", path.display(), why(source))]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },

    /// A file could not be written.
    #[error("cannot write {}: {}", path.display(), why(source))]
    Write {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },

    /// A file holds nothing.
    #[error("{} is empty", path.display())]
    Empty {
        /// The file.
        path: PathBuf,
    },

    /// A text is shorter than what a model looks back on.
    #[error("the text is too short to learn from: it needs {needed} characters of ASCII at least")]
    ShortText {
        /// How many it needs.
        needed: usize,
    },

    /// A file is no picture, or none of a kind that is known.
    #[error("{} is not a PNG or JPEG image", path.display())]
    NotAnImage {
        /// The file.
        path: PathBuf,
    },

    /// A file is a damaged picture.
    #[error("{} is not a valid image: {reason}", path.display())]
    BadImage {
        /// The file.
        path: PathBuf,
        /// What the decoder says.
        reason: String,
    },

    /// The output's name does not say which kind of picture to write.
    #[error("cannot tell what to write to {}: end its name in .png, .jpg or .jpeg", path.display())]
    UnknownFormat {
        /// The output.
        path: PathBuf,
    },

    /// The output's name does not say which kind of film to write.
    #[error("cannot tell what to write to {}: end its name in .gif, .png or .apng, or give a directory", path.display())]
    UnknownFilm {
        /// The output.
        path: PathBuf,
    },

    /// A film of something that is no film.
    #[error("only `particles` is a film: ferrowarp demo particles --output FILE")]
    NoFilm,

    /// Particles left the box, or are not there.
    #[error("{lost} of {of} particles are lost")]
    LostParticles {
        /// How many.
        lost: usize,
        /// Of how many.
        of: usize,
    },

    /// Nobody takes the pictures of a film any more.
    #[error("the film was not written to its end")]
    FilmStopped,

    /// The picture could not be encoded.
    #[error("cannot write {} as an image: {reason}", path.display())]
    Encode {
        /// The output.
        path: PathBuf,
        /// What the encoder says.
        reason: String,
    },

    /// Something other than a number stands in a column of numbers.
    #[error("{}, row {row}, column {column}: {found} is not {what}", path.display())]
    NotANumber {
        /// The file.
        path: PathBuf,
        /// The line in the file, from 1.
        row: usize,
        /// The column's name or number.
        column: String,
        /// What stands there.
        found: String,
        /// What should.
        what: &'static str,
    },

    /// A number is too large for its type.
    #[error("{}, row {row}, column {column}: {found} does not fit into {room}", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// The line in the file, from 1.
        row: usize,
        /// The column's name or number.
        column: String,
        /// What stands there.
        found: String,
        /// What it should fit into.
        room: &'static str,
    },

    /// A row ends before the column.
    #[error("{}, row {row}: there is no column {column}; the row has {fields}", path.display())]
    ShortRow {
        /// The file.
        path: PathBuf,
        /// The line in the file, from 1.
        row: usize,
        /// The column's name or number.
        column: String,
        /// How many fields the row has.
        fields: usize,
    },

    /// There are several columns, and none was chosen.
    #[error("{} has {} columns: choose one with --column ({})", path.display(), columns.len(), list(columns))]
    WhichColumn {
        /// The file.
        path: PathBuf,
        /// The names of the columns, or what stands in the first row.
        columns: Vec<String>,
    },

    /// There is no such column.
    #[error("{} has no column {column}; it has {}", path.display(), list(columns))]
    NoColumn {
        /// The file.
        path: PathBuf,
        /// The name or number that was asked for.
        column: String,
        /// The names of the columns, or what stands in the first row.
        columns: Vec<String>,
    },

    /// There is a header and no numbers below it.
    #[error("{} has no numbers below its header", path.display())]
    HeaderOnly {
        /// The file.
        path: PathBuf,
    },

    /// A file is no table.
    #[error("{}, row {row}: {reason}", path.display())]
    BadTable {
        /// The file.
        path: PathBuf,
        /// The line in the file, from 1.
        row: usize,
        /// What the reader says.
        reason: String,
    },

    /// A row has more fields than the first one.
    #[error(
        "{}, row {row} has {}, and the first row has {expected}: a number has a decimal point, and a field \
         that holds what separates fields stands in quotes",
        path.display(), count(*fields, "field")
    )]
    LongRow {
        /// The file.
        path: PathBuf,
        /// The line in the file, from 1.
        row: usize,
        /// How many fields the row has.
        fields: usize,
        /// How many the first row has.
        expected: usize,
    },

    /// A row begins a field with a quote, and the file ends before the next one.
    #[error("{}, row {row}: a quote is opened and never closed", path.display())]
    OpenQuote {
        /// The file.
        path: PathBuf,
        /// The line in the file in which the row begins, from 1.
        row: usize,
    },

    /// Columns share the name that was asked for.
    #[error("{} has several columns {column}: choose one by its number ({})", path.display(), joined(numbers))]
    AmbiguousColumn {
        /// The file.
        path: PathBuf,
        /// The name that was asked for.
        column: String,
        /// The numbers of the columns of that name, from 1.
        numbers: Vec<usize>,
    },

    /// A text has 16 bits or more for each character.
    #[error("{} is not UTF-8: `iconv -f UTF-16 -t UTF-8` makes it so if it is UTF-16", path.display())]
    NotUtf8 {
        /// The file.
        path: PathBuf,
    },

    /// There is less memory than the input takes.
    #[error("too little memory for {}: {}{}", path.display(), size(*bytes as u64), there_are(*available))]
    OutOfMemory {
        /// The file.
        path: PathBuf,
        /// The bytes that were asked for.
        bytes: usize,
        /// The bytes that the machine has left, where it says so.
        available: Option<usize>,
    },

    /// A picture takes more memory than a small file should cause.
    #[error(
        "{}{} more than {} when it is decoded, which is the limit",
        path.display(), takes(*dimensions), size(*limit)
    )]
    ImageTooLarge {
        /// The file.
        path: PathBuf,
        /// Width and height in pixels, if the file says them.
        dimensions: Option<(u32, u32)>,
        /// The most bytes of a decoded picture.
        limit: u64,
    },

    /// A raw file is no whole number of floats.
    #[error("{} has {bytes} bytes, which is not a multiple of 4: it is not a file of 32-bit floats", path.display())]
    PartialFloat {
        /// The file.
        path: PathBuf,
        /// Its size.
        bytes: usize,
    },

    /// A raw file is no whole number of elements.
    #[error(
        "{} has {bytes} bytes, which is not a multiple of {size}: it is not a file of {element}",
        path.display()
    )]
    PartialElement {
        /// The file.
        path: PathBuf,
        /// Its size.
        bytes: usize,
        /// The size of an element.
        size: usize,
        /// The type of an element.
        element: &'static str,
    },

    /// Nobody said what a raw file holds.
    #[error("what does {} hold? Name the type of its elements with --type, as in --type u32", path.display())]
    UnknownElement {
        /// The file.
        path: PathBuf,
    },

    /// Raw numbers are not printed.
    #[error("raw numbers do not go to standard output: name a file with -o")]
    NoOutput,

    /// What came from the device is not in order, or other than what went there.
    #[error("the result is wrong: {n} numbers on {device} {what}")]
    WrongSort {
        /// The device.
        device: String,
        /// How many numbers.
        n: usize,
        /// What is wrong.
        what: &'static str,
    },

    /// A column was chosen of a file that has none.
    #[error("{} holds raw numbers, which have no column {column}", path.display())]
    RawColumn {
        /// The file.
        path: PathBuf,
        /// The name or number that was asked for.
        column: String,
    },

    /// The sum lies outside of what a 32-bit float can hold.
    #[error("the sum is {sum:.3e}, which does not fit into a 32-bit float")]
    SumTooLarge {
        /// The sum as the CPU found it.
        sum: f64,
    },

    /// The GPU's sum is wrong.
    #[error("the sum is wrong: {found} on {device}, {expected} on the CPU")]
    WrongSum {
        /// The device.
        device: String,
        /// What it found.
        found: f32,
        /// What the CPU found.
        expected: f64,
    },

    /// No demo has this name.
    #[error("there is no demo `{name}`{} `ferrowarp demo --list` shows all", ends(meant.as_deref()))]
    NoDemo {
        /// The name that was asked for.
        name: String,
        /// The name that may have been meant.
        meant: Option<&'static str>,
    },

    /// No demo has this name, nor a kernel that one launches.
    #[error(
        "there is no demo `{name}`, and no demo launches a kernel of that name{} `ferrowarp demo --list` \
         shows all demos",
        ends(meant.as_deref())
    )]
    NoDemoOrKernel {
        /// The name that was asked for.
        name: String,
        /// The name of a demo or a kernel that may have been meant.
        meant: Option<String>,
    },

    /// The folder that was named does not hold Ferrowarp's sources.
    #[error("{} does not hold Ferrowarp's sources: its Cargo.toml names no package `ferrowarp`", path.display())]
    NotFerrowarp {
        /// The folder.
        path: PathBuf,
    },

    /// What was to be run once cannot be.
    #[error("the kernels could not be taken, as said above; version {version} stays in use")]
    EditRefused {
        /// The version in use.
        version: u64,
    },

    /// Files of a folder that was to be run once cannot be loaded.
    #[error("{count} of the folder's files cannot be loaded, as said above")]
    FilesNotLoaded {
        /// How many.
        count: usize,
    },

    /// Launches cannot be counted.
    #[error(transparent)]
    NotCounted(#[from] NotCounted),

    /// The machine lacks something that is needed; the report has the fixes.
    #[error("wrong on this machine: {}", lines.join(", "))]
    Unfit {
        /// The names of the lines that are wrong.
        lines: Vec<&'static str>,
    },

    /// Demos computed something else than the CPU.
    #[error("{}", differing(names))]
    WrongDemos {
        /// Their names.
        names: Vec<&'static str>,
    },

    /// Demos ended in errors, which were told, or were left out since a fault had ended the context.
    #[error("{}", failures(failed, wrong, left_out))]
    FailedDemos {
        /// Names of those that ended in errors.
        failed: Vec<&'static str>,
        /// Names of those that computed something else than the CPU.
        wrong: Vec<&'static str>,
        /// Names of those that did not begin.
        left_out: Vec<&'static str>,
    },

    /// A demo that was asked for cannot run here.
    #[error("{name} did not run: {lack}")]
    DemoNotHere {
        /// Its name.
        name: &'static str,
        /// What is missing.
        lack: Lack,
    },

    /// A benchmark could not be run.
    #[error(transparent)]
    Bench(#[from] BenchError),

    /// A file is no report of a benchmark.
    #[error("{} is not what `ferrowarp bench --json` writes: {reason}", path.display())]
    NotAReport {
        /// The file.
        path: PathBuf,
        /// What the reader says.
        reason: String,
    },

    /// The output's name does not say which kind of chart to write.
    #[error("cannot tell what to draw into {}: end its name in .png or .svg", path.display())]
    UnknownChart {
        /// The output.
        path: PathBuf,
    },

    /// A file of measured choices is of another device.
    #[error(
        "{} has choices for {of}, and this is {here}: name another file with --output",
        path.display()
    )]
    TunedElsewhere {
        /// The file.
        path: PathBuf,
        /// The device that they are for.
        of: String,
        /// The device here.
        here: String,
    },

    /// Cases of the benchmark computed something else than the CPU.
    #[error("{} of the benchmark differ from the CPU: {}", count(names.len(), "case"), names.join(", "))]
    WrongCases {
        /// Their names and sizes.
        names: Vec<String>,
    },

    /// A soak, or a child process of one, found what should not be.
    #[error(transparent)]
    Soak(#[from] SoakError),

    /// A soak ended at a miss.
    #[error("the soak failed: {miss}")]
    Soaked {
        /// What it found.
        miss: String,
    },

    /// Ranks could not do something together.
    #[error(transparent)]
    Dist(#[from] DistError),

    /// A rank could not do something with the others.
    #[error("{rank}: {source}")]
    OfRank {
        /// Which, of how many, by which launcher.
        rank: String,
        /// Why.
        source: DistError,
    },

    /// Collectives gave something else than the CPU.
    #[error("{} among ranks differ from the CPU: {}", count(names.len(), "operation"), names.join(", "))]
    WrongCollectives {
        /// Their names.
        names: Vec<&'static str>,
    },

    /// A program could not be started.
    #[error("cannot start {program}: {}", why(source))]
    NotStarted {
        /// The program.
        program: String,
        /// The system's reason.
        source: io::Error,
    },

    /// A process that `launch` has started failed.
    #[error("rank {rank} failed first: {status}")]
    RankFailed {
        /// Which.
        rank: u32,
        /// How.
        status: ExitStatus,
    },

    /// Standard output could not be written.
    #[error("cannot write to standard output: {}", why(.0))]
    Print(#[from] io::Error),
}

impl CliError {
    /// The exit status of the program.
    pub(super) fn exit_status(&self) -> u8 {
        match self {
            Self::RankFailed { status, .. } => exit_status(*status),
            _ => 1,
        }
    }

    pub(super) fn read(path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Read { path: path.to_owned(), source }
    }

    /// The encoder's reason; what the system says of a write is not lost in it, as outputs remember that.
    pub(super) fn encode<E: std::fmt::Display>(path: &Path) -> impl FnOnce(E) -> Self {
        move |reason| Self::Encode { path: path.to_owned(), reason: reason.to_string() }
    }

    pub(super) fn write(path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Write { path: path.to_owned(), source }
    }
}

/// The exit status that a shell gives: of a process that a signal has ended 128 and its number.
fn exit_status(status: ExitStatus) -> u8 {
    #[cfg(unix)]
    if let Some(signal) = std::os::unix::process::ExitStatusExt::signal(&status) {
        return (128 + signal) as u8;
    }
    status.code().and_then(|code| code.try_into().ok()).unwrap_or(1)
}

/// The system's reason in words, without its number where the kind says it all.
fn why(error: &io::Error) -> String {
    match error.kind() {
        ErrorKind::NotFound => "there is no such file or directory".to_owned(),
        ErrorKind::PermissionDenied => "permission denied".to_owned(),
        ErrorKind::IsADirectory => "it is a directory".to_owned(),
        ErrorKind::StorageFull => "the disk is full".to_owned(),
        ErrorKind::AlreadyExists => "it is there already".to_owned(),
        _ => error.to_string(),
    }
}

/// The first of `columns`, for a sentence.
fn list(columns: &[String]) -> String {
    const SHOWN: usize = 8;
    let mut shown = columns.iter().take(SHOWN).map(String::as_str).collect::<Vec<_>>().join(", ");
    if columns.len() > SHOWN {
        shown.push_str(", …");
    }
    shown
}

fn joined(numbers: &[usize]) -> String {
    numbers.iter().map(usize::to_string).collect::<Vec<_>>().join(", ")
}

/// "1.5 GiB"
fn size(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["bytes", "KiB", "MiB", "GiB", "TiB", "PiB"];
    let steps = (0..UNITS.len() - 1).take_while(|step| bytes >> (10 * (step + 1)) > 0).count();
    let whole = bytes as f64 / (1u64 << (10 * steps)) as f64;
    let decimals = usize::from(whole.fract() != 0.0);
    format!("{whole:.decimals$} {}", UNITS[steps])
}

fn there_are(available: Option<usize>) -> String {
    let left = |bytes| format!(" are needed, and {} are left", size(bytes as u64));
    available.map_or_else(|| " are needed".to_owned(), left)
}

fn takes(dimensions: Option<(u32, u32)>) -> String {
    let pixels = |(width, height)| format!(" has {width} × {height} pixels,");
    dimensions.map_or_else(|| " takes".to_owned(), pixels)
}

/// "2 demos failed: pinned, heat; `ferrowarp demo sobel` runs what was left out, in a new process"
fn failures(failed: &[&str], wrong: &[&str], left_out: &[&str]) -> String {
    let names = failed.join(", ");
    let failed = (!failed.is_empty()).then(|| format!("{} failed: {names}", demos(failed)));
    let wrong = (!wrong.is_empty()).then(|| differing(wrong));
    let names = left_out.join(" ");
    let rest = (!left_out.is_empty())
        .then(|| format!("`ferrowarp demo {names}` runs what was left out, in a new process"));
    [failed, wrong, rest].into_iter().flatten().collect::<Vec<_>>().join("; ")
}

/// "2 demos differ from the CPU: pinned, heat"
fn differing(names: &[&str]) -> String {
    let verb = if names.len() == 1 { "differs" } else { "differ" };
    format!("{} {verb} from the CPU: {}", demos(names), names.join(", "))
}

fn demos(names: &[&str]) -> String {
    count(names.len(), "demo")
}

fn count(n: usize, noun: &str) -> String {
    let plural = if n == 1 { "" } else { "s" };
    format!("{n} {noun}{plural}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_units() {
        let sizes = [0, 1023, 1 << 10, 3 << 19, 512 << 20, 5 << 40, u64::MAX].map(size);
        let expected =
            ["0 bytes", "1023 bytes", "1 KiB", "1.5 MiB", "512 MiB", "5 TiB", "16384 PiB"];
        assert_eq!(sizes, expected);
    }

    #[test]
    fn demos_that_failed_differ_or_were_left_out_are_told_together() {
        let line = |failed: &[_], wrong: &[_], left_out: &[_]| {
            let [failed, wrong, left_out] = [failed, wrong, left_out].map(<[_]>::to_vec);
            CliError::FailedDemos { failed, wrong, left_out }.to_string()
        };
        assert_eq!(line(&["pinned", "heat"], &[], &[]), "2 demos failed: pinned, heat");
        let rest = "`ferrowarp demo sobel blur` runs what was left out, in a new process";
        assert_eq!(line(&[], &[], &["sobel", "blur"]), rest);
        let all = format!("1 demo failed: heat; 1 demo differs from the CPU: wave; {rest}");
        assert_eq!(line(&["heat"], &["wave"], &["sobel", "blur"]), all);
    }
}
