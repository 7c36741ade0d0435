//! Reference of the sums.

/// Sum in f64, with Neumaier's compensation (1974): exact far below an f32's last place.
pub fn sum_f32(x: &[f32]) -> f64 {
    let (mut sum, mut lost) = (0.0_f64, 0.0_f64);
    for &value in x {
        let value = f64::from(value);
        let next = sum + value;
        if next.is_finite() {
            lost +=
                if sum.abs() >= value.abs() { (sum - next) + value } else { (value - next) + sum };
        }
        sum = next;
    }
    sum + lost
}

/// Sum of magnitudes in f64: the scale of a sum's rounding error.
pub fn sum_of_magnitudes(x: &[f32]) -> f64 {
    let mut sum = 0.0;
    for &value in x {
        sum += f64::from(value).abs();
    }
    sum
}

/// Sum modulo 2^32, from a sum in i128.
pub fn sum_i32(x: &[i32]) -> i32 {
    let mut sum = 0_i128;
    for &value in x {
        sum += i128::from(value);
    }
    sum as i32
}
