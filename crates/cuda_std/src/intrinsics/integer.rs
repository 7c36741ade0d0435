//! Integer functions. Those on unsigned numbers carry them in signed ones of the same bits.

/// Absolute value; that of the least number is itself.
#[inline(always)]
pub fn abs(x: i32) -> i32 {
    x.wrapping_abs()
}

/// Absolute value; that of the least number is itself.
#[inline(always)]
pub fn llabs(x: i64) -> i64 {
    x.wrapping_abs()
}

/// The bits in reverse order.
#[inline(always)]
pub fn brev(x: i32) -> i32 {
    x.reverse_bits()
}

/// The bits in reverse order.
#[inline(always)]
pub fn brevll(x: i64) -> i64 {
    x.reverse_bits()
}

/// Leading zeros.
#[inline(always)]
pub fn clz(x: i32) -> i32 {
    x.leading_zeros() as i32
}

/// Leading zeros.
#[inline(always)]
pub fn clzll(x: i64) -> i32 {
    x.leading_zeros() as i32
}

/// The place of the lowest one bit, counted from 1; 0 for 0.
#[inline(always)]
pub fn ffs(x: i32) -> i32 {
    if x == 0 { 0 } else { x.trailing_zeros() as i32 + 1 }
}

/// The place of the lowest one bit, counted from 1; 0 for 0.
#[inline(always)]
pub fn ffsll(x: i64) -> i32 {
    if x == 0 { 0 } else { x.trailing_zeros() as i32 + 1 }
}

/// One bits.
#[inline(always)]
pub fn popc(x: i32) -> i32 {
    x.count_ones() as i32
}

/// One bits.
#[inline(always)]
pub fn popcll(x: i64) -> i32 {
    x.count_ones() as i32
}

/// The average, rounded down.
#[inline(always)]
pub fn hadd(x: i32, y: i32) -> i32 {
    (x & y).wrapping_add((x ^ y) >> 1)
}

/// The average, rounded up.
#[inline(always)]
pub fn rhadd(x: i32, y: i32) -> i32 {
    (x | y).wrapping_sub((x ^ y) >> 1)
}

/// The unsigned average, rounded down.
#[inline(always)]
pub fn uhadd(x: i32, y: i32) -> i32 {
    (x & y).wrapping_add(((x ^ y) as u32 >> 1) as i32)
}

/// The unsigned average, rounded up.
#[inline(always)]
pub fn urhadd(x: i32, y: i32) -> i32 {
    (x | y).wrapping_sub(((x ^ y) as u32 >> 1) as i32)
}

/// The larger.
#[inline(always)]
pub fn max(x: i32, y: i32) -> i32 {
    Ord::max(x, y)
}

/// The smaller.
#[inline(always)]
pub fn min(x: i32, y: i32) -> i32 {
    Ord::min(x, y)
}

/// The larger, unsigned.
#[inline(always)]
pub fn umax(x: i32, y: i32) -> i32 {
    Ord::max(x as u32, y as u32) as i32
}

/// The smaller, unsigned.
#[inline(always)]
pub fn umin(x: i32, y: i32) -> i32 {
    Ord::min(x as u32, y as u32) as i32
}

/// The larger.
#[inline(always)]
pub fn llmax(x: i64, y: i64) -> i64 {
    Ord::max(x, y)
}

/// The smaller.
#[inline(always)]
pub fn llmin(x: i64, y: i64) -> i64 {
    Ord::min(x, y)
}

/// The larger, unsigned.
#[inline(always)]
pub fn ullmax(x: i64, y: i64) -> i64 {
    Ord::max(x as u64, y as u64) as i64
}

/// The smaller, unsigned.
#[inline(always)]
pub fn ullmin(x: i64, y: i64) -> i64 {
    Ord::min(x as u64, y as u64) as i64
}

/// The low 32 bits of the product of the low 24 bits, signed.
#[inline(always)]
pub fn mul24(x: i32, y: i32) -> i32 {
    (x << 8 >> 8).wrapping_mul(y << 8 >> 8)
}

/// The low 32 bits of the product of the low 24 bits, unsigned.
#[inline(always)]
pub fn umul24(x: i32, y: i32) -> i32 {
    (x & 0xff_ffff).wrapping_mul(y & 0xff_ffff)
}

/// The high half of the product.
#[inline(always)]
pub fn mulhi(x: i32, y: i32) -> i32 {
    ((i64::from(x) * i64::from(y)) >> 32) as i32
}

/// The high half of the unsigned product.
#[inline(always)]
pub fn umulhi(x: i32, y: i32) -> i32 {
    ((u64::from(x as u32) * u64::from(y as u32)) >> 32) as i32
}

/// The high half of the product.
#[inline(always)]
pub fn mul64hi(x: i64, y: i64) -> i64 {
    ((i128::from(x) * i128::from(y)) >> 64) as i64
}

/// The high half of the unsigned product.
#[inline(always)]
pub fn umul64hi(x: i64, y: i64) -> i64 {
    ((u128::from(x as u64) * u128::from(y as u64)) >> 64) as i64
}

macro_rules! three {
    ($($(#[$doc:meta])* $name:ident($x:ident, $y:ident, $z:ident) $ptx:literal = $host:expr;)+) => { $(
        $(#[$doc])*
        #[inline(always)]
        pub fn $name($x: i32, $y: i32, $z: i32) -> i32 {
            #[cfg(target_os = "cuda")]
            {
                let r: i32;
                // SAFETY: arithmetic in registers.
                unsafe {
                    core::arch::asm!(
                        concat!($ptx, " {r}, {x}, {y}, {z};"),
                        r = lateout(reg32) r, x = in(reg32) $x, y = in(reg32) $y, z = in(reg32) $z,
                        options(pure, nomem, nostack, preserves_flags)
                    );
                }
                r
            }
            #[cfg(not(target_os = "cuda"))]
            {
                $host
            }
        }
    )+ };
}

three! {
    /// `|x - y| + z`, the last unsigned.
    sad(x, y, z) "sad.s32" = (x.abs_diff(y) as i32).wrapping_add(z);
    /// `|x - y| + z`, all unsigned.
    usad(x, y, z) "sad.u32" = ((x as u32).abs_diff(y as u32) as i32).wrapping_add(z);
    /// Four bytes of the eight of `x` (0 to 3) and `y` (4 to 7), by the four low nibbles of `z`; a
    /// nibble's top bit spreads the byte's sign over it.
    byte_perm(x, y, z) "prmt.b32" = selected_bytes(x, y, z);
}

#[cfg(not(target_os = "cuda"))]
fn selected_bytes(x: i32, y: i32, selector: i32) -> i32 {
    let bytes = (u64::from(y as u32) << 32 | u64::from(x as u32)).to_le_bytes();
    let byte = |i: usize| {
        let nibble = selector >> (4 * i) & 15;
        let byte = bytes[(nibble & 7) as usize];
        if nibble & 8 == 0 { byte } else { ((byte as i8) >> 7) as u8 }
    };
    i32::from_le_bytes([byte(0), byte(1), byte(2), byte(3)])
}
