//! PTX text ⇄ syntax tree.
pub mod ast;
