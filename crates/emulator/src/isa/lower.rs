//! From an instruction of the text to its form, and through it to operations.

use super::operands::{self, named_type};
use super::pattern::{Modifiers, Pattern};
use super::table::{FORMS, forms_of};
use super::{Form, Lowering, Type};
use crate::fault::LoadError;
use crate::program::Emitter;
use crate::ptx::ast::{Instruction, Operand};

/// Appends the operations of an instruction.
pub fn lower(emitter: &mut Emitter<'_>, instruction: &Instruction) -> Result<(), LoadError> {
    if !emitter.has_vectors {
        return lower_plain(emitter, instruction);
    }
    let operands = emitter.spread_vectors(&instruction.operands);
    lower_plain(emitter, &Instruction { operands, ..instruction.clone() })
}

fn lower_plain(emitter: &mut Emitter<'_>, instruction: &Instruction) -> Result<(), LoadError> {
    emitter.begin(instruction.position.line, instruction.guard.as_ref())?;
    emitter.spell(instruction);
    let count = instruction.operands.len();
    let own = forms_of(&instruction.opcode);
    let matching = |(index, pattern): &(usize, Pattern)| {
        pattern.matches(&instruction.modifiers).then(|| (*index, &FORMS[*index]))
    };
    if let Some((index, form)) = first(own.iter().filter_map(matching), count) {
        return lower_as(emitter, (index, form), instruction);
    }
    // The words are those of a form, but stand in another order: from here on they are in the
    // table's.
    let arranged = |(index, pattern): &(usize, Pattern)| {
        pattern.arrange(&instruction.modifiers).map(|order| ((*index, order), &FORMS[*index]))
    };
    let ((index, order), form) =
        first(own.iter().filter_map(arranged), count).ok_or_else(|| unknown(instruction))?;
    let modifiers = order.iter().map(|word| instruction.modifiers[*word].clone()).collect();
    lower_as(emitter, (index, form), &Instruction { modifiers, ..instruction.clone() })
}

