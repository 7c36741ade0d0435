//! Collectives as what backends can do.

use crate::element::{ElementKind, Reduction};
use crate::transport::Primitive;

/// Parts of an array, one for each rank, one after another.
#[derive(Clone, Copy)]
pub(super) struct Parts<'a> {
    /// The address of the first.
    pub(super) start: u64,
    /// The elements of each.
    pub(super) lens: &'a [usize],
    /// The size of an element, in bytes.
    pub(super) element: usize,
}

impl Parts<'_> {
    /// The address and the bytes of each part, with its rank.
    fn each(&self) -> impl Iterator<Item = (u32, u64, usize)> {
        let bytes = self.lens.iter().map(|len| len * self.element);
        let mut next = self.start;
        bytes.enumerate().map(move |(rank, bytes)| {
            let address = next;
            next += bytes as u64;
            (rank as u32, address, bytes)
        })
    }
}

/// Sends each part to its rank.
pub(super) fn sends(parts: Parts<'_>) -> Vec<Primitive> {
    let parts = parts.each().filter(|part| part.2 > 0);
    parts.map(|(to, from, bytes)| Primitive::Send { from, bytes, to }).collect()
}

/// Receives each part from its rank.
pub(super) fn receives(parts: Parts<'_>) -> Vec<Primitive> {
    let parts = parts.each().filter(|part| part.2 > 0);
    parts.map(|(from, to, bytes)| Primitive::Receive { to, bytes, from }).collect()
}

/// Gathers parts of different lengths: each rank broadcasts its own.
pub(super) fn all_gather_uneven(from: u64, parts: Parts<'_>) -> Vec<Primitive> {
    let parts = parts.each().filter(|part| part.2 > 0);
    parts.map(|(root, to, bytes)| Primitive::Broadcast { from, to, bytes, root }).collect()
}

/// Reduces parts of different lengths, each to its rank.
pub(super) fn reduce_scatter_uneven(
    parts: Parts<'_>,
    to: u64,
    kind: ElementKind,
    reduction: Reduction,
) -> Vec<Primitive> {
    let parts = parts.each().filter(|part| part.2 > 0);
    let reduce = |(root, from, bytes): (u32, u64, usize)| {
        let len = bytes / kind.size_bytes();
        Primitive::Reduce { from, to, len, kind, reduction, root }
    };
    parts.map(reduce).collect()
}

/// The root's parts, or one rank's: what gathers at, or scatters from, the root.
pub(super) fn gather(
    rank: u32,
    root: u32,
    (from, bytes): (u64, usize),
    parts: Option<Parts<'_>>,
) -> Vec<Primitive> {
    let mut all = match bytes {
        0 => Vec::new(),
        _ => vec![Primitive::Send { from, bytes, to: root }],
    };
    if let Some(parts) = parts.filter(|_| rank == root) {
        all.extend(receives(parts));
    }
    all
}

/// As [`gather`], in the other direction.
pub(super) fn scatter(
    rank: u32,
    root: u32,
    parts: Option<Parts<'_>>,
    (to, bytes): (u64, usize),
) -> Vec<Primitive> {
    let mut all = match parts {
        Some(parts) if rank == root => sends(parts),
        _ => Vec::new(),
    };
    if bytes > 0 {
        all.push(Primitive::Receive { to, bytes, from: root });
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    const PARTS: Parts<'_> = Parts { start: 1000, lens: &[3, 0, 2], element: 4 };

    #[test]
    fn parts_follow_one_another_and_empty_ones_are_left_out() {
        let expected = [
            Primitive::Send { from: 1000, bytes: 12, to: 0 },
            Primitive::Send { from: 1012, bytes: 8, to: 2 },
        ];
        assert_eq!(sends(PARTS), expected);
        assert_eq!(all_gather_uneven(7, PARTS).len(), 2);
    }

    #[test]
    fn the_root_sends_to_itself_too() {
        let own = gather(2, 2, (64, 8), Some(PARTS));
        assert_eq!(own[0], Primitive::Send { from: 64, bytes: 8, to: 2 });
        assert_eq!(own.len(), 3);
        assert_eq!(gather(1, 2, (64, 0), None), []);
        assert_eq!(
            scatter(0, 2, None, (64, 12)),
            [Primitive::Receive { to: 64, bytes: 12, from: 2 }]
        );
    }
}
