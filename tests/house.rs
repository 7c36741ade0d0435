//! Rules for the source text of the whole workspace, which no compiler checks.

#[path = "house/circles.rs"]
mod circles;
#[path = "house/lengths.rs"]
mod lengths;
#[path = "house/names.rs"]
mod names;
#[path = "house/source.rs"]
mod source;
#[path = "house/words.rs"]
mod words;
