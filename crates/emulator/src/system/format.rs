//! Text as `printf` of C makes it.

/// The length that stands before a conversion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Length {
    Char,
    Short,
    Int,
    Long,
}

/// What stands between `%` and the conversion's letter.
#[derive(Clone, Copy, Debug)]
struct Spec {
    left: bool,
    plus: bool,
    space: bool,
    alternative: bool,
    zeros: bool,
    width: usize,
    precision: Option<usize>,
    length: Length,
}

/// The widest field, so that a wrong width cannot exhaust memory.
const WIDEST: usize = 1 << 16;

/// What a `printf` takes: numbers in order, and strings in memory.
pub trait Arguments {
    /// What goes wrong when memory is read.
    type Error;
    /// The next argument, which has so many bytes: 4 or 8.
    fn next(&mut self, bytes: u32) -> Result<u64, Self::Error>;
    /// A byte of a string.
    fn byte(&mut self, address: u64) -> Result<u8, Self::Error>;
}

/// Formats. Returns the text, and how many arguments it took.
///
/// # Errors
/// An argument could not be read.
pub fn format<A: Arguments>(format: &[u8], from: &mut A) -> Result<(Vec<u8>, u32), A::Error> {
    let mut from = Counted { from, count: 0 };
    let mut out = Vec::new();
    let mut rest = format;
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        if byte != b'%' {
            out.push(byte);
            continue;
        }
        let start = rest;
        let spec = spec(&mut rest, &mut from)?;
        let Some((&letter, after)) = rest.split_first() else {
            out.push(b'%');
            out.extend_from_slice(start);
            break;
        };
        rest = after;
        if !convert(&mut out, spec, letter, &mut from)? {
            out.push(b'%');
            out.extend_from_slice(&start[..start.len() - rest.len()]);
        }
    }
    Ok((out, from.count))
}

/// Arguments, and how many of them were taken.
struct Counted<'a, A> {
    from: &'a mut A,
    count: u32,
}

impl<A: Arguments> Counted<'_, A> {
    fn next(&mut self, bytes: u32) -> Result<u64, A::Error> {
        self.count += 1;
        self.from.next(bytes)
    }
}

/// Reads flags, width, precision and length.
fn spec<A: Arguments>(rest: &mut &[u8], from: &mut Counted<'_, A>) -> Result<Spec, A::Error> {
    let mut spec = Spec {
        left: false,
        plus: false,
        space: false,
        alternative: false,
        zeros: false,
        width: 0,
        precision: None,
        length: Length::Int,
    };
    while let Some((&flag, after)) = rest.split_first() {
        match flag {
            b'-' => spec.left = true,
            b'+' => spec.plus = true,
            b' ' => spec.space = true,
            b'#' => spec.alternative = true,
            b'0' => spec.zeros = true,
            _ => break,
        }
        *rest = after;
    }
    let width = number(rest, from)?.unwrap_or(0);
    spec.left |= width < 0;
    spec.width = clamp(width.unsigned_abs());
    if let Some(after) = rest.strip_prefix(b".") {
        *rest = after;
        let precision = number(rest, from)?.unwrap_or(0);
        spec.precision = (precision >= 0).then(|| clamp(precision.unsigned_abs()));
    }
    spec.length = length(rest);
    Ok(spec)
}

fn clamp(count: u64) -> usize {
    count.min(WIDEST as u64) as usize
}

/// Digits, or `*` for the next argument.
fn number<A: Arguments>(
    rest: &mut &[u8],
    from: &mut Counted<'_, A>,
) -> Result<Option<i64>, A::Error> {
    if let Some(after) = rest.strip_prefix(b"*") {
        *rest = after;
        return Ok(Some(i64::from(from.next(4)? as i32)));
    }
    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (digits, after) = rest.split_at(digits);
    *rest = after;
    let fold = |value: i64, digit: &u8| (value * 10 + i64::from(digit - b'0')).min(WIDEST as i64);
    Ok((!digits.is_empty()).then(|| digits.iter().fold(0, fold)))
}

fn length(rest: &mut &[u8]) -> Length {
    let known: [(&[u8], Length); 8] = [
        (b"hh", Length::Char),
        (b"h", Length::Short),
        (b"ll", Length::Long),
        (b"l", Length::Long),
        (b"j", Length::Long),
        (b"z", Length::Long),
        (b"t", Length::Long),
        (b"L", Length::Int),
    ];
    for (word, length) in known {
        if let Some(after) = rest.strip_prefix(word) {
            *rest = after;
            return length;
        }
    }
    Length::Int
}

