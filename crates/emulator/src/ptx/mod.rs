//! PTX text ⇄ syntax tree.
//!
//! [`parse`] reads a whole module; [`ast::Module`]'s `Display` writes one.
pub mod ast;
pub mod error;
mod lexer;
mod link;
mod number;
mod parser;
mod print;

pub use error::ParseError;
pub use link::{LinkError, link};
pub use parser::parse;
