//! The table of forms, by their subjects.

use super::Form;
use super::pattern::Pattern;
use std::collections::HashMap;
use std::sync::LazyLock;

/// Lists forms by their families. Stands before the modules, which see it for that reason.
///
/// A row is `/// doc`, opcode, modifiers, operands, and how it becomes operations. The head of a
/// family gives the class, the taint rule, the memory order and the floating-point operations of
/// its rows: a variant of [`Class`] and of [`Rule`] and a constant of [`Order`], or functions of
/// the modifiers in parentheses, and a number. A row that differs from its family has what differs
/// in brackets: `[class C]`, `[rule R]`, `[order O]`, `[flops N]`, `[read_only]`, one after the
/// other.
macro_rules! forms {
    ($($family:literal [$class:tt, $rule:tt, $order:tt, $flops:literal] {
        $(#[doc = $doc:literal] $opcode:literal $modifiers:literal $operands:literal $([$($own:tt)*])? => $kind:ident $lower:path;)*
    })*) => {
        pub(super) static FORMS: &[Form] = &[$($(
            Form {
                opcode: $opcode,
                modifiers: $modifiers,
                operands: $operands,
                family: $family,
                doc: $doc.trim_ascii(),
                properties: properties!([$class, $rule, $order, $flops, false] $($($own)*)?),
                lowering: Lowering::$kind($lower),
            },
        )*)*];
    };
}

/// The properties of a row: those of its family, and then its own, one after the other.
macro_rules! properties {
    ([$class:tt, $rule:tt, $order:tt, $flops:literal, $read_only:literal]) => {
        Properties {
            class: property!(Class $class),
            rule: property!(Rule $rule),
            order: property!(Order $order),
            flops: $flops,
            read_only: $read_only,
        }
    };
    ([$class:tt, $rule:tt, $order:tt, $flops:literal, $read_only:literal] class $own:tt $($rest:tt)*) => {
        properties!([$own, $rule, $order, $flops, $read_only] $($rest)*)
    };
    ([$class:tt, $rule:tt, $order:tt, $flops:literal, $read_only:literal] rule $own:tt $($rest:tt)*) => {
        properties!([$class, $own, $order, $flops, $read_only] $($rest)*)
    };
    ([$class:tt, $rule:tt, $order:tt, $flops:literal, $read_only:literal] order $own:tt $($rest:tt)*) => {
        properties!([$class, $rule, $own, $flops, $read_only] $($rest)*)
    };
    ([$class:tt, $rule:tt, $order:tt, $flops:literal, $read_only:literal] flops $own:literal $($rest:tt)*) => {
        properties!([$class, $rule, $order, $own, $read_only] $($rest)*)
    };
    ([$class:tt, $rule:tt, $order:tt, $flops:literal, $read_only:literal] read_only $($rest:tt)*) => {
        properties!([$class, $rule, $order, $flops, true] $($rest)*)
    };
}

/// A property that is the same for all spellings of a row, or a function of its modifiers.
macro_rules! property {
    ($ty:ident ($function:path)) => {
        $function
    };
    ($ty:ident $constant:ident) => {
        |_| $ty::$constant
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

/// The form that an instruction with these modifiers has.
#[cfg(test)]
pub(super) fn form_of(opcode: &str, modifiers: &[crate::ptx::ast::Word]) -> &'static Form {
    let fits = |(_, pattern): &&(usize, Pattern)| pattern.matches(modifiers);
    &FORMS[forms_of(opcode).iter().find(fits).expect("the table has it").0]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::isa::{Class, Modifiers};
    use crate::ptx::ast::Word;

    #[test]
    fn spellings_have_classes() {
        for (spelling, class) in [
            ("add.s32", Class::Integer),
            ("mul.wide.u32", Class::Integer),
            ("mad.lo.u64", Class::Integer),
            ("fma.rn.f32", Class::Float32),
            ("ex2.approx.ftz.f32", Class::Float32),
            ("div.rn.f64", Class::Float64),
            ("add.rn.bf16x2", Class::Half),
            ("lop3.b32", Class::Logic),
            ("cvt.rn.f32.u32", Class::Conversion),
            ("setp.lt.f32", Class::Comparison),
            ("mov.u32", Class::Move),
            ("ld.global.nc.v4.f32", Class::Load),
            ("ld.param.b64", Class::Parameter),
            ("st.shared.b32", Class::Store),
            ("red.global.add.u32", Class::Atomic),
            ("bar.warp.sync", Class::Warp),
            ("bar.sync", Class::Barrier),
            ("shfl.sync.down.b32", Class::Warp),
            ("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32", Class::Tensor),
            ("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes", Class::Copy),
            ("bra.uni", Class::Control),
            ("ret", Class::Control),
        ] {
            let mut words = spelling.split('.').map(Word::from);
            let (opcode, words) = (words.next().unwrap(), words.collect::<Vec<_>>());
            let form = form_of(&opcode, &words);
            assert_eq!((form.properties.class)(&Modifiers(&words)), class, "{spelling}");
        }
    }

    /// What one element takes, where a product with a sum is two operations.
    #[test]
    fn only_arithmetic_of_floats_counts_operations() {
        let flops = |opcode: &str, ty: &str| {
            let of = |form: &&Form| form.opcode == opcode && form.modifiers.ends_with(ty);
            let all = forms().iter().filter(of).map(|form| form.properties.flops);
            let mut all = all.collect::<Vec<_>>();
            all.dedup();
            all
        };
        assert_eq!(flops("fma", "f32"), [2]);
        assert_eq!(flops("fma", "bf16x2"), [2]);
        assert_eq!(flops("add", "f64"), [1]);
        assert_eq!(flops("min", "f32"), [0]);
        assert_eq!(flops("mad", "@int"), [0]);
        assert_eq!(flops("mma", "f32"), [0]);
    }

    #[test]
    fn only_loads_through_the_read_only_cache_are_read_only() {
        for form in forms() {
            let is_nc = form.modifiers.split_whitespace().any(|word| word == "nc");
            assert_eq!(form.properties.read_only, is_nc, "{} {}", form.opcode, form.modifiers);
        }
    }
}
