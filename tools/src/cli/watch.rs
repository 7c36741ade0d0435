//! `ferrowarp watch`: kernels that are built, loaded and run again at each edit.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};

use super::error::CliError;
use super::interrupt::on_signal;
use super::names::no_demo_or_kernel;
use super::table::{Side, Table};
use super::watch_folder;
use crate::demo::{self, Demo, Ending, Outcome, Scale};
use cuda_builder::{CudaBuilderError, Scope};
use ferrowarp::error::{GpuContext, GpuError};
use ferrowarp::reload::{ModuleVersion, ReloadEvent, Watch};
use ferrowarp::{Backend, Gpu, HotModule};

/// Options of `ferrowarp watch`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  ferrowarp watch --run saxpy
  ferrowarp watch --run transpose_tiled --compare
  ferrowarp watch --crate ../own/kernels
  ferrowarp watch --ptx kernels.ptx --run vecadd
  ferrowarp watch --ptx plugins
  ferrowarp watch --once --run blur --run sobel

An edit that does not compile, that the driver refuses, or that no longer fits the program's launchers is shown,
and the version before stays in use. Building needs the kernel crate's sources and cargo on this machine. What is
watched is trusted: what a kernel does with its arguments is not checked.")]
pub(super) struct Args {
    /// The kernel crate to build at each edit
    #[arg(long = "crate", value_name = "DIR", default_value = "kernels-gpu")]
    kernels: PathBuf,
    /// Watch a PTX file instead, or all PTX files in a folder, which may come and go
    #[arg(long, value_name = "FILE|DIR", conflicts_with = "kernels")]
    ptx: Option<PathBuf>,
    /// Run this demo, or the first demo that launches this kernel, with each new version
    #[arg(long, value_name = "DEMO|KERNEL")]
    run: Vec<String>,
    /// Also run the version before, and print both times
    #[arg(long, requires = "run")]
    compare: bool,
    /// Build and run what is there now, and end
    #[arg(long)]
    once: bool,
    /// Elements of arrays; or the side of matrices, or the width of pictures
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1 << 26))]
    size: Option<u32>,
    /// How many versions to keep
    #[arg(long, value_name = "N", default_value_t = 8,
          value_parser = clap::value_parser!(u32).range(2..=1000))]
    keep: u32,
}

/// What the loop waits for.
enum News {
    Event(ReloadEvent),
    /// Ctrl-C, or the end of the terminal.
    Stop,
}

pub(super) fn run(args: &Args, out: &mut impl Write) -> Result<(), CliError> {
    let (sender, news) = channel();
    let gpu = match args.run.is_empty() {
        // Nothing of this program's own kernels is needed.
        true => Gpu::with_images(&[])?,
        false => Gpu::new()?,
    };
    let demos = chosen(&args.run)?;
    let scale = args
        .size
        .map_or_else(|| Scale::suited_to(Some(gpu.backend())), |size| Scale::of(size as usize));
    let runs = Runs { demos, scale, compare: args.compare };
    if let Some(folder) = args.ptx.as_deref().filter(|path| path.is_dir()) {
        heading(&gpu, folder, args.once, out)?;
        return watch_folder::run(&gpu, folder, (args.keep as usize, args.once), &runs, out);
    }
    let hot = args.watch(&sender).start(&gpu)?;
    heading(&gpu, args.source(), args.once, out)?;
    let first = hot.current();
    writeln!(out, "{}: {}", first.info(), args.origin(&first))?;
    let mut session = Session { hot, runs };
    match args.once {
        true => session.once(&first, args.ptx.is_none() && !args.run.is_empty(), &news, out),
        false => {
            // The end of the loop ends a build that runs, too.
            on_signal(move |_| drop(sender.send(News::Stop)));
            session.until_stopped(&first, &news, out)
        }
    }
}

impl Args {
    fn watch(&self, sender: &Sender<News>) -> Watch {
        let watch = match &self.ptx {
            // SAFETY: the user of the program names what it is to run; its help says that this is trusted.
            Some(file) => unsafe { Watch::ptx(file) },
            // SAFETY: as above.
            None => unsafe { Watch::kernel_crate(&self.kernels) },
        };
        let sender = sender.clone();
        let tell = move |event: &ReloadEvent| drop(sender.send(News::Event(event.clone())));
        watch.keep(self.keep as usize).on_event(tell)
    }

    fn source(&self) -> &Path {
        self.ptx.as_deref().unwrap_or(&self.kernels)
    }

