//! `ferrowarp sort`: what comes out, and what is refused.

use std::fs;

use predicates::prelude::*;
use predicates::str::{contains, is_empty};

use super::Place;

#[test]
fn lines_are_sorted_as_they_stand() {
    let place = Place::new().with("n.txt", "10\n9.50\n -1e3\ninf\n9.5\n\n-0\n0\nnan\n");
    let assert = place.run(&["sort", "n.txt"]).success().stderr(contains("sorted 8 numbers in "));
    assert.stdout(" -1e3\n-0\n0\n9.50\n9.5\n10\ninf\nnan\n");
    let assert = place.run(&["sort", "n.txt", "--descending"]).success();
    assert.stdout("nan\ninf\n10\n9.50\n9.5\n0\n-0\n -1e3\n");
}

#[test]
fn a_table_goes_by_its_column_and_keeps_its_header() {
    let rows = "day,price\r\nmon,3\r\n\"tue, late\",1\r\nwed,3\r\nthu,2\r\n";
    let place = Place::new().with("t.csv", rows);
    let args = ["sort", "t.csv", "-c", "price", "-t", "u8", "-o", "s.csv"];
    let assert = place.run(&args).success().stdout(is_empty());
    assert.stderr(contains("sorted 4 numbers in ").and(contains("G/s, on ")));
    let sorted = "day,price\r\n\"tue, late\",1\r\nthu,2\r\nmon,3\r\nwed,3\r\n";
    assert_eq!(fs::read_to_string(place.path("s.csv")).unwrap(), sorted);
    place.refuses(&["sort", "t.csv"], "t.csv has 2 columns: choose one with --column");
    place.refuses(&["sort", "t.csv", "-c", "cost"], "t.csv has no column cost");
}

#[test]
fn ends_of_lines_stay() {
    let sorts = |table: &str, sorted: &'static str| {
        let place = Place::new().with("t.csv", table);
        place.run(&["sort", "t.csv", "-c", "1"]).success().stdout(sorted);
    };
    sorts("2,b\r\n1,a\r\n", "1,a\r\n2,b\r\n");
    sorts("2,b\r\n\r\n1,a", "1,a\r\n2,b\r\n");
    sorts("2,b\n1,\"a\r\nc\"\r\n", "1,\"a\r\nc\"\r\n2,b\n");
    sorts("2,b\n1,a", "1,a\n2,b\n");
    // The mark of UTF-8 belongs to the file, not to its first row.
    sorts("\u{feff}2,b\r\n1,a\r\n", "\u{feff}1,a\r\n2,b\r\n");
    sorts("\u{feff}n,x\r\n2,b\r\n1,a", "\u{feff}n,x\r\n1,a\r\n2,b\r\n");
}

#[test]
fn standard_input_is_sorted() {
    let place = Place::new();
    let run = |args: &[&str], bytes: &[u8]| place.command(args).write_stdin(bytes).assert();
    run(&["sort", "-"], b"2\n1\n").success().stdout("1\n2\n");
    run(&["sort", "-", "--raw", "-t", "u8", "-o", "s"], &[3, 1, 2]).success();
    assert_eq!(fs::read(place.path("s")).unwrap(), [1, 2, 3]);
    super::refused(run(&["sort", "-"], b""), "standard input is empty");
}

#[test]
fn large_whole_numbers_are_not_rounded() {
    let (a, b) = (u64::MAX - 1, u64::MAX);
    let place = Place::new().with("n.txt", format!("{b}\n{a}\n"));
    place.run(&["sort", "n.txt", "-t", "u64"]).success().stdout(format!("{a}\n{b}\n"));
}

#[test]
fn raw_numbers_are_sorted() {
    let numbers: Vec<i32> = (0..5000).map(|i: i32| (i * 7919) % 5003 - 2500).collect();
    let bytes: Vec<u8> = numbers.iter().flat_map(|x| x.to_le_bytes()).collect();
    let place = Place::new().with("n.i32", &bytes).with("n.bin", &bytes);
    let mut sorted = numbers;
    sorted.sort();
    for args in [&["sort", "n.i32", "-o", "s"][..], &["sort", "n.bin", "-t", "i32", "-o", "s"]] {
        place.run(args).success().stderr(contains("sorted 5000 numbers"));
        let found = fs::read(place.path("s")).unwrap();
        assert!(
            found
                .chunks_exact(4)
                .map(|x| i32::from_le_bytes(x.try_into().unwrap()))
                .eq(sorted.clone())
        );
    }
    place.run(&["sort", "n.i32", "-d", "-o", "n.i32"]).success();
    sorted.reverse();
    let found = fs::read(place.path("n.i32")).unwrap();
    assert_eq!(found[..4], sorted[0].to_le_bytes());
}

#[test]
fn what_cannot_be_sorted_is_refused_and_leaves_nothing() {
    let place = Place::new()
        .with("n.bin", [1, 2, 3, 4, 5])
        .with("n.u32", [1, 2, 3, 4, 5])
        .with("word.txt", "1\ntwo\n")
        .with("large.txt", "1\n300\n")
        .with("half.txt", "1\n1.5\n")
        .with("empty.txt", "");
    let files = place.files();
    place.refuses(&["sort", "n.bin", "-o", "s"], "what does n.bin hold? Name the type");
    place.refuses(&["sort", "n.u32", "-o", "s"], "n.u32 has 5 bytes, which is not a multiple of 4");
    place.refuses(&["sort", "n.u32"], "raw numbers do not go to standard output");
    place.refuses(
        &["sort", "n.u32", "-c", "1", "-o", "s"],
        "holds raw numbers, which have no column 1",
    );
    place.refuses(&["sort", "word.txt", "-o", "s"], "row 2, column 1: `two` is not a number");
    place.refuses(&["sort", "large.txt", "-t", "u8"], "`300` does not fit into 8 bits");
    place.refuses(&["sort", "half.txt", "-t", "i8"], "`1.5` is not a whole number");
    place.refuses(&["sort", "empty.txt"], "empty.txt is empty");
    place.refuses(&["sort", "word.txt", "-o", "no/s"], "cannot write no/s");
    place.run(&["sort", "word.txt", "-t", "u7"]).code(2).stderr(contains("possible values: u8"));
    assert_eq!(place.files(), files);
}