/// One conversion. Returns false for a letter that is none.
fn convert<A: Arguments>(
    out: &mut Vec<u8>,
    spec: Spec,
    letter: u8,
    from: &mut Counted<'_, A>,
) -> Result<bool, A::Error> {
    match letter {
        b'%' => out.push(b'%'),
        b'd' | b'i' => {
            let value = signed(spec.length, integer(spec.length, from)?);
            let digits = value.unsigned_abs().to_string();
            whole(out, spec, sign(spec, value < 0), digits);
        }
        b'u' | b'o' | b'x' | b'X' => {
            let value = unsigned(spec.length, integer(spec.length, from)?);
            let (digits, prefix) = radix(spec, letter, value);
            whole(out, spec, prefix, digits);
        }
        b'p' => pointer(out, spec, from.next(8)?),
        b'c' => pad(out, spec, &[from.next(4)? as u8]),
        b's' => {
            let address = from.next(8)?;
            let text = string(spec, from, address)?;
            pad(out, spec, &text);
        }
        b'e' | b'E' | b'f' | b'F' | b'g' | b'G' | b'a' | b'A' => {
            real(out, spec, letter, f64::from_bits(from.next(8)?));
        }
        _ => return Ok(false),
    }
    Ok(true)
}

fn integer<A: Arguments>(length: Length, from: &mut Counted<'_, A>) -> Result<u64, A::Error> {
    from.next(if length == Length::Long { 8 } else { 4 })
}

fn signed(length: Length, bits: u64) -> i64 {
    match length {
        Length::Char => i64::from(bits as i8),
        Length::Short => i64::from(bits as i16),
        Length::Int => i64::from(bits as i32),
        Length::Long => bits as i64,
    }
}

fn unsigned(length: Length, bits: u64) -> u64 {
    match length {
        Length::Char => u64::from(bits as u8),
        Length::Short => u64::from(bits as u16),
        Length::Int => u64::from(bits as u32),
        Length::Long => bits,
    }
}

fn sign(spec: Spec, negative: bool) -> &'static str {
    match negative {
        true => "-",
        false if spec.plus => "+",
        false if spec.space => " ",
        false => "",
    }
}

/// Digits of an unsigned number, and what `#` puts before them.
fn radix(spec: Spec, letter: u8, value: u64) -> (String, &'static str) {
    match letter {
        b'o' => {
            let digits = format!("{value:o}");
            let enough = spec.precision.is_some_and(|least| least > digits.len());
            let zero = spec.alternative && value != 0 && !enough;
            (if zero { format!("0{digits}") } else { digits }, "")
        }
        b'x' => (format!("{value:x}"), if spec.alternative && value != 0 { "0x" } else { "" }),
        b'X' => (format!("{value:X}"), if spec.alternative && value != 0 { "0X" } else { "" }),
        _ => (value.to_string(), ""),
    }
}

/// An integer: a precision is the least number of digits, and turns the flag `0` off.
fn whole(out: &mut Vec<u8>, spec: Spec, prefix: &str, digits: String) {
    let least = spec.precision.unwrap_or(1);
    let digits = if digits == "0" { String::new() } else { digits };
    let digits = format!("{}{digits}", "0".repeat(least.saturating_sub(digits.len())));
    let zeros = spec.zeros && spec.precision.is_none();
    prefixed(out, Spec { zeros, ..spec }, prefix, &digits);
}

fn pointer(out: &mut Vec<u8>, spec: Spec, address: u64) {
    match address {
        0 => pad(out, spec, b"(nil)"),
        _ => whole(out, spec, "0x", format!("{address:x}")),
    }
}

/// The bytes of a string up to its end, or to the precision.
fn string<A: Arguments>(
    spec: Spec,
    from: &mut Counted<'_, A>,
    address: u64,
) -> Result<Vec<u8>, A::Error> {
    if address == 0 {
        return Ok(b"(null)".to_vec());
    }
    let mut out = Vec::new();
    while out.len() < spec.precision.unwrap_or(usize::MAX) {
        match from.from.byte(address.wrapping_add(out.len() as u64))? {
            0 => break,
            byte => out.push(byte),
        }
    }
    Ok(out)
}

fn pad(out: &mut Vec<u8>, spec: Spec, text: &[u8]) {
    let fill = spec.width.saturating_sub(text.len());
    let blanks = |out: &mut Vec<u8>| out.resize(out.len() + fill, b' ');
    if !spec.left {
        blanks(out);
    }
    out.extend_from_slice(text);
    if spec.left {
        blanks(out);
    }
}

