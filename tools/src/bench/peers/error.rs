//! Why a peer has no time to show.

use std::io;

use thiserror::Error;

/// Why a peer has no time to show.
#[derive(Clone, Debug, Error)]
#[non_exhaustive]
pub enum PeerError {
    /// A tool is not on the machine.
    #[error("{0} is not on this machine")]
    Missing(&'static str),

    /// The compiler refused it.
    #[error("nvcc failed: {0}")]
    Compile(String),

    /// It could not be started, or spoken to.
    #[error("it cannot be run: {0}")]
    Io(String),

    /// It did not answer in time, and was ended.
    #[error("it gave no answer within {0} s and was ended")]
    Hung(u64),

    /// It ended by itself.
    #[error("it ended: {0}")]
    Ended(String),

    /// It says what hinders it.
    #[error("{0}")]
    Refused(String),

    /// It says that its own result is wrong.
    #[error("its own result is wrong: {0}")]
    Wrong(String),

    /// Its reply makes no sense.
    #[error("its reply makes no sense: {0}")]
    Garbled(String),
}

impl From<io::Error> for PeerError {
    fn from(error: io::Error) -> Self {
        Self::Io(error.to_string())
    }
}
