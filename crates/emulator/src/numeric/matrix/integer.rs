//! Sums of integer and of one-bit products.

/// `c` plus the sum of the products, wrapped to 32 bits, or stopped at the extremes.
pub fn integer(a: &[i32], b: &[i32], c: i32, saturates: bool) -> i32 {
    // No instruction has so many products that their sum passes 32 bits.
    let products: i32 = a.iter().zip(b).map(|(a, b)| a * b).sum();
    let sum = i64::from(c) + i64::from(products);
    match saturates {
        true => sum.clamp(i32::MIN.into(), i32::MAX.into()) as i32,
        false => sum as i32,
    }
}

/// `c` plus the number of bits that are set in both.
pub fn bits_and(a: &[u32], b: &[u32], c: i32) -> i32 {
    a.iter().zip(b).fold(c, |sum, (a, b)| sum.wrapping_add((a & b).count_ones() as i32))
}

/// `c` plus the number of bits that are set in one of the two.
pub fn bits_xor(a: &[u32], b: &[u32], c: i32) -> i32 {
    a.iter().zip(b).fold(c, |sum, (a, b)| sum.wrapping_add((a ^ b).count_ones() as i32))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_wrap_or_stop() {
        assert_eq!(integer(&[2, -3], &[5, 7], 1, false), -10);
        assert_eq!(integer(&[1], &[1], i32::MAX, false), i32::MIN);
        assert_eq!(integer(&[1], &[1], i32::MAX, true), i32::MAX);
        assert_eq!(integer(&[-1], &[1], i32::MIN, true), i32::MIN);
    }

    #[test]
    fn bits_are_counted() {
        assert_eq!(bits_and(&[0b1100, 1], &[0b1010, 1], 5), 7);
        assert_eq!(bits_xor(&[0b1100, 1], &[0b1010, 1], 5), 7);
        assert_eq!(bits_xor(&[u32::MAX], &[0], -32), 0);
    }
}
