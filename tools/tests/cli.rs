//! The program, as a user calls it: results, refusals, and what a failure leaves alone.
//!
//! Runs on the device that the machine has, except where the device is the matter.

#[path = "cli/bench.rs"]
mod bench;
#[path = "cli/demo.rs"]
mod demo;
#[path = "cli/doctor.rs"]
mod doctor;
#[path = "cli/films.rs"]
mod films;
#[path = "cli/generate.rs"]
mod generate;
#[cfg(target_os = "linux")]
#[path = "cli/interrupts.rs"]
mod interrupts;
#[cfg(target_os = "linux")]
#[path = "cli/launch.rs"]
mod launch;
#[cfg(target_os = "linux")]
#[path = "cli/limits.rs"]
mod limits;
#[path = "cli/page.rs"]
mod page;
#[cfg(unix)]
#[path = "cli/permissions.rs"]
mod permissions;
#[path = "cli/pictures.rs"]
mod pictures;
#[path = "cli/profile.rs"]
mod profile;
#[path = "cli/ranks.rs"]
mod ranks;
#[path = "cli/reduce.rs"]
mod reduce;
#[path = "cli/soak.rs"]
mod soak;
#[path = "cli/sort.rs"]
mod sort;
#[path = "cli/tune.rs"]
mod tune;

use std::fs;
use std::path::PathBuf;
use std::process::Stdio;

use assert_cmd::Command;
use assert_cmd::assert::Assert;
use image::{GrayImage, Luma, Rgb, RgbImage, Rgba, RgbaImage};
use predicates::prelude::*;
use predicates::str::{contains, is_empty};
use tempfile::TempDir;

/// The repository.
const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");

/// The program beside the tests: as cargo built it, or where `FERROWARP_BIN` says.
fn program() -> PathBuf {
    let built = || env!("CARGO_BIN_EXE_ferrowarp").into();
    std::env::var_os("FERROWARP_BIN").map_or_else(built, PathBuf::from)
}

/// A directory to work in, and the program that runs in it.
struct Place(TempDir);

impl Place {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn with(self, name: &str, content: impl AsRef<[u8]>) -> Self {
        fs::write(self.path(name), content).unwrap();
        self
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(program());
        command.current_dir(self.0.path()).args(args);
        command
    }

    fn run(&self, args: &[&str]) -> Assert {
        self.command(args).assert()
    }

    /// Runs and expects one line on standard error, nothing on standard output, and status 1.
    #[track_caller]
    fn refuses(&self, args: &[&str], line: &str) {
        refused(self.run(args), line);
    }

