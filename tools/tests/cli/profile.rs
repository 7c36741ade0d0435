//! `ferrowarp profile`: counts of the emulator, for people and for machines.

use std::fs;
use std::path::Path;

use assert_cmd::assert::Assert;
use predicates::str::contains;

use super::{Place, refused};

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
    assert!(text.contains("kernels-gpu/src/transpose/mod.rs:"), "{text}");
    let tiled = printed(profile(&place, &["transpose_tiled", "--size", "64"]));
    assert_eq!(row(&tiled, "global loads ")[3..], ["512", "512"]);
    // The padding keeps columns of the tile apart.
    assert_eq!(row(&tiled, "shared loads "), ["128", "16384", "16384", "128", "0"]);
}

#[test]
fn a_profile_shows_the_lines_of_the_source_that_it_finds() {
    let root = crate::ROOT;
    let args = ["transpose_naive", "--size", "32", "--source", root];
    if Path::new(root).join("kernels-gpu/src").exists() {
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
    let root = crate::ROOT;
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
fn a_demo_that_fails_does_not_end_the_search_for_a_kernel() {
    let place = Place::new();
    let failing = |kernel: &str| {
        let mut command = place.command(&["profile", kernel, "--size", "64"]);
        command.env("FERROWARP_DEVICE", "emulator");
        command.env("FERROWARP_EMULATOR_FAIL", "cuMemHostRegister_v2:1").assert()
    };
    // Its demo comes behind the one that fails.
    failing("equalize_table").success().stdout(contains("equalize_table"));
    refused(failing("nonsense"), "demo registered");
}

#[test]
fn what_cannot_be_profiled_is_refused() {
    let place = Place::new();
    refused(
        profile(&place, &["nonsense", "--size", "64"]),
        "no demo launches a kernel of that name",
    );
    refused(
        profile(&place, &["transpose_naiv", "--size", "64"]),
        "did you mean `transpose_naive`? `ferrowarp demo --list` shows all demos\n",
    );
    let missing = ["vecadd", "--html", "missing/page.html"];
    refused(profile(&place, &missing), "cannot write missing/page.html");
    profile(&place, &["vecadd", "--size", "0"]).code(2);
}
