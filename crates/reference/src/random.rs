//! Reference of the random numbers: Philox4x32-10 (J. Salmon and others, 2011) word by word.

/// Word `i` of sequence `sequence` of `seed`.
pub fn word(seed: u64, sequence: u64, i: u64) -> u32 {
    let halves = |x: u64| [x as u32, (x >> 32) as u32];
    let ([c0, c1], [c2, c3]) = (halves(i / 4), halves(sequence));
    let (mut c, mut key) = ([c0, c1, c2, c3], halves(seed));
    for _ in 0..10 {
        let a = 0xd251_1f53_u64 * u64::from(c[0]);
        let b = 0xcd9e_8d57_u64 * u64::from(c[2]);
        let high = [(b >> 32) as u32, (a >> 32) as u32];
        c = [high[0] ^ c[1] ^ key[0], b as u32, high[1] ^ c[3] ^ key[1], a as u32];
        key = [key[0].wrapping_add(0x9e37_79b9), key[1].wrapping_add(0xbb67_ae85)];
    }
    c[(i % 4) as usize]
}

/// Words `2 i` and `2 i + 1` as one, the lower half first.
pub fn word_64(seed: u64, sequence: u64, i: u64) -> u64 {
    let [low, high] = [0, 1].map(|k| u64::from(word(seed, sequence, 2 * i + k)));
    high << 32 | low
}

/// Uniform number `i`: 24 bits of a word.
pub fn uniform_f32(seed: u64, i: u64) -> f32 {
    (f64::from(word(seed, 0, i) / 256) / 16_777_216.0) as f32
}

/// Uniform number `i`: 53 bits of two words.
pub fn uniform_f64(seed: u64, i: u64) -> f64 {
    (word_64(seed, 0, i) >> 11) as f64 / 9_007_199_254_740_992.0
}

/// Normal number `i` of Box and Muller, and the radius of its pair.
pub fn normal(seed: u64, i: u64) -> (f64, f64) {
    let [first, second] = [0, 1].map(|k| f64::from(word(seed, 0, i / 2 * 2 + k)));
    let unit = 2.0_f64.powi(-32);
    let radius = (-2.0 * ((first + 0.5) * unit).ln()).sqrt();
    let (sin, cos) = (second * unit * std::f64::consts::TAU).sin_cos();
    (radius * if i.is_multiple_of(2) { cos } else { sin }, radius)
}

/// Integer number `i` below `bound`, by D. Lemire's method; thrown words are followed by those of sequence `1 + i`.
pub fn below(seed: u64, i: u64, bound: u32) -> u32 {
    let unfair = (1_u64 << 32) % u64::from(bound);
    let words = std::iter::once(word(seed, 0, i)).chain((0..).map(|k| word(seed, 1 + i, k)));
    let mut products = words.map(|word| u64::from(word) * u64::from(bound));
    let fair = products.find(|product| product % (1 << 32) >= unfair);
    (fair.expect("the words do not end") >> 32) as u32
}

/// A random integer below `bound`, of 64 bits.
pub fn below_64(seed: u64, i: u64, bound: u64) -> u64 {
    let unfair = (1_u128 << 64) % u128::from(bound);
    let words = std::iter::once(word_64(seed, 0, i)).chain((0..).map(|k| word_64(seed, 1 + i, k)));
    let mut products = words.map(|word| u128::from(word) * u128::from(bound));
    let fair = products.find(|product| product % (1 << 64) >= unfair);
    (fair.expect("the words do not end") >> 64) as u64
}
