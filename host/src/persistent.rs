//! Which persistent kernels run on a device.

use std::sync::{Arc, Mutex, Weak};

use crate::context::{Context, ContextState, Slot};
use crate::lock::lock;
use crate::stream::StreamInner;

/// The persistent kernels of a context, as one of its [`Gpu`](crate::Gpu)s has them.
#[derive(Debug)]
pub(crate) struct PersistentKernels(Arc<Shared>);

/// What all `Gpu`s of a driver's context share.
#[derive(Debug, Default)]
struct Shared {
    streams: Mutex<Vec<Weak<StreamInner>>>,
    /// One for each `Gpu`: all put off what would wait for the kernels of one.
    contexts: Mutex<Vec<Weak<Context>>>,
}

/// Those of all contexts, by the driver's handles.
static ALL: Mutex<Vec<(usize, Weak<Shared>)>> = Mutex::new(Vec::new());

impl Shared {
    fn of_handle(context: &Context) -> Arc<Self> {
        let mut all = lock(&ALL);
        all.retain(|(_, own)| own.strong_count() > 0);
        let known = all.iter().find(|(own, _)| *own == context.raw().addr());
        known.and_then(|(_, own)| own.upgrade()).unwrap_or_else(|| {
            let own = Arc::default();
            all.push((context.raw().addr(), Arc::downgrade(&own)));
            own
        })
    }
}

impl PersistentKernels {
    /// Those of `context`.
    pub(crate) fn of(context: &Context) -> &Self {
        context.state(Slot::PersistentKernels, || {
            let shared = Shared::of_handle(context);
            let mut contexts = lock(&shared.contexts);
            contexts.retain(|own| own.strong_count() > 0);
            contexts.push(context.weak().clone());
            drop(contexts);
            Self(shared)
        })
    }

    /// The contexts that live.
    pub(crate) fn contexts(&self) -> Vec<Arc<Context>> {
        let contexts = lock(&self.0.contexts).clone();
        contexts.iter().filter_map(Weak::upgrade).collect()
    }

    /// Counts the kernels of `stream` from now on.
    pub(crate) fn add(&self, stream: &Arc<StreamInner>) {
        let mut streams = lock(&self.0.streams);
        streams.retain(|own| own.strong_count() > 0);
        streams.push(Arc::downgrade(stream));
    }

    /// How many run.
    pub(crate) fn running(&self) -> usize {
        let streams = lock(&self.0.streams).clone();
        streams.iter().filter_map(Weak::upgrade).filter(|stream| stream.is_busy()).count()
    }
}

impl ContextState for PersistentKernels {}
