//! Weak functions that nothing calls: helpers of `cuda_std` that the compiler may need.

use std::ops::Range;

use ptx_format::functions::{Function, code};

/// The text without the weak functions that nothing mentions.
pub(super) fn drop_unused(text: &str) -> String {
    let functions = ptx_format::functions::scan(text);
    let lines: Vec<&str> = text.lines().collect();
    let mut dropped: Vec<Range<usize>> = Vec::new();
    for function in functions.iter().filter(|f| is_weak(&lines, f)) {
        let own = appearances(&lines, function);
        let inside = |number: &usize| own.iter().any(|range| range.contains(number));
        let mentions = |line: &str| words(code(line)).any(|word| word == function.name);
        let used = (0..lines.len()).any(|number| !inside(&number) && mentions(lines[number]));
        if !used {
            dropped.extend(own);
        }
    }
    let kept = |number: &usize| !dropped.iter().any(|range| range.contains(number));
    let kept = (0..lines.len()).filter(kept).map(|number| lines[number]);
    kept.flat_map(|line| [line, "\n"]).collect()
}

fn is_weak(lines: &[&str], function: &Function<'_>) -> bool {
    let header = header(lines, function);
    !function.is_entry && lines[header].starts_with(".weak")
}

/// The line of the function's name above its body.
fn header(lines: &[&str], function: &Function<'_>) -> usize {
    let above = (0..=function.body.start).rev();
    let named = |number: &usize| {
        lines[*number].starts_with('.') && words(lines[*number]).any(|word| word == function.name)
    };
    above.into_iter().find(named).unwrap_or(function.body.start)
}

/// The function itself, and its declarations without a body.
fn appearances(lines: &[&str], function: &Function<'_>) -> Vec<Range<usize>> {
    let header = header(lines, function);
    // LLVM announces a function in a comment.
    let announced = header > 0 && words(lines[header - 1]).any(|word| word == function.name);
    let whole = header - usize::from(announced)..function.body.end;
    let declares =
        |line: &str| line.starts_with(".weak") && words(line).any(|word| word == function.name);
    let declaration = |start: usize| {
        let end = lines[start..].iter().position(|line| code(line).ends_with(';'));
        start..start + end.unwrap_or(0) + 1
    };
    let declared = (0..header).filter(|&number| declares(lines[number])).map(declaration);
    declared.chain([whole]).collect()
}

/// The names and numbers of a line.
fn words(code: &str) -> impl Iterator<Item = &str> {
    code.split(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '_' | '$' | '%' | '.')))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
.weak .func  (.param .b32 func_retval0) memcmp
(
\t.param .b64 memcmp_param_0
)
;
.visible .entry first()
{
\tret;
}
\t// .weak\tmemcmp
.weak .func  (.param .b32 func_retval0) memcmp(
\t.param .b64 memcmp_param_0
)
{
\tret;
}
.func second()
{
\tret;
}
";

    #[test]
    fn what_nothing_calls_goes() {
        let expected =
            ".visible .entry first()\n{\n\tret;\n}\n.func second()\n{\n\tret;\n}\n".to_owned();
        assert_eq!(drop_unused(TEXT), expected);
    }

    #[test]
    fn what_is_called_stays() {
        let called = TEXT.replacen("\tret;", "\tcall.uni (retval0), memcmp, (param0);\n\tret;", 1);
        assert_eq!(drop_unused(&called), called);
        let strong = TEXT.replace(".weak", ".visible");
        assert_eq!(drop_unused(&strong), strong);
    }
}
