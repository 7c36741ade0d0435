//! Reference of `merge`.

use std::cmp::Ordering;

/// The elements of both, taken from the front of `a` unless that of `b` is less.
pub fn merge<T: Copy>(a: &[T], b: &[T], order: impl Fn(&T, &T) -> Ordering) -> Vec<T> {
    let (mut a, mut b) = (a.iter().peekable(), b.iter().peekable());
    let mut next = || match (a.peek(), b.peek()) {
        (Some(x), Some(y)) if order(y, x) == Ordering::Less => b.next().copied(),
        (Some(_), _) => a.next().copied(),
        (None, _) => b.next().copied(),
    };
    std::iter::from_fn(&mut next).collect()
}
