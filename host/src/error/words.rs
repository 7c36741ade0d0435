//! Numbers, names and logs in a sentence.

use std::error::Error;
use std::fmt;

use super::LaunchLimit;

/// Implements `Debug` as the sentence of `Display` and its causes.
macro_rules! debug_as_display {
    ($($error:ty),*) => {$(
        impl std::fmt::Debug for $error {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                $crate::error::with_causes(self, f)
            }
        }
    )*};
}
pub(crate) use debug_as_display;

/// The error's sentence, and a line for each cause that it does not name itself.
pub(crate) fn with_causes(
    error: &(dyn Error + 'static),
    f: &mut fmt::Formatter<'_>,
) -> fmt::Result {
    let mut said = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let line = cause.to_string();
        if !said.contains(&line) {
            said = format!("{said}\ncaused by: {line}");
        }
        next = cause.source();
    }
    f.write_str(&said)
}

/// For a number of blocks that stands for all above it, too: `for_num_elems` can say no greater one.
pub(super) fn or_more(what: LaunchLimit, value: u64) -> &'static str {
    let is_counted = !matches!(what, LaunchLimit::GridDim(_)) || value < u64::from(u32::MAX);
    if is_counted { "" } else { " or more" }
}

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

/// The first parameter whose argument has another size, counted from 0; nothing where only the numbers differ.
pub(super) fn first_difference(expected: &[usize], found: &[usize]) -> String {
    let mut pairs = expected.iter().zip(found).enumerate();
    match pairs.find(|(_, (expected, found))| expected != found) {
        Some((at, (expected, found))) => {
            format!(": parameter {at} has {expected} bytes, and its argument {found}")
        }
        _ => String::new(),
    }
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
    use std::io;

    use super::*;
    use crate::GpuError;
    use crate::error::DriverError;

    #[test]
    fn the_first_parameter_that_differs_is_named() {
        assert_eq!(
            first_difference(&[8, 8, 4], &[8, 4, 8]),
            ": parameter 1 has 8 bytes, and its argument 4"
        );
        assert_eq!(first_difference(&[8, 8], &[8]), "");
        assert_eq!(first_difference(&[], &[8]), "");
    }

    #[test]
    fn sizes_read_well() {
        assert_eq!(bytes(0), "0 bytes");
        assert_eq!(bytes(1023), "1023 bytes");
        assert_eq!(bytes(1536), "1.5 KiB");
        assert_eq!(bytes(3 << 30), "3.0 GiB");
    }

    /// `Debug` is what `main` prints of its error: no braces, and nothing twice.
    #[test]
    fn debug_says_the_sentence_and_the_causes_that_it_lacks() {
        let missing = io::Error::new(io::ErrorKind::NotFound, "no such file");
        let error = GpuError::Watch { path: "k.ptx".into(), source: missing }.context("starting");
        assert_eq!(format!("{error:?}"), "starting: cannot watch k.ptx: no such file");
        assert_eq!(format!("{:?}", error.root()), "cannot watch k.ptx: no such file");

        let driver = GpuError::from(DriverError::new("cuModuleLoadData", 218)).context("loading");
        let said = format!("{driver:?}");
        let (sentence, causes) = said.split_once("\ncaused by: ").unwrap_or((&said, ""));
        assert_eq!(sentence, driver.to_string());
        assert!(sentence.starts_with("loading: ") && !causes.contains("caused by"), "{said}");
    }

    #[test]
    fn a_number_of_blocks_that_was_cut_says_so() {
        let error = |what, value| {
            let limit = 2_147_483_647;
            GpuError::LaunchTooLarge { kernel: "fill", what, value, limit }.to_string()
        };
        let blocks = error(LaunchLimit::GridDim(0), u32::MAX.into());
        let line = "`fill` cannot be launched with 4294967295 or more blocks in x: the limit is \
                    2147483647";
        assert_eq!(blocks, line);
        assert!(error(LaunchLimit::GridDim(0), 1 << 31).contains("with 2147483648 blocks in x"));
        let bytes = error(LaunchLimit::SharedMemory, u32::MAX.into());
        assert!(bytes.contains("with 4294967295 bytes of"), "{bytes}");
    }

    #[test]
    fn a_log_becomes_one_line() {
        assert_eq!(one_line("a\n\n  b  \n"), "a; b");
        assert_eq!(one_line("who waits:\n  a\n  b"), "who waits: a; b");
        assert_eq!(one_line("1\n2\n3\n4\n5\n6"), "1; 2; 3; 4; and 2 more lines");
    }
}
