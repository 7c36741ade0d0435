//! The thread of a hot module: it sees edits, builds, loads and unloads.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use cuda_builder::{CudaBuilderError, Scope, Snapshot};

use super::ReloadEvent;
use super::builds::{Builds, Ended};
use super::files::Files;
use super::shared::Shared;
use crate::module::not_stopped_by_captures;

/// What the thread is told.
pub(super) enum Job {
    /// Files changed.
    Files(notify::Event),
    /// The kernel crate is to be built, changed or not.
    Build,
    /// A build of all kernels has ended.
    Built(Box<Ended>),
    /// A version is not kept any more.
    Retire,
    /// The hot module is gone.
    Stop,
}

/// What a module is made from.
pub(super) enum Source {
    /// What the program gives.
    Program,
    /// A PTX file.
    Ptx(PathBuf),
    /// A kernel crate.
    Crate(Box<Builds>),
}

pub(super) struct Worker {
    pub(super) shared: Arc<Shared>,
    pub(super) source: Source,
    pub(super) files: Option<Files>,
    pub(super) jobs: Receiver<Job>,
    /// What came while an edit was waited for.
    pub(super) backlog: VecDeque<Job>,
    /// An edit that waits for the first build.
    pub(super) waiting: Option<Instant>,
}

/// What the thread does next.
enum Next {
    Reload(Instant),
    Build,
    Built(Box<Ended>),
    Unload,
    Stop,
}

/// How long there must be no further event before an edit counts as complete.
const QUIET: Duration = Duration::from_millis(10);
/// How long a stream of events may go on before they count as an edit nevertheless.
const LONGEST: Duration = Duration::from_millis(200);
/// Between two looks at a version whose last launch has not run: doubled each time.
const FIRST_LOOK: Duration = Duration::from_millis(2);
const LAST_LOOK: Duration = Duration::from_millis(250);

impl Worker {
    pub(super) fn run(mut self) {
        not_stopped_by_captures();
        let mut look = None;
        loop {
            match self.next(look) {
                Next::Stop => return,
                Next::Reload(edit) => self.reload(edit),
                Next::Build => self.build(Instant::now()),
                Next::Built(ended) => self.built(*ended),
                Next::Unload => {}
            }
            let wait = look.map_or(FIRST_LOOK, |look: Duration| (look * 2).min(LAST_LOOK));
            look = self.shared.unload().then_some(wait);
        }
    }

    /// Waits for something to do, at most for `look`.
    fn next(&mut self, look: Option<Duration>) -> Next {
        loop {
            let job = match (self.backlog.pop_front(), look) {
                (Some(job), _) => Ok(job),
                (None, Some(look)) => self.jobs.recv_timeout(look),
                (None, None) => self.jobs.recv().map_err(RecvTimeoutError::from),
            };
            match job {
                Ok(Job::Files(event)) if self.concerns(&event) => return self.settled(),
                Ok(Job::Files(_)) => {}
                Ok(Job::Build) => return Next::Build,
                Ok(Job::Built(ended)) => return Next::Built(ended),
                Ok(Job::Retire) | Err(RecvTimeoutError::Timeout) => return Next::Unload,
                Ok(Job::Stop) | Err(RecvTimeoutError::Disconnected) => return Next::Stop,
            }
        }
    }

    /// Waits until an edit is complete: editors write a file in several steps.
    fn settled(&mut self) -> Next {
        let edit = Instant::now();
        while edit.elapsed() < LONGEST {
            match self.jobs.recv_timeout(QUIET) {
                Ok(Job::Stop) | Err(RecvTimeoutError::Disconnected) => return Next::Stop,
                Ok(Job::Files(_)) => {}
                Ok(other) => self.backlog.push_back(other),
                Err(RecvTimeoutError::Timeout) => break,
            }
        }
        Next::Reload(edit)
    }

    fn concerns(&self, event: &notify::Event) -> bool {
        self.files.as_ref().is_some_and(|files| files.concerns(event))
    }

    fn reload(&mut self, edit: Instant) {
        self.files.iter_mut().for_each(Files::refresh);
        match &self.source {
            Source::Program => {}
            Source::Ptx(path) => match std::fs::read_to_string(path) {
                // A file that is written right now; its end is an event of its own.
                Ok(text) if text.trim().is_empty() => {}
                Ok(text) => self.shared.reload(text, edit),
                Err(error) => {
                    let (path, error) = (path.clone(), Arc::new(error));
                    self.shared.emit(ReloadEvent::Unreadable { path, error });
                }
            },
            Source::Crate(_) => self.rebuild(edit),
        }
    }

    /// Builds what an edit concerns and puts it to use; all kernels follow.
    fn rebuild(&mut self, edit: Instant) {
        let Source::Crate(builds) = &mut self.source else { return };
        if builds.is_first_under_way() {
            self.waiting = Some(edit);
            return;
        }
        self.shared.emit(ReloadEvent::Building);
        let (begin, launchers) = (Instant::now(), self.shared.launchers());
        let in_use: Vec<&str> = launchers.iter().map(|kernel| kernel.name).collect();
        match builds.rebuild(&in_use) {
            Ok(None) => builds.begin_whole(edit),
            Ok(Some(snapshot)) => {
                let is_whole = snapshot.scope == Scope::Whole;
                put_to_use(&self.shared, &mut self.files, snapshot, begin.elapsed(), edit, false);
                if !is_whole {
                    builds.begin_whole(edit);
                }
            }
            Err(error) => failed(&self.shared, error),
        }
    }

    /// Begins to build all kernels.
    fn build(&mut self, edit: Instant) {
        match &mut self.source {
            Source::Crate(builds) => {
                self.shared.emit(ReloadEvent::Building);
                builds.begin_whole(edit);
            }
            _ => self.reload(edit),
        }
    }

    /// Puts all kernels to use.
    fn built(&mut self, ended: Ended) {
        let Source::Crate(builds) = &mut self.source else { return };
        let (number, edit, took) = (ended.number(), ended.edit, ended.took);
        match builds.take(number, ended.result) {
            None => return,
            Some(Ok(taken)) => {
                let (snapshot, is_same) = (taken.snapshot, taken.is_same);
                put_to_use(&self.shared, &mut self.files, snapshot, took, edit, is_same);
            }
            Some(Err(error)) => failed(&self.shared, error),
        }
        if let Some(edit) = self.waiting.take() {
            self.rebuild(edit);
        }
    }
}

/// Tells of a build, and loads what it made if that is not in use.
fn put_to_use(
    shared: &Shared,
    files: &mut Option<Files>,
    built: &Snapshot,
    took: Duration,
    edit: Instant,
    is_in_use: bool,
) {
    let (scope, warnings) = (built.scope.clone(), built.messages.clone());
    shared.emit(ReloadEvent::Built { scope, took, warnings });
    files.iter_mut().for_each(|files| files.follow(&built.sources));
    match is_in_use {
        true => shared.emit(ReloadEvent::Unchanged { version: shared.newest().info().clone() }),
        false => shared.reload(built.ptx.clone(), edit),
    }
}

fn failed(shared: &Shared, error: CudaBuilderError) {
    if !matches!(error, CudaBuilderError::Cancelled) {
        shared.emit(ReloadEvent::BuildFailed { error: Arc::new(error) });
    }
}
