//! The instructions: one table of forms, from which decoding and dispatch come.

mod form;
mod lower;
mod order;
mod pattern;
mod rule;
mod table;
mod types;
mod unsupported;

pub(crate) use form::Lowering;
pub use form::{Form, Pick};
pub(crate) use lower::{lower, unknown};
pub use order::{Order, Scope, Semantics};
pub use pattern::Modifiers;
pub use rule::Rule;
pub use table::forms;
pub use types::Type;
