//! Atomic read-modify-writes as LLVM 22 writes them: without their order, and on a thread's own variables too.

mod order;
mod own;

use std::collections::BTreeMap;
use std::path::Path;

use super::error::PtxError;
use order::{Order, Source};
use ptx_format::functions::{code, scan};
use ptx_format::panic::REPORT;

/// A text whose read-modify-writes are what the source says.
#[derive(Debug)]
pub(super) struct Mended {
    pub text: String,
    /// The functions with operations whose order is not known, which were made sequentially consistent.
    pub unknown: Vec<String>,
}

/// Gives each read-modify-write of the compiler its order, and replaces those on a thread's own memory.
pub(super) fn apply(text: &str, base: Option<&Path>) -> Result<Mended, PtxError> {
    if !text.contains("atom.") {
        return Ok(Mended { text: text.to_owned(), unknown: Vec::new() });
    }
    let mut walk = Walk { base, ..Walk::new(text) };
    let mut out = String::with_capacity(text.len() + text.len() / 64);
    let mut unknown = Vec::new();
    for (number, line) in text.lines().enumerate() {
        walk.step(line);
        match walk.mend(number, line)? {
            Some(Change::Known(other)) => out.push_str(&other),
            Some(Change::Unknown(other)) => {
                unknown.push(number);
                out.push_str(&other);
            }
            None => {
                out.push_str(line);
                out.push('\n');
            }
        }
    }
    Ok(Mended { text: out, unknown: names(text, &unknown) })
}

/// What stands in place of a line.
enum Change {
    Known(String),
    Unknown(String),
}

