//! The fundamental types of PTX.

macro_rules! types {
    ($($(#[$doc:meta])* $name:ident = $word:literal, $bits:literal;)*) => {
        /// A fundamental type, as its dotted word names it.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Type {
            $($(#[$doc])* $name,)*
        }

        impl Type {
            /// The type that a word without its dot names.
            pub fn parse(word: &str) -> Option<Self> {
                match word {
                    $($word => Some(Self::$name),)*
                    _ => None,
                }
            }

            /// The word without its dot.
            pub fn word(self) -> &'static str {
                match self {
                    $(Self::$name => $word,)*
                }
            }

            /// Size in bits; a predicate has one.
            pub fn bits(self) -> u32 {
                match self {
                    $(Self::$name => $bits,)*
                }
            }
        }
    };
}

types! {
    /// A predicate.
    Pred = "pred", 1;
    /// 8 untyped bits.
    B8 = "b8", 8;
    /// 16 untyped bits.
    B16 = "b16", 16;
    /// 32 untyped bits.
    B32 = "b32", 32;
    /// 64 untyped bits.
    B64 = "b64", 64;
    /// 128 untyped bits.
    B128 = "b128", 128;
    /// Unsigned, 8 bits.
    U8 = "u8", 8;
    /// Unsigned, 16 bits.
    U16 = "u16", 16;
    /// Unsigned, 32 bits.
    U32 = "u32", 32;
    /// Unsigned, 64 bits.
    U64 = "u64", 64;
    /// Signed, 8 bits.
    S8 = "s8", 8;
    /// Signed, 16 bits.
    S16 = "s16", 16;
    /// Signed, 32 bits.
    S32 = "s32", 32;
    /// Signed, 64 bits.
    S64 = "s64", 64;
    /// Two unsigned 16-bit numbers.
    U16x2 = "u16x2", 32;
    /// Two signed 16-bit numbers.
    S16x2 = "s16x2", 32;
    /// IEEE half precision.
    F16 = "f16", 16;
    /// Two halves.
    F16x2 = "f16x2", 32;
    /// The upper half of an f32.
    Bf16 = "bf16", 16;
    /// Two of them.
    Bf16x2 = "bf16x2", 32;
    /// One bit, of a matrix.
    B1 = "b1", 1;
    /// Unsigned, 4 bits, of a matrix.
    U4 = "u4", 4;
    /// Signed, 4 bits, of a matrix.
    S4 = "s4", 4;
    /// An 8-bit float with 3 bits of mantissa, of a matrix.
    E4m3 = "e4m3", 8;
    /// An 8-bit float with 2 bits of mantissa, of a matrix.
    E5m2 = "e5m2", 8;
    /// Two 8-bit floats with 3 bits of mantissa.
    E4m3x2 = "e4m3x2", 16;
    /// Two 8-bit floats with 2 bits of mantissa.
    E5m2x2 = "e5m2x2", 16;
    /// An f32 with 10 bits of mantissa.
    Tf32 = "tf32", 32;
    /// IEEE single precision.
    F32 = "f32", 32;
    /// IEEE double precision.
    F64 = "f64", 64;
}

impl Type {
    /// Size in bytes.
    pub fn bytes(self) -> u32 {
        self.bits().div_ceil(8)
    }

    /// Rows of a frame that hold a value.
    pub fn rows(self) -> u32 {
        if self == Self::B128 { 2 } else { 1 }
    }

    /// The types that only the elements of matrices have.
    pub fn is_only_of_matrices(self) -> bool {
        matches!(self, Self::B1 | Self::U4 | Self::S4 | Self::E4m3 | Self::E5m2)
    }

    /// `.s4` to `.s64`.
    pub fn is_signed(self) -> bool {
        matches!(self, Self::S4 | Self::S8 | Self::S16 | Self::S32 | Self::S64)
    }

    /// A floating-point type, packed ones included.
    pub fn is_float(self) -> bool {
        use Type::{Bf16, Bf16x2, E4m3x2, E5m2x2, F16, F16x2, F32, F64, Tf32};
        matches!(self, F16 | F16x2 | Bf16 | Bf16x2 | E4m3x2 | E5m2x2 | Tf32 | F32 | F64)
    }

    /// The integer type of twice the width.
    pub fn doubled(self) -> Option<Self> {
        Some(match self {
            Self::U16 => Self::U32,
            Self::S16 => Self::S32,
            Self::U32 => Self::U64,
            Self::S32 => Self::S64,
            _ => return None,
        })
    }
}
