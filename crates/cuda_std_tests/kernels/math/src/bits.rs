//! Values as bit patterns, so that functions of every signature are called in one way.

/// A value that travels in 64 bits.
pub trait Bits: Copy {
    /// From the low bits.
    fn take(bits: u64) -> Self;
    /// Bits, the rest zeros.
    fn give(self) -> u64;
}

macro_rules! bits {
    ($($t:ty: $take:expr, $give:expr;)+) => { $(
        impl Bits for $t {
            #[inline(always)]
            fn take(bits: u64) -> Self {
                let take: fn(u64) -> $t = $take;
                take(bits)
            }

            #[inline(always)]
            fn give(self) -> u64 {
                let give: fn($t) -> u64 = $give;
                give(self)
            }
        }
    )+ };
}

bits! {
    f32: |bits| f32::from_bits(bits as u32), |x| x.to_bits().into();
    f64: f64::from_bits, f64::to_bits;
    i16: |bits| bits as i16, |x| u64::from(x as u16);
    i32: |bits| bits as i32, |x| u64::from(x as u32);
    i64: |bits| bits as i64, |x| x as u64;
}

/// The result of a function: one value or two.
pub trait Results {
    /// Their bits.
    fn pack(self) -> [u64; 2];
}

impl<T: Bits> Results for T {
    #[inline(always)]
    fn pack(self) -> [u64; 2] {
        [self.give(), 0]
    }
}

impl<T: Bits, U: Bits> Results for (T, U) {
    #[inline(always)]
    fn pack(self) -> [u64; 2] {
        [self.0.give(), self.1.give()]
    }
}
