//! Uniform and normal numbers from random bits.

use rand_core::Rng;

/// Uniform and normal numbers, from every generator.
///
/// Names as in rust-cuda's `gpu_rand`.
pub trait GpuRand: Rng {
    /// A number in [0, 1): a multiple of 2^-24, all equally likely. Takes one word.
    #[inline(always)]
    fn uniform_f32(&mut self) -> f32 {
        (self.next_u32() >> 8) as f32 * (1.0 / (1u32 << 24) as f32)
    }

    /// A number in [0, 1): a multiple of 2^-53, all equally likely. Takes two words.
    #[inline(always)]
    fn uniform_f64(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }

    /// Two independent numbers of mean 0 and variance 1, up to 6.7 in magnitude. Takes two words.
    ///
    /// The transform of G. Box and M. Muller, 1958, by a logarithm, a square root and a sine and
    /// cosine of 1 to 2 units in the last place each: to 8 units in the last place of the magnitude
    /// of the pair.
    #[inline(always)]
    fn normal_f32_2(&mut self) -> [f32; 2] {
        let (first, second) = (self.next_u32(), self.next_u32());
        // In (0, 1], symmetric in the middle.
        let u = first as f32 * TWO_TO_MINUS_32 + TWO_TO_MINUS_32 / 2.0;
        let radius = single::sqrt(-2.0 * libm::logf(u));
        let [sin, cos] = single::sin_cos_of_turns(second as f32 * TWO_TO_MINUS_32);
        [radius * cos, radius * sin]
    }

    /// A number of mean 0 and variance 1; see [`normal_f32_2`](Self::normal_f32_2), of which it
    /// throws the second away.
    #[inline(always)]
    fn normal_f32(&mut self) -> f32 {
        self.normal_f32_2()[0]
    }

    /// Two independent numbers of mean 0 and variance 1, up to 8.6 in magnitude. Takes four words.
    ///
    /// To 8 units in the last place of the magnitude of the pair, as
    /// [`normal_f32_2`](Self::normal_f32_2).
    #[inline(always)]
    fn normal_f64_2(&mut self) -> [f64; 2] {
        let (first, second) = (self.next_u64() >> 11, self.next_u64() >> 11);
        let unit = 1.0 / (1u64 << 53) as f64;
        let radius = double::sqrt(-2.0 * libm::log((first + 1) as f64 * unit));
        let [sin, cos] = double::sin_cos_of_turns(second as f64 * unit);
        [radius * cos, radius * sin]
    }

    /// A number of mean 0 and variance 1; see [`normal_f64_2`](Self::normal_f64_2).
    #[inline(always)]
    fn normal_f64(&mut self) -> f64 {
        self.normal_f64_2()[0]
    }

    /// An integer below `bound`, all equally likely. Panics if `bound` is 0.
    ///
    /// D. Lemire, "Fast random integer generation in an interval", 2019: one word and one product,
    /// rarely more; the division comes only when a word might have to be thrown away.
    #[inline(always)]
    fn below(&mut self, bound: u32) -> u32 {
        assert!(bound > 0, "no integer lies below 0");
        let mut product = u64::from(self.next_u32()) * u64::from(bound);
        if (product as u32) < bound {
            let unfair = bound.wrapping_neg() % bound;
            while (product as u32) < unfair {
                product = u64::from(self.next_u32()) * u64::from(bound);
            }
        }
        (product >> 32) as u32
    }

    /// An integer below `bound`, all equally likely. Panics if `bound` is 0. As
    /// [`below`](Self::below), with words of 64 bits.
    #[inline(always)]
    fn below_u64(&mut self, bound: u64) -> u64 {
        assert!(bound > 0, "no integer lies below 0");
        let mut product = u128::from(self.next_u64()) * u128::from(bound);
        if (product as u64) < bound {
            let unfair = bound.wrapping_neg() % bound;
            while (product as u64) < unfair {
                product = u128::from(self.next_u64()) * u128::from(bound);
            }
        }
        (product >> 64) as u64
    }
}

impl<R: Rng + ?Sized> GpuRand for R {}

const TWO_TO_MINUS_32: f32 = 1.0 / 4_294_967_296.0;

/// Square roots, and sines and cosines of fractions of a turn, for one type.
macro_rules! functions {
    ($module:ident, $ty:ident, $sqrt:literal, $pi:expr, $sine:expr, $cosine:expr) => {
        mod $module {
            #[cfg(target_os = "cuda")]
            unsafe extern "C" {
                #[link_name = $sqrt]
                fn rounded_sqrt(value: $ty) -> $ty;
            }

            /// Rounded once.
            #[inline(always)]
            pub fn sqrt(value: $ty) -> $ty {
                #[cfg(target_os = "cuda")]
                // SAFETY: arithmetic has no precondition.
                return unsafe { rounded_sqrt(value) };
                #[cfg(not(target_os = "cuda"))]
                return value.sqrt();
            }

            /// Sine and cosine of `2 pi turns`, for turns in [0, 1].
            ///
            /// The angle is taken to the nearest multiple of a quarter turn, which is exact, and the
            /// rest is at most an eighth, where Taylor's series are short.
            #[inline(always)]
            pub fn sin_cos_of_turns(turns: $ty) -> [$ty; 2] {
                let quarters = (4.0 * turns + 0.5) as i32;
                let angle = (4.0 * turns - quarters as $ty) * ($pi / 2.0);
                let square = angle * angle;
                let sin = angle + angle * square * series(square, $sine);
                let cos = 1.0 + square * series(square, $cosine);
                let (sin, cos) = if quarters & 1 == 0 { (sin, cos) } else { (cos, -sin) };
                if quarters & 2 == 0 { [sin, cos] } else { [-sin, -cos] }
            }

            /// The polynomial with these coefficients, the constant one first.
            #[inline(always)]
            fn series<const N: usize>(x: $ty, coefficients: [$ty; N]) -> $ty {
                let mut sum = 0.0;
                let mut at = N;
                while at > 0 {
                    at -= 1;
                    sum = sum * x + coefficients[at];
                }
                sum
            }

            /// `±1 / n!` for every second `n` from `first`, the first one negative.
            const fn reciprocals<const N: usize>(first: u32) -> [$ty; N] {
                let mut coefficients = [0.0; N];
                let (mut at, mut n, mut factorial, mut sign) = (0, 1, 1.0f64, -1.0);
                while at < N {
                    while n < first + 2 * at as u32 {
                        n += 1;
                        factorial *= n as f64;
                    }
                    coefficients[at] = (sign / factorial) as $ty;
                    (at, sign) = (at + 1, -sign);
                }
                coefficients
            }
        }
    };
}

