//! The small language in which the table writes the operands of a form.
//!
//! Operands are words parted by spaces, in the order of the text:
//!
//! | word | operand |
//! |---|---|
//! | `t`, `u`, `w` | a register or constant of the first type among the modifiers, of the second, of twice the width of the first |
//! | `b32`, `f64`, … | a register or constant of that type |
//! | `pred` | a predicate, perhaps negated |
//! | `imm` | an integer constant |
//! | `{t}` | a register, or several in braces where the modifiers or the type ask for them |
//! | `[a]` | an address |
//! | `[map]` | a tensor map's address with coordinates |
//! | `label`, `(args)` | a name of code; a list of arguments in parentheses |
//! | `=t`, `={t}` | a destination |
//! | `=p\|q`, `=t\|p` | a destination and perhaps a predicate after a bar |
//! | `u32/pred` | one or the other |
//! | `t~` | a register that may be wider than its type |
//! | `t?` | an operand that may be absent |
//! | `b64@L2::cache_hint` | an operand that is there with this modifier, and only then |

use super::{Modifiers, Type};
use crate::ptx::ast::Operand;
use std::ops::RangeInclusive;

/// One operand of a form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Word {
    /// What it is, without the marks after it.
    pub text: &'static str,
    /// Whether it may be absent.
    pub is_optional: bool,
    /// The modifier with which it is there.
    pub with: Option<&'static str>,
}

impl Word {
    fn new(text: &'static str) -> Self {
        let (text, with) =
            text.split_once('@').map_or((text, None), |(own, with)| (own, Some(with)));
        let (text, is_optional) = text.strip_suffix('?').map_or((text, false), |own| (own, true));
        Self { text, is_optional, with }
    }

    /// Whether an operand is of the kind that this word asks for. Its type is for decoding to
    /// check.
    fn fits(&self, operand: &Operand) -> bool {
        self.text.split('/').any(|own| is_of_kind(own.trim_end_matches('~'), operand))
    }
}

fn is_of_kind(word: &str, operand: &Operand) -> bool {
    use Operand::{Address, List, Name, NameOffset, Not, Number, Pair, Vector};
    match word {
        "imm" => matches!(operand, Number(_)),
        "pred" => matches!(operand, Name(_) | Not(_) | Number(_)),
        "label" => matches!(operand, Name(_)),
        "(args)" => matches!(operand, List(_)),
        "[a]" => matches!(operand, Address { extra, .. } if extra.is_empty()),
        "[map]" => matches!(operand, Address { .. }),
        "=p|q" | "=t|p" | "=b32|p" => matches!(operand, Name(_) | Pair(..)),
        _ if word.ends_with('}') => {
            matches!(operand, Name(_) | NameOffset(..) | Number(_) | Vector(_))
        }
        _ if word.starts_with('=') => matches!(operand, Name(_)),
        _ => matches!(operand, Name(_) | NameOffset(..) | Number(_)),
    }
}

/// The words of a description.
pub fn words(description: &'static str) -> impl Iterator<Item = Word> {
    description.split_whitespace().map(Word::new)
}

/// How many operands a description admits, with any modifiers.
pub fn count(description: &'static str) -> RangeInclusive<usize> {
    let least = words(description).filter(|word| !word.is_optional && word.with.is_none()).count();
    least..=words(description).count()
}

/// Whether the operands of an instruction are as many, and of the kinds, as a description says.
pub fn fit(description: &'static str, modifiers: &Modifiers<'_>, operands: &[Operand]) -> bool {
    let is_there = |word: &Word| word.with.is_none_or(|with| modifiers.has(with));
    let words: Vec<Word> = words(description).filter(is_there).collect();
    rest_fits(&words, operands)
}

/// Matches the rest of the words with the rest of the operands, trying a present operand first.
fn rest_fits(words: &[Word], operands: &[Operand]) -> bool {
    let Some((word, others)) = words.split_first() else { return operands.is_empty() };
    let present =
        operands.split_first().is_some_and(|(own, rest)| word.fits(own) && rest_fits(others, rest));
    present || (word.is_optional && rest_fits(others, operands))
}

/// The type that the name of one among an instruction's types stands for.
pub fn named_type(name: &str, modifiers: &Modifiers<'_>) -> Option<Type> {
    match name {
        "t" => modifiers.ty(0),
        "u" => modifiers.ty(1),
        "w" => modifiers.ty(0)?.doubled(),
        fixed => Type::parse(fixed),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::isa::forms;
    use crate::ptx::ast;

    /// Whether a word is one of the language.
    fn is_known(word: &str) -> bool {
        let kinds = ["imm", "pred", "label", "(args)", "[a]", "[map]", "=p|q", "=t|p", "=b32|p"];
        let word = word.trim_end_matches('~');
        let name = word.trim_start_matches('=').trim_start_matches('{').trim_end_matches('}');
        kinds.contains(&word) || ["t", "u", "w"].contains(&name) || Type::parse(name).is_some()
    }

    #[test]
    fn the_table_describes_operands_in_this_language() {
        for form in forms() {
            for word in words(form.operands) {
                assert!(word.text.split('/').all(is_known), "{}: operand {word:?}", form.opcode);
            }
        }
    }

    #[test]
    fn operands_fit_by_number_and_kind() {
        let fits = |description, modifiers: &[&str], operands: &[Operand]| {
            let words: Vec<ast::Word> = modifiers.iter().copied().map(ast::Word::from).collect();
            fit(description, &Modifiers(&words), operands)
        };
        let name = || Operand::Name("%r1".into());
        let address = || Operand::Address { base: Box::new(name()), offset: 0, extra: Vec::new() };
        let list = || Operand::List(vec![name()]);
        let load = "={t}~ [a] b64@L2::cache_hint";
        assert!(fits(load, &["b32"], &[name(), address()]));
        assert!(fits(load, &["b32"], &[Operand::Vector(vec![name()]), address()]));
        assert!(!fits(load, &["b32"], &[name(), address(), name()]));
        assert!(fits(load, &["L2::cache_hint", "b32"], &[name(), address(), name()]));
        assert!(!fits(load, &["L2::cache_hint", "b32"], &[name(), address()]));
        assert!(!fits(load, &["b32"], &[address(), name()]));
        let call = "(args)? label (args)? label?";
        for operands in [
            &[name()][..],
            &[list(), name()],
            &[name(), list(), name()],
            &[name(), name()],
            &[list(), name(), list(), name()],
        ] {
            assert!(fits(call, &[], operands), "{operands:?}");
        }
        assert!(!fits(call, &[], &[list()]) && !fits(call, &[], &[list(), list()]));
        assert_eq!((count(load), count(call)), (2..=3, 1..=4));
    }
}
