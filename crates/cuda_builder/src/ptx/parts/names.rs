//! Names in a line of PTX.

/// The words of a line that can be names, each with its offset.
pub(super) fn words(line: &str) -> impl Iterator<Item = (usize, &str)> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '$');
    let pieces = line.split(move |c| !is_name(c)).filter(|word| !word.is_empty());
    pieces.map(|word| (word.as_ptr() as usize - line.as_ptr() as usize, word))
}
