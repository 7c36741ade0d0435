//! From an edit to its use: how long a PTX file that is replaced, and a kernel that is edited, take
//! until the next launch runs the new version; and what a launch on a hot module costs beside an
//! ordinary one. Goals: 50 ms for a PTX, 3 s for an edit.
//!
//! `cargo bench --bench reload`, or the program alone, which leaves out the edit where the sources or
//! cargo are missing.

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use cuda_builder::CudaBuilderError;
use ferrowarp::module::best_image;
use ferrowarp::reload::{ReloadEvent, Watch};
use ferrowarp::{Backend, DeviceBuffer, Gpu, GpuError, GpuResult, HotModule, LaunchConfig};
use kernels_gpu::elementwise::vecadd;

#[allow(dead_code, reason = "the tests use the rest")]
#[path = "../tests/watch/stamps.rs"]
mod stamps;

const SWAPS: usize = 15;
/// Of all kernels: the driver compiles each of them.
const WHOLE_SWAPS: usize = 3;
const EDITS: usize = 5;

fn main() -> GpuResult<()> {
    let gpu = Gpu::new()?;
    println!(
        "{} ({})",
        gpu.name(),
        if gpu.backend() == Backend::Cuda { "GPU" } else { "emulator" }
    );
    println!("{:<44} {:>12} {:>12}", "from the edit to its use", "median", "goal");
    let image = best_image(ferrowarp::shipped::IMAGES, gpu.compute_capability());
    let shipped = image.expect("an image for this device").ptx();
    let launch_stamp = |hot: &HotModule| {
        stamps::stamped(&gpu, hot);
    };
    let one = stamps::ptx(1);
    let swaps = ptx_swaps(&gpu, SWAPS, |number| format!("{one}\n// {number}\n"), launch_stamp)?;
    swaps.print("a PTX file with one kernel is replaced", "50 ms");
    let launch = |hot: &HotModule| used(&gpu, hot).expect("a launch");
    let swaps = ptx_swaps(&gpu, SWAPS, |number| edited(shipped, "vecadd", number), launch)?;
    swaps.print("all shipped kernels, one of them edited", "50 ms");
    let swaps = ptx_swaps(&gpu, WHOLE_SWAPS, |number| edited(shipped, "", number), launch)?;
    swaps.print("all shipped kernels, all of them edited", "");
    match kernel_edits(&gpu) {
        Ok(Edits { whole, builds, all }) => {
            row("an edit of a kernel in kernels-gpu", median(whole), "3000 ms");
            row("  of it the build", median(builds), "");
            row("  until all kernels are built behind it", all, "");
        }
        Err(why) => println!("an edit of a kernel: not measured, {why}"),
    }
    launches(&gpu)
}

fn row(what: &str, time: Duration, goal: &str) {
    println!("{what:<44} {:>9.2} ms {goal:>12}", time.as_secs_f64() * 1e3);
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}

/// A launch of the newest version, until it has run.
fn used(gpu: &Gpu, hot: &HotModule) -> GpuResult<()> {
    let x = DeviceBuffer::from_slice(gpu, &[1.0f32; 256])?;
    let mut out = DeviceBuffer::zeroed(gpu, 256)?;
    vecadd::launch(hot, LaunchConfig::for_num_elems(256), &x, &x, &mut out)?;
    gpu.synchronize()
}

/// A text with one more register in the bodies of the kernels whose names begin so, as a build writes it.
fn edited(text: &str, kernel: &str, number: usize) -> String {
    let header = format!(".entry {kernel}");
    let pieces = text.split_inclusive(&header).enumerate();
    let one = pieces.map(|(at, piece)| match at {
        0 => piece.to_owned(),
        _ => piece.replacen("\n{\n", &format!("\n{{\n\t.reg .b32 \t%edit{number};\n"), 1),
    });
    cuda_builder::with_parts(&one.collect::<String>())
}

