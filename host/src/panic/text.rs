//! Values become text as Rust formats them, and files are named from where they belong.

use std::fmt::Write;

use cuda_std::panic::{BINARY, DEBUG, DISPLAY, LOWER_EXP, LOWER_HEX, OCTAL, STR, UPPER_HEX};

/// Text, without a character that is cut at its end.
pub(super) fn valid(bytes: &[u8]) -> String {
    match std::str::from_utf8(bytes) {
        Ok(text) => text.to_owned(),
        Err(error) if error.error_len().is_none() => {
            String::from_utf8_lossy(&bytes[..error.valid_up_to()]).into_owned()
        }
        Err(_) => String::from_utf8_lossy(bytes).into_owned(),
    }
}

/// A value as text; `None` if bytes of it are missing, or its type is not known.
pub(super) fn value(letter: u8, how: u8, options: &Options, bytes: &[u8]) -> Option<String> {
    macro_rules! number {
        ($t:ty) => {{
            let value = <$t>::from_le_bytes(bytes.try_into().ok()?);
            integer(value, value < 0 as $t, value.unsigned_abs_or_self().to_string(), how, options)
        }};
    }
    Some(match letter {
        b'a' => number!(i8),
        b's' => number!(i16),
        b'l' => number!(i32),
        b'x' | b'i' => number!(i64),
        b'n' => number!(i128),
        b'h' => number!(u8),
        b't' => number!(u16),
        b'm' => number!(u32),
        b'y' | b'j' => number!(u64),
        b'o' => number!(u128),
        b'f' => float(f64::from(f32::from_le_bytes(bytes.try_into().ok()?)), true, how, options),
        b'd' => float(f64::from_le_bytes(bytes.try_into().ok()?), false, how, options),
        b'b' => options.pad(if *bytes.first()? != 0 { "true" } else { "false" }, false),
        b'c' => character(u32::from_le_bytes(bytes.try_into().ok()?), how, options),
        STR => string(&valid(bytes), how, options),
        _ => return None,
    })
}

/// A signed number's magnitude; an unsigned one is its own.
trait Magnitude {
    type Unsigned: ToString;
    fn unsigned_abs_or_self(self) -> Self::Unsigned;
}

macro_rules! magnitudes {
    ($($signed:ident $unsigned:ident)*) => {$(
        impl Magnitude for $signed {
            type Unsigned = $unsigned;
            fn unsigned_abs_or_self(self) -> $unsigned {
                self.unsigned_abs()
            }
        }
        impl Magnitude for $unsigned {
            type Unsigned = $unsigned;
            fn unsigned_abs_or_self(self) -> $unsigned {
                self
            }
        }
    )*};
}

magnitudes!(i8 u8 i16 u16 i32 u32 i64 u64 i128 u128);

/// An integer of any type by any trait.
fn integer<T>(value: T, negative: bool, decimal: String, how: u8, options: &Options) -> String
where
    T: std::fmt::LowerHex + std::fmt::UpperHex + std::fmt::Binary + std::fmt::Octal,
    T: std::fmt::LowerExp,
{
    let how = match how {
        DEBUG if options.debug_lower_hex => LOWER_HEX,
        DEBUG if options.debug_upper_hex => UPPER_HEX,
        other => other,
    };
    let (prefix, digits) = match how {
        LOWER_HEX => ("0x", format!("{value:x}")),
        UPPER_HEX => ("0x", format!("{value:X}")),
        BINARY => ("0b", format!("{value:b}")),
        OCTAL => ("0o", format!("{value:o}")),
        LOWER_EXP => ("", format!("{value:e}").trim_start_matches('-').to_owned()),
        _ => ("", decimal),
    };
    let negative = negative && matches!(how, DISPLAY | DEBUG | LOWER_EXP);
    options.number(negative, if options.alternate { prefix } else { "" }, &digits)
}

