//! The alignment of dynamic shared memory.
//!
//! It is one variable, which `cuda_std` declares with an alignment of 16. Each use of it has the comment
//! `// ferrowarp.dynamic_align BYTES`; the largest of these becomes the variable's alignment. (Variables of several names would
//! begin at several addresses where their alignments differ.)

const MARK: &str = "// ferrowarp.dynamic_align ";
const DECLARATION: &str = ".extern .shared .align 16 .b8 ferrowarp_dynamic_shared[]";

/// The text with the alignment that its kernels ask for.
pub(super) fn raise(text: String) -> String {
    let wanted = text.lines().filter_map(|line| line.split_once(MARK)?.1.trim().parse().ok());
    match wanted.max() {
        Some(align @ 17..) => {
            text.replacen(DECLARATION, &DECLARATION.replace("16", &u32::to_string(&align)), 1)
        }
        _ => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn module(aligns: &[u32]) -> String {
        let uses = aligns.iter().map(|align| {
            format!("mov.u64 %rd1, ferrowarp_dynamic_shared; // ferrowarp.dynamic_align {align}\n")
        });
        format!(
            "{DECLARATION};\n.extern .shared .align 16 .b8 other[];\n{}",
            uses.collect::<String>()
        )
    }

    #[test]
    fn the_largest_alignment_is_declared() {
        for (aligns, declared) in [(&[16, 128, 64][..], 128), (&[1024], 1024), (&[4, 32], 32)] {
            let text = raise(module(aligns));
            let line =
                format!(".extern .shared .align {declared} .b8 ferrowarp_dynamic_shared[];\n");
            assert!(text.starts_with(&line), "{text}");
            assert!(text.contains("align 16 .b8 other[]"), "{text}");
        }
    }

    #[test]
    fn the_least_alignment_is_16() {
        for aligns in [&[][..], &[1, 8], &[16]] {
            assert_eq!(raise(module(aligns)), module(aligns));
        }
    }
}
