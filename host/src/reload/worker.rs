//! The thread of a hot module: it sees edits, builds, loads and unloads.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use cuda_builder::{CudaBuilderError, Scope, Snapshot};

use super::ReloadEvent;
use super::builds::{Builds, Ended};
use super::files::{Files, Sign, read};
use super::shared::Shared;
use crate::module::{Text, not_stopped_by_captures};

/// What the thread is told.
pub(super) enum Job {
    /// Files changed.
    Files(notify::Event),
    /// The file changed while it was read.
    Changed,
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
    /// When an edit began that is not complete.
    pub(super) begun: Option<Instant>,
    /// An edit that waits for the first build.
    pub(super) waiting: Option<Instant>,
}

/// What the thread does next.
enum Next {
    /// An edit that began then is complete, as far as its last sign tells.
    Reload(Instant, Sign),
    Build,
    Built(Box<Ended>),
    Unload,
    Stop,
}

/// How long there must be no further event before an edit counts as complete that does not say so itself.
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
                Next::Reload(edit, sign) => self.reload(edit, sign),
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
            let sign = match &job {
                Ok(Job::Files(event)) => self.sign(event),
                Ok(Job::Changed) => Some(Sign::Changed),
                _ => None,
            };
            if let Some(next) = sign.and_then(|sign| self.settled(sign)) {
                return next;
            }
            match job {
                Ok(Job::Files(_) | Job::Changed) => {}
                Ok(Job::Build) => return Next::Build,
                Ok(Job::Built(ended)) => return Next::Built(ended),
                Ok(Job::Retire) | Err(RecvTimeoutError::Timeout) => return Next::Unload,
                Ok(Job::Stop) | Err(RecvTimeoutError::Disconnected) => return Next::Stop,
            }
        }
    }

    /// Waits until an edit is complete: editors write a file in several steps. Nothing while a writer has it open.
    fn settled(&mut self, mut sign: Sign) -> Option<Next> {
        let begin = Instant::now();
        let edit = *self.begun.get_or_insert(begin);
        while begin.elapsed() < LONGEST {
            let quiet = match sign {
                Sign::Written => return None,
                Sign::Changed => QUIET,
                // What came since then is one edit with it.
                Sign::Closed | Sign::Replaced => Duration::ZERO,
            };
            match self.jobs.recv_timeout(quiet) {
                Ok(Job::Stop) | Err(RecvTimeoutError::Disconnected) => return Some(Next::Stop),
                Ok(Job::Files(event)) => sign = self.sign(&event).unwrap_or(sign),
                Ok(other) => self.backlog.push_back(other),
                Err(RecvTimeoutError::Timeout) => break,
            }
        }
        self.begun = None;
        Some(Next::Reload(edit, sign))
    }

    /// Waits whether a writer opens the file again, or somebody else changes it.
    fn is_touched_again(&mut self) -> bool {
        let end = Instant::now() + QUIET;
        loop {
            let Ok(job) = self.jobs.recv_timeout(end.saturating_duration_since(Instant::now()))
            else {
                return false;
            };
            let is_sign = match &job {
                Job::Files(event) => self.sign(event).is_some(),
                job => matches!(job, Job::Stop),
            };
            self.backlog.push_back(job);
            if is_sign {
                return true;
            }
        }
    }

    fn sign(&self, event: &notify::Event) -> Option<Sign> {
        self.files.as_ref()?.sign(event)
    }

    fn reload(&mut self, edit: Instant, sign: Sign) {
        self.files.iter_mut().for_each(Files::refresh);
        match &self.source {
            Source::Program => {}
            Source::Ptx(path) => match read(path) {
                Ok(Some(text)) => self.load(text, edit, sign),
                Ok(None) => {
                    self.begun = Some(edit);
                    self.backlog.push_back(Job::Changed);
                }
                Err(error) => {
                    let (path, error) = (path.clone(), Arc::new(error));
                    self.shared.emit(ReloadEvent::Unreadable { path, error });
                }
            },
            Source::Crate(_) => self.rebuild(edit),
        }
    }

    /// Puts the text of a file to use.
    fn load(&mut self, text: String, edit: Instant, sign: Sign) {
        // A file that is written right now; its end is an event of its own.
        if text.trim().is_empty() {
            return;
        }
        let text = Text::new(text);
        if sign == Sign::Closed && text.parts().is_none() && self.is_touched_again() {
            self.begun = Some(edit);
            return;
        }
        self.shared.reload(text, edit);
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
            _ => self.reload(edit, Sign::Changed),
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
        false => shared.reload(Text::new(built.ptx.clone()), edit),
    }
}

fn failed(shared: &Shared, error: CudaBuilderError) {
    if !matches!(error, CudaBuilderError::Cancelled) {
        shared.emit(ReloadEvent::BuildFailed { error: Arc::new(error) });
    }
}
