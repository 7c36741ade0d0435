//! The small language in which the table writes the modifiers of a form.
//!
//! A pattern is a sequence of slots parted by spaces. A slot is a list of alternatives parted by
//! `|`; one that begins with `@` names a set of words; a slot that ends in `?` may be absent.
//! `rn|rz|rm|rp? ftz? sat? f32` is matched by `f32`, `rn.f32`, `rz.ftz.sat.f32`, and so on.

use super::types::Type;

/// The shapes of `wgmma` of one depth, whose columns go by eights; with `by sixteen` those of integers.
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

/// True if `words` fit `pattern`.
pub fn matches(pattern: &str, words: &[String]) -> bool {
    let slots: Vec<&str> = pattern.split_whitespace().collect();
    fits(&slots, words)
}

/// Every sequence of words that fits `pattern`.
pub fn spellings(pattern: &'static str) -> Vec<Vec<&'static str>> {
    pattern.split_whitespace().fold(vec![vec![]], |heads, slot| {
        let words = choices(slot);
        let extend = |head: &Vec<&'static str>, word: &Option<&'static str>| {
            head.iter().copied().chain(*word).collect()
        };
        heads.iter().flat_map(|head| words.iter().map(|word| extend(head, word))).collect()
    })
}

/// What may stand in a slot; `None` for nothing.
fn choices(slot: &'static str) -> Vec<Option<&'static str>> {
    let absent = slot.ends_with('?').then_some(None);
    let words =
        slot.trim_end_matches('?').split('|').flat_map(|word| match word.strip_prefix('@') {
            Some(name) => set(name).to_vec(),
            None => vec![word],
        });
    absent.into_iter().chain(words.map(Some)).collect()
}

/// Matches the rest of the slots against the rest of the words, trying a present slot first.
fn fits(slots: &[&str], words: &[String]) -> bool {
    let Some((slot, rest)) = slots.split_first() else {
        return words.is_empty();
    };
    let (alternatives, optional) = match slot.strip_suffix('?') {
        Some(alternatives) => (alternatives, true),
        None => (*slot, false),
    };
    let present = words.split_first().is_some_and(|(word, others)| {
        alternatives.split('|').any(|alternative| admits(alternative, word)) && fits(rest, others)
    });
    present || (optional && fits(rest, words))
}

/// True if an alternative, a word or the name of a set, admits the word.
fn admits(alternative: &str, word: &str) -> bool {
    match alternative.strip_prefix('@') {
        Some(name) => set(name).contains(&word),
        None => alternative == word,
    }
}

/// The words of a named set.
fn set(name: &str) -> &'static [&'static str] {
    SETS.iter().find(|(set, _)| *set == name).map_or(&[], |(_, words)| words)
}

/// True if every set that the pattern names exists.
#[cfg(test)]
pub fn is_well_formed(pattern: &str) -> bool {
    let alternatives = |slot: &str| -> bool {
        slot.trim_end_matches('?')
            .split('|')
            .all(|word| word.strip_prefix('@').is_none_or(|name| !set(name).is_empty()))
    };
    pattern.split_whitespace().all(alternatives)
}

/// The modifiers of an instruction that fits its form.
#[derive(Clone, Copy, Debug)]
pub struct Modifiers<'a>(pub &'a [String]);

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
        self.0.iter().map(String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fit(pattern: &str, dotted: &str) -> bool {
        let words: Vec<String> =
            dotted.split('.').filter(|word| !word.is_empty()).map(str::to_owned).collect();
        matches(pattern, &words)
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
