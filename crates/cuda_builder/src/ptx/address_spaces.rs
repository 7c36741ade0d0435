//! Statics in shared and constant memory, which rustc places into global memory.
//!
//! The comment `// ferrowarp.space shared NAME` (or `constant`) anywhere in the PTX moves the static
//! `NAME`: its declaration becomes `.shared` (`.const`), and so do the accesses whose address is
//! computed from it. The compiler knows the static as global, so it computes with its address in
//! that space until it needs a generic pointer; both ends are found by following the registers from
//! `mov %rd1, NAME` on. What cannot be followed is an error.

use std::collections::BTreeMap;

use super::error::PtxError;
use ptx_format::functions::{Function, code};

const MARK: &str = "ferrowarp.space ";

/// A memory that a static can be moved to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Space {
    Shared,
    Constant,
}

impl Space {
    fn word(self) -> &'static str {
        match self {
            Space::Shared => ".shared",
            Space::Constant => ".const",
        }
    }
}

type Spaces<'a> = BTreeMap<&'a str, Space>;

/// The text with every marked static in its memory.
pub(super) fn apply(text: &str, functions: &[Function<'_>]) -> Result<String, PtxError> {
    let spaces = collect(text);
    if spaces.is_empty() {
        return Ok(text.to_owned());
    }
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let mut next = 0;
    for function in functions {
        declarations(&mut lines[next..function.body.start], next, &spaces)?;
        let body = Body::new(text, function, &spaces);
        body.rewrite(&mut lines)?;
        next = function.body.end;
    }
    declarations(&mut lines[next..], next, &spaces)?;
    Ok(lines.iter().flat_map(|line| [line.as_str(), "\n"]).collect())
}

fn collect(text: &str) -> Spaces<'_> {
    let marks = text.lines().filter_map(|line| line.split_once("//")?.1.trim().strip_prefix(MARK));
    marks.filter_map(mark).collect()
}

fn mark(mark: &str) -> Option<(&str, Space)> {
    let (space, name) = mark.trim().split_once(' ')?;
    match space {
        "shared" => Some((name, Space::Shared)),
        "constant" => Some((name, Space::Constant)),
        _ => None,
    }
}

/// Moves the declarations among lines outside of functions.
fn declarations(lines: &mut [String], first: usize, spaces: &Spaces<'_>) -> Result<(), PtxError> {
    for (line, number) in lines.iter_mut().zip(first..) {
        let Some((head, value)) = variable(line) else {
            continue;
        };
        let name = head.split(|c: char| c.is_whitespace() || c == '[').rfind(|w| is_name(w));
        let space = name.and_then(|name| spaces.get(name));
        let mentioned = symbols(value).find(|name| spaces.get(name) == Some(&Space::Shared));
        let refused = match space {
            Some(Space::Shared) if !value.is_empty() => name,
            _ => mentioned,
        };
        if let Some(name) = refused {
            return Err(PtxError::SharedValue { line: number + 1, name: name.to_owned() });
        }
        match space {
            Some(Space::Shared) => {
                *line = line.replacen(".visible ", "", 1).replacen(".global", ".shared", 1);
            }
            Some(Space::Constant) => *line = line.replacen(".global", ".const", 1),
            None => {}
        }
    }
    Ok(())
}

/// `.visible .global .align 4 .b8 x[4] = {1}` → the part before the `=`, and the value.
fn variable(line: &str) -> Option<(&str, &str)> {
    let bare = code(line);
    let bare = bare.strip_prefix(".visible ").or(bare.strip_prefix(".weak ")).unwrap_or(bare);
    bare.starts_with(".global ").then(|| {
        let whole = bare.trim_end_matches(';');
        whole.split_once('=').map_or((whole, ""), |(head, value)| (head.trim(), value))
    })
}

fn is_name(word: &str) -> bool {
    word.starts_with(|c: char| c.is_ascii_alphabetic() || matches!(c, '_' | '$'))
}

/// The names in a text.
fn symbols(text: &str) -> impl Iterator<Item = &str> {
    let parts = text.split(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '_' | '$' | '%')));
    parts.filter(|part| is_name(part) || part.starts_with('%'))
}

/// One function, and what its registers hold.
struct Body<'a> {
    name: &'a str,
    first: usize,
    lines: Vec<&'a str>,
    spaces: &'a Spaces<'a>,
    /// The registers that hold an address in a moved static.
    registers: BTreeMap<&'a str, Space>,
}

/// One instruction: its opcode with modifiers, and its operands.
struct Instruction<'a> {
    opcode: &'a str,
    operands: Vec<&'a str>,
}