    fn origin(&self, first: &ModuleVersion) -> String {
        if first.is_built_in() {
            return "part of this program".to_owned();
        }
        format!("from {}", self.source().display())
    }
}

fn heading(gpu: &Gpu, source: &Path, once: bool, out: &mut impl Write) -> Result<(), CliError> {
    let device = match gpu.backend() {
        Backend::Cuda => "GPU",
        Backend::Emulator => "emulator",
    };
    let (major, minor) = gpu.compute_capability();
    writeln!(out, "{} (compute capability {major}.{minor}, {device})", gpu.name())?;
    if !once {
        writeln!(out, "watching {}; Ctrl-C ends", source.display())?;
    }
    Ok(writeln!(out)?)
}

/// The demos of these names, or the first ones that launch kernels of these names.
fn chosen(names: &[String]) -> Result<Vec<&'static Demo>, CliError> {
    names.iter().map(|name| find(name)).collect()
}

fn find(name: &str) -> Result<&'static Demo, CliError> {
    if let Some(demo) = demo::named(name) {
        return Ok(demo);
    }
    let gpu = Gpu::new()?;
    let mut failed = None;
    for demo in demo::demos() {
        let ran = demo.run(&gpu, Scale::of(64)).with_gpu_context(|| format!("demo {}", demo.name));
        if gpu.launched_kernels().contains(&name) {
            return Ok(demo);
        }
        match ran {
            Ok(_) => {}
            Err(error) if gpu.is_lost() => return Err(error.into()),
            // Another one may launch the kernel. What this one left in its streams is not that one's.
            Err(error) => {
                let _ = gpu.synchronize();
                failed.get_or_insert(error);
            }
        }
    }
    Err(failed.map_or_else(|| no_demo_or_kernel(name), CliError::from))
}

/// A module, and what is run at each edit.
struct Session {
    hot: HotModule,
    runs: Runs,
}

/// What is run with each new version.
pub(super) struct Runs {
    demos: Vec<&'static Demo>,
    scale: Scale,
    compare: bool,
}

impl Session {
    /// Runs what is there now; `builds` says whether a build of it is under way.
    fn once(
        &mut self,
        first: &ModuleVersion,
        builds: bool,
        news: &Receiver<News>,
        out: &mut impl Write,
    ) -> Result<(), CliError> {
        if builds && !was_taken(news, out)? {
            return Err(CliError::EditRefused { version: first.number() });
        }
        let version = self.hot.current();
        let before = (version.number() != first.number()).then_some(first);
        let wrong = self.runs.run(before, &version, out)?;
        if wrong.is_empty() { Ok(()) } else { Err(CliError::WrongDemos { names: wrong }) }
    }

    fn until_stopped(
        &mut self,
        first: &ModuleVersion,
        news: &Receiver<News>,
        out: &mut impl Write,
    ) -> Result<(), CliError> {
        self.runs.run(None, first, out)?;
        let (mut before, mut part_in_use, mut is_same_edit) = (first.clone(), false, false);
        loop {
            out.flush()?;
            let Ok(News::Event(event)) = news.recv() else { break };
            show(&event, out)?;
            match event {
                ReloadEvent::Building => part_in_use = false,
                ReloadEvent::Built { scope, .. } => {
                    is_same_edit = part_in_use && scope == Scope::Whole;
                    part_in_use = scope != Scope::Whole;
                }
                ReloadEvent::Swapped { version, .. } => {
                    let Ok(version) = self.hot.version(version.number) else { continue };
                    self.runs.run(Some(&before).filter(|_| !is_same_edit), &version, out)?;
                    before = version;
                }
                _ => {}
            }
        }
        Ok(writeln!(out, "ended")?)
    }
}

