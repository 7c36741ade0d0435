//! Names of source files.
//!
//! A fault reads better, and two machines make the same PTX, if the lines of the kernels are named from the
//! crate's folder on. The compiler's `--remap-path-prefix` cannot be used for that: with it cargo leaves the flags
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

/// The text without its source files and lines. The compiler always writes them, since they tell the builder the
/// order of atomic operations.
pub(super) fn without_lines(text: &str) -> String {
    let names = |line: &&str| line.starts_with("\t.loc\t") || line.starts_with("\t.file\t");
    text.lines().filter(|line| !names(line)).flat_map(|line| [line, "\n"]).collect()
}

/// The source files of a finished text, and where the lines begin that name them.
pub(crate) fn named(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.match_indices("\n\t.file\t").filter_map(|(at, _)| {
        let line = text[at + 1..].lines().next()?;
        let (_, name) = line.split_once('"')?;
        Some((at + 1, name.trim_end_matches('"')))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_found_with_their_places() {
        let text = "ret;\n\t.file\t1 \"a/b.rs\"\n// .file\n\t.file\t22 \"/c d.rs\"\n";
        assert_eq!(named(text).collect::<Vec<_>>(), [(5, "a/b.rs"), (32, "/c d.rs")]);
    }

    #[test]
    fn files_below_the_base_lose_it() {
        let text = "\t.file\t1 \"/home/me/kernels/src/lib.rs\"\n\t.file\t2 \"/usr/lib/core.rs\"\n";
        let expected = "\t.file\t1 \"kernels/src/lib.rs\"\n\t.file\t2 \"/usr/lib/core.rs\"\n";
        assert_eq!(relative(text, Path::new("/home/me")), expected);
        assert_eq!(relative(text, Path::new("/home/m")), text);
    }

    #[test]
    fn lines_can_be_left_out() {
        let text = "\t.loc\t1 2 3\nret; // .loc\n\t.file\t1 \"a.rs\"\n";
        assert_eq!(without_lines(text), "ret; // .loc\n");
    }

    #[test]
    fn other_lines_stay() {
        let text = "// \"/home/me/x\"\nret;\n";
        assert_eq!(relative(text, Path::new("/home/me")), text);
    }
}
