//! Reference of `select`: loops from the left.

/// The elements of which the predicate holds, and the others, each in their order.
pub fn split<T: Copy>(x: &[T], keeps: impl Fn(usize) -> bool) -> (Vec<T>, Vec<T>) {
    let (mut kept, mut others) = (Vec::new(), Vec::new());
    for (i, &x) in x.iter().enumerate() {
        if keeps(i) { kept.push(x) } else { others.push(x) }
    }
    (kept, others)
}

/// Each run's element and length.
pub fn runs<T: Copy + PartialEq>(x: &[T]) -> Vec<(T, u32)> {
    let mut runs: Vec<(T, u32)> = Vec::new();
    for &x in x {
        match runs.last_mut() {
            Some((value, length)) if *value == x => *length += 1,
            _ => runs.push((x, 1)),
        }
    }
    runs
}
