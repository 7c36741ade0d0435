//! A PTX text, read once.

use std::borrow::Cow;
use std::sync::{Arc, Mutex};

use cuda_builder::Reading;

use super::ahead::HeadStart;
use crate::lock::lock;

/// Where the parts of a text are, if it says so.
pub(super) type Index = Option<Arc<[cuda_builder::Part]>>;

/// A PTX text, and what it says of itself.
#[derive(Debug)]
pub(crate) struct Text {
    /// Borrowed where it is part of the program.
    pub(super) ptx: Cow<'static, str>,
    pub(super) index: Index,
    digest: Digest,
    /// Parts that were begun before all of it was read.
    pub(super) ahead: HeadStart,
}

/// What equal texts have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Digest {
    pub(crate) hash: u64,
    pub(crate) bytes: usize,
}

impl Text {
    /// A text that is no part of the program.
    pub(crate) fn new(ptx: String) -> Self {
        Self::begun(ptx, HeadStart::default())
    }

    /// A text that is no part of the program, and which of its parts were begun.
    pub(crate) fn begun(ptx: String, ahead: HeadStart) -> Self {
        let (digest, index) = read(&ptx);
        Self { ptx: ptx.into(), index, digest, ahead }
    }

    /// A text that is part of the program: it is read once for all devices.
    pub(super) fn embedded(ptx: &'static str) -> Self {
        static KNOWN: Mutex<Vec<(&'static str, Digest, Index)>> = Mutex::new(Vec::new());
        let mut known = lock(&KNOWN);
        let own = known.iter().find(|(text, ..)| std::ptr::eq(*text, ptx));
        let own = own.map(|(_, digest, index)| (*digest, index.clone()));
        let (digest, index) = own.unwrap_or_else(|| {
            let (digest, index) = read(ptx);
            known.push((ptx, digest, index.clone()));
            (digest, index)
        });
        Self { ptx: ptx.into(), index, digest, ahead: HeadStart::default() }
    }

    pub(crate) fn ptx(&self) -> &str {
        &self.ptx
    }

    pub(crate) fn digest(&self) -> Digest {
        self.digest
    }

    /// The text alone, if it is no part of the program.
    pub(crate) fn into_ptx(self) -> Option<String> {
        match self.ptx {
            Cow::Owned(ptx) => Some(ptx),
            Cow::Borrowed(_) => None,
        }
    }

    /// Whether it says itself that nothing of it is missing.
    pub(crate) fn is_whole(&self) -> bool {
        self.index.is_some()
    }
}

fn read(ptx: &str) -> (Digest, Index) {
    let Reading { hash, parts, .. } = cuda_builder::read_ptx(ptx);
    (Digest { hash, bytes: ptx.len() }, parts.map(Arc::from))
}