fn float(value: f64, single: bool, how: u8, options: &Options) -> String {
    let magnitude = value.abs();
    let digits = match (how, options.precision, single) {
        (LOWER_EXP, Some(precision), _) => format!("{magnitude:.precision$e}"),
        (LOWER_EXP, None, true) => format!("{:e}", magnitude as f32),
        (LOWER_EXP, None, false) => format!("{magnitude:e}"),
        (_, Some(precision), true) => format!("{:.precision$}", magnitude as f32),
        (_, Some(precision), false) => format!("{magnitude:.precision$}"),
        (DEBUG, None, true) => format!("{:?}", magnitude as f32),
        (DEBUG, None, false) => format!("{magnitude:?}"),
        (_, None, true) => format!("{}", magnitude as f32),
        (_, None, false) => format!("{magnitude}"),
    };
    if value.is_nan() {
        return options.pad(&digits, true);
    }
    options.number(value.is_sign_negative(), "", &digits)
}

fn character(value: u32, how: u8, options: &Options) -> String {
    let value = char::from_u32(value).unwrap_or(char::REPLACEMENT_CHARACTER);
    match how {
        DEBUG => format!("{value:?}"),
        _ => options.pad(value.encode_utf8(&mut [0; 4]), false),
    }
}

fn string(value: &str, how: u8, options: &Options) -> String {
    if how == DEBUG {
        return format!("{value:?}");
    }
    let shown: String = match options.precision {
        Some(precision) => value.chars().take(precision).collect(),
        None => value.to_owned(),
    };
    options.pad(&shown, false)
}

/// What stands in a placeholder behind the colon. The bits are those of Rust 1.96's
/// `FormattingOptions`.
pub(super) struct Options {
    fill: char,
    plus: bool,
    alternate: bool,
    zeros: bool,
    debug_lower_hex: bool,
    debug_upper_hex: bool,
    width: usize,
    precision: Option<usize>,
    /// Left, right, centre, or not said.
    align: u32,
}

impl Options {
    pub(super) fn new(flags: u32, width: u16, precision: u16) -> Self {
        let bit = |number: u32| flags >> number & 1 == 1;
        Self {
            fill: char::from_u32(flags & 0x1F_FFFF).unwrap_or(' '),
            plus: bit(21),
            alternate: bit(23),
            zeros: bit(24),
            debug_lower_hex: bit(25),
            debug_upper_hex: bit(26),
            width: if bit(27) { usize::from(width) } else { 0 },
            precision: bit(28).then_some(usize::from(precision)),
            align: flags >> 29 & 3,
        }
    }

    /// A number: its sign and prefix stand before the zeros that fill it.
    fn number(&self, negative: bool, prefix: &str, digits: &str) -> String {
        let sign = match (negative, self.plus) {
            (true, _) => "-",
            (false, true) => "+",
            (false, false) => "",
        };
        if !self.zeros {
            return self.pad(&format!("{sign}{prefix}{digits}"), true);
        }
        let used = sign.len() + prefix.len() + digits.chars().count();
        format!("{sign}{prefix}{}{digits}", "0".repeat(self.width.saturating_sub(used)))
    }

    /// Fills up to the width; where no side is said, numbers go right and all else left.
    fn pad(&self, text: &str, to_the_right: bool) -> String {
        const LEFT: u32 = 0;
        const RIGHT: u32 = 1;
        const CENTRE: u32 = 2;
        let missing = self.width.saturating_sub(text.chars().count());
        let before = match self.align {
            LEFT => 0,
            RIGHT => missing,
            CENTRE => missing / 2,
            _ if to_the_right => missing,
            _ => 0,
        };
        let mut out = String::new();
        out.extend(std::iter::repeat_n(self.fill, before));
        let _ = out.write_str(text);
        out.extend(std::iter::repeat_n(self.fill, missing - before));
        out
    }
}

