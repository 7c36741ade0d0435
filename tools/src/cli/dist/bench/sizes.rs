//! Sizes on the command line: `65536`, `64K`, `1G`.

use std::str::FromStr;

/// A number of bytes, or of elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Size(pub(super) usize);

impl FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let digits = text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
        let factor: usize = match text[digits.len()..].to_ascii_uppercase().as_str() {
            "" | "B" => 1,
            "K" | "KIB" => 1 << 10,
            "M" | "MIB" => 1 << 20,
            "G" | "GIB" => 1 << 30,
            unit => return Err(format!("`{unit}` is not a unit: K, M and G are, of 1024 each")),
        };
        let number: usize =
            digits.parse().map_err(|_| "write it as 65536, 64K or 1G".to_owned())?;
        let size = number.checked_mul(factor).filter(|size| *size > 0);
        size.map(Self).ok_or_else(|| "it has to be more than 0, and less than 2^64".to_owned())
    }
}

/// 1 KiB, and four times as much each time, up to `max`, which is always the last.
pub(super) fn doubled(max: usize) -> Vec<usize> {
    let mut sizes: Vec<_> =
        (0..).map(|step| 1024 << (2 * step)).take_while(|size| *size < max).collect();
    sizes.push(max);
    sizes
}

/// "64 KiB"
pub(super) fn shown(bytes: usize) -> String {
    const UNITS: [&str; 4] = ["B", "KiB", "MiB", "GiB"];
    let steps = (1..UNITS.len()).take_while(|step| bytes.is_multiple_of(1 << (10 * step))).count();
    format!("{} {}", bytes >> (10 * steps), UNITS[steps])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_units() {
        let size = |text: &str| text.parse::<Size>().map(|size| size.0);
        assert_eq!([size("7"), size("64K"), size("2GiB")], [Ok(7), Ok(64 << 10), Ok(2 << 30)]);
        assert!(size("64X").unwrap_err().contains("not a unit"));
        assert!(size("").is_err() && size("K").is_err() && size("0").is_err());
        assert_eq!(shown(64 << 10), "64 KiB");
        assert_eq!((shown(1000), shown(3 << 30)), ("1000 B".into(), "3 GiB".into()));
    }

    #[test]
    fn the_largest_size_is_the_last() {
        assert_eq!(doubled(16 << 10), [1 << 10, 4 << 10, 16 << 10]);
        assert_eq!(doubled(5000), [1024, 4096, 5000]);
        assert_eq!(doubled(100), [100]);
        assert_eq!(doubled(1 << 30).len(), 11);
    }
}
