//! The thread of a hot folder: it sees files come, and passes the events of those that are known to their threads.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Instant;

use super::files::{Files, Sign, sign};
use super::folder::FolderState;
use super::worker::QUIET;
use crate::module::not_stopped_by_captures;

/// Messages to the thread.
pub(super) enum FolderJob {
    /// Files changed.
    Files(notify::Event),
    /// The hot folder is gone.
    Stop,
}

pub(super) struct Arrivals {
    state: Arc<FolderState>,
    /// Events come as long as it lives.
    _files: Files,
    jobs: Receiver<FolderJob>,
    /// When files that have no module are loaded, unless something happens to them before.
    due: BTreeMap<PathBuf, Instant>,
}

impl Arrivals {
    /// `again` are files that changed while they were read.
    pub(super) fn new(
        state: Arc<FolderState>,
        files: Files,
        jobs: Receiver<FolderJob>,
        again: Vec<PathBuf>,
    ) -> Self {
        let due = again.into_iter().map(|path| (path, Instant::now() + QUIET)).collect();
        Self { state, _files: files, jobs, due }
    }

    pub(super) fn run(mut self) {
        not_stopped_by_captures();
        loop {
            match self.next() {
                Ok(FolderJob::Files(event)) => self.see(&event),
                Err(RecvTimeoutError::Timeout) => {}
                Ok(FolderJob::Stop) | Err(RecvTimeoutError::Disconnected) => return,
            }
            self.load_due();
        }
    }

    /// The next message, if there is one before a file is due.
    fn next(&self) -> Result<FolderJob, RecvTimeoutError> {
        match self.due.values().min() {
            Some(due) => self.jobs.recv_timeout(due.saturating_duration_since(Instant::now())),
            None => self.jobs.recv().map_err(RecvTimeoutError::from),
        }
    }

    fn see(&mut self, event: &notify::Event) {
        let paths = match event.need_rescan() {
            // Events were lost: any file may have changed.
            true => self.state.all_paths(),
            false => event.paths.clone(),
        };
        for path in paths {
            if self.state.is_module(&path) && !self.state.pass_on(&path, event) {
                self.settle(path, event);
            }
        }
    }

    /// Notes when a file that has no module is complete.
    fn settle(&mut self, path: PathBuf, event: &notify::Event) {
        let sign = match event.need_rescan() {
            true => Some(Sign::Changed),
            false => sign(&event.kind),
        };
        match sign {
            None => {}
            // That its writer closes it is an event, too.
            Some(Sign::Written) => {
                self.due.remove(&path);
            }
            Some(Sign::Replaced) => {
                self.due.insert(path, Instant::now());
            }
            // Its writer may open it again.
            Some(Sign::Changed | Sign::Closed) => {
                self.due.insert(path, Instant::now() + QUIET);
            }
        }
    }

    fn load_due(&mut self) {
        let now = Instant::now();
        let due: Vec<PathBuf> =
            self.due.iter().filter(|(_, due)| **due <= now).map(|(path, _)| path.clone()).collect();
        for path in due {
            self.due.remove(&path);
            if !self.state.load(&path) {
                self.due.insert(path, Instant::now() + QUIET);
            }
        }
    }
}
