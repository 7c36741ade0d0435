//! Runs each example and looks at what it prints. The examples check their own results and fail if one is wrong.
//!
//! Cargo builds the examples for `cargo test -p examples` and puts them beside the folder of this test's own executable;
//! `scripts/bundle` copies them to the same relative place.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

/// The folder of the built examples: `examples`, next to the folder that this executable is in.
fn folder() -> PathBuf {
    let own = env::current_exe().expect("this executable has a path");
    own.ancestors().nth(2).expect("it lies in a folder of the build").join("examples")
}

/// Runs an example, and returns what it printed.
fn run(name: &str, args: &[&Path]) -> String {
    let program = folder().join(name);
    let output = Command::new(&program).args(args).output().unwrap_or_else(|error| {
        panic!("{}: {error}; build it by `cargo build -p examples --examples`", program.display())
    });
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{name}: {}\n{stdout}{stderr}", output.status);
    stdout
}

fn assert_prints(name: &str, expected: &[&str]) {
    let stdout = run(name, &[]);
    for words in expected {
        assert!(stdout.contains(words), "{name} does not print `{words}`:\n{stdout}");
    }
}

#[test]
fn vecadd() {
    assert_prints("01_vecadd", &["device: ", "100000 sums are right; the last one is 149998.5"]);
}

#[test]
fn own_kernel() {
    assert_prints("02_own_kernel", &["the sequence of 77031 is the longest: 350 steps"]);
}

#[test]
fn shared_memory() {
    assert_prints("03_shared_memory", &["mean step between neighbours: "]);
}

#[test]
fn streams_pinned() {
    assert_prints("04_streams_pinned", &["two streams, 65536 elements each: "]);
}

#[test]
fn graph() {
    assert_prints("05_graph", &["ms one by one, ", "ms as a graph"]);
}

#[test]
fn futures() {
    assert_prints("06_futures", &["16 tasks on 2 threads have doubled 160000 values"]);
}

#[test]
fn image() {
    let folder = env::temp_dir().join(format!("ferrowarp-examples-{}", std::process::id()));
    fs::create_dir_all(&folder).expect("a folder for the pictures");
    let (input, output) = (folder.join("square.png"), folder.join("edges.png"));
    let square =
        |x: u32, y: u32| if (10..30).contains(&x) && (10..30).contains(&y) { 255 } else { 0 };
    image::GrayImage::from_fn(40, 40, |x, y| image::Luma([square(x, y)]))
        .save(&input)
        .expect("saved");
    let stdout = run("07_image", &[&input, &output]);
    assert!(stdout.contains("40 x 40 pixels, "), "{stdout}");
    let edges = image::open(&output).expect("the example wrote it").to_luma8();
    assert_eq!((edges.get_pixel(20, 20).0, edges.get_pixel(2, 2).0), ([0], [0]));
    assert!(edges.get_pixel(10, 20).0[0] > 128, "the left side of the square is an edge");
    fs::remove_dir_all(&folder).expect("the folder goes");
}

#[test]
fn sort_scan() {
    assert_prints("08_sort_scan", &["100000 bookings: the balance ends at "]);
}

#[test]
fn unified_memory() {
    assert_prints("09_unified_memory", &["y[99999] = 199999, written by the device"]);
}

#[test]
fn persistent_kernel() {
    assert_prints("10_persistent_kernel", &["200 answers in "]);
}

#[test]
fn errors_panics() {
    let expected = [
        "kernel panic: kernel `gather` panicked at ",
        "the len is 4 but the index is 7",
        "launch: `gather` cannot be launched with 5000 ",
        "copy: ",
        "allocation: out of GPU memory: ",
    ];
    assert_prints("11_errors_panics", &expected);
}

#[test]
fn cust() {
    assert_prints("12_cust", &["10000 values are right; the last one is 19999"]);
}

#[test]
fn matmul() {
    assert_prints(
        "13_matmul",
        &["32 rows through layers of [64, 128, 16]: right", "4096³ would be the "],
    );
}

#[test]
fn dlpack() {
    let expected =
        ["a tensor of shape [3, 4] came back; its sum is 66", "that of the shared part 96"];
    assert_prints("14_dlpack", &expected);
}

#[test]
fn attention() {
    assert_prints("15_attention", &["1024 results over [37, 20] keys in pages: off by 0.00"]);
}

#[test]
fn cust_steps() {
    let expected = [
        "cust alone: 1000000",
        "step 1, a typed launch: 1000000",
        "step 2, an operation: 1000000",
        "step 3, memory taken over: 1000000",
        "step 4, without cust: 1000000",
    ];
    assert_prints("16_cust_steps", &expected);
}

/// The manifest lists the files by hand, since they lie beside it. Those with a number are run here; the programs behind
/// features have tests of their own.
#[test]
fn every_file_is_an_example_and_has_a_test() {
    let own = include_str!("examples.rs");
    let manifest = include_str!("../Cargo.toml");
    let names: Vec<&str> = manifest
        .lines()
        .filter_map(|line| line.strip_prefix("path = \"")?.strip_suffix(".rs\""))
        .filter(|name| name.starts_with(|first: char| first.is_ascii_digit()))
        .collect();
    assert_eq!(names.len(), 16);
    for name in names {
        assert!(own.contains(&format!("\"{name}\"")), "no test runs {name}");
    }
}
