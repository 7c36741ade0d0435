//! Reference of the histogram equalisation.

/// Each pixel's share of the pixels above the darkest level, on 0..=255, in exact integers rounded half up.
/// An image of one level stays as it is.
pub fn equalize(image: &[u8]) -> Vec<u8> {
    let mut sorted = image.to_vec();
    sorted.sort_unstable();
    let at_or_below = |level: u8| sorted.partition_point(|&other| other <= level) as u128;
    let Some(&least) = sorted.first() else { return Vec::new() };
    let darkest = at_or_below(least);
    let range = image.len() as u128 - darkest;
    if range == 0 {
        return image.to_vec();
    }
    let table: Vec<u8> = (0..=255_u8)
        .map(|level| {
            let above = at_or_below(level).saturating_sub(darkest);
            ((2 * above * 255 + range) / (2 * range)) as u8
        })
        .collect();
    image.iter().map(|&level| table[usize::from(level)]).collect()
}
