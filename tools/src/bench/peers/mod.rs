//! The peers: programs of our own around other people's libraries, spoken to in lines of JSON.
//!
//! | request | reply |
//! |---|---|
//! | `{"do": "list"}` | `{"cases": [["CUB", "reduce/sum/f32"], …], "versions": ["CUB 3.0.1"]}` |
//! | `{"do": "prepare", "peer": …, "case": …, "shape": [n], "copies": 3}` | `{}` |
//! | `{"do": "run", "peer": …, "rounds": 5, "runs": 20}` | `{"ms": [one a round, for one run]}` |
//! | `{"do": "check", "peer": …}` | `{}` |
//! | `{"do": "release"}` | `{}`: all memory is given back |
//!
//! Any reply can be `{"error": "in words"}` instead, and `{"wrong": "in words"}` says that a peer's own result is.

mod build;
mod error;
mod process;
mod sources;

pub use build::{Workshop, nvcc};
pub use error::PeerError;
pub use process::{Listing, Process};
pub use sources::{Language, SOURCES, Source};