    fn files(&self) -> Vec<String> {
        let names = fs::read_dir(self.0.path()).unwrap();
        let mut names: Vec<_> =
            names.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    fn image(&self, name: &str) -> image::DynamicImage {
        image::open(self.path(name)).unwrap()
    }
}

#[track_caller]
fn refused(assert: Assert, line: &str) {
    let one_line = predicate::function(|text: &str| {
        text.starts_with("error: ") && text.ends_with('\n') && text.matches('\n').count() == 1
    });
    assert.code(1).stdout(is_empty()).stderr(one_line.and(contains(line)));
}

/// Dark on the left, bright on the right, with a step at `width / 2`.
fn step(width: u32, height: u32) -> GrayImage {
    GrayImage::from_fn(width, height, |x, _| Luma([if x < width / 2 { 60 } else { 180 }]))
}

fn with_images() -> Place {
    let place = Place::new();
    step(64, 48).save(place.path("step.png")).unwrap();
    let colour = |x: u32, y: u32| Rgb([(x * 3) as u8, (y * 4) as u8, 90]);
    RgbImage::from_fn(64, 48, colour).save(place.path("colour.jpg")).unwrap();
    let alpha = |x: u32, y: u32| Rgba([100, (y * 2) as u8, 50, (x * 2) as u8]);
    RgbaImage::from_fn(50, 33, alpha).save(place.path("alpha.png")).unwrap();
    place
}

#[test]
fn help_has_examples() {
    let place = Place::new();
    for command in
        ["image", "reduce", "sort", "demo", "doctor", "profile", "bench", "soak", "launch"]
    {
        let args = [command, "--help"];
        place.run(&args).success().stdout(contains("Examples:\n  ferrowarp "));
    }
    let help = contains("Examples:\n  ferrowarp ").and(contains("FERROWARP_DEVICE=emulator"));
    place.run(&["--help"]).success().stdout(help);
    place.run(&["--version"]).success().stdout(contains(env!("CARGO_PKG_VERSION")));
}

#[test]
fn a_misspelt_variable_is_a_warning() {
    let place = Place::new();
    let run = |name: &str| place.command(&["demo", "--list"]).env(name, "all").assert().success();
    let warning = "warning: FERROWARP_CHEKC is not read; did you mean `FERROWARP_CHECK`?\n";
    run("FERROWARP_CHEKC").stderr(warning);
    run("FERROWARP_CHECK").stderr(is_empty());
    run("FERROWARP_OF_MY_OWN").stderr(is_empty());
}

#[test]
fn a_command_line_that_makes_no_sense_is_status_2() {
    let place = with_images();
    place.run(&["dance"]).code(2);
    place.run(&["image", "blur", "step.png"]).code(2).stderr(contains("--output"));
    let blur = |sigma| place.run(&["image", "blur", "step.png", "-o", "o.png", "--sigma", sigma]);
    blur("wide").code(2).stderr(contains("it is not a number"));
    blur("0").code(2).stderr(contains("it must be above 0"));
    blur("-3").code(2).stderr(contains("it must be above 0"));
    blur("1e9").code(2).stderr(contains("at most"));
}

#[test]
fn devices_says_what_and_why() {
    let place = Place::new();
    let assert = place.run(&["devices"]).success();
    let table = contains("Work runs on the ").and(contains("compute")).and(contains("GB/s"));
    let rest = contains("  multiprocessor   ").and(contains("cooperative launches"));
    let pages = ["emulated: ", "HMM: ", "ATS: ", "neither HMM nor ATS "];
    let pages = pages.map(|how| format!("  host memory      {how}"));
    let rest = rest
        .and(predicate::function(move |text: &str| pages.iter().any(|line| text.contains(line))));
    assert.stdout(table.and(rest));
}

#[test]
fn the_emulator_can_be_forced() {
    let place = Place::new();
    let assert = place.command(&["devices"]).env("FERROWARP_DEVICE", "emulator").assert().success();
    let why = contains("Work runs on the emulator: FERROWARP_DEVICE=emulator.");
    assert.stdout(why.and(contains("  host memory      emulated: kernels use the slices")));
}

#[test]
fn a_gpu_that_is_demanded_is_there_or_the_error_says_what_to_do() {
    let place = Place::new();
    let auto = place.command(&["devices"]).env_remove("FERROWARP_DEVICE").output().unwrap();
    let demanded = place.command(&["devices"]).env("FERROWARP_DEVICE", "cuda").assert();
    if String::from_utf8(auto.stdout).unwrap().contains("the NVIDIA driver") {
        demanded.success().stdout(contains("FERROWARP_DEVICE=cuda"));
    } else {
        refused(demanded, "or set FERROWARP_DEVICE=emulator");
    }
}

#[test]
fn a_device_that_does_not_exist_is_refused() {
    let place = Place::new().with("n.csv", "1\n");
    for args in [&["devices"][..], &["demo", "vecadd"], &["reduce", "n.csv"]] {
        let assert = place.command(args).env("FERROWARP_DEVICE", "nonsense").assert();
        refused(assert, "FERROWARP_DEVICE is `nonsense`; it may be `auto`, `cuda` or `emulator`");
    }
}

#[test]
fn a_reader_that_leaves_early_is_no_error() {
    let mut command = std::process::Command::new(program());
    let piped = command.args(["demo", "--list"]).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = piped.spawn().unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
}
