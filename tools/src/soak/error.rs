//! What a soak finds wrong.

use std::io;
use std::time::Duration;

use ferrowarp::error::GpuError;
use thiserror::Error;

/// Why a soak failed.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum SoakError {
    /// Work failed that should not.
    #[error(transparent)]
    Gpu(#[from] GpuError),

    /// The device computed something else than the CPU.
    #[error("{what}: value {index} of {len} differs from the CPU's")]
    Wrong {
        /// What was computed.
        what: &'static str,
        /// The index of the first wrong value.
        index: usize,
        /// The number of values.
        len: usize,
    },

    /// More or fewer values than there should be.
    #[error("{what}: {found} values in place of {expected}")]
    WrongLength {
        /// What was computed.
        what: &'static str,
        /// How many came.
        found: usize,
        /// How many should.
        expected: usize,
    },

    /// A fault was planted, and the library did not report it, or not as what it was.
    #[error("a planted fault, {fault}, was reported as: {found}")]
    Unreported {
        /// What was planted.
        fault: &'static str,
        /// What was reported.
        found: String,
    },

    /// Something began and did not end, or the other way round.
    #[error("{begun} {what} began and {ended} ended")]
    Lost {
        /// What it is, in the plural.
        what: &'static str,
        /// How many began.
        begun: u64,
        /// How many ended.
        ended: u64,
    },

    /// Memory is in use while nothing runs.
    #[error("{bytes} bytes of the pool are in use while nothing runs")]
    Leaked {
        /// How many.
        bytes: usize,
    },

    /// The memory of the process or of the device grew.
    #[error(
        "{whose} memory grew by {:.1} MiB since the warm-up; the bound is {:.0} MiB", mib(*grown), mib(*bound)
    )]
    Grew {
        /// The host's or the device's.
        whose: &'static str,
        /// By how many bytes.
        grown: u64,
        /// How many were allowed.
        bound: u64,
    },

    /// No work ended for a long time.
    #[error("no work has ended for {} s; running: {works}", waited.as_secs())]
    Stuck {
        /// How long.
        waited: Duration,
        /// The works that run.
        works: String,
    },

    /// A thread ended by a panic.
    #[error("a thread of the soak panicked: {message}")]
    Panicked {
        /// What the panic says.
        message: String,
    },

    /// A process could not be started, or a file not written.
    #[error("{what}: {source}")]
    System {
        /// What was being done.
        what: &'static str,
        /// What the system said.
        source: io::Error,
    },

    /// A miss, and which work found it.
    #[error("work {number} ({work}) of seed {seed}: {miss}")]
    InWork {
        /// The work's number.
        number: u64,
        /// Its name.
        work: &'static str,
        /// The seed of the run.
        seed: u64,
        /// What was wrong.
        miss: Box<SoakError>,
    },
}

impl SoakError {
    pub(super) fn system(what: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::System { what, source }
    }
}

fn mib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}
