//! The program, as a user calls it: results, refusals, and what a failure leaves alone.
//!
//! Runs on the device that the machine has, except where the device is the matter.

#[path = "cli/bench.rs"]
mod bench;
#[path = "cli/sort.rs"]
mod sort;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use assert_cmd::Command;
use assert_cmd::assert::Assert;
use image::{GrayImage, Luma, Rgb, RgbImage, Rgba, RgbaImage};
use predicates::prelude::*;
use predicates::str::{contains, is_empty};
use tempfile::TempDir;

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

// ---- help and devices

#[test]
fn help_has_examples() {
    let place = Place::new();
    for command in ["image", "reduce", "sort", "demo", "profile", "bench"] {
        let args = [command, "--help"];
        place.run(&args).success().stdout(contains("Examples:\n  ferrowarp "));
    }
    let help = contains("Examples:\n  ferrowarp ").and(contains("FERROWARP_DEVICE=emulator"));
    place.run(&["--help"]).success().stdout(help);
    place.run(&["--version"]).success().stdout(contains(env!("CARGO_PKG_VERSION")));
}

#[test]
fn a_command_line_that_makes_no_sense_is_status_2() {
    let place = with_images();
    place.run(&["dance"]).code(2);
    place.run(&["image", "blur", "step.png"]).code(2).stderr(contains("--output"));
    let blur = |sigma| place.run(&["image", "blur", "step.png", "-o", "o.png", "--sigma", sigma]);
    blur("wide").code(2).stderr(contains("it is not a number"));
    blur("0").code(2).stderr(contains("it must be above 0"));
    blur("1e9").code(2).stderr(contains("at most"));
}

#[test]
fn devices_says_what_and_why() {
    let place = Place::new();
    let assert = place.run(&["devices"]).success();
    let table = contains("Work runs on the ").and(contains("compute")).and(contains("GB/s"));
    let rest = contains("  multiprocessor   ").and(contains("cooperative launches"));
    assert.stdout(table.and(rest));
}

