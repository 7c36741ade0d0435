//! The one thread that calls the program's functions, whatever stream comes to them.
//!
//! A real driver has one such thread in a process: a function that waits keeps those of all other
//! streams waiting. And it has room for so many that are pending: who hands in one more waits until
//! some are over.

use std::sync::mpsc::{Sender, channel, sync_channel};
use std::sync::{Condvar, Mutex, PoisonError};
use std::thread;

use super::lock;
use crate::codes::CUDA_ERROR_OPERATING_SYSTEM;
use crate::detail::{Answer, Failure};

/// Functions that are pending at most. An H200's driver blocks somewhere between 20 and 101.
const MOST: usize = 64;

type Job = Box<dyn FnOnce() + Send>;

/// Runs `function` there, and waits for its end.
pub(super) fn run(function: impl FnOnce() + Send + 'static) -> Answer {
    let (done, end) = sync_channel::<()>(0);
    let job: Job = Box::new(move || {
        function();
        drop(done);
    });
    sender()?.send(job).map_err(|error| failure(&error))?;
    // Nothing is sent: the end of the sender is the sign.
    let _ = end.recv();
    Ok(())
}

/// The way to the thread, which starts at the first function and stays.
fn sender() -> Answer<Sender<Job>> {
    static THREAD: Mutex<Option<Sender<Job>>> = Mutex::new(None);
    let mut known = lock(&THREAD);
    if let Some(sender) = &*known {
        return Ok(sender.clone());
    }
    let (sender, jobs) = channel::<Job>();
    thread::Builder::new()
        .name("emulated host functions".to_owned())
        .spawn(move || jobs.into_iter().for_each(|job| job()))
        .map_err(|error| failure(&error))?;
    Ok(known.insert(sender).clone())
}

fn failure(error: &dyn std::error::Error) -> Failure {
    Failure::new(CUDA_ERROR_OPERATING_SYSTEM, error.to_string())
}

static PENDING: Mutex<usize> = Mutex::new(0);
static FEWER: Condvar = Condvar::new();

/// The place of a function that is pending; dropped when it has run, or never will.
pub(super) struct Place(());

impl Place {
    /// A place, once there is one.
    pub(super) fn wait_for() -> Self {
        let pending = lock(&PENDING);
        let pending = FEWER.wait_while(pending, |pending| *pending >= MOST);
        *pending.unwrap_or_else(PoisonError::into_inner) += 1;
        Self(())
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        *lock(&PENDING) -= 1;
        FEWER.notify_all();
    }
}
