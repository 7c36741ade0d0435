//! Division by a number that many divisions share.

use bytemuck::{Pod, Zeroable};

/// A number below 2^32 by which numbers below 2^32 are divided by a multiplication and two shifts (T. Granlund, P. L. Montgomery, "Division by invariant
/// integers using multiplication", 1994). The host prepares it: a division of unknown numbers takes a kernel some thirty instructions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct Divisor {
    divisor: u32,
    multiplier: u32,
    shifts: [u32; 2],
}

impl Divisor {
    /// Divides by this number. A quotient by 0 is 0.
    #[must_use]
    pub const fn new(divisor: u32) -> Self {
        if divisor == 0 {
            return Self { divisor, multiplier: 0, shifts: [1, 31] };
        }
        let bits = u32::BITS - (divisor - 1).leading_zeros();
        let beyond = (1u64 << bits) - divisor as u64;
        let multiplier = ((beyond << 32) / divisor as u64 + 1) as u32;
        let first = if bits == 0 { 0 } else { 1 };
        Self { divisor, multiplier, shifts: [first, bits - first] }
    }

    /// Quotient and remainder; by 0, they are 0 and the number.
    #[inline(always)]
    #[must_use]
    pub const fn divide(self, number: u32) -> (u32, u32) {
        let high = ((self.multiplier as u64 * number as u64) >> 32) as u32;
        let [first, second] = self.shifts;
        let quotient = (high + ((number - high) >> first)) >> second;
        (quotient, number - quotient * self.divisor)
    }
}

#[cfg(test)]
mod tests {
    use super::Divisor;

    #[test]
    fn quotients_and_remainders_are_those_of_a_division() {
        let near = |x: u32| [x.saturating_sub(1), x, x.saturating_add(1)];
        let powers = (0..32).flat_map(|bit| near(1 << bit));
        let numbers: Vec<u32> = powers.chain([3, 5, 7, 10, 132, 641, 65_521, u32::MAX]).collect();
        for &divisor in numbers.iter().filter(|divisor| **divisor > 0) {
            let by = Divisor::new(divisor);
            let multiples = numbers.iter().flat_map(|x| near(x.saturating_mul(divisor)));
            for number in numbers.iter().copied().chain(multiples) {
                let expected = (number / divisor, number % divisor);
                assert_eq!(by.divide(number), expected, "{number} by {divisor}");
            }
        }
    }

    #[test]
    fn a_quotient_by_zero_is_zero() {
        for number in [0, 1, u32::MAX] {
            assert_eq!(Divisor::new(0).divide(number), (0, number));
        }
    }
}
