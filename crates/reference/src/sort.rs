//! Reference of `sort`.

use std::cmp::Ordering;

/// The places of the keys in order, those of equal ones ascending.
pub fn places<K>(keys: &[K], order: impl Fn(&K, &K) -> Ordering, descending: bool) -> Vec<usize> {
    let mut places: Vec<usize> = (0..keys.len()).collect();
    places.sort_by(|&a, &b| {
        let ordering = order(&keys[a], &keys[b]);
        if descending { ordering.reverse() } else { ordering }
    });
    places
}
