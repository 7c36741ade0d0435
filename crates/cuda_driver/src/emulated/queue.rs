//! Streams: each runs its work in order on a thread of its own.
//!
//! Work is numbered within its stream; a number is a *ticket*. Work may have to wait for tickets
//! of other streams, all of them given out before its own: so nothing waits in a circle. An event
//! is a ticket that was remembered, and so is what the null stream means: its work waits for all
//! earlier work of the blocking streams, and theirs for all its earlier work.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, PoisonError, Weak};
use std::thread;

use super::current::Context;
use super::gpu::Gpu;
use super::lock;
use crate::codes::{CUDA_ERROR_LAUNCH_FAILED, CUDA_ERROR_OPERATING_SYSTEM};
use crate::detail::{Answer, Failure};
use crate::front::panicked;

/// How far a stream has come.
#[derive(Default)]
pub(super) struct Progress {
    submitted: AtomicU64,
    completed: Mutex<u64>,
    advanced: Condvar,
}

impl Progress {
    fn reached(&self, ticket: u64) -> bool {
        *lock(&self.completed) >= ticket
    }

    fn wait(&self, ticket: u64) {
        let completed = lock(&self.completed);
        drop(
            self.advanced
                .wait_while(completed, |completed| *completed < ticket)
                .unwrap_or_else(PoisonError::into_inner),
        );
    }

    fn advance(&self) {
        *lock(&self.completed) += 1;
        self.advanced.notify_all();
    }

    fn last(self: &Arc<Self>) -> Point {
        Point { progress: self.clone(), ticket: self.submitted.load(Ordering::Acquire) }
    }
}

/// A place in a stream's work: reached when all work up to it is done.
#[derive(Clone)]
pub(super) struct Point {
    progress: Arc<Progress>,
    ticket: u64,
}

impl Point {
    /// Whether the work is done.
    pub(super) fn reached(&self) -> bool {
        self.progress.reached(self.ticket)
    }

    /// Blocks until the work is done.
    pub(super) fn wait(&self) {
        self.progress.wait(self.ticket);
    }
}

type Action = Box<dyn FnOnce() -> Answer + Send>;

/// Work for a stream.
pub(super) struct Work {
    waits: Vec<Point>,
    action: Action,
    even_if_lost: bool,
}

impl Work {
    /// Work that is left out once the device is lost.
    pub(super) fn new(action: impl FnOnce() -> Answer + Send + 'static) -> Self {
        Self { waits: Vec::new(), action: Box::new(action), even_if_lost: false }
    }

    /// Runs also when the device is lost.
    pub(super) fn even_if_lost(self) -> Self {
        Self { even_if_lost: true, ..self }
    }

    /// Runs after `point`.
    pub(super) fn after(mut self, point: Point) -> Self {
        self.waits.push(point);
        self
    }

    fn run(self, gpu: &Gpu) {
        for point in &self.waits {
            point.wait();
        }
        if gpu.fault().is_some() && !self.even_if_lost {
            return;
        }
        match catch_unwind(AssertUnwindSafe(|| (self.action)())) {
            Ok(Ok(())) => {}
            Ok(Err(fault)) => gpu.lose(fault),
            Err(panic) => {
                gpu.lose(Failure::new(CUDA_ERROR_LAUNCH_FAILED, panicked(&*panic)));
            }
        }
    }
}

/// What a stream's thread is handed: work, and the context, which lives as long as its work.
type Order = (Arc<Context>, Work);

/// A line of work with its thread, which starts with the first work and ends with the line.
pub(super) struct Line {
    progress: Arc<Progress>,
    sender: Mutex<Option<Sender<Order>>>,
    /// Whether it keeps order with the null stream.
    blocking: bool,
}

impl Line {
    fn new(blocking: bool) -> Self {
        Self { progress: Arc::default(), sender: Mutex::new(None), blocking }
    }

    fn send(&self, context: &Arc<Context>, work: Work) -> Answer<Point> {
        let mut sender = lock(&self.sender);
        if sender.is_none() {
            *sender = Some(start(self.progress.clone())?);
        }
        if let Some(sender) = &*sender {
            self.progress.submitted.fetch_add(1, Ordering::AcqRel);
            // The thread ends only when the sender is dropped.
            let _ = sender.send((context.clone(), work));
        }
        Ok(self.progress.last())
    }
}

fn start(progress: Arc<Progress>) -> Answer<Sender<Order>> {
    let (sender, receiver) = channel();
    thread::Builder::new()
        .name("emulated stream".to_owned())
        .spawn(move || work_off(&receiver, &progress))
        .map_err(|error| Failure::new(CUDA_ERROR_OPERATING_SYSTEM, error.to_string()))?;
    Ok(sender)
}

fn work_off(work: &Receiver<Order>, progress: &Progress) {
    for (context, work) in work {
        work.run(context.gpu);
        progress.advance();
    }
}

/// All streams of a context.
pub(super) struct Queue {
    null: Arc<Line>,
    /// The others that may have work. Locked while work is handed in, which gives all of a
    /// context's work one order.
    others: Mutex<Vec<Other>>,
    /// What all later work waits for.
    held: Mutex<Vec<Point>>,
}

struct Other {
    progress: Weak<Progress>,
    blocking: bool,
}

impl Queue {
    pub(super) fn new() -> Self {
        Self { null: Arc::new(Line::new(false)), others: Mutex::default(), held: Mutex::default() }
    }

    /// The null stream.
    pub(super) fn null(&self) -> &Arc<Line> {
        &self.null
    }

    /// Makes another stream.
    pub(super) fn open(&self, blocking: bool) -> Arc<Line> {
        let line = Arc::new(Line::new(blocking));
        let mut others = lock(&self.others);
        others.retain(|other| other.progress.strong_count() > 0);
        others.push(Other { progress: Arc::downgrade(&line.progress), blocking });
        line
    }

    /// Hands in work of this queue's context for one of its streams.
    pub(super) fn submit(
        &self,
        context: &Arc<Context>,
        line: &Line,
        mut work: Work,
    ) -> Answer<Point> {
        let others = lock(&self.others);
        if std::ptr::eq(line, &*self.null) {
            work.waits.extend(blocking(&others));
        } else if line.blocking {
            work.waits.push(self.null.progress.last());
        }
        let mut held = lock(&self.held);
        held.retain(|point| !point.reached());
        work.waits.extend(held.iter().cloned());
        drop(held);
        work.waits.retain(|point| !point.reached());
        line.send(context, work)
    }

    /// What a caller waits for who waits for `line`: for the null stream the blocking ones too.
    pub(super) fn tail(&self, line: &Line) -> Vec<Point> {
        let mut points = vec![line.progress.last()];
        if std::ptr::eq(line, &*self.null) {
            points.extend(blocking(&lock(&self.others)));
        }
        points
    }

    /// Where all streams stand now.
    pub(super) fn all(&self) -> Vec<Point> {
        let others = lock(&self.others);
        let others = others.iter().filter_map(Other::last);
        others.chain([self.null.progress.last()]).collect()
    }

    /// Blocks until all work handed in so far is done.
    pub(super) fn wait_all(&self) {
        self.all().iter().for_each(Point::wait);
    }

    /// Makes all work that is handed in from here on wait for a point.
    pub(super) fn hold(&self, point: Option<Point>) {
        lock(&self.held).extend(point);
    }
}

impl Other {
    fn last(&self) -> Option<Point> {
        self.progress.upgrade().map(|progress| progress.last())
    }
}

fn blocking(others: &[Other]) -> impl Iterator<Item = Point> + '_ {
    others.iter().filter(|other| other.blocking).filter_map(Other::last)
}