functions!(
    single,
    f32,
    "llvm.nvvm.sqrt.rn.f",
    core::f32::consts::PI,
    const { reciprocals::<4>(3) },
    const { reciprocals::<5>(2) }
);
functions!(
    double,
    f64,
    "llvm.nvvm.sqrt.rn.d",
    core::f64::consts::PI,
    const { reciprocals::<9>(3) },
    const { reciprocals::<10>(2) }
);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Philox;

    #[test]
    fn sines_of_turns_are_right() {
        for i in 0..=4096 {
            let turns = f64::from(i) / 4096.0;
            let (sin, cos) = (turns * core::f64::consts::TAU).sin_cos();
            for (found, exact) in double::sin_cos_of_turns(turns).into_iter().zip([sin, cos]) {
                // The product with tau is off by as much itself.
                assert!((found - exact).abs() <= 9e-16, "{turns}: {found}, {exact}");
            }
            for (found, exact) in single::sin_cos_of_turns(turns as f32).into_iter().zip([sin, cos])
            {
                assert!((f64::from(found) - exact).abs() <= 1.2e-7, "{turns}: {found}, {exact}");
            }
        }
        assert_eq!(single::sin_cos_of_turns(0.25), [1.0, -0.0]);
        assert_eq!(double::sin_cos_of_turns(0.5), [-0.0, -1.0]);
    }

    /// A generator that gives these words.
    struct Words(Vec<u32>);

    impl rand_core::TryRng for Words {
        type Error = core::convert::Infallible;

        fn try_next_u32(&mut self) -> Result<u32, Self::Error> {
            Ok(self.0.remove(0))
        }

        fn try_next_u64(&mut self) -> Result<u64, Self::Error> {
            rand_core::utils::next_u64_via_u32(self)
        }

        fn try_fill_bytes(&mut self, _: &mut [u8]) -> Result<(), Self::Error> {
            unreachable!("no test asks for bytes")
        }
    }

    #[test]
    fn the_ends_of_the_ranges() {
        let (none, all) = (|| Words(vec![0; 4]), || Words(vec![u32::MAX; 4]));
        assert_eq!((none().uniform_f32(), none().uniform_f64()), (0.0, 0.0));
        assert_eq!(all().uniform_f32(), 1.0 - f32::EPSILON / 2.0);
        assert_eq!(all().uniform_f64(), 1.0 - f64::EPSILON / 2.0);
        assert!(none().normal_f32() < 6.8 && none().normal_f64() < 8.6);
        assert_eq!(all().normal_f32().abs(), 0.0);
        assert_eq!((none().below(8), none().below_u64(8)), (0, 0));
        assert_eq!((all().below(7), all().below_u64(7)), (6, 6));
        assert_eq!((all().below(1), all().below(u32::MAX)), (0, u32::MAX - 1));
    }

    #[test]
    fn words_that_would_be_unfair_are_thrown_away() {
        // 2^32 is 1 modulo 3 and modulo 5: the word 0 is one too many.
        for bound in [3, 5] {
            let mut words = Words(vec![0, 0, 1 << 31]);
            assert_eq!((words.below(bound), words.0.len()), (bound / 2, 0));
        }
        // 2^64 too.
        let mut words = Words(vec![0, 0, 0, 1 << 31]);
        assert_eq!((words.below_u64(3), words.0.len()), (1, 0));
    }

    #[test]
    fn moments_are_those_of_the_distributions() {
        let (mut random, n) = (Philox::new(1, 2), 200_000);
        let normal: Vec<f64> = (0..n).flat_map(|_| random.normal_f64_2()).collect();
        let single: Vec<f64> = (0..n).flat_map(|_| random.normal_f32_2()).map(f64::from).collect();
        for samples in [normal, single] {
            let moment = |k| samples.iter().map(|x| x.powi(k)).sum::<f64>() / samples.len() as f64;
            // Five standard deviations of each mean.
            let close = |k, expected: f64, variance: f64| {
                let limit = 5.0 * (variance / samples.len() as f64).sqrt();
                assert!((moment(k) - expected).abs() < limit, "moment {k}: {}", moment(k));
            };
            close(1, 0.0, 1.0);
            close(2, 1.0, 2.0);
            close(3, 0.0, 15.0);
            close(4, 3.0, 96.0);
        }
    }
}
