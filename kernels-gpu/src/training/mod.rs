//! What training takes beside products, norms and attention: the loss, the optimiser, and rows of a table.

pub mod loss;
pub mod optimizer;
pub mod table;

pub use loss::cross_entropy;
pub use optimizer::{AdamStep, adam};
pub use table::{embedding, embedding_gradient};
