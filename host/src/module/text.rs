//! A PTX text, read once.

use std::borrow::Cow;
use std::sync::{Arc, Mutex, PoisonError};

use cuda_builder::Reading;

/// Where the parts of a text are, if it says so.
type Index = Option<Arc<[cuda_builder::Part]>>;

/// A PTX text, and what it says of itself.
#[derive(Debug)]
pub(crate) struct Text {
    ptx: Cow<'static, str>,
    about: About,
}

#[derive(Clone, Debug)]
struct About {
    hash: u64,
    index: Index,
}

impl Text {
    /// A text that is no part of the program.
    pub(crate) fn new(ptx: String) -> Self {
        let about = About::new(&ptx);
        Self { ptx: ptx.into(), about }
    }

    /// A text that is part of the program: it is read once for all devices.
    pub(super) fn embedded(ptx: &'static str) -> Self {
        static KNOWN: Mutex<Vec<(&'static str, About)>> = Mutex::new(Vec::new());
        let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        let own = known.iter().find(|(text, _)| std::ptr::eq(*text, ptx));
        let about = own.map(|(_, about)| about.clone()).unwrap_or_else(|| {
            let about = About::new(ptx);
            known.push((ptx, about.clone()));
            about
        });
        Self { ptx: ptx.into(), about }
    }

    pub(crate) fn ptx(&self) -> &str {
        &self.ptx
    }

    /// The number that equal texts share.
    pub(crate) fn hash(&self) -> u64 {
        self.about.hash
    }

    /// Where its parts are, if it says so. That it does also says that nothing of it is missing.
    pub(crate) fn parts(&self) -> Option<&[cuda_builder::Part]> {
        self.about.index.as_deref()
    }
}

impl About {
    fn new(ptx: &str) -> Self {
        let Reading { hash, parts, .. } = cuda_builder::read_ptx(ptx);
        Self { hash, index: parts.map(Arc::from) }
    }
}
