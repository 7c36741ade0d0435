//! The program, as a user calls it: results, refusals, and what a failure leaves alone.
//!
//! Runs on the device that the machine has, except where the device is the matter.

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
    for args in [&["--help"][..], &["image", "--help"], &["reduce", "--help"], &["demo", "--help"]]
    {
        place.run(args).success().stdout(contains("Examples:\n  ferrowarp "));
    }
    place.run(&["--help"]).stdout(contains("FERROWARP_DEVICE=emulator"));
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
    assert.stdout(contains("Work runs on the ").and(contains("compute")).and(contains("GB/s")));
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

#[test]
fn a_demo_that_does_not_exist_is_refused() {
    let place = Place::new();
    place.refuses(&["demo", "vecad"], "there is no demo `vecad`; there are vecadd, saxpy");
    place.run(&["demo", "--list"]).success().stdout(contains("transpose_tiled"));
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
    place.refuses(&["reduce", "n.f32", "--column", "1"], "holds raw floats");
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
    // The program may lie where nobody can reach it.
    let reachable = place.path("ferrowarp");
    fs::copy(program(), &reachable).unwrap();
    let mut command = std::process::Command::new(reachable);
    command.current_dir(place.0.path()).args(args).uid(NOBODY);
    Command::from_std(command).assert()
}
