//! The instructions: one table of forms, from which decoding, dispatch, the checks and the counters come.
//!
//! A row of the table says of an instruction which modifiers and operands it takes, which class the
//! counters add it to, how undefined bits pass through it, its memory order, and how it becomes
//! operations. What a row does not say, it inherits from the head of its family.

pub mod class;
mod form;
mod lower;
pub mod operands;
pub mod order;
mod pattern;
pub mod rule;
mod table;
mod types;
mod unsupported;

pub use class::Class;
pub(crate) use form::Lowering;
pub use form::{Form, Pick, Properties};
pub(crate) use lower::{lower, unknown};
pub use order::{Order, Scope, Semantics};
pub use pattern::Modifiers;
pub use rule::Rule;
pub use table::forms;
pub use types::Type;
