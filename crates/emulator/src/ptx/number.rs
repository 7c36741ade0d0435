//! Literals.

use super::ast::Number;

/// The value of a literal as the lexer cut it, or what a literal must look like.
pub(super) fn parse(text: &str) -> Result<Number, &'static str> {
    let bytes = text.as_bytes();
    match (bytes.first(), bytes.get(1)) {
        (Some(b'0'), Some(b'f' | b'F')) => single(&text[2..]),
        (Some(b'0'), Some(b'd' | b'D')) => double(&text[2..]),
        (Some(b'0'), Some(b'x' | b'X')) => integer(&text[2..], 16, "a hexadecimal integer"),
        (Some(b'0'), Some(b'b' | b'B')) => integer(&text[2..], 2, "a binary integer"),
        _ if text.contains(['.', 'e', 'E']) => decimal(text),
        (Some(b'0'), Some(b'0'..=b'9')) => integer(&text[1..], 8, "an octal integer"),
        _ => integer(text, 10, "a number"),
    }
}

/// The literal with its sign turned.
pub(super) fn negate(number: Number) -> Number {
    match number {
        Number::Int { value, unsigned } => Number::Int { value: value.wrapping_neg(), unsigned },
        Number::F32(bits) => Number::F32(bits ^ 1 << 31),
        Number::F64(bits) => Number::F64(bits ^ 1 << 63),
    }
}

fn single(digits: &str) -> Result<Number, &'static str> {
    let bits = u32::from_str_radix(digits, 16).ok().filter(|_| digits.len() == 8);
    bits.map(Number::F32).ok_or("`0f` and 8 hexadecimal digits")
}

fn double(digits: &str) -> Result<Number, &'static str> {
    let bits = u64::from_str_radix(digits, 16).ok().filter(|_| digits.len() == 16);
    bits.map(Number::F64).ok_or("`0d` and 16 hexadecimal digits")
}

fn decimal(text: &str) -> Result<Number, &'static str> {
    let value = text.parse::<f64>().map_err(|_| "a decimal number")?;
    Ok(Number::F64(value.to_bits()))
}

fn integer(text: &str, radix: u32, expected: &'static str) -> Result<Number, &'static str> {
    let digits = text.strip_suffix('U').unwrap_or(text);
    let unsigned = digits.len() < text.len();
    if digits.is_empty() || !digits.chars().all(|digit| digit.is_digit(radix)) {
        return Err(expected);
    }
    let value = u64::from_str_radix(digits, radix).map_err(|_| "an integer of at most 64 bits")?;
    Ok(Number::Int { value: value.into(), unsigned })
}
