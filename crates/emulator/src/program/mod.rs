//! A module's text decoded once into a compact [`Program`](crate::machine::Program).
//!
//! Each kernel gets a program of its own with every function that it can reach, so shared variables
//! have fixed offsets and a call is a jump. Names are gone: registers are slots, labels are indices
//! into one list of operations, immediates are rows of constants.

mod decode;
mod emitter;
mod layout;
mod lines;
mod operands;
mod scope;
mod stack;

pub use decode::decode;
pub use emitter::{Emitter, ParamHome};
pub use layout::{Linked, Param, Place, element, param_layout, size};
pub use lines::is_library;
pub use operands::Address;