/// A sign or `0x`, and digits behind it; the flag `0` fills between them.
fn prefixed(out: &mut Vec<u8>, spec: Spec, prefix: &str, digits: &str) {
    let len = prefix.len() + digits.len();
    let zeros = if spec.zeros && !spec.left { spec.width.saturating_sub(len) } else { 0 };
    pad(out, spec, format!("{prefix}{}{digits}", "0".repeat(zeros)).as_bytes());
}

fn real(out: &mut Vec<u8>, spec: Spec, letter: u8, value: f64) {
    let upper = letter.is_ascii_uppercase();
    let sign = sign(spec, value.is_sign_negative());
    if !value.is_finite() {
        let text = if value.is_nan() { "nan" } else { "inf" };
        let text = if upper { text.to_uppercase() } else { text.to_owned() };
        return prefixed(out, Spec { zeros: false, ..spec }, sign, &text);
    }
    let magnitude = value.abs();
    let digits = match letter.to_ascii_lowercase() {
        b'e' => exponential(magnitude, spec.precision.unwrap_or(6), spec.alternative),
        b'f' => fixed(magnitude, spec.precision.unwrap_or(6), spec.alternative),
        b'g' => general(magnitude, spec.precision.unwrap_or(6).max(1), spec.alternative),
        _ => {
            let digits = hexadecimal(magnitude, spec.precision, spec.alternative);
            let digits = if upper { digits.to_uppercase() } else { digits };
            let prefix = format!("{sign}{}", if upper { "0X" } else { "0x" });
            return prefixed(out, spec, &prefix, &digits);
        }
    };
    let digits = if upper { digits.to_uppercase() } else { digits };
    prefixed(out, spec, sign, &digits);
}

fn fixed(value: f64, precision: usize, point: bool) -> String {
    let digits = format!("{value:.precision$}");
    if point && precision == 0 { format!("{digits}.") } else { digits }
}

/// `1.5e+00`: the exponent has a sign and at least two digits.
fn exponential(value: f64, precision: usize, point: bool) -> String {
    let text = format!("{value:.precision$e}");
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let point = if point && precision == 0 { "." } else { "" };
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{mantissa}{point}e{sign}{:02}", exponent.abs())
}

/// The shorter of both, without zeros at the end unless `#` asks for them.
fn general(value: f64, precision: usize, keep: bool) -> String {
    let rounded = format!("{value:.*e}", precision - 1);
    let exponent: i64 =
        rounded.split_once('e').and_then(|(_, digits)| digits.parse().ok()).unwrap_or(0);
    if exponent >= -4 && exponent < precision as i64 {
        let text = fixed(value, (precision as i64 - 1 - exponent) as usize, keep);
        return if keep { text } else { trimmed(&text).to_owned() };
    }
    let text = exponential(value, precision - 1, keep);
    match text.split_once('e') {
        Some((mantissa, exponent)) if !keep => format!("{}e{exponent}", trimmed(mantissa)),
        _ => text,
    }
}

fn trimmed(digits: &str) -> &str {
    match digits.contains('.') {
        true => digits.trim_end_matches('0').trim_end_matches('.'),
        false => digits,
    }
}

