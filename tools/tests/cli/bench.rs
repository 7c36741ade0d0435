//! `ferrowarp bench`: cases are checked wherever it runs; times count on a GPU alone.

use predicates::prelude::*;
use predicates::str::contains;

use super::Place;

#[test]
fn every_case_is_right() {
    let place = Place::new();
    let args = ["bench", "--quick", "--no-peers", "--rounds", "1", "--sizes", "1000"];
    place.run(&args).success().stdout(contains("copy/array/f32").and(contains("reduce/sum/f32")));
}

#[test]
fn the_list_names_what_a_filter_chooses() {
    let place = Place::new();
    let list = place.run(&["bench", "--list", "--filter", "sum/f32", "--sizes", "2^10,77"]);
    list.success().stdout(contains("reduce/sum/f32  2^10").and(contains("copy").not()));
    place.refuses(
        &["bench", "--list", "--filter", "dance"],
        "no case has dance in its name; see --list",
    );
    place.run(&["bench", "--sizes", "0"]).code(2).stderr(contains("a length is a number from 1"));
}

#[test]
fn an_emulator_says_what_its_times_are_worth() {
    let place = Place::new();
    let mut bench = place.command(&["bench", "--filter", "copy/array/f32", "--sizes", "500"]);
    let run = bench.env("FERROWARP_DEVICE", "emulator").assert();
    run.success().stdout(contains("its times say nothing about a GPU"));
}

#[test]
fn a_run_is_kept_drawn_and_compared() {
    let place = Place::new();
    let run = |more: &[&str]| {
        let args = ["bench", "--no-peers", "--filter", "copy/array/f32", "--sizes", "500,4000"];
        place.run(&[&args, more].concat())
    };
    run(&["--json", "first.json", "--picture", "chart.png", "--html", "table.html"]).success();
    let report: serde_json::Value =
        serde_json::from_slice(&std::fs::read(place.path("first.json")).unwrap()).unwrap();
    assert_eq!(report["rows"][1]["shape"][0], 4000);
    assert!(report["rows"][1]["ours"]["median_ms"].as_f64().unwrap() > 0.0);
    assert_eq!(place.image("chart.png").width(), 1680);
    let page = std::fs::read_to_string(place.path("table.html")).unwrap();
    assert_eq!(page.matches("<td>copy/array/f32</td>").count(), 2);
    let compared =
        contains("of 2 cases are where they were; 0 of this run are new, 0 of the earlier one");
    run(&["--baseline", "first.json", "--picture", "chart.svg"]).success().stdout(compared);
    assert!(std::fs::read_to_string(place.path("chart.svg")).unwrap().contains("copy/array/f32"));
}

#[test]
fn files_that_cannot_be_used_are_refused_before_the_work() {
    let place = Place::new().with("notes.json", "{}");
    let refused = |option, file, line| {
        place.refuses(&["bench", "--filter", "copy/array/f32", option, file], line);
    };
    refused("--baseline", "missing.json", "cannot read missing.json");
    refused("--baseline", "notes.json", "notes.json is not what `ferrowarp bench --json` writes");
    refused("--picture", "chart.gif", "end its name in .png or .svg");
    refused("--html", "no/such.html", "cannot write no/such.html");
    refused("--json", "no/such.json", "cannot write no/such.json");
    assert_eq!(place.files(), ["notes.json"]);
}
