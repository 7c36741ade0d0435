//! The small language in which the table writes the modifiers of a form.
//!
//! A pattern is a sequence of slots parted by spaces. A slot is a list of alternatives parted by
//! `|`; one that begins with `@` names a set of words; a slot that ends in `?` may be absent.
//! `rn|rz|rm|rp? ftz? sat? f32` is matched by `f32`, `rn.f32`, `rz.ftz.sat.f32`, and so on. A dot
//! before a slot says that it belongs to the opcode: `.lo|hi u32` of `mul` is the two opcodes
//! `mul.lo` and `mul.hi`.
//!
//! The slots are in the order of the PTX manual. Texts have others: compilers and people write
//! `atom.global.cta.add.u32` and `div.ftz.rn.f32`, and NVIDIA's assembler takes the words after the
//! opcode in any order. So do we: [`Pattern::arrange`] says what has to stay in its order.

use super::types::Type;
use crate::ptx::ast::Word;

/// The shapes of `wgmma` of one depth, whose columns go by eights; with `by sixteen` those of
/// integers.
macro_rules! shapes {
    ($depth:literal) => {
        shapes!(@ $depth 8 16 24 32 40 48 56 64 72 80 88 96 104 112 120 128 136 144 152 160 168 176
            184 192 200 208 216 224 232 240 248 256)
    };
    ($depth:literal by sixteen) => {
        shapes!(@ $depth 8 16 24 32 48 64 80 96 112 128 144 160 176 192 208 224 240 256)
    };
    (@ $depth:literal $($columns:literal)*) => {
        &[$(concat!("m64n", $columns, $depth)),*]
    };
}

/// Named sets of words.
const SETS: &[(&str, &[&str])] = &[
    ("int", &["u16", "s16", "u32", "s32", "u64", "s64"]),
    ("bits", &["b16", "b32", "b64"]),
    ("anyint", &["u8", "s8", "u16", "s16", "u32", "s32", "u64", "s64"]),
    ("round", &["rn", "rz", "rm", "rp"]),
    ("roundint", &["rni", "rzi", "rmi", "rpi"]),
    ("bool", &["and", "or", "xor"]),
    ("scope", &["cta", "cluster", "gpu", "sys"]),
    (
        "mem",
        &[
            "b8", "b16", "b32", "b64", "b128", "u8", "u16", "u32", "u64", "s8", "s16", "s32",
            "s64", "f32", "f64",
        ],
    ),
    (
        "evict",
        &[
            "L1::evict_normal",
            "L1::evict_unchanged",
            "L1::evict_first",
            "L1::evict_last",
            "L1::no_allocate",
        ],
    ),
    ("evict2", &["L2::evict_normal", "L2::evict_first", "L2::evict_last"]),
    ("hint", &["L2::cache_hint"]),
    ("policy", &["L2::evict_last", "L2::evict_normal", "L2::evict_first", "L2::evict_unchanged"]),
    ("order", &["relaxed", "acquire", "release", "acq_rel"]),
    ("prefetch", &["L2::64B", "L2::128B", "L2::256B"]),
    ("compare", &["eq", "ne", "lt", "le", "gt", "ge", "lo", "ls", "hi", "hs"]),
    ("m64k8", shapes!("k8")),
    ("m64k16", shapes!("k16")),
    ("m64k32", shapes!("k32")),
    ("m64k32int", shapes!("k32" by sixteen)),
    ("m64k64", shapes!("k64")),
    ("m64k64int", shapes!("k64" by sixteen)),
    ("m64k256", shapes!("k256" by sixteen)),
    ("unordered", &["equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan"]),
];

/// A pattern, taken apart once.
pub struct Pattern {
    slots: Vec<Slot>,
    /// Slots that may not be absent.
    required: usize,
}

struct Slot {
    words: Vec<&'static str>,
    optional: bool,
    /// Part of the opcode, which stays where it is.
    fixed: bool,
}

impl Slot {
    fn new(text: &'static str) -> Self {
        let (text, fixed) = text.strip_prefix('.').map_or((text, false), |rest| (rest, true));
        let (text, optional) = text.strip_suffix('?').map_or((text, false), |rest| (rest, true));
        let words = text.split('|').flat_map(|word| match word.strip_prefix('@') {
            Some(name) => set(name).to_vec(),
            None => vec![word],
        });
        Self { words: words.collect(), optional, fixed }
    }

    fn admits(&self, word: &str) -> bool {
        self.words.contains(&word)
    }
}

impl Pattern {
    /// Takes a pattern of the table apart.
    pub fn new(text: &'static str) -> Self {
        let slots: Vec<Slot> = text.split_whitespace().map(Slot::new).collect();
        let required = slots.iter().filter(|slot| !slot.optional).count();
        Self { slots, required }
    }