/// `1.8p+1`, without its `0x`.
fn hexadecimal(value: f64, precision: Option<usize>, point: bool) -> String {
    const DIGITS: usize = 13;
    let bits = value.to_bits();
    let (field, fraction) = ((bits >> 52) as i32, bits & ((1 << 52) - 1));
    let (mut whole, exponent) = match (field, fraction) {
        (0, 0) => (0, 0),
        (0, _) => (fraction, -1022),
        _ => (fraction | 1 << 52, field - 1023),
    };
    let digits = precision.unwrap_or(DIGITS).min(DIGITS);
    let dropped = 4 * (DIGITS - digits);
    if dropped > 0 {
        let half = 1u64 << (dropped - 1);
        let odd = whole >> dropped & 1;
        whole = (whole + (half - 1) + odd) >> dropped;
    }
    let lead = whole >> (4 * digits);
    let tail = whole & ((1u64 << (4 * digits)) - 1);
    let mut text = if digits == 0 { String::new() } else { format!("{tail:0digits$x}") };
    match precision {
        None => text.truncate(text.trim_end_matches('0').len()),
        Some(precision) => text.push_str(&"0".repeat(precision - digits)),
    }
    let dot = if text.is_empty() && !point { "" } else { "." };
    format!("{lead}{dot}{text}p{exponent:+}")
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Values(Vec<u64>, Vec<u32>);

    impl Arguments for Values {
        type Error = ();
        fn next(&mut self, bytes: u32) -> Result<u64, ()> {
            self.1.push(bytes);
            if self.0.is_empty() { Err(()) } else { Ok(self.0.remove(0)) }
        }
        fn byte(&mut self, address: u64) -> Result<u8, ()> {
            b"0hello\0".get(address as usize).copied().ok_or(())
        }
    }

    #[track_caller]
    fn check(text: &str, values: &[u64], expected: &str) {
        let (out, count) = format(text.as_bytes(), &mut Values(values.to_vec(), vec![])).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), expected, "{text}");
        assert_eq!(count as usize, values.len(), "{text}");
    }

    fn d(value: f64) -> u64 {
        value.to_bits()
    }

    #[test]
    fn integers_are_those_of_c() {
        check("%d,%5d,%-5d|,%05d", &[1, -2i64 as u64, 3, -4i64 as u64], "1,   -2,3    |,-0004");
        check("%+d % d %+.3d", &[1, 2, 3], "+1  2 +003");
        check("%.0d|%5.3d|%05.3d", &[0, 7, 7], "|  007|  007");
        check("%u %lu", &[u64::MAX, u64::MAX], "4294967295 18446744073709551615");
        check("%hd %hhd %hu %hhu", &[0x18000, 0x180, 0x1ffff, 0x1ff], "-32768 -128 65535 255");
        check("%x %X %#x %#X %#o %o", &[255, 255, 255, 0, 8, 8], "ff FF 0xff 0 010 10");
        check("%lld %zu %td", &[u64::MAX, 5, u64::MAX], "-1 5 -1");
        check("%*d|%-*d|%*d|", &[4, 1, 4, 2, -4i64 as u64, 3], "   1|2   |3   |");
        check("%#08x|%08d", &[0xab, 12], "0x0000ab|00000012");
    }

    #[test]
    fn text_and_pointers_are_those_of_c() {
        check("%s|%8s|%-8s|%.2s|%s", &[1, 1, 1, 1, 0], "hello|   hello|hello   |he|(null)");
        check("%c%3c|%-3c|%%", &[65, 66, 67], "A  B|C  |%");
        check("%p %p", &[0x1234, 0], "0x1234 (nil)");
        check("%y %", &[], "%y %");
        check("a%5", &[], "a%5");
    }

    #[test]
    fn floats_are_those_of_c() {
        check("%f %.2f %.0f %#.0f", &[d(1.5), d(2.675), d(2.5), d(2.5)], "1.500000 2.67 2 2.");
        check("%8.2f|%-8.2f|%08.2f", &[d(-1.5), d(-1.5), d(-1.5)], "   -1.50|-1.50   |-0001.50");
        check("%e %.0e %E", &[d(12345.678), d(15.), d(1e-100)], "1.234568e+04 2e+01 1.000000E-100");
        check(
            "%g %g %g %g %#g",
            &[d(1e-5), d(100000.), d(1e6), d(0.5), d(0.5)],
            "1e-05 100000 1e+06 0.5 0.500000",
        );
        check("%g %G %.3g", &[d(0.), d(1e-10), d(1234.5)], "0 1E-10 1.23e+03");
        check(
            "%f %F %5.1f|%05f",
            &[d(f64::NAN), d(-f64::INFINITY), d(f64::INFINITY), d(f64::INFINITY)],
            "nan -INF   inf|  inf",
        );
        check(
            "%a %a %A %.1a %.0a",
            &[d(1.), d(-3.5), d(0.1), d(1.97), d(1.5)],
            "0x1p+0 -0x1.cp+1 0X1.999999999999AP-4 0x2.0p+0 0x2p+0",
        );
        check("%a %a", &[d(0.), d(f64::from_bits(1))], "0x0p+0 0x0.0000000000001p-1022");
    }

    #[test]
    fn arguments_have_the_size_that_their_conversion_says() {
        let mut values = Values(vec![1; 8], vec![]);
        format(b"%d %ld %f %c %p %hhd %zu %x", &mut values).unwrap();
        assert_eq!(values.1, [4, 8, 8, 4, 8, 4, 8, 4]);
        assert!(format(b"%d %d", &mut Values(vec![1], vec![])).is_err());
    }
}
