//! Reference of `search`.

use std::cmp::Ordering;

/// For each of `values` how many elements of `x` are less, or not greater if `is_upper`: counted one by one.
pub fn bounds<T>(
    x: &[T],
    values: &[T],
    is_upper: bool,
    order: impl Fn(&T, &T) -> Ordering,
) -> Vec<u64> {
    let counts = |value: &T, element: &T| match order(element, value) {
        Ordering::Less => true,
        Ordering::Equal => is_upper,
        Ordering::Greater => false,
    };
    values.iter().map(|value| x.iter().filter(|x| counts(value, x)).count() as u64).collect()
}
