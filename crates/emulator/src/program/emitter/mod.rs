//! Writes the operations of functions, and keeps what is known while doing so.

mod emit;
mod names;
mod notes;
mod places;
mod rows;

pub use super::scope::Base;
use emit::Fixup;
pub use emit::{Emitter, ParamHome};