/// The lines of a text in order, and what those so far say about the next.
struct Walk<'a> {
    text: &'a str,
    base: Option<&'a Path>,
    /// The source files, by number. They stand at the end of the text.
    files: BTreeMap<&'a str, &'a str>,
    /// Whether the instructions are older than `atom` with an order (`sm_70`).
    is_old: bool,
    source: Source,
    in_asm: bool,
    in_handler: bool,
    /// The file and the line of the source, for the instructions from here on.
    place: Option<(&'a str, usize)>,
    /// The last place that is not in the library.
    own_place: Option<(&'a str, usize)>,
}

impl<'a> Walk<'a> {
    fn new(text: &'a str) -> Self {
        let target = text.lines().find_map(|line| line.strip_prefix(".target sm_"));
        let digits = target.map(|rest| rest.trim_end_matches(|c: char| !c.is_ascii_digit()));
        Self {
            text,
            base: None,
            files: text.lines().filter_map(file).collect(),
            is_old: digits
                .and_then(|digits| digits.parse().ok())
                .is_some_and(|arch: u32| arch < 70),
            source: Source::default(),
            in_asm: false,
            in_handler: false,
            place: None,
            own_place: None,
        }
    }

    /// Takes note of what a line says about those behind it.
    fn step(&mut self, line: &'a str) {
        let trimmed = line.trim_start();
        match trimmed {
            "// begin inline asm" => self.in_asm = true,
            "// end inline asm" => self.in_asm = false,
            _ if trimmed.starts_with(".loc") => self.locate(trimmed),
            // A function without lines must not be taken for the end of the one before.
            _ if line.starts_with('.') && (line.contains(".func") || line.contains(".entry")) => {
                (self.place, self.own_place) = (None, None);
                self.in_handler = line.contains(REPORT);
            }
            _ => {}
        }
    }

    /// `.loc FILE LINE COLUMN`
    fn locate(&mut self, directive: &str) {
        let mut words = directive.split_whitespace().skip(1);
        let file = words.next().and_then(|number| self.files.get(number)).copied();
        let line = words.next().and_then(|line| line.parse().ok());
        self.place = file.zip(line);
        let in_library = |(file, line): &(&str, usize)| file.contains("/rustlib/") || *line == 0;
        if let Some(own) = self.place.filter(|place| !in_library(place)) {
            self.own_place = Some(own);
        }
    }

    fn mend(&mut self, number: usize, line: &str) -> Result<Option<Change>, PtxError> {
        let code = code(line);
        if !code.contains("atom.") {
            return Ok(None);
        }
        let opcode = code.split_whitespace().next().unwrap_or_default();
        if code.contains(".local.") {
            let plain = own::plain(code).filter(|_| !self.in_asm);
            return plain.map(|plain| Some(Change::Known(plain))).ok_or(self.refused(number, code));
        }
        // Inline assembly says what its author means. The panic handler's counters are relaxed, and
        // `cuda_std`, a dependency, is compiled without lines.
        if self.in_asm || self.in_handler || !order::is_bare(opcode) {
            return Ok(None);
        }
        let order = self.place.and_then(|(file, line)| self.source.order(file, line));
        let written = order.unwrap_or(Order::SeqCst).write(line, self.is_old);
        Ok(match order {
            Some(_) => written.map(Change::Known),
            None => written.map(Change::Unknown),
        })
    }

    fn refused(&self, number: usize, code: &str) -> PtxError {
        let named = |(file, line): (&str, usize)| {
            let below = self.base.and_then(|base| Path::new(file).strip_prefix(base).ok());
            format!("{}:{line}", below.unwrap_or(Path::new(file)).display())
        };
        PtxError::OwnAtomic {
            place: self.own_place.map_or_else(|| format!("PTX line {}", number + 1), named),
            function: names(self.text, &[number]).pop().unwrap_or_default(),
            instruction: code.trim_end_matches(';').to_owned(),
        }
    }
}

/// `.file NUMBER "NAME"`
fn file(line: &str) -> Option<(&str, &str)> {
    let (number, name) =
        line.trim_start().strip_prefix(".file")?.trim().split_once(char::is_whitespace)?;
    Some((number, name.trim().trim_matches('"')))
}

/// The functions that these lines stand in, each once.
fn names(text: &str, lines: &[usize]) -> Vec<String> {
    if lines.is_empty() {
        return Vec::new();
    }
    let functions = scan(text);
    let has = |body: &std::ops::Range<usize>| lines.iter().any(|line| body.contains(line));
    functions.iter().filter(|f| has(&f.body)).map(|f| f.name.to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::process::Command;

    /// The file of `core` with its atomics, and the line that has this text.
    fn core_line(text: &str) -> (String, usize) {
        let rustc = Command::new("rustc").args(["--print", "sysroot"]).output().unwrap();
        let sysroot = String::from_utf8(rustc.stdout).unwrap();
        let file = "lib/rustlib/src/rust/library/core/src/sync/atomic.rs";
        let file = format!("{}/{file}", sysroot.trim());
        let source = fs::read_to_string(&file).unwrap();
        let line = source.lines().position(|line| line.contains(text)).unwrap() + 1;
        (file, line)
    }

    /// A kernel with one instruction, from that line of `core`.
    fn kernel(target: &str, line: &str, instruction: &str) -> String {
        let (file, line) = core_line(line);
        format!(
            ".target {target}\n.visible .entry k(\n)\n{{\n\t.loc\t2 7 5\n\tmov.u32 %r1, 1;\n\t.loc\t1 {line} 9\n\
             \t{instruction}\n\tret;\n}}\n\t.file\t1 \"{file}\"\n\t.file\t2 \"/home/me/k/src/lib.rs\"\n"
        )
    }

    fn changed(target: &str, order: &str) -> (String, Vec<String>) {
        let line = format!("atomic_xadd::<T, U, {{ AO::{order} }}>");
        let text = kernel(target, &line, "atom.global.add.u32 \t%r1, [%rd1], 1;");
        let Mended { text: other, unknown } = apply(&text, None).unwrap();
        let new = other.lines().filter(|line| !text.lines().any(|old| old == *line));
        (new.map(|line| line.trim().replace('\t', "")).collect::<Vec<_>>().join(" "), unknown)
    }

    #[test]
    fn each_order_of_the_source_reaches_the_instruction() {
        let of = |order| match changed("sm_80", order) {
            (text, unknown) if unknown.is_empty() => text,
            (_, unknown) => panic!("{unknown:?}"),
        };
        assert_eq!(of("Relaxed"), "");
        assert_eq!(of("Acquire"), "atom.acquire.sys.global.add.u32 %r1, [%rd1], 1;");
        assert_eq!(of("Release"), "atom.release.sys.global.add.u32 %r1, [%rd1], 1;");
        assert_eq!(of("AcqRel"), "atom.acq_rel.sys.global.add.u32 %r1, [%rd1], 1;");
        let fenced = "fence.sc.sys; atom.acq_rel.sys.global.add.u32 %r1, [%rd1], 1;";
        assert_eq!(of("SeqCst"), fenced);
    }

    #[test]
    fn before_sm_70_fences_stand_around_it() {
        let atom = "atom.global.add.u32 \t%r1, [%rd1], 1;";
        let around = |order: &str| {
            let line = format!("atomic_xadd::<T, U, {{ AO::{order} }}>");
            let text = apply(&kernel("sm_61", &line, atom), None).unwrap().text;
            let lines: Vec<&str> = text.lines().map(str::trim).collect();
            let at = lines.iter().position(|line| *line == atom).unwrap();
            [at - 1, at + 1].map(|near| lines[near] == "membar.sys;")
        };
        assert_eq!(around("Relaxed"), [false, false]);
        assert_eq!(around("Acquire"), [false, true]);
        assert_eq!(around("Release"), [true, false]);
        assert_eq!(around("AcqRel"), [true, true]);
        assert_eq!(around("SeqCst"), [true, true]);
    }

    #[test]
    fn an_unknown_order_is_the_strongest() {
        let text = kernel("sm_80", "AO::Relaxed", "atom.global.add.u32 \t%r1, [%rd1], 1;");
        let text = text.replace("\t.loc\t1", "\t.loc\t2");
        let Mended { text, unknown } = apply(&text, None).unwrap();
        assert!(text.contains("\tfence.sc.sys;\n\tatom.acq_rel.sys.global.add.u32"), "{text}");
        assert_eq!(unknown, ["k"]);
    }

    /// The line of the function before it says nothing about a function that has none.
    #[test]
    fn a_function_without_lines_has_no_known_order() {
        let relaxed = kernel("sm_80", "AO::Relaxed", "mov.u32 %r2, 1;");
        let second = ".func second()\n{\n\tatom.global.exch.b32 %r1, [%rd1], 1;\n}\n\t.file\t1";
        let text = relaxed.replacen("\t.file\t1", second, 1);
        assert_eq!(apply(&text, None).unwrap().unknown, ["second"]);
        let handler = text.replace("second", "_RN8cuda_std5panic6device6report");
        assert_eq!(apply(&handler, None).unwrap().text, handler);
    }

    #[test]
    fn what_says_its_order_stays() {
        let written = [
            "atom.acq_rel.sys.global.cas.b32 %r1, [%rd1], %r2, %r3;",
            "atom.cta.add.u32 %r1, [%rd1], %r2;",
            "// begin inline asm\n\tatom.add.u32 %r1, [%rd1], 1;\n\t// end inline asm",
        ];
        for instruction in written {
            let text = kernel("sm_80", "AO::SeqCst", instruction);
            assert_eq!(apply(&text, None).unwrap().text, text);
        }
    }

    #[test]
    fn a_threads_own_variable_takes_plain_instructions() {
        let text = kernel("sm_80", "AO::SeqCst", "atom.local.add.u32 \t%r1, [%rd1], 1;");
        let Mended { text, unknown } = apply(&text, None).unwrap();
        assert!(
            text.contains("\tadd.u32 after, before, 1;\n") && !text.contains("atom."),
            "{text}"
        );
        assert!(unknown.is_empty() && scan(&text).len() == 1);
    }

    #[test]
    fn what_cannot_be_replaced_is_an_error_with_its_place() {
        let text = kernel("sm_80", "AO::SeqCst", "atom.local.inc.u32 %r1, [%rd1], 7;");
        let error = apply(&text, Some(Path::new("/home/me"))).unwrap_err().to_string();
        let says = |part: &str| assert!(error.contains(part), "{error}");
        says(
            "k/src/lib.rs:7: `k` does `atom.local.inc.u32 %r1, [%rd1], 7` on a variable of its own thread",
        );
        says("`Cell`");
        let asm = "// begin inline asm\n\t{ atom.local.add.u32 a, [b], 1; }\n\t// end inline asm";
        let text = kernel("sm_80", "AO::SeqCst", asm).replace("\t.loc", "\t// loc");
        let error = apply(&text, None).unwrap_err().to_string();
        assert!(error.starts_with("PTX line 9: `k` does `{ atom.local.add"), "{error}");
    }
}