#[test]
fn the_emulator_can_be_forced() {
    let place = Place::new();
    let assert = place.command(&["devices"]).env("FERROWARP_DEVICE", "emulator").assert().success();
    assert.stdout(contains("Work runs on the emulator: FERROWARP_DEVICE=emulator."));
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

// ---- demo

#[test]
fn demos_run_and_agree_with_the_cpu() {
    let place = Place::new();
    let assert = place.run(&["demo", "vecadd", "reduce_sum_i32", "blur", "--pictures", "out"]);
    let table = contains("largest error").and(contains("vecadd")).and(contains("reduce_sum_i32"));
    assert.success().stdout(table.and(contains("wrote out/blur.png"))).stderr(is_empty());
    assert!(place.image("out/blur.png").width() > 100);
}

/// The program with that many emulated devices; a machine with GPUs works on these.
fn with_devices(place: &Place, args: &[&str], devices: &str) -> Command {
    let mut command = place.command(args);
    command.env("FERROWARP_EMULATOR_DEVICES", devices);
    command
}

#[test]
fn every_demo_agrees_with_the_cpu_and_two_emulated_devices_lack_nothing() {
    let place = Place::new();
    let assert =
        with_devices(&place, &["demo", "--size", "300"], "2").assert().success().stderr(is_empty());
    let table = String::from_utf8(assert.get_output().stdout.clone()).unwrap();
    let position =
        |title: &str| table.find(title).unwrap_or_else(|| panic!("{title:?} in {table}"));
    let titles = ["\nArrays\nvecadd ", "\nMemory\nslices ", "\nRunning work\nstreams "];
    assert!(titles.map(position).is_sorted(), "{table}");
    if table.contains(", emulator)") {
        assert!(!table.contains("not here") && table.contains("300 elements, in place"), "{table}");
    }
}

#[test]
fn a_demo_that_cannot_run_here_says_why_and_is_an_error_only_if_it_was_named() {
    let why = "it takes 2 devices, and there is 1: FERROWARP_DEVICE=emulator \
               FERROWARP_EMULATOR_DEVICES=2 has them\n";
    let row =
        predicate::str::is_match(format!("\npeers +emulator( +–){{4}}  not here: {why}")).unwrap();
    let place = Place::new();
    let run = |args: &[&str]| {
        with_devices(&place, args, "1").env("FERROWARP_DEVICE", "emulator").assert()
    };
    let named = run(&["demo", "peers", "vecadd"]).code(1);
    named.stdout(row.and(contains("vecadd "))).stderr(format!("error: peers did not run: {why}"));
    run(&["demo", "--size", "64"]).success().stdout(contains("not here: it takes 2 devices"));
    let profiled = run(&["profile", "peers"]).code(1);
    profiled.stdout(is_empty()).stderr(format!("error: peers did not run: {why}"));
}

/// Small demos on an emulator that answers as `fault` says.
fn failing(place: &Place, fault: &str, names: &[&str]) -> Assert {
    let mut command = place.command(&[&["demo", "--size", "64"], names].concat());
    command.env("FERROWARP_DEVICE", "emulator").env("FERROWARP_EMULATOR_FAIL", fault).assert()
}

/// The row of a demo that came to no end.
fn empty_row(demo: &str, why: &str) -> impl Predicate<str> {
    predicate::str::is_match(format!("\n{demo} +emulator( +–){{4}}  {why}\n")).unwrap()
}

#[test]
fn what_a_device_does_not_support_is_a_row_and_no_error() {
    let without_pools = failing(&Place::new(), "cuMemPoolCreate:801", &[]).success();
    let row =
        predicate::str::is_match("\nstream_ordered .* not here: this device does not support");
    without_pools.stdout(row.unwrap().and(contains("\nparticles "))).stderr(is_empty());
}

#[test]
fn a_demo_that_fails_is_a_row_and_the_others_run_on() {
    let names = ["vecadd", "registered", "reduce_tree", "blur", "--pictures", "out"];
    let place = Place::new();
    let broken = failing(&place, "cuMemHostRegister_v2:2", &names).code(1);
    let ran = predicate::str::is_match("\nreduce_tree +emulator +64 .* ms ").unwrap();
    let told = predicate::str::is_match(
        "\n\nregistered failed: .*cuMemHostRegister_v2 was made to answer 2.*\nwrote out/scene.png\n",
    );
    let table = empty_row("registered", "failed").and(ran).and(told.unwrap());
    broken.stdout(table).stderr("error: 1 demo failed: registered\n");
    assert!(place.path("out/blur.png").exists());
}

#[test]
fn every_demo_that_fails_has_its_row_and_its_line() {
    let every = failing(&Place::new(), "cuMemHostRegister_v2:2", &[]).code(1);
    let table = empty_row("registered", "failed").and(contains("\nparticles "));
    let lines = contains("\nregistered failed: ").and(contains("\nhost_slice failed: "));
    every.stdout(table.and(lines)).stderr("error: 2 demos failed: registered, host_slice\n");
}

#[test]
fn after_a_demo_that_loses_the_device_the_rest_are_left_out_with_the_command_that_runs_them() {
    let place = Place::new();
    let names = ["vecadd", "registered", "saxpy", "peers", "heat"];
    let lost = failing(&place, "cuMemHostRegister_v2:700", &names).code(1);
    let why = "left out: the device is lost";
    let told = contains("\nregistered failed: the device is lost after a fault (");
    let rest = empty_row("saxpy", why).and(empty_row("peers", why)).and(empty_row("heat", why));
    let table = contains("\nvecadd ").and(empty_row("registered", "failed")).and(rest).and(told);
    lost.stdout(table).stderr(
        "error: 1 demo failed: registered; `ferrowarp demo saxpy peers heat` runs what was left \
         out, in a new process\n",
    );
}

#[test]
fn a_demo_that_does_not_exist_is_refused() {
    let place = Place::new();
    place.refuses(&["demo", "vecad"], "there is no demo `vecad`; there are vecadd, saxpy");
    let subjects = contains("\nMemory\nslices ").and(contains("\nSimulations\nheat "));
    place.run(&["demo", "--list"]).success().stdout(contains("transpose_tiled").and(subjects));
}

// ---- image

#[test]
fn blur_softens_a_step_and_keeps_the_size() {
    let place = with_images();
    let args = ["image", "blur", "step.png", "-o", "soft.png", "--sigma", "2"];
    place.run(&args).success().stdout(contains("soft.png: blur of 64 × 48")).stderr(is_empty());
    let soft = place.image("soft.png").into_luma8();
    assert_eq!(soft.dimensions(), (64, 48));
    let row: Vec<u8> = (0..64).map(|x| soft.get_pixel(x, 24).0[0]).collect();
    assert!(row.is_sorted() && row[0] == 60 && row[63] == 180, "{row:?}");
    assert!(row[31] > 70 && row[32] < 170, "{row:?}");
}

#[test]
fn sobel_finds_the_step_and_nothing_else() {
    let place = with_images();
    place.run(&["image", "sobel", "step.png", "-o", "edges.png"]).success();
    let edges = place.image("edges.png").into_luma8();
    for (x, _, pixel) in edges.enumerate_pixels() {
        assert_eq!(pixel.0[0] > 0, x == 31 || x == 32, "column {x}");
    }
}

#[test]
fn equalize_spreads_grey_levels() {
    let place = with_images();
    place.run(&["image", "equalize", "step.png", "-o", "even.png"]).success();
    let even = place.image("even.png").into_luma8();
    // Two levels, each of half the pixels, move to the ends.
    assert_eq!((even.get_pixel(0, 0).0[0], even.get_pixel(63, 0).0[0]), (0, 255));
}

#[test]
fn a_jpeg_goes_in_and_a_jpeg_comes_out() {
    let place = with_images();
    for filter in ["blur", "sobel", "equalize", "grayscale"] {
        place.run(&["image", filter, "colour.jpg", "-o", "out.JPEG"]).success();
        let out = image::ImageReader::open(place.path("out.JPEG")).unwrap().decode().unwrap();
        let coloured = matches!(filter, "blur" | "equalize");
        assert_eq!((out.width(), out.height()), (64, 48));
        assert_eq!(out.color().has_color(), coloured, "{filter}");
    }
}

#[test]
fn alpha_stays_where_it_is_promised() {
    let place = with_images();
    place.run(&["image", "equalize", "alpha.png", "-o", "even.png"]).success();
    let (before, after) = (place.image("alpha.png").to_rgba8(), place.image("even.png"));
    let after = after.as_rgba8().expect("alpha");
    assert!(before.pixels().zip(after.pixels()).all(|(b, a)| b.0[3] == a.0[3]));
    place.run(&["image", "blur", "alpha.png", "-o", "soft.png"]).success();
    assert!(place.image("soft.png").color().has_alpha());
    place.run(&["image", "grayscale", "alpha.png", "-o", "grey.png"]).success();
    assert!(!place.image("grey.png").color().has_alpha());
}

#[test]
fn a_picture_can_replace_itself() {
    let place = with_images();
    place.run(&["image", "blur", "step.png", "-o", "step.png"]).success();
    assert_ne!(place.image("step.png").into_luma8(), step(64, 48));
    assert_eq!(place.files(), ["alpha.png", "colour.jpg", "step.png"]);
}

#[test]
fn inputs_that_are_no_pictures_are_refused() {
    let place = with_images().with("text.png", "hello").with("empty.png", "");
    let whole = fs::read(place.path("step.png")).unwrap();
    let place = place.with("cut.png", &whole[..whole.len() / 2]);
    let refuses = |input, line| place.refuses(&["image", "sobel", input, "-o", "o.png"], line);
    refuses("none.png", "cannot read none.png: there is no such file or directory");
    refuses(".", "cannot read .: it is a directory");
    refuses("text.png", "text.png is not a PNG or JPEG image");
    refuses("empty.png", "empty.png is empty");
    refuses("cut.png", "cut.png is not a valid image: ");
    assert!(!place.path("o.png").exists());
}

#[test]
fn outputs_that_cannot_be_are_refused_before_any_work() {
    let place = with_images();
    fs::create_dir(place.path("dir.png")).unwrap();
    let refuses = |output, line| place.refuses(&["image", "sobel", "step.png", "-o", output], line);
    refuses("o.gif", "cannot tell what to write to o.gif: end its name in .png, .jpg or .jpeg");
    refuses("o", "cannot tell what to write to o:");
    refuses("none/o.png", "cannot write none/o.png: there is no such file or directory");
    refuses("dir.png", "cannot write dir.png: it is a directory");
}

#[test]
fn a_failed_run_leaves_the_output_as_it_was() {
    let place = with_images().with("out.png", "precious").with("bad.png", "hello");
    place.refuses(&["image", "blur", "bad.png", "-o", "out.png"], "bad.png");
    // This one fails after the output is opened.
    let mut late = place.command(&["image", "blur", "step.png", "-o", "out.png"]);
    refused(late.env("FERROWARP_DEVICE", "nonsense").assert(), "nonsense");
    assert_eq!(fs::read(place.path("out.png")).unwrap(), b"precious");
    assert_eq!(place.files(), ["alpha.png", "bad.png", "colour.jpg", "out.png", "step.png"]);
}

// ---- reduce

#[test]
fn a_column_is_added_and_checked() {
    let rows: String = (1..=1000).map(|i| format!("day {i},{}.5\n", i % 10)).collect();
    let place = Place::new().with("prices.csv", format!("day,price\n{rows}"));
    for column in ["price", "2"] {
        let assert = place.run(&["reduce", "prices.csv", "--column", column]).success();
        let lines = contains("column  price\ncount   1000\nsum     5000\n");
        assert.stdout(lines.and(contains("check   5000 in 64 bits"))).stderr(is_empty());
    }
}

#[test]
fn raw_floats_are_added() {
    let bytes: Vec<u8> = (0..4097).flat_map(|i| (i as f32).to_le_bytes()).collect();
    let place = Place::new().with("n.f32", &bytes).with("n.dat", &bytes);
    let sum = contains("count   4097\nsum     8390656\n");
    place.run(&["reduce", "n.f32"]).success().stdout(sum.clone());
    place.run(&["reduce", "n.dat", "--raw"]).success().stdout(sum);
    place.refuses(&["reduce", "n.f32", "--column", "1"], "holds raw numbers");
    place.run(&["reduce", "n.dat", "--raw", "--column", "1"]).code(2);
}

#[test]
fn numbers_that_are_none_are_refused_with_their_row() {
    let place = Place::new()
        .with("word.csv", "price\n1\n2\nthree\n")
        .with("two.csv", "day,price\nmon,1\n")
        .with("header.csv", "price\n")
        .with("empty.csv", "")
        .with("cut.f32", [1, 2, 3, 4, 5]);
    let refuses = |file, line| place.refuses(&["reduce", file], line);
    refuses("word.csv", "word.csv, row 4, column `price`: `three` is not a number");
    refuses("two.csv", "two.csv has 2 columns: choose one with --column (`day`, `price`)");
    refuses("header.csv", "header.csv has no numbers below its header");
    refuses("empty.csv", "empty.csv is empty");
    refuses("cut.f32", "cut.f32 has 5 bytes, which is not a multiple of 4");
    refuses("none.csv", "cannot read none.csv: there is no such file or directory");
    refuses(".", "cannot read .: it is a directory");
    place.refuses(&["reduce", "two.csv", "-c", "cost"], "two.csv has no column cost");
}

#[test]
fn a_sum_that_no_float_holds_is_refused() {
    let place = Place::new().with("n.csv", "3e38\n3e38\n");
    place.refuses(&["reduce", "n.csv"], "the sum is 6.000e38, which does not fit");
}

#[cfg(unix)]
#[test]
fn a_file_without_permission_is_refused() {
    use std::os::unix::fs::PermissionsExt;
    let place = Place::new().with("secret.csv", "1\n");
    let close = |path: &Path, mode| {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    };
    close(&place.path("secret.csv"), 0o000);
    close(place.0.path(), 0o755);
    let assert = unprivileged(&place, &["reduce", "secret.csv"]);
    refused(assert, "cannot read secret.csv: permission denied");
}

/// Runs the program as a user that permissions hold for, which the superuser is not.
#[cfg(unix)]
fn unprivileged(place: &Place, args: &[&str]) -> Assert {
    use std::os::unix::fs::MetadataExt;
    use std::os::unix::process::CommandExt;
    const NOBODY: u32 = 65534;
    if fs::metadata("/proc/self").is_ok_and(|me| me.uid() != 0) {
        return place.run(args);
    }
    // The program may lie where nobody can reach it. Another process copies it: a file that this one writes
    // stays open in every child that another test starts meanwhile, and what is open cannot be run.
    let reachable = place.path("ferrowarp");
    let copied = std::process::Command::new("cp").arg(program()).arg(&reachable).status().unwrap();
    assert!(copied.success());
    let mut command = std::process::Command::new(reachable);
    command.current_dir(place.0.path()).args(args).uid(NOBODY);
    Command::from_std(command).assert()
}

// ---- profile

/// Runs `ferrowarp profile` on the emulator, whatever the machine has.
fn profile(place: &Place, args: &[&str]) -> Assert {
    let mut command = place.command(&["profile"]);
    command.args(args).env("FERROWARP_DEVICE", "emulator").assert()
}

/// The words of the only line of a text that starts with `name`.
fn row(text: &str, name: &str) -> Vec<String> {
    let mut lines = text.lines().filter_map(|line| line.strip_prefix(name));
    let line = lines.next().unwrap_or_else(|| panic!("no line `{name}` in\n{text}"));
    assert_eq!(lines.next(), None, "{name} stands twice in\n{text}");
    line.split_whitespace().map(str::to_owned).collect()
}

fn printed(assert: Assert) -> String {
    String::from_utf8(assert.success().get_output().stdout.clone()).unwrap()
}

#[test]
fn a_profile_has_the_sectors_of_every_access() {
    let place = Place::new();
    let text = printed(profile(&place, &["transpose_naive", "--size", "64"]));
    // 64 × 64 floats: 128 requests a side. A column of 32 rows takes a sector each, a row of 32 takes 4.
    assert_eq!(row(&text, "global loads "), ["128", "16384", "131072", "4096", "512"]);
    assert_eq!(row(&text, "global stores "), ["128", "16384", "16384", "512", "512"]);
    assert!(text.contains("transpose_naive: 2 × 8 blocks of 32 × 8 threads"), "{text}");
    assert!(text.contains("kernels-gpu/src/grid/transpose.rs:"), "{text}");
    let tiled = printed(profile(&place, &["transpose_tiled", "--size", "64"]));
    assert_eq!(row(&tiled, "global loads ")[3..], ["512", "512"]);
    // The padding keeps columns of the tile apart.
    assert_eq!(row(&tiled, "shared loads "), ["128", "16384", "16384", "128", "0"]);
}

#[test]
fn a_profile_shows_the_lines_of_the_source_that_it_finds() {
    let root = env!("CARGO_MANIFEST_DIR");
    let args = ["transpose_naive", "--size", "32", "--source", root];
    if Path::new(root).join("kernels-gpu/src/grid/transpose.rs").exists() {
        let text = printed(profile(&Place::new(), &args));
        assert!(text.contains("*out = input["), "{text}");
    }
    let text = printed(profile(&Place::new(), &args[..3]));
    assert!(!text.contains("*out = input["), "{text}");
}

#[test]
fn a_profile_for_machines_has_everything() {
    let place = Place::new();
    let text = printed(profile(&place, &["copy_strided", "--size", "32768", "--json"]));
    let document: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(document["schema"], 1);
    assert_eq!(
        (document["demo"].as_str(), document["profiled"].as_str()),
        (Some("copy_strided"), Some("copy_strided"))
    );
    let launch = &document["launches"][0];
    assert_eq!(launch["kernel"], "copy_strided");
    let loads = &launch["totals"]["memory"][0];
    assert_eq!((loads["space"].as_str(), loads["access"].as_str()), (Some("global"), Some("load")));
    // Lanes 32 elements apart: each has a sector of its own.
    assert_eq!((loads["requests"].as_u64(), loads["sectors"].as_u64()), (Some(1024), Some(32768)));
    assert_eq!(launch["derived"]["global_sectors_per_request"], 32.0);
    assert_eq!(launch["derived"]["ideal_global_sectors_per_request"], 4.0);
    let sum = |of: &serde_json::Value, path: &str| -> u64 {
        let own = |value: &serde_json::Value| value.pointer(path).unwrap().as_u64().unwrap();
        of.as_array().unwrap().iter().map(own).sum()
    };
    let instructions = launch["totals"]["instructions"].as_u64().unwrap();
    assert_eq!(sum(&launch["instructions"], "/counts/instructions"), instructions);
    assert_eq!(sum(&launch["lines"], "/counts/instructions"), instructions);
    assert_eq!(sum(&launch["classes"], "/instructions"), instructions);
}

#[test]
fn a_kernel_is_profiled_by_its_own_name() {
    let place = Place::new();
    let args = ["reduce_tree_f32", "--size", "1000", "--json", "tree.json"];
    let text = printed(profile(&place, &args));
    assert!(text.contains("\nreduce_tree_f32: 4 blocks of 256 threads"), "{text}");
    let document = fs::read_to_string(place.path("tree.json")).unwrap();
    let document: serde_json::Value = serde_json::from_str(&document).unwrap();
    let kernels = document["launches"].as_array().unwrap();
    assert!(kernels.iter().all(|launch| launch["kernel"] == "reduce_tree_f32"));
    // 1000 floats of four bytes, a warp at a time: the last of 32 warps has 8 lanes.
    assert_eq!(row(&text, "global loads ")[..2], ["32", "4000"]);
    assert_eq!(row(&text, "global loads ")[3..], ["125", "125"]);
}

#[test]
fn a_page_stands_alone_and_shows_the_accesses() {
    let place = Place::new();
    let root = env!("CARGO_MANIFEST_DIR");
    let args = ["transpose_naive", "--size", "64", "--source", root, "--html", "page.html"];
    profile(&place, &args).success();
    let page = fs::read_to_string(place.path("page.html")).unwrap();
    for word in ["http", "src=", "<script", "@import", "<link"] {
        assert!(!page.contains(word), "{word}");
    }
    assert!(page.starts_with("<!doctype html>") && page.trim_end().ends_with("</html>"));
    assert!(page.contains("prefers-color-scheme:dark") && page.contains("@media print"));
    assert!(page.contains("32 lanes load 4 bytes each; 32 sectors, at best 4"));
    assert!(page.contains("32 lanes store 4 bytes each; 4 sectors, at best 4"));
    assert!(
        page.contains("<title>lane 31: bytes 7936 to 7939</title>"),
        "rows are 256 bytes apart"
    );
    assert_eq!(page.matches("<svg").count(), 2);
    for tag in ["table", "tr", "td", "svg", "figure", "p", "g", "dl", "h2"] {
        let open =
            page.matches(&format!("<{tag}>")).count() + page.matches(&format!("<{tag} ")).count();
        assert_eq!(open, page.matches(&format!("</{tag}>")).count(), "<{tag}>");
    }
}

#[test]
fn what_cannot_be_profiled_is_refused() {
    let place = Place::new();
    refused(
        profile(&place, &["nonsense", "--size", "64"]),
        "no demo launches a kernel of that name",
    );
    let missing = ["vecadd", "--html", "missing/page.html"];
    refused(profile(&place, &missing), "cannot write missing/page.html");
    profile(&place, &["vecadd", "--size", "0"]).code(2);
}

#[test]
fn a_demo_takes_a_size() {
    let assert = Place::new().run(&["demo", "vecadd", "--size", "1000"]).success();
    assert.stdout(contains("1000 elements"));
}

// ---- heat

#[test]
fn heat_and_waves_are_films() {
    let place = Place::new();
    let few = ["--width", "32", "--height", "20", "--frames", "3", "--steps", "5"];
    let run = |more: &[&str]| place.run(&[&["heat"][..], more, &few].concat());
    let said = || contains("32 x 20 cells").and(contains("3 pictures in "));
    run(&["-o", "heat.gif"]).success().stdout(said().and(contains("wrote heat.gif")));
    run(&["-o", "waves", "--wave"]).success().stdout(said().and(contains("wrote waves")));

    assert!(fs::read(place.path("heat.gif")).unwrap().starts_with(b"GIF89a"));
    let pictures = ["00000", "00001", "00002"]
        .map(|name| image::open(place.path(&format!("waves/{name}.png"))).unwrap().into_rgb8());
    assert!(pictures.iter().all(|picture| picture.dimensions() == (32, 20)));
    assert_ne!(pictures[0], pictures[2], "nothing moves");
    // Edges are fixed.
    assert_eq!(pictures[0].get_pixel(0, 0), pictures[2].get_pixel(0, 0));
}

#[test]
fn heat_is_refused_what_is_no_film() {
    let place = Place::new();
    place.run(&["heat"]).failure().code(2);
    place.run(&["heat", "-o", "heat.mp4"]).failure().code(1);
    assert!(place.files().is_empty());
}

// ---- demo particles --output

/// A film of a few particles: the arguments, with `more` behind them.
fn film<'a>(output: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let few = ["--size", "100", "--frames", "3", "--steps", "2", "--width", "48"];
    [&["demo", "particles", "-o", output][..], &few, more].concat()
}

