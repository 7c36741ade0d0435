//! Every form of every instruction, on edge and random operands, on the emulator and on a GPU.
//!
//! `make diff` runs it where there is a GPU. A form that the two execute differently is a mismatch;
//! the table at the end counts them by family. Approximations may differ by the error that the PTX
//! manual allows either side. Forms without a result of their own (branches, barriers, hints) are
//! listed as not compared; matrix instructions and asynchronous copies have tests of their own.

// The rule for recorded results is the rule for measured ones.
#[path = "../../../emulator/tests/common/approximate.rs"]
mod approximate;
mod bodies;
mod case;
mod operands;
mod report;
mod sides;

use std::sync::Mutex;
use std::thread;

use case::Case;
use report::Report;
use sides::{Emulated, Gpu};

/// Seeds the random operands; another one is chosen by `FERROWARP_DIFF_SEED`.
fn seed() -> u64 {
    std::env::var("FERROWARP_DIFF_SEED").map_or(1, |text| text.parse().expect("a number"))
}

#[test]
#[ignore = "needs an NVIDIA GPU: make diff"]
fn the_emulator_agrees_with_the_gpu_on_every_form() {
    let report = compare(&case::all());
    report.print();
    assert_eq!(report.mismatches(), 0, "the emulator and the GPU differ; see the table above");
}

/// Compares cases on all processors: most of the time is the emulator's, and the results'
/// comparison.
fn compare(cases: &[Case]) -> Report {
    let chunks = Mutex::new(cases.chunks(64));
    let next = || chunks.lock().expect("no panic").next();
    let work = || {
        let (gpu, emulated, mut report) = (Gpu::new(), Emulated::new(), Report::new(seed()));
        while let Some(cases) = next() {
            report.compare(cases, &emulated, &gpu);
        }
        report
    };
    thread::scope(|scope| {
        let processors = thread::available_parallelism().map_or(1, usize::from);
        let threads: Vec<_> = (0..processors).map(|_| scope.spawn(work)).collect();
        let reports = threads.into_iter().map(|thread| thread.join().expect("no panic"));
        reports.fold(Report::new(seed()), Report::and)
    })
}

#[test]
fn every_form_is_compared_or_named_as_left_out() {
    let cases = case::all();
    let covered = |form: &emulator::isa::Form| {
        cases.iter().any(|case| std::ptr::eq(case.form, form)) || case::left_out(form).is_some()
    };
    let missing: Vec<String> = emulator::isa::forms()
        .iter()
        .filter(|form| !covered(form))
        .map(|form| format!("{} {}", form.opcode, form.modifiers))
        .collect();
    assert!(missing.is_empty(), "neither compared nor left out:\n{}", missing.join("\n"));
}

#[test]
fn the_emulator_executes_what_it_loads_and_one_row_gives_one_result() {
    let emulated = Emulated::new();
    let cases = case::all();
    let mut loaded = 0;
    for case in cases.iter().step_by(23) {
        let rows = case.rows(seed());
        if let Ok(results) = emulated.run(case, &rows) {
            assert_eq!(results.len(), rows.len(), "{}", case.text);
            loaded += 1;
        }
    }
    assert!(loaded > 60, "only {loaded} of {} cases load", cases.len() / 23);
}

#[test]
fn a_planted_difference_is_a_mismatch() {
    let cases = case::all();
    let add = cases.iter().find(|case| case.text == "add.u32 %d, %a, %b;").expect("a case");
    let rows = add.rows(1);
    let right = Emulated::new().run(add, &rows).expect("it loads");
    assert_eq!(right[0][0], u64::from((rows[0][0] as u32).wrapping_add(rows[0][1] as u32)));
    let mut wrong = right.clone();
    wrong[7][0] ^= 1;
    let mut report = Report::new(1);
    report.note(add, &rows, &Ok(right.clone()), &Ok(right.clone()));
    assert_eq!(report.mismatches(), 0);
    report.note(add, &rows, &Ok(right), &Ok(wrong));
    assert_eq!(report.mismatches(), 1);
}
