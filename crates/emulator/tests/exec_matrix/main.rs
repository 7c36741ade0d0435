//! Matrix instructions against plain loops over integers, which every format holds exactly.

#[path = "../common/mod.rs"]
mod common;

mod mma;
mod products;
mod refused;
mod warpgroups;
mod wmma;

/// A small number for an element, different enough to tell places apart.
fn small(row: usize, column: usize, salt: usize, signed: bool) -> i64 {
    let own = (row * 7 + column * 3 + salt * 5 + row * column) % 8;
    if signed { own as i64 - 3 } else { own as i64 }
}

/// Bits of a small number in a format.
fn encode(format: &str, value: i64) -> u64 {
    let float = (value as f32).to_bits();
    match format {
        "f64" => (value as f64).to_bits(),
        "f32" | "tf32" => float.into(),
        "bf16" => (float >> 16).into(),
        "f16" if value == 0 => 0,
        "f16" => u64::from(float >> 16 & 0x8000 | ((float >> 13 & 0x3ffff) - (112 << 10)) & 0x7fff),
        "e5m2" => encode("f16", value) >> 8,
        "e4m3" => {
            let half = encode("f16", value);
            if value == 0 { 0 } else { half >> 8 & 0x80 | (((half & 0x7fff) >> 7) - (8 << 3)) }
        }
        _ => value as u64 & (u64::MAX >> (64 - bits(format))),
    }
}

fn bits(format: &str) -> usize {
    match format {
        "b1" => 1,
        "s4" | "u4" => 4,
        "s8" | "u8" | "e4m3" | "e5m2" => 8,
        "f16" | "bf16" => 16,
        "f64" => 64,
        _ => 32,
    }
}

/// The number that bits of a result stand for.
fn decode(format: &str, own: u64) -> i64 {
    match format {
        "f64" => f64::from_bits(own) as i64,
        "f32" => f32::from_bits(own as u32) as i64,
        "f16" if own & 0x7fff == 0 => 0,
        "f16" => {
            let magnitude = ((own as u32 & 0x7fff) + (112 << 10)) << 13;
            f32::from_bits((own as u32 & 0x8000) << 16 | magnitude) as i64
        }
        _ => i64::from(own as u32 as i32),
    }
}