    /// True if `words` fit in the order of the slots.
    pub fn matches(&self, words: &[Word]) -> bool {
        self.may_fit(words) && fits(&self.slots, words)
    }

    /// The indices of `words` in the order of the slots, where they fit in another order.
    ///
    /// PTX lets the words after the opcode stand in any order, but for those of one
    /// [`OrderedGroup`], whose order has a meaning. Slots with a dot belong to the opcode and come
    /// first.
    pub fn arrange(&self, words: &[Word]) -> Option<Vec<usize>> {
        let mut chosen = Vec::with_capacity(words.len());
        (self.may_fit(words) && arrange(&self.slots, words, &mut chosen)).then_some(chosen)
    }

    fn may_fit(&self, words: &[Word]) -> bool {
        (self.required..=self.slots.len()).contains(&words.len())
    }
}

/// Words whose order among themselves has a meaning.
#[derive(Clone, Copy, PartialEq, Eq)]
enum OrderedGroup {
    /// The result's type, then those of the operands.
    Type,
    /// The space that is written, then the one that is read.
    Space,
    /// How A is stored, then B.
    Layout,
    /// The primary policy of a cache, then the secondary.
    Policy,
}

impl OrderedGroup {
    fn of(word: &str) -> Option<Self> {
        match word {
            "u2" | "s2" => Some(Self::Type),
            "global" | "shared" | "shared::cta" | "shared::cluster" => Some(Self::Space),
            "row" | "col" => Some(Self::Layout),
            _ if word.starts_with("L2::evict") => Some(Self::Policy),
            _ => Type::parse(word).map(|_| Self::Type),
        }
    }
}

/// Chooses a word for each of the slots among those that are left, a present slot first.
fn arrange(slots: &[Slot], words: &[Word], chosen: &mut Vec<usize>) -> bool {
    let Some((slot, rest)) = slots.split_first() else {
        return chosen.len() == words.len();
    };
    for (index, word) in words.iter().enumerate() {
        if slot.admits(word) && is_next(slot, words, chosen, index) {
            chosen.push(index);
            if arrange(rest, words, chosen) {
                return true;
            }
            chosen.pop();
        }
    }
    slot.optional && arrange(rest, words, chosen)
}

/// True if the word at `index` is left, and may stand in the slot as far as the order matters.
fn is_next(slot: &Slot, words: &[Word], chosen: &[usize], index: usize) -> bool {
    let is_left = |index: &usize| !chosen.contains(index);
    if slot.fixed {
        return index == chosen.len() && is_left(&index);
    }
    let kind = OrderedGroup::of(&words[index]);
    let is_earlier = |other: &usize| kind.is_some() && OrderedGroup::of(&words[*other]) == kind;
    is_left(&index) && !(0..index).filter(is_left).any(|other| is_earlier(&other))
}

/// Every sequence of words that fits `pattern` in its order.
pub fn spellings(pattern: &'static str) -> Vec<Vec<&'static str>> {
    pattern.split_whitespace().map(Slot::new).fold(vec![vec![]], |heads, slot| {
        let absent = slot.optional.then_some(None);
        let choices: Vec<_> = absent.into_iter().chain(slot.words.into_iter().map(Some)).collect();
        let extend = |head: &Vec<&'static str>, word: &Option<&'static str>| {
            head.iter().copied().chain(*word).collect()
        };
        heads.iter().flat_map(|head| choices.iter().map(|word| extend(head, word))).collect()
    })
}

/// Matches the rest of the slots against the rest of the words, trying a present slot first.
fn fits(slots: &[Slot], words: &[Word]) -> bool {
    let Some((slot, rest)) = slots.split_first() else {
        return words.is_empty();
    };
    let present =
        words.split_first().is_some_and(|(word, others)| slot.admits(word) && fits(rest, others));
    present || (slot.optional && fits(rest, words))
}

/// The words of a named set.
fn set(name: &str) -> &'static [&'static str] {
    SETS.iter().find(|(set, _)| *set == name).map_or(&[], |(_, words)| words)
}

/// True if every set that the pattern names exists, and what belongs to the opcode comes first.
#[cfg(test)]
pub fn is_well_formed(pattern: &'static str) -> bool {
    let slots: Vec<Slot> = pattern.split_whitespace().map(Slot::new).collect();
    let alternatives = |slot: &str| -> bool {
        slot.trim_start_matches('.')
            .trim_end_matches('?')
            .split('|')
            .all(|word| word.strip_prefix('@').is_none_or(|name| !set(name).is_empty()))
    };
    slots.is_sorted_by_key(|slot| !slot.fixed) && pattern.split_whitespace().all(alternatives)
}

