//! From the table of forms to kernels that show what an instruction does.

use std::fmt::Write;

use emulator::isa::{Form, Type, forms};

use crate::operands::Pool;
use crate::{bodies, operands};

/// The most spellings of a form that are tried; of more, every n-th is.
const MAX_SPELLINGS: usize = 600;
/// Random rows of operands, beside those of edges.
const RANDOM_ROWS: usize = 4096;

/// What a register holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Slot {
    /// Bits: 16, 32 or 64.
    Bits(u32),
    /// A predicate.
    Predicate,
}

/// One spelling of a form, as the body of a kernel.
pub struct Case {
    /// The form that it is of.
    pub form: &'static Form,
    /// Instructions: operands `%a`, `%b`, `%c`, results `%d`, `%e`; `[%cell]` is memory of the
    /// thread's own.
    pub text: String,
    /// The results.
    pub results: Vec<Slot>,
    /// The operands and what they are made of.
    pub operands: Vec<(Slot, Pool)>,
    /// Whether all bits count.
    pub exact: bool,
}

/// All cases.
pub fn all() -> Vec<Case> {
    forms().iter().flat_map(of_form).collect()
}

fn of_form(form: &'static Form) -> Vec<Case> {
    if left_out(form).is_some() {
        return Vec::new();
    }
    let of_spelling = match is_described(form) {
        true => of_signature,
        false => bodies::of,
    };
    let all: Vec<Case> =
        form.spellings().iter().flat_map(|words| of_spelling(form, words)).collect();
    let step = all.len().div_ceil(MAX_SPELLINGS).max(1);
    all.into_iter().step_by(step).collect()
}

/// Whether the table's operands are all that a case of the form needs. What a function writes, it resolves itself.
pub fn is_described(form: &Form) -> bool {
    form.is_picked() && !form.operands.is_empty()
}

/// Why a form is not compared; `None` if it is.
pub fn left_out(form: &Form) -> Option<&'static str> {
    match (form.family, form.opcode) {
        ("control", _) => Some("control flow has no result of its own"),
        ("barriers", _) => Some("barriers are compared by whole kernels"),
        (_, "prefetch" | "prefetchu" | "membar" | "fence") => Some("a hint or a fence"),
        (_, "activemask" | "elect") => Some("its result is the scheduler's"),
        (_, "bar") => Some("it has no result"),
        (_, "cvta" | "isspacep" | "mapa" | "getctarank" | "stacksave") => {
            Some("addresses are the device's own")
        }
        (_, "createpolicy") => Some("its result is opaque"),
        ("mbarriers", _) => Some("the state of an mbarrier is opaque"),
        _ => bodies::left_out(form),
    }
}

/// The cases of a spelling whose operands the table describes.
fn of_signature(form: &'static Form, words: &[&'static str]) -> Vec<Case> {
    let types: Vec<Type> = words.iter().filter_map(|word| Type::parse(word)).collect();
    let mut case = Case {
        form,
        text: dotted(form.opcode, words),
        results: Vec::new(),
        operands: Vec::new(),
        exact: !is_approximate(form.opcode, words),
    };
    let mut texts = vec![];
    for word in form.operands.split_whitespace() {
        let Some(text) = case.operand(word.trim_end_matches(['?', '~']), &types) else {
            return Vec::new();
        };
        texts.push(text);
    }
    case.finish(&texts)
}

/// `add.rn.f32`
pub fn dotted(opcode: &str, words: &[&str]) -> String {
    words.iter().fold(opcode.to_owned(), |text, word| text + "." + word)
}

fn is_approximate(opcode: &str, words: &[&str]) -> bool {
    let transcendental = ["ex2", "lg2", "sin", "cos", "tanh", "rsqrt"].contains(&opcode);
    transcendental || words.contains(&"approx") || words.contains(&"full")
}

/// The register that holds a value of a type.
pub fn slot(ty: Type) -> Slot {
    match ty.bits() {
        1 => Slot::Predicate,
        bits => Slot::Bits(bits.clamp(16, 64)),
    }
}

const NAMES: [&str; 4] = ["%a", "%b", "%c", "%f"];

