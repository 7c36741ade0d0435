//! Instructions whose operands the table leaves to themselves: carry chains, vectors, memory, atomics,
//! exchanges between lanes.

use emulator::isa::{Form, Type};

use crate::case::{Case, Slot, dotted, is_described, slot};
use crate::operands::Pool;

/// Why a form without a signature is not compared; `None` if it is.
pub fn left_out(form: &Form) -> Option<&'static str> {
    match form.family {
        _ if is_described(form) => None,
        "integer arithmetic" | "atomics" => None,
        "warp" if ["shfl", "vote", "match", "redux"].contains(&form.opcode) => None,
        "moves and addresses" if form.opcode == "mov" => None,
        "memory" if ["ld", "st", "ldu"].contains(&form.opcode) => None,
        _ => Some("it has tests of its own"),
    }
}

/// The cases of a spelling.
pub fn of(form: &'static Form, words: &[&'static str]) -> Vec<Case> {
    let text = dotted(form.opcode, words);
    let types: Vec<Type> = words.iter().filter_map(|word| Type::parse(word)).collect();
    let make = Maker { form, words, text: &text, ty: types.last().copied() };
    match (form.family, form.opcode) {
        ("integer arithmetic", _) => make.carry(),
        ("atomics", opcode) => make.atomic(opcode == "atom"),
        ("warp", opcode) => make.lanes(opcode),
        ("moves and addresses", _) => make.vector_move(),
        ("memory", "st") => make.store(),
        _ => make.load(),
    }
}

struct Maker<'a> {
    form: &'static Form,
    words: &'a [&'static str],
    text: &'a str,
    ty: Option<Type>,
}

