//! `ferrowarp doctor`: the report of this machine, its JSON, and the exit status.

use predicates::prelude::*;
use predicates::str::contains;
use serde_json::Value;

use super::Place;

/// The names of all lines, in their order.
const LINES: [&str; 10] = [
    "compiler",
    "rust-src",
    "linker",
    "driver",
    "device",
    "HMM",
    "permissions",
    "WSL2",
    "NCCL",
    "ptxas",
];

/// The report with these variables, and the exit status.
fn report(variables: &[(&str, &str)]) -> (Value, Option<i32>) {
    let place = Place::new();
    let mut command = place.command(&["doctor", "--json"]);
    let output = command.envs(variables.iter().copied()).output().unwrap();
    (serde_json::from_slice(&output.stdout).unwrap(), output.status.code())
}

fn line<'a>(report: &'a Value, name: &str) -> &'a Value {
    let lines = report["lines"].as_array().unwrap();
    lines.iter().find(|line| line["name"] == name).unwrap()
}

#[test]
fn every_line_is_right_or_has_its_fix() {
    let (report, code) = report(&[]);
    let lines = report["lines"].as_array().unwrap();
    let names: Vec<_> = lines.iter().map(|line| line["name"].as_str().unwrap()).collect();
    assert_eq!(names, LINES);
    for line in lines {
        assert_eq!(line["state"] == "right", line["fix"].is_null(), "{line}");
        assert_ne!(line["found"], "", "{line}");
    }
    let right = lines.iter().all(|line| line["state"] != "wrong");
    assert_eq!((&report["right"], code), (&Value::from(right), Some(i32::from(!right))));
}

#[test]
fn the_emulator_needs_no_driver() {
    let (report, _) = report(&[("FERROWARP_DEVICE", "emulator")]);
    assert_eq!(line(&report, "device")["found"], "the emulator, since FERROWARP_DEVICE=emulator");
    for name in ["driver", "device", "HMM"] {
        assert_eq!(line(&report, name)["state"], "right");
    }
}

#[test]
fn a_driver_that_is_demanded_and_absent_is_wrong() {
    let library = ("FERROWARP_CUDA_LIBRARY", "/nowhere/libcuda.so.1");
    let (report, code) = report(&[("FERROWARP_DEVICE", "cuda"), library]);
    assert_eq!((&report["right"], code), (&Value::from(false), Some(1)));
    for name in ["driver", "device"] {
        let line = line(&report, name);
        assert_eq!(line["state"], "wrong");
        assert!(line["found"].as_str().unwrap().contains("/nowhere/libcuda.so.1"), "{line}");
        assert!(line["fix"].as_str().unwrap().contains("FERROWARP_DEVICE"), "{line}");
    }
}

#[test]
fn a_compiler_that_does_not_run_is_wrong_with_all_that_needs_it() {
    let (report, code) = report(&[("RUSTC", "/nowhere/rustc")]);
    assert_eq!(code, Some(1));
    for name in ["compiler", "rust-src", "linker"] {
        assert_eq!(line(&report, name)["state"], "wrong");
    }
}

#[test]
fn the_text_has_the_fixes_and_the_error_the_names() {
    let place = Place::new();
    let mut command = place.command(&["doctor"]);
    let assert =
        command.env("RUSTC", "/nowhere/rustc").env("FERROWARP_DEVICE", "emulator").assert();
    let text = contains("compiler     wrong    rustc does not run: ");
    let fix = contains("fix: install rustup");
    let assert = assert.code(1).stdout(text.and(fix));
    assert.stderr("error: wrong on this machine: compiler, rust-src, linker\n");
}
