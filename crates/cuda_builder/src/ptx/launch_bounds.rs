//! Launch bounds, which rustc cannot write.
//!
//! The comment `// ferrowarp.bounds KERNEL maxntid=384,1,1 minnctapersm=1` anywhere in the PTX
//! (a `global_asm!` puts it there) becomes `.maxntid 384, 1, 1` and `.minnctapersm 1` behind the
//! parameter list of that kernel.

use std::collections::BTreeMap;

use super::error::PtxError;
use ptx_format::functions::Function;

const MARK: &str = "ferrowarp.bounds ";

/// The directives that a bound may name, and how many numbers each takes at most.
const DIRECTIVES: [(&str, usize); 6] = [
    ("maxntid", 3),
    ("reqntid", 3),
    ("minnctapersm", 1),
    ("maxnreg", 1),
    ("reqnctapercluster", 3),
    ("maxclusterrank", 1),
];

/// The text with every bound written into its kernel's header.
pub(super) fn apply(text: &str, functions: &[Function<'_>]) -> Result<String, PtxError> {
    let at_line = collect(text, functions)?;
    let mut out = String::with_capacity(text.len() + 64 * at_line.len());
    for (number, line) in text.lines().enumerate() {
        for directive in at_line.get(&number).into_iter().flatten() {
            out.push_str(directive);
            out.push('\n');
        }
        out.push_str(line);
        out.push('\n');
    }
    Ok(out)
}

/// The directives to write, by the line of the brace that they stand before.
fn collect(
    text: &str,
    functions: &[Function<'_>],
) -> Result<BTreeMap<usize, Vec<String>>, PtxError> {
    let mut at_line = BTreeMap::new();
    for (number, line) in text.lines().enumerate() {
        let Some(comment) = comment(line) else {
            continue;
        };
        let line = number + 1;
        let (kernel, bounds) = comment.split_once(' ').unwrap_or((comment, ""));
        let function = functions.iter().find(|f| f.is_entry && f.name == kernel);
        let Some(function) = function else {
            return Err(PtxError::BoundsWithoutKernel { line, kernel: kernel.to_owned() });
        };
        let directives = read(bounds, line)?;
        let first = at_line.entry(function.body.start).or_insert_with(|| directives.clone());
        if *first != directives {
            return Err(PtxError::ConflictingBounds { line, kernel: kernel.to_owned() });
        }
    }
    Ok(at_line)
}

fn comment(line: &str) -> Option<&str> {
    let (_, comment) = line.split_once("//")?;
    comment.trim().strip_prefix(MARK).map(str::trim)
}

fn read(bounds: &str, line: usize) -> Result<Vec<String>, PtxError> {
    let wrong = |expected| PtxError::Bounds { line, text: bounds.to_owned(), expected };
    let read: Result<Vec<_>, _> = bounds.split_whitespace().map(directive).collect();
    let read = read.map_err(wrong)?;
    let has = |name: &str| read.iter().any(|d| d.starts_with(&format!(".{name} ")));
    match () {
        () if read.is_empty() => Err(wrong("at least one bound, such as `maxntid=256`")),
        () if has("minnctapersm") && !has("maxntid") && !has("reqntid") => {
            Err(wrong("`minnctapersm` needs `maxntid` or `reqntid` beside it"))
        }
        () if has("maxntid") && has("reqntid") => {
            Err(wrong("either `maxntid` or `reqntid`, not both"))
        }
        () => Ok(read),
    }
}

/// `maxntid=384,1,1` → `.maxntid 384, 1, 1`.
fn directive(bound: &str) -> Result<String, &'static str> {
    let (name, values) = bound.split_once('=').ok_or("each bound is written `name=numbers`")?;
    let known = DIRECTIVES.iter().find(|(directive, _)| *directive == name);
    let (_, most) = known.ok_or(
        "a bound is maxntid, reqntid, minnctapersm, maxnreg, reqnctapercluster or maxclusterrank",
    )?;
    let numbers: Vec<&str> = values.split(',').collect();
    let all_positive = numbers.iter().all(|n| n.parse::<u32>().is_ok_and(|n| n > 0));
    match all_positive && numbers.len() <= *most {
        true => Ok(format!(".{name} {}", numbers.join(", "))),
        false => Err("one positive number, or up to three for sizes with three dimensions"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ptx_format::functions::scan;

    fn apply_text(comments: &str) -> Result<String, PtxError> {
        let text = format!("{comments}\n.visible .entry gemm(\n.param .u64 p\n)\n{{\nret;\n}}\n");
        apply(&text, &scan(&text))
    }

    #[test]
    fn directives_stand_behind_the_parameters() {
        let out = apply_text("// ferrowarp.bounds gemm maxntid=384,1,1 minnctapersm=1").unwrap();
        assert!(out.contains(")\n.maxntid 384, 1, 1\n.minnctapersm 1\n{\nret;"), "{out}");
    }

    #[test]
    fn the_same_bounds_twice_count_once() {
        let twice = "// ferrowarp.bounds gemm maxnreg=168\n// ferrowarp.bounds gemm maxnreg=168";
        assert_eq!(apply_text(twice).unwrap().matches(".maxnreg 168").count(), 1);
    }

    #[test]
    fn text_without_bounds_is_unchanged() {
        let text = ".visible .entry gemm()\n{\n\tret;\n}\n";
        assert_eq!(apply(text, &scan(text)).unwrap(), text);
    }

    #[test]
    fn wrong_bounds_are_errors() {
        let message = |comment: &str| apply_text(comment).unwrap_err().to_string();
        assert!(message("// ferrowarp.bounds conv maxntid=1").contains("`conv`"));
        assert!(message("// ferrowarp.bounds gemm").contains("at least one bound"));
        assert!(message("// ferrowarp.bounds gemm threads=3").contains("a bound is maxntid"));
        assert!(message("// ferrowarp.bounds gemm maxntid=0").contains("positive"));
        assert!(message("// ferrowarp.bounds gemm maxnreg=1,2").contains("positive"));
        assert!(message("// ferrowarp.bounds gemm minnctapersm=2").contains("beside it"));
        assert!(message("// ferrowarp.bounds gemm maxntid=1 reqntid=1").contains("not both"));
        let two = "// ferrowarp.bounds gemm maxnreg=1\n// ferrowarp.bounds gemm maxnreg=2";
        assert!(message(two).contains("already"));
    }
}
