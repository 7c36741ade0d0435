//! The table of forms and mismatches.

use std::collections::BTreeMap;

use crate::approximate;
use crate::case::{self, Case};
use crate::sides::{Emulated, Gpu, Refused, Results};

/// Mismatches whose rows are printed.
const SHOWN: usize = 120;

#[derive(Default)]
struct Line {
    forms: std::collections::BTreeSet<usize>,
    spellings: usize,
    rows: usize,
    mismatches: usize,
    only_one_side: usize,
    device_faults: usize,
    worst: f64,
}

impl Line {
    fn add(&mut self, mut other: Self) {
        self.forms.append(&mut other.forms);
        self.spellings += other.spellings;
        self.rows += other.rows;
        self.mismatches += other.mismatches;
        self.only_one_side += other.only_one_side;
        self.device_faults += other.device_faults;
        self.worst = self.worst.max(other.worst);
    }
}

/// What has been compared so far.
pub struct Report {
    seed: u64,
    lines: BTreeMap<&'static str, Line>,
    shown: Vec<String>,
}

impl Report {
    pub fn new(seed: u64) -> Self {
        Self { seed, lines: BTreeMap::new(), shown: Vec::new() }
    }

    /// Runs cases on both sides. Those that the emulator takes are compiled together for the GPU.
    pub fn compare(&mut self, cases: &[Case], emulated: &Emulated, gpu: &Gpu) {
        let mut together = Vec::new();
        for case in cases {
            let rows = case.rows(self.seed);
            match emulated.run(case, &rows) {
                Ok(results) => together.push((case, rows, results)),
                refused => {
                    let real = gpu.run_all(&[(case, &rows)]).remove(0);
                    self.note(case, &rows, &refused, &real);
                }
            }
        }
        let both: Vec<(&Case, &[[u64; 4]])> =
            together.iter().map(|(case, rows, _)| (*case, rows.as_slice())).collect();
        let real = gpu.run_all(&both);
        for ((case, rows, results), real) in together.into_iter().zip(real) {
            self.note(case, &rows, &Ok(results), &real);
        }
    }

    /// Takes one case in.
    pub fn note(
        &mut self,
        case: &Case,
        rows: &[[u64; 4]],
        emulated: &Result<Results, Refused>,
        gpu: &Result<Results, Refused>,
    ) {
        let line = self.lines.entry(case.form.family).or_default();
        let found = match (emulated, gpu) {
            (Ok(emulated), Ok(gpu)) => {
                line.forms.insert(std::ptr::from_ref(case.form).addr());
                line.spellings += 1;
                line.rows += rows.len();
                let Differences { wrong, device_fault, worst } =
                    differences(case, rows, emulated, gpu);
                line.device_faults += usize::from(device_fault);
                line.worst = line.worst.max(worst);
                line.mismatches += usize::from(!wrong.is_empty());
                (!wrong.is_empty()).then(|| {
                    let some: Vec<_> =
                        wrong.iter().step_by(wrong.len().div_ceil(4)).cloned().collect();
                    format!("{} rows: {}", wrong.len(), some.join("\n    "))
                })
            }
            (Err(_), Err(_)) => None,
            (Ok(_), Err(Refused(why))) => {
                line.only_one_side += 1;
                Some(format!("{}: only the emulator takes it; the GPU: {why}", case.text))
            }
            (Err(Refused(why)), Ok(_)) => {
                line.only_one_side += 1;
                line.mismatches += 1;
                Some(format!("{}: only the GPU takes it; the emulator: {why}", case.text))
            }
        };
        self.shown.extend(found);
    }

    /// What both have compared.
    pub fn and(mut self, other: Self) -> Self {
        for (family, line) in other.lines {
            self.lines.entry(family).or_default().add(line);
        }
        self.shown.extend(other.shown);
        self.shown.sort_unstable();
        self
    }

    pub fn mismatches(&self) -> usize {
        self.lines.values().map(|line| line.mismatches).sum()
    }

    /// Prints the differences and the table.
    pub fn print(&self) {
        let (lax, wrong): (Vec<&String>, Vec<&String>) =
            self.shown.iter().partition(|text| text.contains("only the emulator"));
        wrong.iter().take(SHOWN).for_each(|text| println!("{text}"));
        println!("taken by the emulator alone: {}", lax.len());
        lax.iter().for_each(|text| println!("  {}", text.lines().next().unwrap_or_default()));
        for form in emulator::isa::forms() {
            if let Some(why) = case::left_out(form) {
                println!("not compared: {} {}: {why}", form.opcode, form.modifiers);
            }
        }
        println!("\nseed {}", self.seed);
        println!(
            "{:28} {:>6} {:>10} {:>12} {:>11} {:>14} {:>12}",
            "family", "forms", "spellings", "rows", "mismatches", "driver's fault", "worst approx"
        );
        for (family, line) in &self.lines {
            println!(
                "{family:28} {:6} {:10} {:12} {:11} {:14} {:12.2}",
                line.forms.len(),
                line.spellings,
                line.rows,
                line.mismatches,
                line.device_faults,
                line.worst
            );
        }
        let total = |count: fn(&Line) -> usize| self.lines.values().map(count).sum::<usize>();
        println!(
            "{:28} {:6} {:10} {:12} {:11}",
            "all",
            total(|line| line.forms.len()),
            total(|line| line.spellings),
            total(|line| line.rows),
            self.mismatches()
        );
    }
}

/// What driver 580 gets wrong: `atom.shared.add.noftz` of a pair adds zero to the upper half. The
/// manual says that both are added, global memory adds both, and the assembler of CUDA 13.5 writes
/// code that does.
fn is_device_fault(case: &Case, row: &[u64; 4], got: [u64; 2], expected: [u64; 2]) -> bool {
    let brain = case.text.contains("bf16x2 ");
    let pair = case.text.contains("add.noftz") && (brain || case.text.contains("f16x2 "));
    let infinity = if brain { 0x7f80 } else { 0x7c00 };
    let upper = match row[0] >> 16 & 0xffff {
        0x8000 => 0,
        old if old & 0x7fff > infinity => 0x7fff,
        old => old,
    };
    let alone = upper << 16 | (got[1] & 0xffff);
    pair && case.text.contains("[%shared]") && expected == [got[0], alone]
}

/// How the results of a case differ.
#[derive(Default)]
struct Differences {
    /// The rows that must not, as text.
    wrong: Vec<String>,
    /// Whether any does because of the driver's fault.
    device_fault: bool,
    /// The largest error of an approximation, in units of what is allowed.
    worst: f64,
}

fn differences(case: &Case, rows: &[[u64; 4]], emulated: &Results, gpu: &Results) -> Differences {
    let mut found = Differences::default();
    for (row, (got, expected)) in rows.iter().zip(emulated.iter().zip(gpu)) {
        if got == expected {
            continue;
        }
        if is_device_fault(case, row, *got, *expected) {
            found.device_fault = true;
            continue;
        }
        match approximate::error(&case.text, row[0], got[0], expected[0]).filter(|_| !case.exact) {
            Some(error) => found.worst = found.worst.max(error),
            None => found.wrong.push(format!(
                "{} of {:x?}: {got:x?}, on the GPU {expected:x?}",
                case.text,
                &row[..case.operands.len()]
            )),
        }
    }
    found
}