impl<'a> Instruction<'a> {
    /// Reads a line that holds exactly one instruction.
    fn parse(line: &'a str) -> Option<Self> {
        let line = code(line);
        let line = match line.strip_prefix('@') {
            Some(rest) => rest.split_once(char::is_whitespace)?.1.trim_start(),
            None => line,
        };
        let (one, rest) = line.split_once(';')?;
        let (opcode, operands) = one.split_once(char::is_whitespace)?;
        let is_one = rest.is_empty() && !opcode.starts_with(['.', '{', '$']);
        is_one.then(|| Self { opcode, operands: split(operands) })
    }

    /// The base word: `ld` of `ld.global.b32`.
    fn base(&self) -> &'a str {
        self.opcode.split('.').next().unwrap_or_default()
    }
}

/// Splits operands at the commas outside of braces and brackets.
fn split(operands: &str) -> Vec<&str> {
    let mut depth = 0;
    let outside = |c: char| {
        match c {
            '{' | '[' | '(' => depth += 1,
            '}' | ']' | ')' => depth -= 1,
            _ => {}
        }
        c == ',' && depth == 0
    };
    operands.split(outside).map(str::trim).collect()
}

impl<'a> Body<'a> {
    fn new(text: &'a str, function: &Function<'a>, spaces: &'a Spaces<'a>) -> Self {
        let lines = text.lines().skip(function.body.start).take(function.body.len());
        let (name, first) = (function.name, function.body.start);
        let mut body =
            Self { name, first, lines: lines.collect(), spaces, registers: BTreeMap::new() };
        while body.spread() {}
        body
    }

    /// Marks the destinations of instructions that compute an address from a marked one. Whether
    /// any was new.
    fn spread(&mut self) -> bool {
        let before = self.registers.len();
        for line in self.lines.clone() {
            let Some(Instruction { opcode, operands }) = Instruction::parse(line) else {
                continue;
            };
            let base = opcode.split('.').next().unwrap_or_default();
            let computes = matches!(base, "mov" | "add" | "sub" | "or" | "selp" | "mad");
            let held: Vec<Space> = operands.iter().skip(1).filter_map(|o| self.held(o)).collect();
            let difference = base == "sub" && held.len() == 2;
            if let (true, false, Some(space)) = (computes, difference, held.first()) {
                self.registers.insert(operands[0], *space);
            }
        }
        self.registers.len() > before
    }

    /// The memory of the static whose address an operand is computed from.
    fn held(&self, operand: &str) -> Option<Space> {
        let mut words = symbols(operand);
        words.find_map(|word| self.spaces.get(word).or_else(|| self.registers.get(word)).copied())
    }

    fn rewrite(&self, lines: &mut [String]) -> Result<(), PtxError> {
        for (line, number) in self.lines.iter().zip(self.first..) {
            let writes = Instruction::parse(line)
                .and_then(|i| i.operands.first().copied())
                .is_some_and(|to| self.registers.contains_key(to));
            if writes || self.held(code(line)).is_some() {
                lines[number] = self.moved(line).map_err(|reason| PtxError::Space {
                    line: number + 1,
                    function: self.name.to_owned(),
                    instruction: code(line).to_owned(),
                    reason,
                })?;
            }
        }
        Ok(())
    }

    /// A line that mentions a moved static, in its new memory.
    fn moved(&self, line: &str) -> Result<String, &'static str> {
        let instruction = Instruction::parse(line).ok_or("it is not one plain instruction")?;
        let operands = &instruction.operands;
        let held: Vec<Option<Space>> = operands.iter().map(|operand| self.held(operand)).collect();
        match instruction.base() {
            "ld" | "st" | "atom" | "red" | "prefetch" => self.access(line, &instruction),
            "cvta" => match held.get(1).copied().flatten() {
                Some(space) => Ok(line.replacen(".global", space.word(), 1)),
                None => Err("it is no conversion of such an address"),
            },
            "mov" | "selp" => same(&held[..operands.len().min(3)]).map(|()| line.to_owned()),
            "setp" => same(&held[1..]).map(|()| line.to_owned()),
            "add" | "or" | "mad" if held[1..].iter().flatten().count() == 1 => Ok(line.to_owned()),
            "sub" if held[1].is_some() => Ok(line.to_owned()),
            _ => Err("this use of the address is not known"),
        }
    }

    fn access(&self, line: &str, instruction: &Instruction<'_>) -> Result<String, &'static str> {
        let address = instruction.operands.iter().position(|o| o.starts_with('['));
        let mut held = instruction.operands.iter().map(|operand| self.held(operand)).enumerate();
        if held.any(|(at, held)| held.is_some() && Some(at) != address) {
            return Err("it stores the address itself");
        }
        let space = address.and_then(|at| self.held(instruction.operands[at]));
        let space = space.ok_or("a register holds such an address and other values")?;
        if space == Space::Constant && instruction.base() != "ld" {
            return Err("constant memory is not written by kernels");
        }
        let (old, mut new) = (instruction.opcode, instruction.opcode.to_owned());
        if space == Space::Constant {
            new = new.replacen(".volatile", "", 1).replacen(".nc", "", 1);
        }
        new = new.replacen(".global", space.word(), 1);
        Ok(line.replacen(old, &new, 1))
    }
}

