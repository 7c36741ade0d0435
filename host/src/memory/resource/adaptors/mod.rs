//! Resources that stand on another one, of any kind, and watch it, limit it, or make it fail.

mod failure;
mod limit;
mod log;
mod poison;
mod statistics;
mod tracking;

pub use failure::FailureAdaptor;
pub use limit::LimitAdaptor;
pub use log::{AllocationLog, LogAdaptor, LogSyntaxError};
pub use poison::PoisonAdaptor;
pub use statistics::{AllocationStatistics, StatisticsAdaptor};
pub use tracking::{TrackedAllocation, TrackingAdaptor};

/// What adaptors hand on as it is.
macro_rules! hand_on {
    () => {
        type Kind = R::Kind;

        fn trim(&self) -> $crate::GpuResult<()> {
            self.upstream.trim()
        }

        fn open_to(&self, peer: u32) -> $crate::GpuResult<()> {
            self.upstream.open_to(peer)
        }
    };
}
use hand_on;
