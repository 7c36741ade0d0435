//! The table of forms, by their subjects.

use super::Form;
use super::pattern::Pattern;
use std::collections::HashMap;
use std::sync::LazyLock;

/// Lists forms by their families. Stands before the modules, which see it for that reason.
macro_rules! forms {
    ($($family:literal { $(#[doc = $doc:literal] $opcode:literal $modifiers:literal $operands:literal => $kind:ident $lower:path;)* })*) => {
        pub(super) static FORMS: &[Form] = &[$($(
            Form {
                opcode: $opcode,
                modifiers: $modifiers,
                operands: $operands,
                family: $family,
                doc: $doc.trim_ascii(),
                lowering: Lowering::$kind($lower),
            },
        )*)*];
    };
}

mod arithmetic;
mod memory;
mod together;

pub(super) static FORMS: LazyLock<Vec<Form>> =
    LazyLock::new(|| [arithmetic::FORMS, memory::FORMS, together::FORMS].concat());

/// All forms that the emulator knows.
pub fn forms() -> &'static [Form] {
    &FORMS
}

/// The forms with that opcode: their indices, and their patterns.
pub(super) fn forms_of(opcode: &str) -> &'static [(usize, Pattern)] {
    static BY_OPCODE: LazyLock<HashMap<&str, Vec<(usize, Pattern)>>> = LazyLock::new(|| {
        let mut map: HashMap<&str, Vec<(usize, Pattern)>> = HashMap::new();
        for (index, form) in FORMS.iter().enumerate() {
            map.entry(form.opcode).or_default().push((index, Pattern::new(form.modifiers)));
        }
        map
    });
    BY_OPCODE.get(opcode).map_or(&[], Vec::as_slice)
}