/// Whether registers that may stand for one another hold addresses of one memory. Numbers written
/// out may stand beside any.
fn same(held: &[Option<Space>]) -> Result<(), &'static str> {
    let first = held.iter().flatten().next();
    match held.iter().all(|held| held.as_ref() == first) {
        true => Ok(()),
        false => Err("it mixes the address with one of another memory"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ptx_format::functions;

    /// A module with a shared and a constant static, and one function.
    fn module(body: &str) -> String {
        format!(
            "// ferrowarp.space shared TILE\n// ferrowarp.space constant TABLE\n\
             .visible .global .align 4 .b8 TILE[64];\n\
             .visible .global .align 4 .b8 TABLE[8] = {{1, 0, 0, 0, 2, 0, 0, 0}};\n\
             .visible .entry k()\n{{\n{body}\n}}\n"
        )
    }

    fn moved(body: &str) -> Result<String, String> {
        let text = module(body);
        let moved = apply(&text, &functions::scan(&text)).map_err(|error| error.to_string())?;
        let (_, rest) = moved.split_once("{\n").unwrap_or_default();
        Ok(rest.rsplit_once("\n}").unwrap_or_default().0.to_owned())
    }

    #[test]
    fn declarations_and_accesses_move() {
        let text = module("ld.global.nc.b32 %r1, [TABLE+4];\nst.global.b32 [TILE], %r1;");
        let moved = apply(&text, &functions::scan(&text)).unwrap();
        let expected = [
            "\n.shared .align 4 .b8 TILE[64];\n",
            "\n.visible .const .align 4 .b8 TABLE[8] = {1, 0, 0, 0, 2, 0, 0, 0};\n",
            "\nld.const.b32 %r1, [TABLE+4];\nst.shared.b32 [TILE], %r1;\n",
        ];
        for part in expected {
            assert!(moved.contains(part), "{part} in {moved}");
        }
    }

    #[test]
    fn registers_are_followed() {
        let body = "mov.b64 %rd1, TILE;\nbra L;\nadd.s64 %rd3, %rd3, 4;\nmov.b64 %rd3, %rd2;\n\
                    add.s64 %rd2, %rd1, %rd9;\n@%p1 ld.global.v2.b32 {%r1, %r2}, [%rd3+8];\n\
                    setp.eq.b64 %p1, %rd3, %rd2;\nsub.s64 %rd5, %rd3, %rd1;\n\
                    cvta.global.u64 %rd4, %rd2;\nst.b32 [%rd4], %r1;\nst.global.b64 [%rd8], %rd4;";
        let expected = body
            .replace("ld.global.v2", "ld.shared.v2")
            .replace("cvta.global.u64 %rd4", "cvta.shared.u64 %rd4");
        assert_eq!(moved(body).unwrap(), expected);
    }

    #[test]
    fn what_cannot_be_followed_is_refused() {
        let start = "mov.b64 %rd1, TILE;\n";
        let cases = [
            ("selp.b64 %rd2, %rd1, %rd9, %p1;", "another memory"),
            ("mov.b64 %rd2, %rd1;\nmov.b64 %rd2, %rd9;", "another memory"),
            ("st.global.b64 [%rd9], %rd1;", "the address itself"),
            ("mul.lo.s64 %rd2, %rd1, 4;", "not known"),
            ("{ cvta.to.global.u64 %rd2, %rd1; ld.global.b32 %r1, [%rd2]; }", "plain instruction"),
            ("add.s64 %rd2, %rd1, %rd9;\nadd.s64 %rd2, %rd9, 4;", "not known"),
        ];
        for (body, reason) in cases {
            let error = moved(&format!("{start}{body}")).unwrap_err();
            assert!(error.contains(reason), "{body}: {error}");
        }
        let error = moved("st.global.b32 [TABLE], %r1;").unwrap_err();
        assert!(error.contains("not written by kernels"), "{error}");
    }

    #[test]
    fn shared_memory_has_no_value() {
        let text = "// ferrowarp.space shared X\n.visible .global .align 4 .u32 X = 5;\n";
        assert!(matches!(apply(text, &[]), Err(PtxError::SharedValue { line: 2, .. })));
        let text = "// ferrowarp.space shared X\n.visible .global .align 4 .b8 X[4];\n\
                    .visible .global .align 8 .u64 P[1] = {generic(X)};\n";
        assert!(matches!(apply(text, &[]), Err(PtxError::SharedValue { line: 3, .. })));
    }

    #[test]
    fn other_modules_stay_as_they_are() {
        let text = ".visible .global .align 4 .b8 TILE[64];\n";
        assert_eq!(apply(text, &[]).unwrap(), text);
    }
}
