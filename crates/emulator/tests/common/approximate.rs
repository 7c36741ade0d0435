//! How far an approximation may be off: the sum of both sides' errors.

/// The value of bits, in the format that the last word of the instruction names, if it is a
/// floating-point one.
fn value(text: &str, bits: u64) -> Option<f64> {
    let opcode = text.split(' ').next().unwrap_or_default();
    Some(match opcode.rsplit('.').next().unwrap_or_default() {
        "f64" => f64::from_bits(bits),
        "f32" => f64::from(f32::from_bits(bits as u32)),
        "bf16" | "bf16x2" => f64::from(f32::from_bits((bits as u32) << 16)),
        "f16" | "f16x2" => half(bits as u16),
        _ => return None,
    })
}

fn half(bits: u16) -> f64 {
    let (exponent, fraction) = (i32::from(bits >> 10 & 31), f64::from(bits & 0x3ff));
    let sign = if bits >> 15 == 0 { 1. } else { -1. };
    match exponent {
        0 => sign * fraction * 2f64.powi(-24),
        31 if fraction == 0. => sign * f64::INFINITY,
        31 => f64::NAN,
        _ => sign * (1024. + fraction) * 2f64.powi(exponent - 25),
    }
}

/// Relative and absolute error that the PTX manual allows, doubled.
fn allowed(text: &str) -> (f64, f64) {
    let two = |exponent: i32| 2f64.powi(exponent);
    match text {
        _ if text.contains(".f16") => (two(-9), two(-24)),
        _ if text.contains(".bf16") => (two(-6), 0.),
        _ if text.starts_with("tanh") => (two(-10), 0.),
        _ if text.starts_with("sin") || text.starts_with("cos") => (0., two(-19)),
        _ if text.starts_with("lg2") => (two(-21), two(-21)),
        _ if text.contains(".f64") => (two(-19), 0.),
        // 2^-149 is a unit of the smallest results.
        _ => (two(-21), two(-148)),
    }
}

/// Arguments past this are outside the range for which the error is stated.
const TRIGONOMETRIC_RANGE: f64 = std::f64::consts::PI + 1e-6;

/// The error in units of what is allowed, or `None` if the results cannot both be right.
pub fn error(text: &str, operand: u64, got: u64, expected: u64) -> Option<f64> {
    if text.contains("x2 ") {
        let halves = |shift: u32| {
            let half = |word: u64| word >> shift & 0xffff;
            one(text, half(operand), half(got), half(expected))
        };
        return Some(halves(0)?.max(halves(16)?));
    }
    one(text, operand, got, expected)
}

fn one(text: &str, operand: u64, got: u64, expected: u64) -> Option<f64> {
    if got == expected {
        return Some(0.);
    }
    let (found, wanted) = (value(text, got)?, value(text, expected)?);
    let trigonometric = text.starts_with("sin") || text.starts_with("cos");
    if trigonometric && value(text, operand)?.abs() > TRIGONOMETRIC_RANGE {
        return (found.abs() <= 1. && wanted.abs() <= 1.).then_some(0.);
    }
    let (relative, absolute) = allowed(text);
    let error = (found - wanted).abs() / (absolute + relative * wanted.abs());
    (wanted.is_finite() && error <= 1.).then_some(error)
}
