//! Reference of `scan`: one loop, from the left.

/// What is before each element, joined from `start` on; with the element itself if `inclusive`. A segment
/// begins wherever `is_head` is true.
pub fn segments<T: Copy, J: Copy>(
    x: &[T],
    start: J,
    join: impl Fn(J, T) -> J,
    is_head: impl Fn(usize) -> bool,
    inclusive: bool,
) -> Vec<J> {
    let mut joined = start;
    let one = |(i, &x)| {
        let before = if is_head(i) { start } else { joined };
        joined = join(before, x);
        if inclusive { joined } else { before }
    };
    x.iter().enumerate().map(one).collect()
}

/// [`segments`] with one segment.
pub fn by<T: Copy, J: Copy>(
    x: &[T],
    start: J,
    join: impl Fn(J, T) -> J,
    inclusive: bool,
) -> Vec<J> {
    segments(x, start, join, |_| false, inclusive)
}