/// The modifiers of an instruction that fits its form.
#[derive(Clone, Copy, Debug)]
pub struct Modifiers<'a>(pub &'a [Word]);

impl<'a> Modifiers<'a> {
    /// True if the word is among them.
    pub fn has(&self, word: &str) -> bool {
        self.0.iter().any(|own| own == word)
    }

    /// The first of `words` that is among them.
    pub fn one_of(&self, words: &[&'static str]) -> Option<&'static str> {
        words.iter().copied().find(|word| self.has(word))
    }

    /// The `index`-th modifier that is a type.
    pub fn ty(&self, index: usize) -> Option<Type> {
        self.0.iter().filter_map(|word| Type::parse(word)).nth(index)
    }

    /// The modifiers in order.
    pub fn words(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        self.0.iter().map(Word::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(dotted: &str) -> Vec<Word> {
        dotted.split('.').filter(|word| !word.is_empty()).map(Word::from).collect()
    }

    fn fit(pattern: &'static str, dotted: &str) -> bool {
        Pattern::new(pattern).matches(&words(dotted))
    }

    fn arranged(pattern: &'static str, dotted: &str) -> Option<String> {
        let words = words(dotted);
        let order = Pattern::new(pattern).arrange(&words)?;
        Some(order.iter().map(|index| words[*index].as_str()).collect::<Vec<_>>().join("."))
    }

    #[test]
    fn slots_are_in_order_and_optional_ones_may_be_absent() {
        let pattern = "@round? ftz? sat? f32|f64";
        assert!(fit(pattern, "f32"));
        assert!(fit(pattern, "rn.ftz.sat.f32"));
        assert!(!fit(pattern, "ftz.rn.f32"));
        assert!(!fit(pattern, "rn"));
        assert!(!fit(pattern, "f32.f32"));
    }

    #[test]
    fn words_in_another_order_are_arranged() {
        let pattern = "@round? ftz? sat? f32|f64";
        assert_eq!(arranged(pattern, "ftz.f32.rn").as_deref(), Some("rn.ftz.f32"));
        assert_eq!(arranged(pattern, "sat.ftz.f32").as_deref(), Some("ftz.sat.f32"));
        for wrong in ["rn", "ftz.ftz.f32", "rn.rz.f32", "f32.f64", "rn.frob.f32", "f32.f32"] {
            assert_eq!(arranged(pattern, wrong), None, "{wrong}");
        }
        let atom = "@order? @scope? global|shared? add|min u32|s32";
        assert_eq!(arranged(atom, "global.cta.add.u32").as_deref(), Some("cta.global.add.u32"));
    }

    #[test]
    fn types_spaces_and_layouts_stay_in_order() {
        assert_eq!(arranged("@round f32|f64 f32|f64", "f32.rn.f64").as_deref(), Some("rn.f32.f64"));
        assert_eq!(arranged("rn f32 f64", "f64.rn.f32"), None);
        assert_eq!(arranged("ca|cg shared global", "global.shared.ca"), None);
        assert!(arranged("ca|cg shared global", "shared.global.ca").is_some());
        assert_eq!(arranged("sync row col f16", "sync.col.row.f16"), None);
        assert!(arranged("sync row col f16", "f16.row.col.sync").is_some());
        assert!(
            arranged("@int? u32", "u32").is_some() && arranged("@int? u32", "u32.s32").is_none()
        );
    }

    #[test]
    fn what_belongs_to_the_opcode_stays_first() {
        assert!(arranged(".lo|hi cc? u32", "lo.u32.cc").is_some());
        assert_eq!(arranged(".lo|hi cc? u32", "cc.lo.u32"), None);
        assert_eq!(arranged(".async .bulk read?", "bulk.async"), None);
        assert!(is_well_formed(".lo sat? u32") && !is_well_formed("sat? .lo u32"));
    }

    #[test]
    fn an_absent_slot_is_tried_when_a_present_one_leads_nowhere() {
        assert!(fit("@int? u32", "u32"));
        assert!(fit("@int? u32", "s32.u32"));
    }

    #[test]
    fn all_spellings_of_a_pattern_fit_it() {
        let pattern = "@round? ftz? f32|f64";
        let all = spellings(pattern);
        assert_eq!(all.len(), 5 * 2 * 2);
        assert!(all.iter().all(|words| fit(pattern, &words.join("."))));
        assert_eq!(spellings(""), [Vec::<&str>::new()]);
    }

    #[test]
    fn an_empty_pattern_takes_no_modifier() {
        assert!(fit("", ""));
        assert!(!fit("", "u32"));
    }
}