#[test]
fn a_film_is_a_gif() {
    use image::AnimationDecoder;
    use image::codecs::gif::GifDecoder;
    let place = Place::new();
    place.run(&film("dam.gif", &["--fps", "20"])).success().stdout(
        contains("100 particles, ").and(contains("3 pictures in ")).and(contains("wrote dam.gif")),
    );
    let file = std::io::BufReader::new(fs::File::open(place.path("dam.gif")).unwrap());
    let frames = GifDecoder::new(file).unwrap().into_frames().collect_frames().unwrap();
    assert_eq!(frames.len(), 3);
    for frame in &frames {
        assert_eq!(frame.buffer().dimensions(), (48, 27));
        assert_eq!(frame.delay().numer_denom_ms(), (50, 1));
        let first = frame.buffer().get_pixel(47, 0);
        assert!(frame.buffer().pixels().any(|pixel| pixel != first), "nothing is drawn");
    }
}

#[test]
fn a_film_is_an_animated_png() {
    let place = Place::new();
    place.run(&film("dam.png", &[])).success();
    let file = std::io::BufReader::new(fs::File::open(place.path("dam.png")).unwrap());
    let mut reader = png::Decoder::new(file).read_info().unwrap();
    assert_eq!(reader.info().animation_control.unwrap().num_frames, 3);
    let mut frame = vec![0; reader.output_buffer_size().unwrap()];
    for _ in 0..3 {
        let info = reader.next_frame(&mut frame).unwrap();
        assert_eq!((info.width, info.height), (48, 27));
    }
    assert!(reader.next_frame(&mut frame).is_err(), "there are more than three frames");
}

#[test]
fn a_film_is_a_directory_of_pictures() {
    let place = Place::new();
    place.run(&film("pictures", &["--unified"])).success();
    let names = fs::read_dir(place.path("pictures")).unwrap();
    let mut names: Vec<_> = names.map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["00000.png", "00001.png", "00002.png"]);
    assert_eq!(place.image("pictures/00002.png").width(), 48);
}

#[test]
fn a_film_that_cannot_be_is_refused() {
    let place = Place::new();
    place
        .refuses(&film("dam.mov", &[]), "end its name in .gif, .png or .apng, or give a directory");
    place.refuses(&["demo", "saxpy", "-o", "x.gif"], "only `particles` is a film");
    place.refuses(&film("no/dam.gif", &[]), "cannot write no/dam.gif");
    place.run(&["demo", "particles", "--frames", "3"]).failure().code(2);
    assert!(place.files().is_empty());
}
