//! A PTX text, read once.

use std::borrow::Cow;
use std::sync::{Arc, Mutex};

use cuda_builder::Reading;

use super::ahead::HeadStart;
use crate::lock::lock;

/// The index of a text's parts, if it has one.
pub(super) type Index = Option<Arc<[cuda_builder::Part]>>;

/// PTX, with its index of parts and its digest.
#[derive(Debug)]
pub(crate) struct Text {
    /// Borrowed where it is part of the program.
    pub(super) ptx: Cow<'static, str>,
    pub(super) index: Index,
    digest: Digest,
    /// Parts whose compilation began before the whole text was read.
    pub(super) ahead: HeadStart,
}

/// What equal texts have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Digest {
    pub(crate) hash: u64,
    pub(crate) bytes: usize,
}

impl Text {
    /// PTX that is not embedded in the program.
    pub(crate) fn new(ptx: String) -> Self {
        Self::begun(ptx, HeadStart::default())
    }

    /// PTX that is not embedded in the program, with the parts that are being compiled.
    pub(crate) fn begun(ptx: String, ahead: HeadStart) -> Self {
        let (digest, index) = read(&ptx);
        Self { ptx: ptx.into(), index, digest, ahead }
    }

    /// PTX that is embedded in the program: it is read once for all devices.
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

    /// The text alone, if it is not embedded in the program.
    pub(crate) fn into_ptx(self) -> Option<String> {
        match self.ptx {
            Cow::Owned(ptx) => Some(ptx),
            Cow::Borrowed(_) => None,
        }
    }

    /// Whether its index proves that it is complete.
    pub(crate) fn is_whole(&self) -> bool {
        self.index.is_some()
    }
}

fn read(ptx: &str) -> (Digest, Index) {
    let Reading { hash, parts, .. } = cuda_builder::read_ptx(ptx);
    (Digest { hash, bytes: ptx.len() }, parts.map(Arc::from))
}
