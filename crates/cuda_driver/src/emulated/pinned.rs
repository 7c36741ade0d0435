//! The host's writes to pinned memory while an asynchronous copy reads it.
//!
//! Such a copy may read old bytes, new ones, or some of each. Where races are checked, the copy takes its
//! time: it waits a moment, or until somebody waits for a stream, and fails if the bytes that it is to
//! read change meanwhile. What came before it in its stream may still write there; so it looks first when
//! the call is made only if no stream has anything to do, and else when its turn comes.

use std::time::Duration;

use ::emulator::race::Area;

use super::allocations::find;
use super::faults::gone;
use super::gpu::memory;
use super::{order, queue};
use crate::codes::CUDA_ERROR_LAUNCH_FAILED;
use crate::detail::{Answer, Failure};

/// How long a copy waits for the host to spoil it.
const PATIENCE: Duration = Duration::from_millis(1);

/// The pinned source of an asynchronous copy.
pub(super) struct PinnedSource {
    area: Area,
    name: String,
    /// What was there when the call was made.
    before: Option<u64>,
}

impl PinnedSource {
    /// The source of the copy `name`, where it is pinned and races are checked.
    pub(super) fn of(area: Option<Area>, name: impl FnOnce() -> String) -> Option<Self> {
        let area = area.filter(|_| order::is_kept())?;
        find(area.start).filter(|block| block.kind.is_host())?;
        let before = if order::is_pending() { None } else { digest(&area).ok() };
        Some(Self { area, name: name(), before })
    }

    /// Waits, and fails where the host writes to the source.
    pub(super) fn watch(&self) -> Answer {
        let before = match self.before {
            Some(before) => before,
            None => digest(&self.area)?,
        };
        queue::dawdle(PATIENCE);
        if digest(&self.area)? == before {
            return Ok(());
        }
        let text = format!(
            "the host wrote to pinned memory while the {} was under way: wait for the copy before its \
             source is used again",
            self.name
        );
        Err(Failure::new(CUDA_ERROR_LAUNCH_FAILED, text))
    }
}

fn digest(area: &Area) -> Answer<u64> {
    let memory = memory()?;
    let rows = area.each_row();
    rows.into_iter().try_fold(0, |sum, (start, end)| {
        memory.digest(start, end - start, sum).map_err(|error| gone(error.into()))
    })
}
