//! The table of forms.

use super::{Form, Lowering};
use crate::exec::ops::{barrier, compare, control, int, logic, memory, moves};
use std::collections::HashMap;
use std::sync::LazyLock;

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

forms! {
    "integer arithmetic" {
        /// Sum, which wraps.
        "add" "@int" "=t t t" => Pick int::add;
        /// Difference, which wraps.
        "sub" "@int" "=t t t" => Pick int::sub;
        /// Low half of a product.
        "mul" "lo @int" "=t t t" => Pick int::mul_lo;
        /// Whole product, of twice the width.
        "mul" "wide u16|s16|u32|s32" "=w t t" => Pick int::mul_wide;
        /// Low half of a product, plus a third operand.
        "mad" "lo @int" "=t t t t" => Pick int::mad_lo;
        /// Whole product plus a third operand of twice the width.
        "mad" "wide u16|s16|u32|s32" "=w t t w" => Pick int::mad_wide;
    }
    "logic and shifts" {
        /// Bitwise and.
        "and" "@bits" "=t t t" => Pick logic::and;
        /// And of predicates.
        "and" "pred" "=pred pred pred" => Pick logic::and_pred;
        /// Bitwise or.
        "or" "@bits" "=t t t" => Pick logic::or;
        /// Or of predicates.
        "or" "pred" "=pred pred pred" => Pick logic::or_pred;
        /// Bitwise exclusive or.
        "xor" "@bits" "=t t t" => Pick logic::xor;
        /// Exclusive or of predicates.
        "xor" "pred" "=pred pred pred" => Pick logic::xor_pred;
        /// Bitwise complement.
        "not" "@bits" "=t t" => Pick logic::not;
        /// Complement of a predicate.
        "not" "pred" "=pred pred" => Pick logic::not_pred;
        /// Shift to the left; a count past the width gives 0.
        "shl" "@bits" "=t t u32" => Pick logic::shl;
        /// Shift to the right, with the sign where the type has one; a count past the width is the width.
        "shr" "@bits|@int" "=t t u32" => Pick logic::shr;
    }
    "comparison and selection" {
        /// Comparison to a predicate and its complement.
        "setp" "@compare|@unordered ftz? @bits|@int|f16|bf16|f32|f64" "=p|q t t" => Pick compare::setp;
        /// Comparison combined with a predicate.
        "setp" "@compare|@unordered @bool ftz? @bits|@int|f16|bf16|f32|f64" "=p|q t t pred" => Pick compare::setp;
        /// One of two values, by a predicate.
        "selp" "@bits|@int|f32|f64" "=t t t pred" => Pick compare::selp;
    }
    "moves and addresses" {
        /// Copy of a register, an immediate, an address, or a special register.
        "mov" "@int|f32|f64" "=t t" => Pick moves::mov;
        /// Copy of a predicate.
        "mov" "pred" "=pred pred" => Pick moves::mov_pred;
        /// Copy of bits; a vector is put together or taken apart.
        "mov" "@bits" "" => Emit moves::mov_bits;
        /// Address of a space to a generic address.
        "cvta" "global|const|shared|shared::cta|local|param|param::entry u64" "=t t" => Pick moves::cvta;
        /// Generic address to an address of a space.
        "cvta" "to global|const|shared|shared::cta|local|param|param::entry u64" "=t t" => Pick moves::cvta_to;
        /// Whether a generic address lies in a space.
        "isspacep" "global|const|shared|shared::cta|local|param|param::entry" "=pred u64" => Pick moves::isspacep;
    }
    "memory" {
        /// Load. Cache hints change nothing here.
        "ld" "weak? global|const|shared|shared::cta|local|param|param::entry|param::func? ca|cg|cs|lu|cv? @evict? @evict2? @prefetch? v2|v4? @mem" "" => Emit memory::ld;
        /// Load of data that nobody writes.
        "ld" "global ca|cg|cs? nc @evict? @evict2? @prefetch? v2|v4? @mem" "" => Emit memory::ld;
        /// Load that is never left out.
        "ld" "volatile global|const|shared|shared::cta|local|param? @prefetch? v2|v4? @mem" "" => Emit memory::ld;
        /// Load that other threads may race with; `acquire` orders what follows.
        "ld" "relaxed|acquire @scope global|shared|shared::cta? @evict? @evict2? @prefetch? v2|v4? @mem" "" => Emit memory::ld;
        /// Load of data that is the same for the warp.
        "ldu" "global? v2|v4? @mem" "" => Emit memory::ld;
        /// Store. Cache hints change nothing here.
        "st" "weak? global|shared|shared::cta|local|param|param::func? wb|cg|cs|wt? @evict? @evict2? v2|v4? @mem" "" => Emit memory::st;
        /// Store that is never left out.
        "st" "volatile global|shared|shared::cta|local? v2|v4? @mem" "" => Emit memory::st;
        /// Store that other threads may race with; `release` orders what came before.
        "st" "relaxed|release @scope global|shared|shared::cta? @evict? @evict2? v2|v4? @mem" "" => Emit memory::st;
        /// Hint to fetch a cache line.
        "prefetch" "global|local? L1|L2|L2::evict_last|L2::evict_normal" "" => Emit memory::hint;
        /// Hint to fetch a cache line through the uniform cache.
        "prefetchu" "L1" "" => Emit memory::hint;
        /// Fence.
        "membar" "cta|gl|sys" "" => Pick memory::full_fence;
        /// Fence.
        "fence" "sc|acq_rel|acquire|release? @scope" "" => Pick memory::full_fence;
    }
    "control" {
        /// Jump.
        "bra" "uni?" "" => Emit control::bra;
        /// Jump to an entry of a list.
        "brx" "idx uni?" "" => Emit control::brx;
        /// Call.
        "call" "uni?" "" => Emit control::call;
        /// Return; from a kernel, the end of the thread.
        "ret" "uni?" "" => Pick control::select_ret;
        /// End of the thread.
        "exit" "" "" => Pick control::exit;
        /// End of the kernel, as an error.
        "trap" "" "" => Pick control::trap;
        /// Breakpoint: as no debugger listens, an error.
        "brkpt" "" "" => Pick control::brkpt;
        /// Pause.
        "nanosleep" "u32" "u32" => Pick control::nanosleep;
        /// Event for a profiler.
        "pmevent" "mask?" "imm" => Pick control::nothing;
    }
    "barriers" {
        /// Wait until the threads of the block, or a number of them, have come.
        "bar" "cta? sync|arrive" "" => Emit barrier::bar;
        /// Wait, and learn in how many threads, in all or in any a predicate holds.
        "bar" "cta? red popc u32" "" => Emit barrier::bar;
        /// Wait, and learn whether a predicate holds in all threads or in any.
        "bar" "cta? red and|or pred" "" => Emit barrier::bar;
        /// Wait until the threads of the block, or a number of them, have come.
        "barrier" "cta? sync|arrive aligned?" "" => Emit barrier::bar;
        /// Wait, and learn in how many threads a predicate holds.
        "barrier" "cta? red popc aligned? u32" "" => Emit barrier::bar;
        /// Wait, and learn whether a predicate holds in all threads or in any.
        "barrier" "cta? red and|or aligned? pred" "" => Emit barrier::bar;
    }
}

/// All forms that the emulator knows.
pub fn forms() -> &'static [Form] {
    FORMS
}

/// Indices of the forms with that opcode.
pub(super) fn forms_of(opcode: &str) -> &'static [usize] {
    static BY_OPCODE: LazyLock<HashMap<&str, Vec<usize>>> = LazyLock::new(|| {
        let mut map: HashMap<&str, Vec<usize>> = HashMap::new();
        for (index, form) in FORMS.iter().enumerate() {
            map.entry(form.opcode).or_default().push(index);
        }
        map
    });
    BY_OPCODE.get(opcode).map_or(&[], Vec::as_slice)
}
