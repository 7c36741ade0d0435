//! Read-modify-writes on a thread's own (local) memory, which no assembler takes. No other thread reaches that memory,
//! so a load, the operation and a store are as good.

/// Plain instructions for `atom….local.OP.TYPE d, [a], b;` and `atom….local.cas.TYPE d, [a], b, c;`. None for
/// operations and types that `core::sync::atomic` has not.
pub(super) fn plain(code: &str) -> Option<String> {
    let (opcode, operands) = code.trim_end_matches(';').split_once(char::is_whitespace)?;
    let (_, operation) = opcode.split_once(".local.")?;
    let (op, kind) = operation.split_once('.')?;
    let bits: u32 = kind.get(1..)?.parse().ok().filter(|bits| matches!(bits, 32 | 64))?;
    let operands: Vec<&str> = operands.split(',').map(str::trim).collect();
    let [result, address, values @ ..] = &operands[..] else { return None };
    let after = match (op, values) {
        ("exch", [value]) => format!("mov.b{bits} after, {value};"),
        ("add" | "min" | "max", [value]) => {
            let rounding = if kind.starts_with('f') && op == "add" { ".rn" } else { "" };
            format!("{op}{rounding}.{kind} after, before, {value};")
        }
        ("and" | "or" | "xor", [value]) => format!("{op}.b{bits} after, before, {value};"),
        ("cas", [expected, new]) => format!(
            "setp.eq.b{bits} is_same, before, {expected};\n\tselp.b{bits} after, {new}, before, is_same;"
        ),
        _ => return None,
    };
    // The result comes last: its register may be that of the address, or of an operand.
    Some(format!(
        "\t{{\n\t.reg .b{bits} before, after;\n\t.reg .pred is_same;\n\tld.local.b{bits} before, {address};\n\
         \t{after}\n\tst.local.b{bits} {address}, after;\n\tmov.b{bits} {result}, before;\n\t}}\n"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(code: &str) -> Option<String> {
        plain(code).map(|text| text.lines().skip(4).map(str::trim).collect::<Vec<_>>().join(" "))
    }

    #[test]
    fn each_operation_of_core_has_its_plain_form() {
        let add = "add.u32 after, before, 1; st.local.b32 [%rd1+4], after; mov.b32 %r1, before; }";
        assert_eq!(of("atom.local.add.u32 %r1, [%rd1+4], 1;").as_deref(), Some(add));
        let cas = "setp.eq.b64 is_same, before, %rd2; selp.b64 after, %rd3, before, is_same; \
                   st.local.b64 [%rd1], after; mov.b64 %rd1, before; }";
        let code = "atom.relaxed.sys.local.cas.b64 %rd1, [%rd1], %rd2, %rd3;";
        assert_eq!(of(code).as_deref(), Some(cas));
        for (op, plain) in [
            ("exch.b32", "mov.b32 after, %r2;"),
            ("and.b64", "and.b64 after, before, %r2;"),
            ("min.s64", "min.s64 after, before, %r2;"),
            ("max.u32", "max.u32 after, before, %r2;"),
            ("add.f32", "add.rn.f32 after, before, %r2;"),
        ] {
            let text = of(&format!("atom.local.{op} %r1, [%rd1], %r2;")).unwrap();
            assert!(text.starts_with(plain), "{text}");
        }
        let whole = plain("atom.local.exch.b32 %r1, [%rd1], %r2;").unwrap();
        let begin = "\t{\n\t.reg .b32 before, after;\n\t.reg .pred is_same;\n\tld.local.b32 before, [%rd1];\n";
        assert!(whole.starts_with(begin), "{whole}");
    }

    #[test]
    fn others_have_none() {
        for code in
            ["atom.local.inc.u32 %r1, [%rd1], %r2;", "atom.local.cas.b16 %h1, [%rd1], %h2, %h3;"]
        {
            assert_eq!(plain(code), None);
        }
    }
}
