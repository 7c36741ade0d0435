//! Reference of the reductions: one element after the other, in wider arithmetic.

use std::cmp::Ordering;

/// Sum in f64, with Neumaier's compensation (1974): exact far below an f32's last place.
pub fn sum(x: impl IntoIterator<Item = f64>) -> f64 {
    let (mut sum, mut lost) = (0.0_f64, 0.0_f64);
    for value in x {
        let next = sum + value;
        if next.is_finite() {
            lost +=
                if sum.abs() >= value.abs() { (sum - next) + value } else { (value - next) + sum };
        }
        sum = next;
    }
    sum + lost
}

/// [`sum`] of f32.
pub fn sum_f32(x: &[f32]) -> f64 {
    sum(x.iter().map(|&value| f64::from(value)))
}

/// Sum of magnitudes in f64: the scale of a sum's rounding error.
pub fn sum_of_magnitudes(x: &[f32]) -> f64 {
    let mut sum = 0.0;
    for &value in x {
        sum += f64::from(value).abs();
    }
    sum
}

/// Sum in i128: its low bits are those of a sum that wraps.
pub fn sum_integers<T: Copy + Into<i128>>(x: &[T]) -> i128 {
    let mut sum = 0_i128;
    for &value in x {
        sum += value.into();
    }
    sum
}

/// Sum modulo 2^32, from a sum in i128.
pub fn sum_i32(x: &[i32]) -> i32 {
    sum_integers(x) as i32
}

/// Product modulo 2^64: its low bits are those of a product that wraps at fewer.
pub fn product_integers<T: Copy + Into<i128>>(x: &[T]) -> u64 {
    let mut product = 1_u128;
    for &value in x {
        product = product * (value.into() as u64 as u128) % (1 << 64);
    }
    product as u64
}

/// Position of the first element that comes before all others in `order`; `None` orders nothing with NaN.
pub fn first_place<T: Copy>(x: &[T], order: impl Fn(T, T) -> Option<Ordering>) -> Option<usize> {
    let mut best = None;
    for (i, &value) in x.iter().enumerate() {
        if order(value, value).is_none() {
            continue;
        }
        match best {
            Some(j) if order(value, x[j]) != Some(Ordering::Less) => {}
            _ => best = Some(i),
        }
    }
    best
}
