//! A progress bar, shown only on a terminal and for operations that take long.

use std::io::Read;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Work that takes less shows no bar.
const PATIENCE: Duration = Duration::from_secs(1);
/// How often the bar is drawn.
const TICK: Duration = Duration::from_millis(100);

/// A bar on standard error, from one second after its start until it is dropped. Nothing is shown
/// where standard error is not a terminal.
#[derive(Debug)]
pub struct Progress {
    bar: ProgressBar,
    /// Dropped with the bar, which ends the thread that waits to show it.
    _done: Sender<()>,
}

impl Progress {
    /// Work of `len` steps.
    #[must_use]
    pub fn steps(what: impl Into<String>, len: usize) -> Self {
        let style = "{msg} [{bar:30}] {pos}/{len} {elapsed}";
        Self::new(ProgressBar::with_draw_target(Some(len as u64), hidden()), style, what.into())
    }

    /// Reading `len` bytes.
    #[must_use]
    pub fn bytes(what: impl Into<String>, len: u64) -> Self {
        let style = "{msg} [{bar:30}] {bytes}/{total_bytes} {elapsed}";
        Self::new(ProgressBar::with_draw_target(Some(len), hidden()), style, what.into())
    }

    /// Work of unknown length.
    #[must_use]
    pub fn unknown(what: impl Into<String>) -> Self {
        let style = "{spinner} {msg} {elapsed}";
        Self::new(ProgressBar::with_draw_target(None, hidden()), style, what.into())
    }

    fn new(bar: ProgressBar, style: &str, what: String) -> Self {
        let style = ProgressStyle::with_template(style).expect("the templates above are valid");
        let bar = bar.with_style(style).with_message(what);
        let (done, wait) = channel();
        let shown = bar.clone();
        thread::spawn(move || show_later(&shown, &wait));
        Self { bar, _done: done }
    }

    /// Says what is being done now.
    pub fn set_message(&self, what: impl Into<String>) {
        self.bar.set_message(what.into());
    }

    /// One step more is done.
    pub fn advance(&self) {
        self.bar.inc(1);
    }

    /// A reader that moves the bar by what is read.
    pub fn reading<R: Read>(&self, reader: R) -> impl Read + use<R> {
        self.bar.wrap_read(reader)
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

fn hidden() -> ProgressDrawTarget {
    ProgressDrawTarget::hidden()
}

/// Shows `bar` unless the work is done before.
fn show_later(bar: &ProgressBar, done: &Receiver<()>) {
    if done.recv_timeout(PATIENCE) == Err(RecvTimeoutError::Timeout) {
        bar.set_draw_target(ProgressDrawTarget::stderr());
        bar.enable_steady_tick(TICK);
    }
}
