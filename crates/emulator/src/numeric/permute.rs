//! `prmt`: picks bytes.

/// How `prmt` reads its selector.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mode {
    /// No mode: four nibbles, each an index of a byte, with its highest bit set the byte's sign.
    Default,
    /// `.f4e`: four bytes forwards.
    Forward,
    /// `.b4e`: four bytes backwards.
    Backward,
    /// `.rc8`: one byte four times.
    Replicate8,
    /// `.ecl`: edge clamp left.
    ClampLeft,
    /// `.ecr`: edge clamp right.
    ClampRight,
    /// `.rc16`: one half twice.
    Replicate16,
}

impl Mode {
    /// The mode that a word without its dot names.
    pub fn parse(word: &str) -> Option<Self> {
        Some(match word {
            "f4e" => Self::Forward,
            "b4e" => Self::Backward,
            "rc8" => Self::Replicate8,
            "ecl" => Self::ClampLeft,
            "ecr" => Self::ClampRight,
            "rc16" => Self::Replicate16,
            _ => return None,
        })
    }

    /// Selector of the default mode that picks the same bytes. Selectors of the other modes have
    /// two bits.
    pub fn selector(self, selector: u32) -> u32 {
        let nibbles: [u32; 4] = match self {
            Self::Default => return selector,
            Self::Forward => [0x3210, 0x4321, 0x5432, 0x6543],
            Self::Backward => [0x5670, 0x6701, 0x7012, 0x0123],
            Self::Replicate8 => [0x0000, 0x1111, 0x2222, 0x3333],
            Self::ClampLeft => [0x3210, 0x3211, 0x3222, 0x3333],
            Self::ClampRight => [0x0000, 0x1110, 0x2210, 0x3210],
            Self::Replicate16 => [0x1010, 0x3232, 0x1010, 0x3232],
        };
        nibbles[(selector & 3) as usize]
    }
}

/// `prmt`: four bytes of `b:a`, which the selector names.
#[inline]
pub fn prmt(a: u32, b: u32, selector: u32, mode: Mode) -> u32 {
    let bytes = (u64::from(b) << 32 | u64::from(a)).to_le_bytes();
    let selector = mode.selector(selector);
    u32::from_le_bytes(std::array::from_fn(|i| {
        let nibble = selector >> (4 * i) & 0xf;
        let byte = bytes[(nibble & 7) as usize];
        if nibble & 8 == 0 { byte } else { (byte as i8 >> 7) as u8 }
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: u32 = 0x83_02_81_00;
    const B: u32 = 0x07_86_05_84;

    #[test]
    fn nibbles_pick_bytes() {
        assert_eq!(prmt(A, B, 0x3210, Mode::Default), A);
        assert_eq!(prmt(A, B, 0x7654, Mode::Default), B);
        assert_eq!(prmt(A, B, 0x0007, Mode::Default), 0x0000_0007);
        assert_eq!(prmt(A, B, 0xffff_0123, Mode::Default), 0x0081_0283);
    }

    #[test]
    fn the_high_bit_of_a_nibble_replicates_the_sign() {
        assert_eq!(prmt(A, B, 0xba98, Mode::Default), 0xff00_ff00);
        assert_eq!(prmt(A, B, 0xfedc, Mode::Default), 0x00ff_00ff);
    }

    #[test]
    fn modes_follow_their_tables() {
        let row = |mode| [0, 1, 2, 7].map(|selector| prmt(A, B, selector, mode));
        assert_eq!(row(Mode::Forward), [0x8302_8100, 0x8483_0281, 0x0584_8302, 0x8605_8483]);
        assert_eq!(row(Mode::Backward), [0x0586_0700, 0x8607_0081, 0x0700_8102, 0x0081_0283]);
        assert_eq!(row(Mode::Replicate8), [0, 0x8181_8181, 0x0202_0202, 0x8383_8383]);
        assert_eq!(row(Mode::ClampLeft), [0x8302_8100, 0x8302_8181, 0x8302_0202, 0x8383_8383]);
        assert_eq!(row(Mode::ClampRight), [0, 0x8181_8100, 0x0202_8100, 0x8302_8100]);
        assert_eq!(row(Mode::Replicate16), [0x8100_8100, 0x8302_8302, 0x8100_8100, 0x8302_8302]);
    }

    #[test]
    fn names() {
        let words = ["f4e", "b4e", "rc8", "ecl", "ecr", "rc16"];
        assert!(words.iter().all(|word| Mode::parse(word).is_some()));
        assert_eq!(Mode::parse("rc4"), None);
    }
}