impl Maker<'_> {
    fn has(&self, word: &str) -> bool {
        self.words.contains(&word)
    }

    fn case(&self, text: String, results: &[Slot], operands: &[(Slot, Pool)]) -> Vec<Case> {
        let (results, operands) = (results.to_vec(), operands.to_vec());
        vec![Case { form: self.form, text, results, operands, exact: true }]
    }

    /// The flag goes in by a sum that overflows in half of all rows, and comes out by another.
    fn carry(&self) -> Vec<Case> {
        let Some(ty) = self.ty else { return Vec::new() };
        let (word, own) = (ty.word(), (slot(ty), Pool::of(ty)));
        let bits = ty.bits();
        let operands = if self.text.starts_with("mad") { "%a, %b, %c" } else { "%a, %b" };
        let set = if bits == 64 { "add.cc.u64 %e, %c, %c;" } else { "add.cc.u32 %e, %c, %c;" };
        let get = match self.has("cc") {
            true if self.text.starts_with("sub") => format!("subc.{word} %e, 0, 0;"),
            true => format!("addc.{word} %e, 0, 0;"),
            false => String::new(),
        };
        let text = format!("{set} {} %d, {operands}; {get}", self.text);
        self.case(text, &[slot(ty), slot(ty)], &[own, own, own])
    }

    fn atomic(&self, returns: bool) -> Vec<Case> {
        let Some(ty) = self.ty.filter(|ty| ty.bits() <= 64) else { return Vec::new() };
        // Scopes, orders and hints change no result of one thread.
        let dull = |word: &&str| {
            ["acquire", "release", "acq_rel", "cta", "cluster", "sys", "shared::cluster"]
                .contains(word)
                || word.ends_with("cache_hint")
        };
        if self.words.iter().any(dull) {
            return Vec::new();
        }
        if let Some(count) =
            [("v2", 2), ("v4", 4), ("v8", 8)].iter().find(|(word, _)| self.has(word))
        {
            return self.vector_atomic(returns, ty, count.1);
        }
        let (place, space) = match self.words {
            words if words.contains(&"shared::cta") => ("%shared", ".shared"),
            words if words.contains(&"shared") => ("%shared", ".shared"),
            _ => ("%cell", ".global"),
        };
        let bits = ty.bits().clamp(16, 64);
        let own = (slot(ty), Pool::of(ty));
        let operands = if self.has("cas") { "%b, %c" } else { "%b" };
        let result = if returns { "%d, " } else { "" };
        let text = format!(
            "st{space}.b64 [{place}], 0; st{space}.b{bits} [{place}], %a; {} {result}[{place}], {operands}; ld{space}.b{bits} %e, [{place}];",
            self.text
        );
        let operands = if self.has("cas") { 3 } else { 2 };
        self.case(text, &[slot(ty), slot(ty)], &[own; 3][..operands])
    }

    /// Elements come from `%b` and `%c`, and go to two cells that hold `%a`.
    fn vector_atomic(&self, returns: bool, ty: Type, count: usize) -> Vec<Case> {
        let bits = ty.bits();
        if bits as usize * count > 128 {
            return Vec::new();
        }
        let list = |name: &str, range: std::ops::Range<usize>| {
            let names: Vec<String> = range.map(|index| format!("%{name}{index}")).collect();
            format!("{{{}}}", names.join(", "))
        };
        let word = (64 / bits) as usize;
        let result = if returns { list("o", 0..count) + ", " } else { String::new() };
        let text = format!(
            ".reg .b{bits} %v<{0}>, %o<{0}>; st.global.b64 [%cell], %a; st.global.b64 [%cell+8], %a; \
             mov.b64 {1}, %b; mov.b64 {2}, %c; mov.b64 {3}, 0; {4} {result}[%cell], {5}; \
             mov.b64 %d, {3}; ld.global.b64 %e, [%cell];",
            2 * word,
            list("v", 0..word),
            list("v", word..2 * word),
            list("o", 0..word),
            self.text,
            list("v", 0..count),
        );
        let b64 = (Slot::Bits(64), Pool::of(Type::B64));
        self.case(text, &[Slot::Bits(64); 2], &[b64; 3])
    }

    fn lanes(&self, opcode: &str) -> Vec<Case> {
        let b32 = (Slot::Bits(32), Pool::of(Type::B32));
        let few = (Slot::Bits(32), Pool::Few);
        let count = (Slot::Bits(32), Pool::Count);
        let predicate = (Slot::Predicate, Pool::of(Type::B32));
        let head = self.text;
        match (opcode, self.ty) {
            ("shfl", _) => {
                let text = format!("{head} %d|%e, %a, %b, %c, 0xffffffff;");
                self.case(text, &[Slot::Bits(32), Slot::Predicate], &[b32, count, b32])
            }
            ("vote", Some(Type::Pred)) => {
                let text = format!("{head} %d, %a, 0xffffffff;");
                self.case(text, &[Slot::Predicate], &[predicate])
            }
            ("vote", _) => {
                self.case(format!("{head} %d, %a, 0xffffffff;"), &[Slot::Bits(32)], &[predicate])
            }
            ("match", Some(Type::B64)) => {
                let text = format!("cvt.u64.u32 %wide, %a; {head} %d, %wide, 0xffffffff;");
                self.case(text, &[Slot::Bits(32)], &[few])
            }
            ("match", _) => {
                self.case(format!("{head} %d, %a, 0xffffffff;"), &[Slot::Bits(32)], &[few])
            }
            _ => self.case(format!("{head} %d, %a, 0xffffffff;"), &[Slot::Bits(32)], &[b32]),
        }
    }

    fn vector_move(&self) -> Vec<Case> {
        let Some(ty) = self.ty.filter(|ty| ty.bits() <= 64) else { return Vec::new() };
        let own = (slot(ty), Pool::of(ty));
        let (bits, head) = (ty.bits(), self.text);
        let mut all = self.case(format!("{head} %d, %a;"), &[slot(ty)], &[own]);
        for parts in [2, 4] {
            let part = bits / parts;
            if part < 16 {
                continue;
            }
            let names: Vec<String> = (0..parts).map(|index| format!("%v{index}")).collect();
            let list = names.join(", ");
            let reversed: Vec<String> = names.iter().rev().cloned().collect();
            let text = format!(
                ".reg .b{part} {list}; {head} {{{list}}}, %a; {head} %d, {{{}}};",
                reversed.join(", ")
            );
            all.extend(self.case(text, &[slot(ty)], &[own]));
        }
        all
    }

    /// Hints and orders change no result; one spelling of each type, vector and space is enough.
    fn is_plain(&self) -> bool {
        let spaces = [
            "global",
            "shared",
            "shared::cta",
            "local",
            "nc",
            "v2",
            "v4",
            "volatile",
            "relaxed",
            "mmio",
            "sys",
            "acquire",
            "release",
            "gpu",
        ];
        let typed = |word: &&str| Type::parse(word).is_some();
        self.words.iter().all(|word| spaces.contains(word) || typed(word))
    }

    fn place(&self) -> Option<(&'static str, &'static str)> {
        match self.words {
            words if words.contains(&"local") => Some(("slots", ".local")),
            words if words.iter().any(|word| word.starts_with("shared")) => {
                Some(("%shared", ".shared"))
            }
            _ => Some(("%cell", ".global")),
        }
    }

    fn count(&self) -> u32 {
        if self.has("v4") {
            4
        } else if self.has("v2") {
            2
        } else {
            1
        }
    }

    fn load(&self) -> Vec<Case> {
        let (Some(ty), Some((place, space)), count) = (self.ty, self.place(), self.count()) else {
            return Vec::new();
        };
        let bytes = ty.bytes() * count;
        if !self.is_plain() || bytes > 16 || (space == ".shared" && bytes > 8) {
            return Vec::new();
        }
        let bits = ty.bits().clamp(32, 64);
        let names: Vec<String> = (0..count).map(|index| format!("%v{index}")).collect();
        let list = names.join(", ");
        let operand = if count == 1 { list.clone() } else { format!("{{{list}}}") };
        let sum: String = names.iter().map(|name| mix(name, bits)).collect();
        let local = if space == ".local" { ".local .align 16 .b8 slots[16];" } else { "" };
        let second = if space == ".shared" {
            String::new()
        } else {
            format!("st{space}.b64 [{place}+8], %b;")
        };
        // A kernel may not read through the non-coherent path what it wrote itself.
        let (store, from) = if self.has("nc") {
            (String::new(), "%in")
        } else {
            (format!("st{space}.b64 [{place}], %a; {second}"), place)
        };
        let text = format!(
            "{local} .reg .b{bits} {list}; {store} {} {operand}, [{from}]; {sum}",
            self.text
        );
        let b64 = (Slot::Bits(64), Pool::of(Type::B64));
        self.case(text, &[Slot::Bits(64)], &[b64, b64])
    }

    fn store(&self) -> Vec<Case> {
        let (Some(ty), Some((place, space)), count) = (self.ty, self.place(), self.count()) else {
            return Vec::new();
        };
        let bytes = ty.bytes() * count;
        if !self.is_plain() || bytes > 16 || (space == ".shared" && bytes > 8) {
            return Vec::new();
        }
        let bits = ty.bits().clamp(32, 64);
        let local = if space == ".local" { ".local .align 16 .b8 slots[16];" } else { "" };
        let narrow = if bits == 64 { "mov.b64 %v, %b;" } else { "cvt.u32.u64 %v, %b;" };
        let operand = match count {
            1 => "%v".to_owned(),
            count => format!("{{{}}}", vec!["%v"; count as usize].join(", ")),
        };
        let last = if space == ".shared" {
            "mov.b64 %e, 0;".to_owned()
        } else {
            format!("ld{space}.b64 %e, [{place}+8];")
        };
        let first = if space == ".shared" {
            String::new()
        } else {
            format!("st{space}.b64 [{place}+8], %a;")
        };
        let text = format!(
            "{local} .reg .b{bits} %v; {narrow} st{space}.b64 [{place}], %a; {first} {} [{place}], {operand}; ld{space}.b64 %d, [{place}]; {last}",
            self.text
        );
        let b64 = (Slot::Bits(64), Pool::of(Type::B64));
        self.case(text, &[Slot::Bits(64), Slot::Bits(64)], &[b64, b64])
    }
}

/// Takes one more loaded value into the result.
fn mix(name: &str, bits: u32) -> String {
    let wide = if bits == 64 {
        format!("mov.b64 %wide, {name};")
    } else {
        format!("cvt.u64.u32 %wide, {name};")
    };
    format!("{wide} mul.lo.s64 %d, %d, 0x9e3779b97f4a7c15; xor.b64 %d, %d, %wide;")
}
