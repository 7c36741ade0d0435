//! `ferrowarp dist heat` and `ferrowarp dist scale`: alone, and over MPI on emulated devices where the program has it.

use std::fs;
use std::process::{Command, Stdio};

use predicates::prelude::*;
use predicates::str::contains;

use super::{Place, program};

const FEW: [&str; 8] = ["--width", "48", "--height", "29", "--frames", "4", "--steps", "7"];

/// The arguments of a film of heat, or of waves.
fn film<'a>(command: &[&'a str], is_wave: bool, output: &'a str) -> Vec<&'a str> {
    let wave: &[&str] = if is_wave { &["--wave"] } else { &[] };
    [command, wave, &FEW, &["-o", output]].concat()
}

#[test]
fn a_film_of_one_rank_is_that_of_heat() {
    let place = Place::new();
    for (is_wave, [one, many]) in
        [(false, ["one.gif", "many.gif"]), (true, ["one.png", "many.png"])]
    {
        place.run(&film(&["heat"], is_wave, one)).success();
        let made = place.run(&film(&["dist", "heat", "--alone"], is_wave, many)).success();
        let says = contains("48 x 29 cells in slabs of 1 rank").and(contains("4 pictures in "));
        made.stdout(says.and(contains(format!("wrote {many}"))));
        let [one, many] = [one, many].map(|name| fs::read(place.path(name)).unwrap());
        assert!(one == many, "the films differ");
    }
}

#[test]
#[cfg_attr(not(feature = "mpi"), ignore = "the program is built without the feature `mpi`")]
fn a_film_of_many_ranks_is_that_of_one_device() {
    let place = Place::new();
    for is_wave in [false, true] {
        let mut alone = place.command(&film(&["heat"], is_wave, "one.png"));
        alone.env("FERROWARP_DEVICE", "emulator").assert().success();
        let one = fs::read(place.path("one.png")).unwrap();
        for ranks in ["2", "3", "7"] {
            let output = mpirun(&place, ranks, &film(&["dist", "heat"], is_wave, "many.png"));
            assert!(output.contains("wrote many.png"), "{output}");
            let many = fs::read(place.path("many.png")).unwrap();
            assert!(one == many, "the film of {ranks} ranks differs");
        }
    }
}

/// Runs the program as ranks in a folder, and returns what it printed.
fn mpirun(place: &Place, ranks: &str, arguments: &[&str]) -> String {
    let mut command = Command::new("mpirun");
    command.args(["-n", ranks]).arg(program()).args(arguments);
    for name in ["OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"] {
        command.env(name, "1");
    }
    command.env("OMPI_MCA_rmaps_base_oversubscribe", "1").env("FERROWARP_DEVICE", "emulator");
    command.stdin(Stdio::null()).current_dir(&place.0);
    let output = command.output().expect("mpirun can be started");
    let [out, err] = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text));
    assert!(output.status.success(), "{out}{err}");
    out.into_owned()
}

#[test]
fn scaling_is_a_table_of_times() {
    let place = Place::new();
    let small =
        ["--side", "8", "--particles", "20", "--keys", "100", "--steps", "2", "--rounds", "1"];
    let rows = contains("3-D stencil, weak").and(contains("3-D stencil, strong"));
    let rows = rows.and(contains("particles, weak")).and(contains("efficiency"));
    let rows = rows.and(contains("sort of 32-bit keys, weak"));
    let head = contains("1 rank by no launcher").and(contains("medians of 1 rounds of 2 steps"));
    let drawn = ["--picture", "scaling.svg"];
    let run = place.run(&[&["dist", "scale", "--alone"][..], &small, &drawn].concat());
    run.success().stdout(head.and(rows));
    let picture = std::fs::read_to_string(place.path("scaling.svg")).unwrap();
    assert!(picture.starts_with("<svg") && picture.contains("particles, weak"));
    let unknown = ["dist", "scale", "--alone", "--picture", "scaling.gif"];
    place.run(&unknown).failure().stderr(contains("scaling.gif"));
    place.run(&["dist", "scale", "--alone", "--side", "3"]).failure().code(2);
}
