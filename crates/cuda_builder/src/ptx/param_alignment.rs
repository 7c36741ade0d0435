//! The alignment of parameters whose memory a kernel uses.
//!
//! rustc aligns no parameter to more than 16 bytes. The comment `// ferrowarp.param_align NAME BYTES` at a use of the parameter
//! `NAME` raises the alignment with which its entry declares it.

use std::collections::BTreeMap;

const MARK: &str = "// ferrowarp.param_align ";
const DECLARATION: &str = ".param .align ";

/// The text with the alignments that its kernels ask for.
pub(super) fn raise(text: String) -> String {
    let wanted: BTreeMap<&str, &str> =
        text.lines().filter_map(|line| line.split_once(MARK)?.1.trim().split_once(' ')).collect();
    if wanted.is_empty() {
        return text;
    }
    let mut out = String::with_capacity(text.len());
    for line in text.lines() {
        match raised(line, &wanted) {
            Some(line) => out.push_str(&line),
            None => out.push_str(line),
        }
        out.push('\n');
    }
    out
}

/// `.param .align 16 .b8 NAME[128]` with the alignment that is wanted for `NAME`.
fn raised(line: &str, wanted: &BTreeMap<&str, &str>) -> Option<String> {
    let (indent, rest) = line.split_once(DECLARATION)?;
    let (_, rest) = rest.split_once(' ')?;
    let (ty, name) = rest.split_once(' ')?;
    let bytes = wanted.get(name.split('[').next()?)?;
    Some(format!("{indent}{DECLARATION}{bytes} {ty} {name}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_parameter_is_declared_as_its_use_asks() {
        let text = ".visible .entry k(\n\t.param .align 16 .b8 k_param_0[128],\n\t.param .align 16 .b8 k_param_1[32]\n)\n\
                    mov.b64 %rd1, k_param_0; // ferrowarp.param_align k_param_0 64\n";
        let out = raise(text.to_owned());
        assert!(out.contains("\t.param .align 64 .b8 k_param_0[128],\n"), "{out}");
        assert!(out.contains("\t.param .align 16 .b8 k_param_1[32]\n"), "{out}");
    }

    #[test]
    fn other_text_stays_as_it_is() {
        let text = "\t.param .align 16 .b8 k_param_0[128]\n";
        assert_eq!(raise(text.to_owned()), text);
    }
}
