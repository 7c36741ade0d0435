//! `ferrowarp demo`: rows of what runs, of what cannot run here, and of what fails.

use assert_cmd::Command;
use assert_cmd::assert::Assert;
use predicates::prelude::*;
use predicates::str::{contains, is_empty};

use super::Place;

#[test]
fn demos_run_and_agree_with_the_cpu() {
    let place = Place::new();
    let assert = place.run(&["demo", "vecadd", "reduce_sum_i32", "blur", "--pictures", "out"]);
    let table = contains("largest error").and(contains("vecadd")).and(contains("reduce_sum_i32"));
    assert.success().stdout(table.and(contains("wrote out/blur.png"))).stderr(is_empty());
    assert!(place.image("out/blur.png").width() > 100);
}

#[test]
fn a_graph_is_drawn_as_recorded_and_optimised() {
    let place = Place::new();
    let drawn = contains("digraph").count(2).and(contains("\n// `load` is removed\n"));
    let nodes = contains("[label=").count(5 + 2);
    place.run(&["demo", "--dot"]).success().stdout(drawn.and(nodes)).stderr(is_empty());
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
        "\n\nregistered failed: .*cuMemHostRegister_v2 was made to return 2.*\nwrote out/scene.png\n",
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
    place.refuses(
        &["demo", "vecad"],
        "there is no demo `vecad`; did you mean `vecadd`? `ferrowarp demo --list` shows all\n",
    );
    let line = "there is no demo `nonsense`. `ferrowarp demo --list` shows all\n";
    place.refuses(&["demo", "nonsense"], line);
    let subjects = contains("\nMemory\nslices ").and(contains("\nSimulations\nheat "));
    place.run(&["demo", "--list"]).success().stdout(contains("transpose_tiled").and(subjects));
}

#[test]
fn a_demo_takes_a_size() {
    let assert = Place::new().run(&["demo", "vecadd", "--size", "1000"]).success();
    assert.stdout(contains("1000 elements"));
}
