//! `ferrowarp tune`: files of measured choices, and who takes them.

use std::fs;

use predicates::prelude::*;
use predicates::str::contains;

use super::Place;

const QUICK: [&str; 6] = ["--rounds", "1", "--choices", "3", "-o", "own.txt"];

#[test]
fn a_file_of_choices_is_written_and_kept() {
    let place = Place::new();
    let tune = |sizes, more: &[&str]| {
        place.run(&[&["tune", "matmul", sizes][..], &QUICK, more].concat()).success()
    };
    let first = tune("64x96x32,40x24x48", &["--elements", "bf16,tf32", "--orders", "nt"]);
    first.stdout(contains("bf16 nt 64x96x32").and(contains("4 in own.txt")));
    let text = fs::read_to_string(place.path("own.txt")).unwrap();
    let lines = ["device ", "driver ", "date 20", "bf16 nt 64 96 32 1 ", "tf32 nt 40 24 48 1 "];
    assert!(lines.iter().all(|begin| text.lines().any(|line| line.starts_with(begin))), "{text}");
    tune("64x96x32", &["--elements", "e4m3", "--batches", "2"]).stdout(contains("5 in own.txt"));
    let again = fs::read_to_string(place.path("own.txt")).unwrap();
    let rows = |text: &str| text.lines().filter(|line| line.contains(" nt ")).count();
    assert_eq!((rows(&again), again.contains("e4m3 nn 64 96 32 2 ")), (4, true), "{again}");
    // Whoever reads it takes its choices, and comes to the same results.
    let mut reader = place.command(&["bench", "--filter", "matmul/nn", "--quick", "--no-peers"]);
    reader.env("FERROWARP_DEVICE", "emulator").env("FERROWARP_TUNING", "own.txt");
    reader.assert().success();
}

#[test]
fn what_cannot_be_tuned_is_refused() {
    let place = Place::new()
        .with("other.txt", "device Another GPU\n")
        .with("bad.txt", "device A\nbf16 nn 1 2\n");
    place.refuses(
        &["tune", "matmul", "8x8x8", "-o", "other.txt"],
        "other.txt has choices for Another GPU, and this is ",
    );
    place.refuses(
        &["tune", "matmul", "8x8x8", "-o", "bad.txt"],
        "bad.txt, line 2: a word is missing",
    );
    place.run(&["tune", "matmul"]).code(2);
    place.run(&["tune", "matmul", "8x8"]).code(2).stderr(contains("a product has three sizes"));
    let mut reader = place.command(&["bench", "--filter", "matmul/nn", "--quick", "--no-peers"]);
    reader.env("FERROWARP_DEVICE", "emulator").env("FERROWARP_TUNING", "bad.txt");
    reader.assert().failure().stderr(contains("bad.txt, line 2").and(contains("FERROWARP_TUNING")));
}
