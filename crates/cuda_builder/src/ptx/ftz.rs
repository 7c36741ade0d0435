//! Flushing of f32 denormals to zero.
//!
//! LLVM chooses the `.ftz` form of an instruction by an attribute that rustc cannot set, so the
//! builder writes the modifier itself, on the instructions that NVIDIA's compiler gives it to
//! under `-ftz=true`. Inline assembly stays as its author wrote it, and arithmetic that LLVM
//! folded into constants keeps its denormals.

use ptx_format::functions::code;

/// Operations whose f32 form takes `.ftz`, beside `cvt`.
const OPERATIONS: [&str; 19] = [
    "abs", "add", "div", "ex2", "fma", "lg2", "mad", "max", "min", "mul", "neg", "rcp", "rsqrt",
    "set", "setp", "sin", "cos", "sqrt", "sub",
];

/// Modifiers that stand behind `.ftz`.
const LATER: [&str; 6] = ["sat", "relu", "NaN", "xorsign", "f32", "f32x2"];

/// The text with `.ftz` on every f32 instruction that takes it.
pub(super) fn apply(text: &str) -> String {
    let mut inline_asm = false;
    let mut out = String::with_capacity(text.len() + text.len() / 64);
    for line in text.lines() {
        match line.trim() {
            "// begin inline asm" => inline_asm = true,
            "// end inline asm" => inline_asm = false,
            _ => {}
        }
        match flushed(line).filter(|_| !inline_asm) {
            Some(flushed) => out.push_str(&flushed),
            None => out.push_str(line),
        }
        out.push('\n');
    }
    out
}

/// The line with its instruction's `.ftz` form, if it has one that is not there yet.
fn flushed(line: &str) -> Option<String> {
    let opcode = code(line).split_whitespace().find(|word| !word.starts_with('@'))?;
    let parts: Vec<&str> = opcode.trim_end_matches(';').split('.').collect();
    let position = position(&parts)?;
    let mut with = parts.clone();
    with.insert(position, "ftz");
    Some(line.replacen(&parts.join("."), &with.join("."), 1))
}

/// Where in the opcode `.ftz` belongs.
fn position(parts: &[&str]) -> Option<usize> {
    let single = parts.iter().any(|part| matches!(*part, "f32" | "f32x2"));
    let (operation, modifiers) = parts.split_first()?;
    match *operation {
        _ if !single || parts.contains(&"ftz") => None,
        "cvt" => conversion(modifiers),
        "set" => Some(parts.len() - 2),
        _ if !OPERATIONS.contains(operation) => None,
        _ => parts.iter().position(|part| LATER.contains(part)),
    }
}

/// `cvt`: only where an f32 is read, or made from a wider or narrower float.
fn conversion(modifiers: &[&str]) -> Option<usize> {
    let [.., to, from] = modifiers else {
        return None;
    };
    let integer = |kind: &str| kind.starts_with(['s', 'u']);
    let takes = match (*to, *from) {
        ("f32", "f32" | "f64" | "f16") | ("f16" | "f64", "f32") => true,
        (to, "f32") => integer(to),
        _ => false,
    };
    let saturating = modifiers.iter().position(|part| *part == "sat");
    takes.then(|| 1 + saturating.unwrap_or(modifiers.len() - 2))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ftz_stands_where_the_grammar_puts_it() {
        let pairs = [
            ("add.f32 %f1, %f2, %f3;", "add.ftz.f32 %f1, %f2, %f3;"),
            ("fma.rn.f32 %f1, %f2, %f3, %f4;", "fma.rn.ftz.f32 %f1, %f2, %f3, %f4;"),
            ("add.rn.sat.f32 %f1, %f2, %f3;", "add.rn.ftz.sat.f32 %f1, %f2, %f3;"),
            ("@%p1 div.full.f32 %f1, %f2, %f3;", "@%p1 div.full.ftz.f32 %f1, %f2, %f3;"),
            ("min.NaN.f32 %f1, %f2, %f3;", "min.ftz.NaN.f32 %f1, %f2, %f3;"),
            ("setp.gt.and.f32 %p1, %f1, %f2, %p2;", "setp.gt.and.ftz.f32 %p1, %f1, %f2, %p2;"),
            ("set.gt.u32.f32 %r1, %f1, %f2;", "set.gt.ftz.u32.f32 %r1, %f1, %f2;"),
            ("cvt.rzi.s32.f32 %r1, %f1;", "cvt.rzi.ftz.s32.f32 %r1, %f1;"),
            ("cvt.rn.sat.f32.f64 %f1, %d1;", "cvt.rn.ftz.sat.f32.f64 %f1, %d1;"),
            ("cvt.f64.f32 %d1, %f1;", "cvt.ftz.f64.f32 %d1, %f1;"),
            ("add.rn.f32x2 %d1, %d2, %d3;", "add.rn.ftz.f32x2 %d1, %d2, %d3;"),
        ];
        for (plain, flushing) in pairs {
            assert_eq!(apply(plain), format!("{flushing}\n"));
        }
    }

    #[test]
    fn other_instructions_stay() {
        let lines = [
            "add.f64 %d1, %d2, %d3;",
            "add.s32 %r1, %r2, %r3;",
            "cvt.rn.f32.s32 %f1, %r1;",
            "cvt.rn.bf16.f32 %h1, %f1;",
            "selp.f32 %f1, %f2, %f3, %p1;",
            "atom.global.add.f32 %f1, [%rd1], %f2;",
            "add.ftz.f32 %f1, %f2, %f3;",
            ".param .f32 k_param_0,",
            "// add.f32",
        ];
        for line in lines {
            assert_eq!(apply(line), format!("{line}\n"));
        }
    }

    #[test]
    fn inline_assembly_stays_as_written() {
        let text = "// begin inline asm\nadd.f32 a, b, c;\n// end inline asm\nadd.f32 a, b, c;\n";
        let (asm, rest) = text.split_at(text.rfind("add").unwrap());
        assert_eq!(apply(text), format!("{asm}{}", rest.replace("add", "add.ftz")));
    }
}
