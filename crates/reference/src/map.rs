//! Reference of the maps.

/// `b + s * c`, rounded once: in f64 the product of two f32 is exact, and rounding its sum first to odd and then to
/// f32 is rounding once.
pub fn triad(s: f32, b: &[f32], c: &[f32]) -> Vec<f32> {
    let one = |(&b, &c): (&f32, &f32)| {
        let (b, product) = (f64::from(b), f64::from(s) * f64::from(c));
        let sum = b + product;
        // What the sum has lost (Knuth's two-sum).
        let part = sum - b;
        let lost = (b - (sum - part)) + (product - part);
        let is_odd = sum.to_bits() & 1 == 1;
        if lost == 0.0 || is_odd || !sum.is_finite() {
            return sum as f32;
        }
        let away = (lost > 0.0) == (sum > 0.0);
        f64::from_bits(if away { sum.to_bits() + 1 } else { sum.to_bits() - 1 }) as f32
    };
    b.iter().zip(c).map(one).collect()
}

/// `b + s * c` of doubles, rounded once.
pub fn triad_f64(s: f64, b: &[f64], c: &[f64]) -> Vec<f64> {
    b.iter().zip(c).map(|(b, c)| s.mul_add(*c, *b)).collect()
}

/// Each value through `f`.
pub fn map<T: Copy, U>(x: &[T], f: impl Fn(T) -> U) -> Vec<U> {
    let mut out = Vec::new();
    for &value in x {
        out.push(f(value));
    }
    out
}