/// A path as one reads it anywhere: without what is true of the machine that built it alone.
///
/// A relative path stays. Of an absolute one remains the package's folder and what is in it: a
/// package's sources are in `src`, and those of Rust's own library in `library`.
pub(super) fn readable(path: &str) -> String {
    let path = path.replace('\\', "/");
    let is_absolute = path.starts_with('/') || path.get(1..3) == Some(":/");
    if !is_absolute {
        return path;
    }
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    let library = parts.iter().rposition(|part| *part == "library");
    let source = parts.iter().rposition(|part| *part == "src");
    let package = match (library, source) {
        (Some(library), _) => library + 1,
        (None, Some(source)) => source.max(1) - 1,
        (None, None) => parts.len().saturating_sub(1),
    };
    parts[package..].join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: u32 = ' ' as u32 | 3 << 29;

    fn shown(letter: u8, how: u8, options: (u32, u16, u16), bytes: &[u8]) -> String {
        let (flags, width, precision) = options;
        value(letter, how, &Options::new(flags, width, precision), bytes).expect("a whole value")
    }

    #[test]
    fn values_are_formatted_as_rust_does() {
        let plain = (NONE, 0, 0);
        assert_eq!(shown(b'j', DISPLAY, plain, &7u64.to_le_bytes()), "7");
        assert_eq!(shown(b'a', DEBUG, plain, &(-128i8).to_le_bytes()), "-128");
        assert_eq!(shown(b'f', DISPLAY, plain, &0.1f32.to_le_bytes()), "0.1");
        assert_eq!(shown(b'd', DEBUG, plain, &(-2f64).to_le_bytes()), "-2.0");
        assert_eq!(shown(b'f', DISPLAY, plain, &f32::NAN.to_le_bytes()), "NaN");
        assert_eq!(shown(b'd', DISPLAY, plain, &f64::NEG_INFINITY.to_le_bytes()), "-inf");
        assert_eq!(shown(b'b', DISPLAY, plain, &[1]), "true");
        assert_eq!(shown(b'c', DEBUG, plain, &('ß' as u32).to_le_bytes()), "'ß'");
        assert_eq!(shown(b'e', DEBUG, plain, b"a\"b"), "\"a\\\"b\"");
        assert_eq!(shown(b'm', LOWER_HEX, plain, &255u32.to_le_bytes()), "ff");
    }

    #[test]
    fn options_are_obeyed() {
        let width = 1 << 27;
        let centred = '*' as u32 | 2 << 29 | width;
        assert_eq!(
            shown(b'm', DISPLAY, (centred, 5, 0), &7u32.to_le_bytes()),
            format!("{:*^5}", 7)
        );
        let zeros = NONE | 1 << 24 | 1 << 23 | width;
        let expected = format!("{:#010b}", 5);
        assert_eq!(shown(b'm', BINARY, (zeros, 10, 0), &5u32.to_le_bytes()), expected);
        let fixed = NONE | 1 << 21 | width | 1 << 28;
        let expected = format!("{:+9.3}", 2.5f32);
        assert_eq!(shown(b'f', DISPLAY, (fixed, 9, 3), &2.5f32.to_le_bytes()), expected);
        assert_eq!(shown(b'e', DISPLAY, (NONE | width, 5, 0), b"ab"), format!("{:5}", "ab"));
    }

    #[test]
    fn files_are_named_from_their_package() {
        assert_eq!(readable("kernels/panics/src/lib.rs"), "kernels/panics/src/lib.rs");
        let registry =
            "/home/me/.cargo/registry/src/index.crates.io-1949cf/sha2-0.10.8/src/core.rs";
        assert_eq!(readable(registry), "sha2-0.10.8/src/core.rs");
        let core = "/usr/src/rustc-1.96.0/library/core/src/slice/index.rs";
        assert_eq!(readable(core), "core/src/slice/index.rs");
        assert_eq!(readable("C:\\work\\app\\src\\main.rs"), "app/src/main.rs");
        assert_eq!(readable("/odd.rs"), "odd.rs");
    }
}
