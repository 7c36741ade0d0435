//! Loops that wait for another thread ask whether it has panicked: not in a module that cannot panic.

use super::symbols::named;
use ptx_format::functions::{code, scan};
use ptx_format::panic::REPORT;

/// Ends a line of what `cuda_std::panic::leave_after_panic` does: a load that asks whether anything has
/// panicked, or the beginning of a block that looks closer.
const BEGIN: &str = "// ferrowarp.leave";
/// Ends such a block.
const END: &str = "// ferrowarp.leave end";
/// The variable that is asked, and the one that the panic handler reads.
const VARIABLES: [&str; 2] = ["ferrowarp_panic", "ferrowarp_known"];

/// The text in which nothing has ever panicked, without the variables of a panic, if nothing in it can say
/// that it panics.
pub(in crate::ptx) fn drop_unneeded(text: String) -> String {
    if !VARIABLES.iter().any(|name| text.contains(name)) || has_report(&text) {
        return text;
    }
    let mut inside = false;
    let mut kept = String::with_capacity(text.len());
    for line in text.lines() {
        let (begins, ends) = (line.ends_with(BEGIN), line.ends_with(END));
        let load = code(line).strip_prefix("ld.relaxed.gpu.global.u32").filter(|_| begins);
        inside |= begins && load.is_none();
        match load.and_then(|operands| operands.split(',').next()) {
            Some(register) => kept.push_str(&format!("\tmov.b32 {}, 0;\n", register.trim())),
            None if inside || line.contains(".global") && names_variable(line) => {}
            None => {
                kept.push_str(line);
                kept.push('\n');
            }
        }
        inside &= !ends;
    }
    kept
}

/// Whether the panic handler's work is among the functions of a text.
pub(crate) fn has_report(text: &str) -> bool {
    named(&scan(text), REPORT).is_some()
}

fn names_variable(line: &str) -> bool {
    let mut words = line.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
    words.any(|word| VARIABLES.contains(&word))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
.visible .global .align 8 .b8 ferrowarp_panic[300];
.visible .global .align 8 .b8 ferrowarp_known[2];
.visible .entry first()
{
$L__BB0_1:
\t// begin inline asm
\tld.relaxed.gpu.global.u32 %r1, [ferrowarp_panic+264]; // ferrowarp.leave
\t// end inline asm
\t{ // ferrowarp.leave
\tld.relaxed.gpu.global.u64 owner, [ferrowarp_panic+8];
\t} // ferrowarp.leave end
\tret;
}
";

    #[test]
    fn nobody_asks_where_nothing_panics() {
        let expected = ".visible .entry first()\n{\n$L__BB0_1:\n\t// begin inline asm\n\
                        \tmov.b32 %r1, 0;\n\t// end inline asm\n\tret;\n}\n";
        assert_eq!(drop_unneeded(TEXT.to_owned()), expected);
    }

    #[test]
    fn who_can_wait_for_a_panicked_thread_asks() {
        let panics = format!("{TEXT}.func _R5panic6device6report()\n{{\n\tret;\n}}\n");
        assert_eq!(drop_unneeded(panics.clone()), panics);
    }
}