/// The first form that takes `count` operands, else the first.
fn first<T>(
    fitting: impl Iterator<Item = (T, &'static Form)>,
    count: usize,
) -> Option<(T, &'static Form)> {
    let mut fallback = None;
    for own in fitting {
        if takes(own.1, count) {
            return Some(own);
        }
        fallback.get_or_insert(own);
    }
    fallback
}

/// Appends the operations of an instruction whose modifiers stand in the order of its form.
fn lower_as(
    emitter: &mut Emitter<'_>,
    (index, form): (usize, &Form),
    instruction: &Instruction,
) -> Result<(), LoadError> {
    let modifiers = Modifiers(&instruction.modifiers);
    emitter.classify(index, form, &modifiers);
    match form.lowering {
        Lowering::Emit(emit) => {
            emit(emitter, &modifiers, instruction)?;
            if !operands::fit(form.operands, &modifiers, &instruction.operands) {
                let opcode = form.opcode;
                return Err(emitter.invalid(format!("`{opcode}` does not take these operands")));
            }
        }
        Lowering::Pick(pick) => {
            let pick = pick(&modifiers).ok_or_else(|| unknown(instruction))?;
            let mut slots = Slots::default();
            let imm = slots.fill(emitter, form, &modifiers, &instruction.operands)?;
            emitter.push(pick.run, &slots.own[..slots.len], pick.imm | imm);
        }
    }
    emitter.end();
    Ok(())
}

/// True if a form takes `count` operands.
fn takes(form: &Form, count: usize) -> bool {
    operands::count(form.operands).contains(&count)
}

/// The error about an instruction that no form fits.
pub fn unknown(instruction: &Instruction) -> LoadError {
    let mut spelled = instruction.opcode.to_string();
    for word in &instruction.modifiers {
        spelled.push('.');
        spelled.push_str(word);
    }
    let line = instruction.position.line;
    match super::unsupported::reason(instruction) {
        Some(why) => LoadError::Unsupported { instruction: spelled, why, line },
        None => LoadError::UnknownInstruction { instruction: spelled, line },
    }
}

/// The slots of an operation as they are found.
#[derive(Default)]
struct Slots {
    own: [u32; 6],
    len: usize,
}

impl Slots {
    fn add(&mut self, slot: u32) {
        self.own[self.len] = slot;
        self.len += 1;
    }

    /// Resolves the operands of a form. Returns the immediate among them, or 0.
    fn fill(
        &mut self,
        emitter: &mut Emitter<'_>,
        form: &Form,
        modifiers: &Modifiers<'_>,
        given: &[Operand],
    ) -> Result<u64, LoadError> {
        if !takes(form, given.len()) {
            return Err(emitter.invalid(format!(
                "`{}` does not take {} operands",
                form.opcode,
                given.len()
            )));
        }
        let mut imm = 0;
        for (word, operand) in operands::words(form.operands).zip(given) {
            imm |= self.resolve(emitter, word.text, modifiers, operand)?;
        }
        Ok(imm)
    }

    fn resolve(
        &mut self,
        emitter: &mut Emitter<'_>,
        word: &str,
        modifiers: &Modifiers<'_>,
        operand: &Operand,
    ) -> Result<u64, LoadError> {
        let (word, relaxed) = match word.strip_suffix('~') {
            Some(word) => (word, true),
            None => (word, false),
        };
        let lacking = || emitter.invalid("a type is missing");
        match word {
            "imm" => return emitter.immediate(operand),
            "pred" => {
                let slot = emitter.predicate_source(operand)?;
                self.add(slot);
            }
            "=p|q" | "=t|p" => {
                let first = if word == "=p|q" { Some(Type::Pred) } else { modifiers.ty(0) };
                let first = first.ok_or_else(lacking)?;
                emitter
                    .destination_pair(operand, first)?
                    .into_iter()
                    .for_each(|slot| self.add(slot));
            }
            _ => {
                let (name, destination) = match word.strip_prefix('=') {
                    Some(name) => (name, true),
                    None => (word, false),
                };
                let ty = named_type(name, modifiers).ok_or_else(lacking)?;
                let slot = match destination {
                    true => emitter.destination(operand, ty, relaxed)?,
                    false => emitter.source(operand, ty, relaxed)?,
                };
                self.add(slot);
            }
        }
        Ok(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::isa::pattern;
    use crate::ptx::ast;

    #[test]
    fn the_table_is_written_in_its_own_language() {
        for form in FORMS.iter() {
            assert!(pattern::is_well_formed(form.modifiers), "{} {}", form.opcode, form.modifiers);
            assert!(!form.doc.is_empty(), "{} has no doc", form.opcode);
        }
    }
    /// The words of a form, in any order, are those of no other form that means something else.
    /// Where they were, texts in another order than the manual's could be read in two ways.
    #[test]
    fn no_form_takes_the_words_of_another_in_its_order() {
        for (index, form) in FORMS.iter().enumerate() {
            let others = || forms_of(form.opcode).iter().filter(|(other, _)| *other != index);
            for spelling in form.spellings() {
                let words: Vec<ast::Word> = spelling.iter().copied().map(ast::Word::from).collect();
                let takes = |pattern: &Pattern| {
                    !pattern.matches(&words) && pattern.arrange(&words).is_some()
                };
                let other = others().find(|(_, pattern)| takes(pattern));
                let other = other.map(|(other, _)| FORMS[*other].modifiers);
                assert_eq!(other, None, "{} {}", form.opcode, words.join("."));
            }
        }
    }

    /// A row that rows before it leave nothing to would never be reached.
    #[test]
    fn each_row_takes_an_instruction_that_no_row_before_it_takes() {
        for (index, form) in FORMS.iter().enumerate() {
            let counts = operands::count(form.operands);
            let before = forms_of(form.opcode).iter().filter(|(other, _)| *other < index);
            let before: Vec<&Pattern> = before
                .filter(|(other, _)| {
                    let theirs = operands::count(FORMS[*other].operands);
                    theirs.start() <= counts.start() && counts.end() <= theirs.end()
                })
                .map(|(_, pattern)| pattern)
                .collect();
            let is_new = |spelling: &Vec<&str>| {
                let words: Vec<ast::Word> = spelling.iter().copied().map(ast::Word::from).collect();
                !before.iter().any(|pattern| pattern.matches(&words))
            };
            assert!(form.spellings().iter().any(is_new), "{} {}", form.opcode, form.modifiers);
        }
    }
}