impl Runs {
    /// Runs the demos with a version, and with the one before if both are to be compared. The names of
    /// those that computed something wrong.
    pub(super) fn run(
        &self,
        before: Option<&ModuleVersion>,
        version: &ModuleVersion,
        out: &mut impl Write,
    ) -> Result<Vec<&'static str>, CliError> {
        if self.demos.is_empty() {
            return Ok(Vec::new());
        }
        let before = before.filter(|_| self.compare);
        let columns = [("demo", Side::Left), ("version", Side::Right), ("size", Side::Right)];
        let more = [("time", Side::Right), ("GB/s", Side::Right), ("largest error", Side::Right)];
        let [a, b, c] = columns;
        let [d, e, f] = more;
        let (mut table, mut wrong) = (Table::new([a, b, c, d, e, f]), Vec::new());
        let mut failures = Vec::new();
        for demo in &self.demos {
            for version in before.into_iter().chain([version]) {
                match demo.run(&version.gpu(), self.scale) {
                    Ok(Ending::Ran(outcome)) => {
                        table.add(row(demo, version, &outcome));
                        wrong.extend((!outcome.check.passed()).then_some(demo.name));
                    }
                    Ok(Ending::NotHere(lack)) => {
                        return Err(CliError::DemoNotHere { name: demo.name, lack });
                    }
                    Err(error) if matches!(error.root(), GpuError::DeviceLost { .. }) => {
                        return Err(error.into());
                    }
                    Err(error) => failures.push((demo.name, version.number(), error)),
                }
            }
        }
        table.print(out)?;
        for (demo, number, error) in failures {
            writeln!(out, "{demo}, version {number}: {error}")?;
            wrong.push(demo);
        }
        Ok(wrong)
    }
}

fn row(demo: &Demo, version: &ModuleVersion, outcome: &Outcome) -> [String; 6] {
    let gb_per_s = outcome.gigabytes_per_second();
    let decimals = if gb_per_s < 10.0 { 2 } else { 0 };
    let mark = if outcome.check.passed() { "" } else { " WRONG" };
    [
        demo.name.to_owned(),
        version.number().to_string(),
        outcome.size.clone(),
        format!("{:.3} ms", outcome.time.as_secs_f64() * 1e3),
        format!("{gb_per_s:.decimals$}"),
        format!("{}{mark}", outcome.check),
    ]
}

/// Shows what happens up to the end of a build; whether what was built is in use.
fn was_taken(news: &Receiver<News>, out: &mut impl Write) -> Result<bool, CliError> {
    while let Ok(News::Event(event)) = news.recv() {
        show(&event, out)?;
        match event {
            ReloadEvent::Building | ReloadEvent::Built { .. } => {}
            ReloadEvent::Swapped { .. } | ReloadEvent::Unchanged { .. } => return Ok(true),
            _ => return Ok(false),
        }
    }
    Ok(false)
}

/// What a build compiled, in the user's words.
fn what(scope: &Scope) -> String {
    match scope {
        Scope::Part { kernels } => match &kernels[..] {
            [] => "what is left".to_owned(),
            [one] => format!("{one}, the others follow,"),
            [first, rest @ ..] => format!("{first} and {} more, the others follow,", rest.len()),
        },
        _ => "all kernels".to_owned(),
    }
}

/// One event in the user's words.
pub(super) fn show(event: &ReloadEvent, out: &mut impl Write) -> Result<(), CliError> {
    match event {
        ReloadEvent::Building => writeln!(out, "building")?,
        ReloadEvent::Built { scope, took, warnings } => {
            if !warnings.trim().is_empty() {
                writeln!(out, "{}", warnings.trim_end())?;
            }
            writeln!(out, "built {} in {:.2} s", what(scope), took.as_secs_f64())?;
        }
        ReloadEvent::BuildFailed { error } => match &**error {
            CudaBuilderError::Rejected { messages } => {
                writeln!(out, "{}\nnot built: the version before stays in use", messages.trim_end())
            }
            other => writeln!(out, "not built: {other}"),
        }?,
        ReloadEvent::Swapped { version, load, since_edit } => writeln!(
            out,
            "{version}: loaded in {:.1} ms, in use {:.0} ms after the edit",
            load.as_secs_f64() * 1e3,
            since_edit.as_secs_f64() * 1e3
        )?,
        ReloadEvent::Unchanged { version } => writeln!(out, "nothing changed in {version}")?,
        ReloadEvent::LoadFailed { error } => not_loaded(error, out)?,
        ReloadEvent::Refused { error, .. } => writeln!(out, "refused: {error}")?,
        ReloadEvent::Unreadable { path, error } => {
            writeln!(out, "{}: {error}; the version before stays in use", path.display())?;
        }
        ReloadEvent::Unloaded { number } => writeln!(out, "version {number} was unloaded")?,
        // The library may come to report more.
        _ => {}
    }
    Ok(())
}

/// The compiler's log, if there is one, and the error.
pub(super) fn not_loaded(error: &GpuError, out: &mut impl Write) -> Result<(), CliError> {
    if let Some(log) = error.driver().and_then(|driver| driver.detail()) {
        writeln!(out, "{}", log.trim_end())?;
    }
    Ok(writeln!(out, "not loaded: {error}")?)
}
