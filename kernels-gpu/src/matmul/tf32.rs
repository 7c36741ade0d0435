//! An f32 as the sum of two TF32.

/// Elements along K whose parts are neighbours in a [copy](super::parts): as many as a stage of [`hopper`](super::hopper) has.
pub const DEPTH: usize = 32;

/// The nearest TF32 of the bits of an `f32`, and the bits of the rest with half of the last bit added that tensor cores read: they cut off the 13 bits after it. The rest of
/// an infinity and of NaN is NaN.
///
/// ```
/// use kernels_gpu::matmul::tf32::split;
///
/// let [upper, lower] = split(1.2345678f32.to_bits()).map(|bits| f32::from_bits(bits & !0x1fff));
/// assert_eq!(upper + lower, 1.2345678);
/// ```
#[inline(always)]
#[must_use]
pub const fn split(bits: u32) -> [u32; 2] {
    const HALF: u32 = 0x1000;
    const UPPER: u32 = !(2 * HALF - 1);
    let upper = f32::from_bits(bits.wrapping_add(HALF) & UPPER);
    let rest = f32::from_bits(bits) - upper;
    [upper.to_bits(), rest.to_bits().wrapping_add(HALF)]
}

#[cfg(test)]
mod tests {
    use super::split;

    /// What tensor cores read.
    fn read(bits: u32) -> f64 {
        f32::from_bits(bits & !0x1fff).into()
    }

    #[test]
    fn parts_are_off_by_at_most_a_bit_of_the_24th() {
        for value in [1.0f32, 1.2345678, -7.654321, 1e-20, 8.5e37, 0.1, f32::MIN_POSITIVE] {
            let [upper, lower] = split(value.to_bits()).map(read);
            let (value, off) = (f64::from(value), 2f64.powi(-23));
            assert!((upper + lower - value).abs() <= off * value.abs(), "{value}");
            assert!(lower.abs() <= 2f64.powi(-11) * value.abs(), "{value}");
        }
    }

    #[test]
    fn what_is_no_number_has_a_part_that_is_none() {
        for value in [f32::INFINITY, f32::NEG_INFINITY, f32::NAN] {
            assert!(split(value.to_bits()).map(read).iter().any(|part| part.is_nan()));
        }
    }
}
