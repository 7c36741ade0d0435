//! The thread of a hot module: it sees edits, builds, loads and unloads.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use cuda_builder::{CudaBuilderError, Scope, Snapshot};

use super::ReloadEvent;
use super::builds::{Builds, Ended};
use super::files::{Files, PtxFile, Sign};
use super::shared::Shared;
use crate::module::{Text, not_stopped_by_captures};

/// Messages to the thread.
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
    Ptx(PtxFile),
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
    /// The text of the file, where it was read to see whether it is whole.
    pub(super) whole: Option<Text>,
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

/// How long there must be no further event before an edit counts as complete that does not say so itself.
pub(super) const QUIET: Duration = Duration::from_millis(10);
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
            let sign = match &job {
                Ok(Job::Files(event)) => self.sign(event),
                // Of an edit that was complete once: there may be no further close.
                Ok(Job::Changed) => Some(Sign::Closed),
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
        let (edit, mut was_closed) = (Instant::now(), false);
        while edit.elapsed() < LONGEST {
            let quiet = match sign {
                // Its close is an event too. After one there may be none: somebody sets the file's time.
                Sign::Written if !was_closed => return None,
                Sign::Written => LONGEST,
                Sign::Changed => QUIET,
                // Its writer may open it again.
                Sign::Closed if !self.is_whole() => QUIET,
                // What came until now is one edit with it.
                Sign::Closed | Sign::Replaced => Duration::ZERO,
            };
            was_closed |= matches!(sign, Sign::Closed | Sign::Replaced);
            match self.next_sign(Instant::now() + quiet) {
                Ok(Some(next)) => (sign, self.whole) = (next, None),
                Ok(None) => break,
                Err(stop) => return Some(stop),
            }
        }
        Some(Next::Reload(edit))
    }

    /// The next sign of an edit, if there is one before `end`; other jobs are left for later.
    fn next_sign(&mut self, end: Instant) -> Result<Option<Sign>, Next> {
        loop {
            match self.jobs.recv_timeout(end.saturating_duration_since(Instant::now())) {
                Ok(Job::Files(event)) => {
                    if let Some(sign) = self.sign(&event) {
                        return Ok(Some(sign));
                    }
                }
                Ok(Job::Stop) | Err(RecvTimeoutError::Disconnected) => return Err(Next::Stop),
                Ok(other) => self.backlog.push_back(other),
                Err(RecvTimeoutError::Timeout) => return Ok(None),
            }
        }
    }

    /// Whether the file's text says itself that nothing of it is missing. Then it need not be read again.
    fn is_whole(&mut self) -> bool {
        let Source::Ptx(file) = &mut self.source else { return false };
        let Ok(Some(text)) = read(file, &self.shared) else { return false };
        match text.is_whole() {
            true => self.whole = Some(text),
            false => file.recycle(text),
        }
        self.whole.is_some()
    }

    fn sign(&self, event: &notify::Event) -> Option<Sign> {
        self.files.as_ref()?.sign(event)
    }

    fn reload(&mut self, edit: Instant) {
        self.files.iter_mut().for_each(Files::refresh);
        if let Source::Crate(_) = self.source {
            return self.rebuild(edit);
        }
        let text = self.read();
        let Source::Ptx(file) = &mut self.source else { return };
        match text {
            Ok(Some(text)) => {
                self.shared.reload(&text, edit);
                file.recycle(text);
            }
            Ok(None) => {}
            Err(error) => {
                let (path, error) = (file.path().to_owned(), Arc::new(error));
                self.shared.emit(ReloadEvent::Unreadable { path, error });
            }
        }
    }

    /// The text of the file that is watched, if there is one and something is in it.
    fn read(&mut self) -> io::Result<Option<Text>> {
        let Source::Ptx(file) = &mut self.source else { return Ok(None) };
        if let Some(text) = self.whole.take() {
            return Ok(Some(text));
        }
        let text = read(file, &self.shared)?;
        if text.is_none() {
            self.backlog.push_back(Job::Changed);
        }
        // One that is empty is written right now; its end is an event of its own.
        Ok(text.filter(|text| !text.ptx().trim().is_empty()))
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

/// Reads a PTX file. The driver begins with what is new in it before most of it is read.
fn read(file: &mut PtxFile, shared: &Shared) -> io::Result<Option<Text>> {
    let ahead = shared.begin(file);
    file.read(ahead)
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
        false => shared.reload(&Text::new(built.ptx.clone()), edit),
    }
}

fn failed(shared: &Shared, error: CudaBuilderError) {
    if !matches!(error, CudaBuilderError::Cancelled) {
        shared.emit(ReloadEvent::BuildFailed { error: Arc::new(error) });
    }
}
