//! `ferrowarp soak`: mixed work for minutes or months, everything checked.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use clap::builder::PossibleValuesParser;

use super::error::CliError;
use super::interrupt::on_signal;
use crate::soak::{FlowCount, MemoryReport, Poison, Soak, SoakReport, Status, names};

/// Options of `ferrowarp soak`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  ferrowarp soak --minutes 9
  ferrowarp soak --minutes 600 --seed 7 --json soak.json

Allocations, launches, graphs, persistent kernels, hot reload, streams and all kinds of memory, chosen at random by the
seed. All results are compared with the CPU's. Faults are planted and must be reported; those that end the context run in
child processes. What begins must end. After the warm-up (a fifth of the time, half a minute to two minutes) the resident
memory of the process may grow by 96 MiB and the used memory of the device by 64 MiB. The first miss ends the run with
status 1. Ctrl-C ends it early.")]
pub(super) struct Args {
    /// How long work is begun, in minutes
    #[arg(long, value_name = "N", default_value = "9", value_parser = minutes)]
    minutes: Duration,
    /// Which work, in which order, with which numbers
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Do this work alone, as it is named in the summary; several times for several
    #[arg(long = "work", value_name = "NAME", value_parser = PossibleValuesParser::new(names()))]
    works: Vec<String>,
    /// Threads that work
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u8).range(1..=64))]
    threads: u8,
    /// Seconds between two samples of the memory, and two lines of status
    #[arg(long, value_name = "SECONDS", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=86_400))]
    status: u32,
    /// Write the summary as JSON into this file, too
    #[arg(long, value_name = "FILE")]
    json: Option<std::path::PathBuf>,
    /// Plant one fault that ends the context, and report it: what the run starts child processes for
    #[arg(long, value_name = "FAULT", hide = true)]
    poison: Option<Poison>,
}

fn minutes(text: &str) -> Result<Duration, String> {
    let minutes: f64 = text.parse().map_err(|_| "it is not a number".to_owned())?;
    match Duration::try_from_secs_f64(60.0 * minutes) {
        Ok(time) if time > Duration::ZERO => Ok(time),
        Err(error) if minutes > 0.0 => Err(error.to_string()),
        _ => Err("it must be above 0".to_owned()),
    }
}

pub(super) fn run(args: &Args, out: &mut impl Write) -> Result<(), CliError> {
    if let Some(poison) = args.poison {
        return Ok(poison.plant()?);
    }
    let is_over = Arc::new(AtomicBool::new(false));
    let end = is_over.clone();
    on_signal(move |_| end.store(true, Relaxed));
    let soak = Soak {
        time: args.minutes,
        seed: args.seed,
        works: args.works.clone(),
        threads: args.threads.into(),
        interval: Duration::from_secs(args.status.into()),
        is_over,
    };
    // A reader that leaves early does not end the run.
    let report = soak.run(|status| drop(show(status, out).and_then(|()| Ok(out.flush()?))))?;
    summarise(&report, out)?;
    if let Some(path) = &args.json {
        let text =
            serde_json::to_string_pretty(&report).expect("a report is made of names and numbers");
        std::fs::write(path, text + "\n").map_err(CliError::write(path))?;
    }
    report.miss.map_or(Ok(()), |miss| Err(CliError::Soaked { miss }))
}

/// One line of status.
fn show(status: &Status, out: &mut impl Write) -> Result<(), CliError> {
    let Status { elapsed, works, values, flows, memory } = status;
    let ended =
        |what: &str| flows.iter().find(|flow| flow.what == what).map_or(0, |flow| flow.ended);
    let (faults, messages) =
        (ended("planted faults") + ended("poisoned contexts"), ended("messages"));
    writeln!(
        out,
        "{:6} s: {works} works, {values} values, {messages} messages, {faults} faults; {}",
        elapsed.as_secs(),
        memory_line(memory)
    )?;
    Ok(())
}

fn memory_line(memory: &MemoryReport) -> String {
    let (Some(warm), Some(last)) = (memory.warm, memory.last) else {
        return "no sample yet".to_owned();
    };
    let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    let text =
        |whose, warm, last| format!("{whose} {:.1} MiB (warm-up {:.1})", mib(last), mib(warm));
    let host = text("host", warm.host_bytes, last.host_bytes);
    format!("{host}, {}", text("device", warm.device_bytes, last.device_bytes))
}

fn summarise(report: &SoakReport, out: &mut impl Write) -> Result<(), CliError> {
    writeln!(out, "{}: seed {}, {:.0} s", report.device, report.seed, report.seconds)?;
    for work in &report.works {
        writeln!(out, "  {:<20} {:>12}", work.name, work.count)?;
    }
    writeln!(out, "  {:<20} {:>12}", "values compared", report.values)?;
    for FlowCount { what, begun, ended } in &report.flows {
        writeln!(out, "  {what:<20} {begun:>12} began, {ended} ended")?;
    }
    writeln!(out, "  {} samples: {}", report.memory.samples, memory_line(&report.memory))?;
    if report.miss.is_none() {
        writeln!(out, "no miss")?;
    }
    Ok(())
}
