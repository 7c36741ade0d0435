//! Detects writes of the host to pinned memory while an asynchronous copy reads it.
//!
//! Such a copy may read old bytes, new ones, or a mix. If races are checked, the copy is delayed
//! artificially, for a moment or until a thread waits for a stream, and fails if its source changes
//! in the meantime. Earlier tasks of the stream may still write the source. So the first digest is
//! taken at the call only if all streams are idle, else when the copy begins.

use std::time::Duration;

use ::emulator::race::Area;

use super::allocations::find;
use super::faults::freed_meanwhile;
use super::gpu::memory;
use super::{happens_before, queue};
use crate::codes::CUDA_ERROR_LAUNCH_FAILED;
use crate::detail::{DriverError, DriverResult};

/// How long a copy is delayed.
const DELAY: Duration = Duration::from_millis(1);

/// The pinned source of an asynchronous copy.
pub(super) struct PinnedSource {
    area: Area,
    name: String,
    /// The digest of the source at the call, if it could be taken then.
    before: Option<u64>,
}

impl PinnedSource {
    /// The source of the copy `name`, if it is pinned and races are checked.
    pub(super) fn of(area: Option<Area>, name: impl FnOnce() -> String) -> Option<Self> {
        let area = area.filter(|_| happens_before::is_tracked())?;
        find(area.start).filter(|allocation| allocation.kind.is_host())?;
        let before = if happens_before::is_pending() { None } else { digest(&area).ok() };
        Some(Self { area, name: name(), before })
    }

    /// Delays the copy, and fails if the host writes to the source meanwhile.
    pub(super) fn watch(&self) -> DriverResult {
        let before = match self.before {
            Some(before) => before,
            None => digest(&self.area)?,
        };
        queue::artificial_delay(DELAY);
        if digest(&self.area)? == before {
            return Ok(());
        }
        let text = format!(
            "the host wrote to pinned memory while the {} was in progress: wait for the copy before its \
             source is used again",
            self.name
        );
        Err(DriverError::new(CUDA_ERROR_LAUNCH_FAILED, text))
    }
}

fn digest(area: &Area) -> DriverResult<u64> {
    let memory = memory()?;
    let rows = area.each_row();
    rows.into_iter().try_fold(0, |sum, (start, end)| {
        memory.digest(start, end - start, sum).map_err(|error| freed_meanwhile(error.into()))
    })
}
