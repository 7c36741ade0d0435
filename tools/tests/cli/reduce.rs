//! `ferrowarp reduce`: sums of columns, and what is refused.

use predicates::prelude::*;
use predicates::str::{contains, is_empty};

use super::Place;

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

#[test]
fn tables_that_can_be_read_in_two_ways_are_refused() {
    let wide: Vec<u8> =
        "\u{feff}price\r\n1\r\n".encode_utf16().flat_map(u16::to_le_bytes).collect();
    let place = Place::new()
        .with("comma.csv", "price\n1,5\n")
        .with("quote.csv", "price\n\"1\n")
        .with("twice.csv", "price,price\n1,2\n")
        .with("wide.csv", wide);
    let refuses = |file, line| {
        place.refuses(&["reduce", file, "-c", "price"], line);
        place.refuses(&["sort", file, "-c", "price"], line);
    };
    refuses("comma.csv", "comma.csv, row 2 has 2 fields, and the first row has 1: a number has a");
    refuses("quote.csv", "quote.csv, row 2: a quote is opened and never closed");
    refuses("twice.csv", "has several columns `price`: choose one by its number (1, 2)");
    refuses("wide.csv", "wide.csv is not UTF-8: `iconv -f UTF-16 -t UTF-8` makes it so");
    place.run(&["reduce", "twice.csv", "-c", "2"]).success().stdout(contains("sum     2\n"));
}

#[test]
fn standard_input_is_added() {
    let place = Place::new();
    let run = |text: &str| place.command(&["reduce", "-"]).write_stdin(text).assert();
    run("1\n2.5\n").success().stdout(contains("sum     3.5\n"));
    super::refused(run("1\nx\n"), "standard input, row 2, column 1: `x` is not a number");
}
