//! Names of source files.
//!
//! A fault reads better, and two machines make the same PTX, if the lines of the kernels are named from the
//! crate's folder on. The compiler's `--remap-path-prefix` is no way to that: with it cargo leaves the flags
//! out of a crate's identity, and two architectures would overwrite each other.

use std::path::Path;

/// The text with every `.file` below `base` named relative to it.
pub(super) fn relative(text: &str, base: &Path) -> String {
    let base = format!("\"{}/", base.display());
    let mut out = String::with_capacity(text.len());
    for line in text.lines() {
        match line.trim_start().starts_with(".file") {
            true => out.push_str(&line.replacen(&base, "\"", 1)),
            false => out.push_str(line),
        }
        out.push('\n');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_below_the_base_lose_it() {
        let text = "\t.file\t1 \"/home/me/kernels/src/lib.rs\"\n\t.file\t2 \"/usr/lib/core.rs\"\n";
        let expected = "\t.file\t1 \"kernels/src/lib.rs\"\n\t.file\t2 \"/usr/lib/core.rs\"\n";
        assert_eq!(relative(text, Path::new("/home/me")), expected);
        assert_eq!(relative(text, Path::new("/home/m")), text);
    }

    #[test]
    fn other_lines_stay() {
        let text = "// \"/home/me/x\"\nret;\n";
        assert_eq!(relative(text, Path::new("/home/me")), text);
    }
}