impl Case {
    /// The text of an operand; `None` where the spelling has no such type.
    fn operand(&mut self, word: &str, types: &[Type]) -> Option<String> {
        let ty = |name: &str| match name {
            "t" => types.first().copied(),
            "u" => types.get(1).copied(),
            "w" => types.first()?.doubled(),
            fixed => Type::parse(fixed),
        };
        match word {
            "imm" => Some("IMM".to_owned()),
            "=p|q" | "=t|p" => {
                let first = if word == "=p|q" { Slot::Predicate } else { slot(ty("t")?) };
                self.results = vec![first, Slot::Predicate];
                Some("%d|%e".to_owned())
            }
            _ => match word.strip_prefix('=') {
                Some(name) => {
                    self.results.push(slot(ty(name)?));
                    Some("%d".to_owned())
                }
                None => {
                    let pool = operands::pool(self.form.opcode, self.operands.len(), ty(word)?);
                    self.operands.push((slot(ty(word)?), pool));
                    Some(NAMES[self.operands.len() - 1].to_owned())
                }
            },
        }
    }

    /// The case with its operands; one for each of a few immediates where it has one.
    fn finish(self, texts: &[String]) -> Vec<Self> {
        let text = format!("{} {};", self.text, texts.join(", "));
        if !text.contains("IMM") {
            return vec![Self { text, ..self }];
        }
        [0x00u32, 0x1e, 0x3c, 0x80, 0x96, 0xca, 0xe8, 0xff]
            .into_iter()
            .map(|imm| Self {
                text: text.replace("IMM", &imm.to_string()),
                results: self.results.clone(),
                operands: self.operands.clone(),
                ..self
            })
            .collect()
    }

    /// Rows of operands: edges with edges, then random ones.
    pub fn rows(&self, seed: u64) -> Vec<[u64; 4]> {
        let pools: Vec<Pool> = self.operands.iter().map(|(_, pool)| *pool).collect();
        operands::rows(&pools, RANDOM_ROWS, seed)
    }

    /// A kernel `k<number>` whose thread `i` applies the instruction to row `i`.
    ///
    /// Rows are of four 64-bit operands, results of two 64-bit words.
    pub fn kernel(&self, number: usize) -> String {
        let mut text = format!(
            ".visible .entry k{number}(.param .u64 rows, .param .u64 out, .param .u64 cells) {{
                .reg .pred %last;
                .reg .b32 %t, %n;
                .reg .b64 %in, %to, %cell, %word, %wide;
                .shared .align 8 .b64 own[256];
                .reg .b32 %shared;
                mov.u32 %t, %tid.x; mov.u32 %n, %ctaid.x; shl.b32 %shared, %t, 3;
                mad.lo.s32 %t, %n, 256, %t;
                mov.u32 %n, own; add.s32 %shared, %shared, %n;
                ld.param.u64 %in, [rows]; mad.wide.u32 %in, %t, 32, %in;
                ld.param.u64 %to, [out]; mad.wide.u32 %to, %t, 16, %to;
                ld.param.u64 %cell, [cells]; mad.wide.u32 %cell, %t, 16, %cell;\n"
        );
        for (index, (slot, _)) in self.operands.iter().enumerate() {
            let _ = writeln!(text, "ld.global.b64 %word, [%in+{}];", 8 * index);
            let _ = writeln!(text, "{}", read(NAMES[index], *slot));
        }
        for (name, slot) in ["%d", "%e"].iter().zip(&self.results) {
            let _ = writeln!(text, "{}", declare(name, *slot));
        }
        let _ = writeln!(text, "{}", self.text);
        for (index, (name, slot)) in ["%d", "%e"].iter().zip(&self.results).enumerate() {
            let _ =
                writeln!(text, "{} st.global.b64 [%to+{}], %wide;", widen(name, *slot), 8 * index);
        }
        text + "ret; }\n"
    }
}

fn declare(name: &str, slot: Slot) -> String {
    match slot {
        Slot::Bits(bits) => format!(".reg .b{bits} {name}; mov.b{bits} {name}, 0;"),
        Slot::Predicate => format!(".reg .pred {name}; setp.ne.s32 {name}, 0, 0;"),
    }
}

fn read(name: &str, slot: Slot) -> String {
    match slot {
        Slot::Bits(64) => format!(".reg .b64 {name}; mov.b64 {name}, %word;"),
        Slot::Bits(bits) => format!(".reg .b{bits} {name}; cvt.u{bits}.u64 {name}, %word;"),
        Slot::Predicate => {
            format!(".reg .pred {name}; and.b64 %wide, %word, 1; setp.ne.s64 {name}, %wide, 0;")
        }
    }
}

fn widen(name: &str, slot: Slot) -> String {
    match slot {
        Slot::Bits(64) => format!("mov.b64 %wide, {name};"),
        Slot::Bits(bits) => format!("cvt.u64.u{bits} %wide, {name};"),
        Slot::Predicate => format!("selp.b64 %wide, 1, 0, {name};"),
    }
}
