//! Functions known by a part of their symbols.

use ptx_format::functions::Function;

/// The first function whose symbol contains `part`.
pub(super) fn named<'a>(functions: &[Function<'a>], part: &str) -> Option<&'a str> {
    functions.iter().map(|f| f.name).find(|name| name.contains(part))
}
