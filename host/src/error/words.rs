//! Numbers, names and logs in a sentence.

use crate::shipped::ships;

/// The lines of `text` that fit in one: a log can have thousands.
pub(super) fn one_line(text: &str) -> String {
    const LINES: usize = 4;
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let mut line = lines.by_ref().take(LINES).collect::<Vec<_>>().join("; ").replace(":; ", ": ");
    let rest = lines.count();
    if rest > 0 {
        line.push_str(&format!("; and {rest} more lines"));
    }
    line
}

/// `1 persistent kernel`, `3 persistent kernels`
pub(super) fn persistent(count: usize) -> String {
    format!("{count} persistent kernel{}", if count == 1 { " runs" } else { "s run" })
}

/// `1 parameter`, `3 parameters`
pub(super) fn parameters(count: usize) -> String {
    format!("{count} parameter{}", if count == 1 { "" } else { "s" })
}

/// Numbers for a sentence.
pub(super) fn numbers(numbers: &[u64]) -> String {
    numbers.iter().map(u64::to_string).collect::<Vec<_>>().join(", ")
}

/// How many names a sentence has at most.
const SHOWN: usize = 8;

/// Names for a sentence: "`a`, `b`".
pub(super) fn list(names: &[String]) -> String {
    if names.is_empty() {
        return "none that is known".to_owned();
    }
    let shown: Vec<_> = names.iter().take(SHOWN).map(|name| format!("`{name}`")).collect();
    match names.len().saturating_sub(SHOWN) {
        0 => shown.join(", "),
        rest => format!("{} and {rest} more", shown.join(", ")),
    }
}

/// Which images have a kernel that a module lacks, where kernels that ship and kernels of the program were
/// taken for each other.
pub(super) fn other_images(kernel: &str, candidates: &[String]) -> &'static str {
    if ships(kernel) {
        return "; it ships with this crate: take `gpu.with_kernels(ferrowarp::shipped::IMAGES)` for it";
    }
    if !candidates.is_empty() && candidates.iter().take(SHOWN).all(|other| ships(other)) {
        return "; kernels of your own are in `Gpu::with_images(ferrowarp::include_kernels!())`";
    }
    ""
}

/// A size in bytes with a unit that reads well.
pub(crate) fn bytes(count: usize) -> String {
    const UNITS: [(usize, &str); 4] = [(40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB")];
    match UNITS.into_iter().find(|(shift, _)| count >> shift > 0) {
        Some((shift, unit)) => format!("{:.1} {unit}", count as f64 / (1u64 << shift) as f64),
        None => format!("{count} bytes"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_read_well() {
        assert_eq!(bytes(0), "0 bytes");
        assert_eq!(bytes(1023), "1023 bytes");
        assert_eq!(bytes(1536), "1.5 KiB");
        assert_eq!(bytes(3 << 30), "3.0 GiB");
    }

    #[test]
    fn a_log_becomes_one_line() {
        assert_eq!(one_line("a\n\n  b  \n"), "a; b");
        assert_eq!(one_line("who waits:\n  a\n  b"), "who waits: a; b");
        assert_eq!(one_line("1\n2\n3\n4\n5\n6"), "1; 2; 3; 4; and 2 more lines");
    }
}
