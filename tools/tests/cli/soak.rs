//! `ferrowarp soak`, for seconds.

use std::fs;

use predicates::prelude::*;
use predicates::str::{contains, is_empty};

use super::{Place, refused};

/// Long enough for some hundred works on an emulator.
const SHORT: [&str; 5] = ["soak", "--minutes", "0.1", "--status", "1"];

#[test]
fn a_short_soak_finds_no_miss_and_counts_everything_in_and_out() {
    let place = Place::new();
    let assert = place.run(&[&SHORT[..], &["--seed", "5", "--json", "soak.json"]].concat());
    let summary = contains("seed 5, ").and(contains("no miss\n")).and(contains(" works, "));
    assert.success().stdout(summary.and(contains("samples: host "))).stderr(is_empty());

    let report: serde_json::Value =
        serde_json::from_str(&fs::read_to_string(place.path("soak.json")).unwrap()).unwrap();
    assert!(report["miss"].is_null() && report["values"].as_u64().unwrap() > 1000, "{report}");
    let flows = report["flows"].as_array().unwrap();
    assert!(flows.iter().all(|flow| flow["begun"] == flow["ended"]), "{report}");
    let count =
        |what: &str| flows.iter().find(|flow| flow["what"] == what).unwrap()["ended"].as_u64();
    assert!(count("allocations") > Some(0) && count("planted faults") > Some(0), "{report}");
    assert!(report["memory"]["samples"].as_u64().unwrap() >= 2, "{report}");
}

#[test]
fn a_fault_that_ends_the_context_is_reported_by_the_process_that_has_it() {
    for fault in ["address", "alignment", "trap"] {
        let place = Place::new();
        place.run(&["soak", "--poison", fault]).success().stdout(is_empty()).stderr(is_empty());
    }
}

/// Graphs cannot be launched: the run ends there, and says which work that was.
#[test]
fn a_miss_ends_the_run_with_status_1() {
    let place = Place::new();
    let mut command = place.command(&["soak", "--minutes", "5", "--seed", "9"]);
    command.env("FERROWARP_DEVICE", "emulator").env("FERROWARP_EMULATOR_FAIL", "cuGraphLaunch:1");
    let assert = command.assert().code(1).stdout(contains("no miss").not());
    assert.stderr(contains("error: the soak failed: work ").and(contains(" (graphs) of seed 9: ")));
}

/// What fails before the fault is not its report: here the memory for it cannot be allocated.
#[test]
fn a_child_without_its_report_fails() {
    let place = Place::new();
    let mut command = place.command(&["soak", "--poison", "trap"]);
    command.env("FERROWARP_DEVICE", "emulator").env("FERROWARP_EMULATOR_FAIL", "cuMemAlloc_v2:2");
    refused(command.assert(), "out of GPU memory");
}

#[test]
fn times_and_faults_that_are_none_are_status_2() {
    let place = Place::new();
    place.run(&["soak", "--minutes", "0"]).code(2).stderr(contains("it must be above 0"));
    place.run(&["soak", "--minutes", "long"]).code(2).stderr(contains("it is not a number"));
    place.run(&["soak", "--poison", "arsenic"]).code(2).stderr(contains("trap"));
}

#[cfg(unix)]
#[test]
fn a_signal_ends_it_early_with_its_summary() {
    use std::io::{BufRead, BufReader, Read};
    use std::os::unix::process::CommandExt;
    use std::process::{Command, Stdio};

    let mut command = Command::new(super::program());
    command.args(["soak", "--minutes", "60", "--status", "1"]).stdout(Stdio::piped());
    // SAFETY: the closure makes a system call alone. A shell's background job ignores SIGINT, and so would the program.
    unsafe {
        command.pre_exec(|| {
            libc::signal(libc::SIGINT, libc::SIG_DFL);
            Ok(())
        });
    }
    let mut child = command.spawn().unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    let mut text = String::new();
    output.read_line(&mut text).unwrap();
    // SAFETY: the process is a child that nothing has waited for, so the number is its.
    assert_eq!(unsafe { libc::kill(child.id() as i32, libc::SIGINT) }, 0);
    output.read_to_string(&mut text).unwrap();
    assert!(child.wait().unwrap().success() && text.contains("no miss"), "{text}");
}
