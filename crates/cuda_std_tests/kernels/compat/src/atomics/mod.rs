//! Atomic functions and types, every one of them.

pub mod named;
pub mod typed;

/// Two values of each type, and the bits of a result.
pub trait Sample: cuda_std::atomic::Word {
    /// What the memory holds before.
    const A: Self;
    /// The operand.
    const B: Self;

    fn bits(self) -> u64 {
        self.to_bits_64()
    }
}

macro_rules! samples {
    ($($ty:ty: $a:expr, $b:expr;)*) => {$(
        impl Sample for $ty {
            const A: Self = $a;
            const B: Self = $b;
        }
    )*};
}

samples! {
    u32: 0xF000_0005, 0x3000_0003;
    i32: -7, 5;
    u64: 0xF000_0000_0000_0005, 0x3000_0000_0000_0003;
    i64: -7_000_000_000, 5;
    f32: 6.5, -2.25;
    f64: 6.5, -2.25;
}