/// Whole times of edits, and what is in them.
#[derive(Default)]
struct Swaps {
    whole: Vec<Duration>,
    /// What the file system takes to put one file in the place of another.
    rename: Vec<Duration>,
    /// From the first sign of the edit until the new version is in use.
    swap: Vec<Duration>,
    /// Of it the load.
    load: Vec<Duration>,
    /// From there until a launch has run.
    launch: Vec<Duration>,
}

impl Swaps {
    fn print(self, what: &str, goal: &str) {
        row(what, median(self.whole), goal);
        row("  the file system's rename", median(self.rename), "");
        row("  from the first sign until it is in use", median(self.swap), "");
        row("    of it the load", median(self.load), "");
        row("  a launch", median(self.launch), "");
    }
}

/// A PTX file that is replaced `count` times by the text of the next number, until a launch has run.
fn ptx_swaps(
    gpu: &Gpu,
    count: usize,
    text: impl Fn(usize) -> String,
    launch: impl Fn(&HotModule),
) -> GpuResult<Swaps> {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let (file, new) = (dir.path().join("kernels.ptx"), dir.path().join("kernels.new"));
    fs::write(&file, text(0)).expect("a writable directory");
    // SAFETY: the texts are kernels of this program, of which each says another number.
    let hot = unsafe { gpu.watch_ptx(&file)? };
    let events = hot.events();
    launch(&hot);
    let mut swaps = Swaps::default();
    for number in 1..=count {
        write_ready(&new, &text(number)).expect("a writable directory");
        let edit = Instant::now();
        fs::rename(&new, &file).expect("a writable directory");
        swaps.rename.push(edit.elapsed());
        let swapped = swapped(&events)?;
        let begin = Instant::now();
        launch(&hot);
        swaps.launch.push(begin.elapsed());
        swaps.whole.push(edit.elapsed());
        swaps.swap.push(swapped.since_edit);
        swaps.load.push(swapped.load);
    }
    Ok(swaps)
}

