//! Why a benchmark could not be run.

use std::io;

use thiserror::Error;

use ferrowarp::error::GpuError;

/// Why a benchmark could not be run.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum BenchError {
    /// The device or its driver.
    #[error(transparent)]
    Gpu(#[from] GpuError),

    /// No case is left.
    #[error("no case has {} in its name; see --list", filters.join(" or "))]
    NothingToRun {
        /// What was asked for.
        filters: Vec<String>,
    },

    /// A picture could not be drawn.
    #[error("cannot draw the picture: {reason}")]
    Picture {
        /// What the drawing says.
        reason: String,
    },

    /// A place for the peers' programs could not be made.
    #[error("cannot make a folder for the peers' programs: {0}")]
    Folder(#[source] io::Error),
}

impl BenchError {
    pub(super) fn picture(error: impl std::fmt::Display) -> Self {
        Self::Picture { reason: error.to_string() }
    }
}
