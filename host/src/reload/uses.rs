//! Which streams may still run a module's kernels.

use std::sync::{Arc, Mutex};

use crate::event::Event;
use crate::lock::lock;
use crate::stream::StreamInner;

/// The streams that a module was given to. Noted when a stream is made, so a launch costs nothing.
#[derive(Debug, Default)]
pub(crate) struct Uses(Mutex<Vec<Use>>);

#[derive(Debug)]
enum Use {
    /// Launches may come.
    Stream(Arc<StreamInner>),
    /// No launch comes any more; the last one is before this mark.
    Mark(Event),
}

impl Uses {
    /// Notes a stream; those that everyone else has let go of become marks.
    pub(crate) fn add(&self, stream: &Arc<StreamInner>) {
        let mut uses = lock(&self.0);
        let own = |one: &Use| matches!(one, Use::Stream(known) if Arc::ptr_eq(known, stream));
        if uses.iter().any(own) {
            return;
        }
        uses.retain_mut(|one| !one.is_over(|stream| Arc::strong_count(stream) == 1));
        uses.push(Use::Stream(stream.clone()));
    }

    /// Whether all that was launched is done. Only for a module that nobody can launch from.
    pub(crate) fn are_over(&self) -> bool {
        let mut uses = lock(&self.0);
        uses.retain_mut(|one| !one.is_over(|_| true));
        uses.is_empty()
    }
}

impl Use {
    /// Whether it has come to its end; `ended` says which streams get no more launches.
    fn is_over(&mut self, ended: impl Fn(&Arc<StreamInner>) -> bool) -> bool {
        if let Self::Stream(stream) = self
            && ended(stream)
        {
            match stream.end_unless_captured() {
                Ok(Some(mark)) => *self = Self::Mark(mark),
                Ok(None) => return false,
                // On a lost device nothing runs.
                Err(_) => return true,
            }
        }
        match self {
            Self::Mark(mark) => mark.query().unwrap_or(true),
            Self::Stream(_) => false,
        }
    }
}
