//! A PTX text, read once.

use std::borrow::Cow;
use std::sync::{Arc, Mutex};

use ptx_format::index::{ModulePart, Reading, read_ptx};

use super::ahead::HeadStart;
use super::image_text::ImageText;
use crate::lock::lock;

/// The index of a text's parts, if it has one.
pub(super) type Index = Option<Arc<[ModulePart]>>;

/// PTX, with its index of parts and its digest.
#[derive(Debug)]
pub(crate) struct Text {
    pub(super) source: Source,
    pub(super) index: Index,
    digest: Digest,
    /// Parts whose compilation began before the whole text was read.
    pub(super) ahead: HeadStart,
}

/// Where a text comes from.
#[derive(Debug)]
pub(super) enum Source {
    /// It is not embedded in the program.
    Owned(String),
    /// It is embedded in the program.
    Image(ImageText),
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
        let (digest, index) = digested(read_ptx(&ptx), ptx.len());
        Self { source: Source::Owned(ptx), index, digest, ahead }
    }

    /// PTX that is embedded in the program: it is read once for all devices.
    pub(super) fn of_image(image: ImageText) -> Self {
        static KNOWN: Mutex<Vec<(ImageText, Digest, Index)>> = Mutex::new(Vec::new());
        let mut known = lock(&KNOWN);
        let own = known.iter().find(|(text, ..)| text.is_same(image));
        let own = own.map(|(_, digest, index)| (*digest, index.clone()));
        let (digest, index) = own.unwrap_or_else(|| {
            let (digest, index) = digested(image.reading(), image.len());
            known.push((image, digest, index.clone()));
            (digest, index)
        });
        Self { source: Source::Image(image), index, digest, ahead: HeadStart::default() }
    }

    /// All of it. That of a packed image is unpacked.
    pub(crate) fn ptx(&self) -> &str {
        match &self.source {
            Source::Owned(ptx) => ptx,
            Source::Image(image) => image.whole(),
        }
    }

    /// All of it, for a module that keeps it.
    pub(super) fn whole(&self) -> Cow<'static, str> {
        match &self.source {
            Source::Owned(ptx) => ptx.clone().into(),
            Source::Image(image) => image.whole().into(),
        }
    }

    pub(crate) fn digest(&self) -> Digest {
        self.digest
    }

    /// The text alone, if it is not embedded in the program.
    pub(crate) fn into_ptx(self) -> Option<String> {
        match self.source {
            Source::Owned(ptx) => Some(ptx),
            Source::Image(_) => None,
        }
    }

    /// Whether its index proves that it is complete.
    pub(crate) fn is_whole(&self) -> bool {
        self.index.is_some()
    }
}

fn digested(Reading { hash, parts, .. }: Reading, bytes: usize) -> (Digest, Index) {
    (Digest { hash, bytes }, parts.map(Arc::from))
}
