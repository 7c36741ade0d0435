//! Reference of `scan`.

/// The sum of all elements before each one, modulo 2³².
pub fn exclusive(x: &[u32]) -> Vec<u32> {
    let mut sum = 0u64;
    let before = |&x: &u32| {
        let before = sum as u32;
        sum += u64::from(x);
        before
    };
    x.iter().map(before).collect()
}