/// Writes a file to the disk. One that is still on its way there is written during the rename, by ext4 for one: 20 ms for
/// all shipped kernels.
fn write_ready(path: &Path, text: &str) -> io::Result<()> {
    let mut file = fs::File::create(path)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

/// How long the next version took.
struct Swapped {
    since_edit: Duration,
    load: Duration,
    build: Duration,
}

/// Waits for the next version.
fn swapped(events: &Receiver<ReloadEvent>) -> GpuResult<Swapped> {
    let mut build = Duration::ZERO;
    loop {
        match events.recv().expect("the hot module lives") {
            ReloadEvent::Swapped { load, since_edit, .. } => {
                return Ok(Swapped { since_edit, load, build });
            }
            ReloadEvent::Built { took, .. } => build = took,
            ReloadEvent::BuildFailed { error } => return Err(GpuError::KernelCrate(error)),
            ReloadEvent::LoadFailed { error } | ReloadEvent::Refused { error, .. } => {
                panic!("{error}")
            }
            _ => {}
        }
    }
}

/// Whole times of edits, builds of what they concern, and the last one's time until all kernels are built.
struct Edits {
    whole: Vec<Duration>,
    builds: Vec<Duration>,
    all: Duration,
}

/// Edits a kernel in a copy of `kernels-gpu`.
fn kernel_edits(gpu: &Gpu) -> Result<Edits, String> {
    let copy =
        Copy::new(Path::new(env!("CARGO_MANIFEST_DIR"))).map_err(|error| error.to_string())?;
    // SAFETY: a copy of the kernels of this program, of which one is edited within its body.
    let watch = unsafe { Watch::kernel_crate(&copy.kernels) };
    let hot = watch.start(gpu).map_err(|error| error.to_string())?;
    let events = hot.events();
    first_build(&events)?;
    let file = copy.kernels.join("src/grid/vecadd.rs");
    let text = fs::read_to_string(&file).map_err(|error| error.to_string())?;
    let (mut whole, mut builds, mut edit) = (Vec::new(), Vec::new(), Instant::now());
    for number in 0..EDITS {
        edit = Instant::now();
        // Each line below moves, which changes the PTX's line table.
        let edited = format!("{}{text}", "\n".repeat(number + 1));
        fs::write(&file, edited).map_err(|error| error.to_string())?;
        builds.push(swapped(&events).map_err(|error| error.to_string())?.build);
        used(gpu, &hot).map_err(|error| error.to_string())?;
        whole.push(edit.elapsed());
    }
    first_build(&events)?;
    Ok(Edits { whole, builds, all: edit.elapsed() })
}

/// Waits for the next build of all kernels; the one at the start compiles everything that they use.
fn first_build(events: &Receiver<ReloadEvent>) -> Result<(), String> {
    loop {
        match events.recv().expect("the hot module lives") {
            ReloadEvent::BuildFailed { error } => {
                return Err(match &*error {
                    CudaBuilderError::Rejected { messages } => messages.clone(),
                    other => other.to_string(),
                });
            }
            ReloadEvent::Swapped { .. } | ReloadEvent::Unchanged { .. } => return Ok(()),
            _ => {}
        }
    }
}

/// The workspace with a kernel crate that may be edited.
struct Copy {
    _dir: tempfile::TempDir,
    kernels: PathBuf,
}

impl Copy {
    fn new(workspace: &Path) -> io::Result<Self> {
        let dir = tempfile::tempdir()?;
        for entry in fs::read_dir(workspace)? {
            let entry = entry?;
            let (from, name) = (entry.path(), entry.file_name());
            let to = dir.path().join(&name);
            match name.to_str() {
                Some("kernels-gpu") => copy_folder(&from, &to)?,
                Some("Cargo.toml" | "Cargo.lock" | "rust-toolchain.toml") => {
                    fs::copy(from, to).map(drop)?;
                }
                Some("crates" | "host" | "tests" | "benches" | "build.rs") => link(&from, &to)?,
                _ => {}
            }
        }
        let kernels = dir.path().join("kernels-gpu");
        Ok(Self { _dir: dir, kernels })
    }
}

#[cfg(unix)]
fn link(from: &Path, to: &Path) -> io::Result<()> {
    std::os::unix::fs::symlink(from, to)
}

#[cfg(not(unix))]
fn link(from: &Path, to: &Path) -> io::Result<()> {
    if from.is_dir() { copy_folder(from, to) } else { fs::copy(from, to).map(drop) }
}

fn copy_folder(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (path, to) = (entry.path(), to.join(entry.file_name()));
        if path.is_dir() { copy_folder(&path, &to)? } else { fs::copy(path, to).map(drop)? }
    }
    Ok(())
}

/// What a launch costs the host: ordinary, and on a hot module.
fn launches(gpu: &Gpu) -> GpuResult<()> {
    const LAUNCHES: u32 = 2000;
    let hot = Watch::nothing().start(gpu)?;
    let x = DeviceBuffer::from_slice(gpu, &[1.0f32; 32])?;
    let mut out = DeviceBuffer::zeroed(gpu, 32)?;
    let config = LaunchConfig::for_num_elems(32);
    let (mut plain, mut on_hot) = (Vec::new(), Vec::new());
    for _ in 0..9 {
        let begin = Instant::now();
        for _ in 0..LAUNCHES {
            vecadd::launch(gpu, config, &x, &x, &mut out)?;
        }
        plain.push(begin.elapsed() / LAUNCHES);
        gpu.synchronize()?;
        let begin = Instant::now();
        for _ in 0..LAUNCHES {
            vecadd::launch(&hot, config, &x, &x, &mut out)?;
        }
        on_hot.push(begin.elapsed() / LAUNCHES);
        gpu.synchronize()?;
    }
    println!("{:<44} {:>9.3} µs", "a launch on a Gpu", median(plain).as_secs_f64() * 1e6);
    println!("{:<44} {:>9.3} µs", "a launch on a HotModule", median(on_hot).as_secs_f64() * 1e6);
    Ok(())
}
