//! A PTX text, read once.

use std::borrow::Cow;
use std::sync::{Arc, Mutex};

use ptx_format::index::{ModulePart, Reading, read_ptx};

use super::ahead::HeadStart;
use super::image_text::ImageText;
use crate::lock::lock;

/// Where the parts of a text are, if it says so.
pub(super) type Index = Option<Arc<[ModulePart]>>;

/// A PTX text, and what it says of itself.
#[derive(Debug)]
pub(crate) struct Text {
    pub(super) source: Source,
    pub(super) index: Index,
    digest: Digest,
    /// Parts that were begun before all of it was read.
    pub(super) ahead: HeadStart,
}

/// Where a text is.
#[derive(Debug)]
pub(super) enum Source {
    /// It is no part of the program.
    Owned(String),
    /// It is an image of the program.
    Image(ImageText),
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
        let (digest, index) = digested(read_ptx(&ptx), ptx.len());
        Self { source: Source::Owned(ptx), index, digest, ahead }
    }

    /// A text that is part of the program: it is read once for all devices.
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

    /// The text alone, if it is no part of the program.
    pub(crate) fn into_ptx(self) -> Option<String> {
        match self.source {
            Source::Owned(ptx) => Some(ptx),
            Source::Image(_) => None,
        }
    }

    /// Whether it says itself that nothing of it is missing.
    pub(crate) fn is_whole(&self) -> bool {
        self.index.is_some()
    }
}

fn digested(Reading { hash, parts, .. }: Reading, bytes: usize) -> (Digest, Index) {
    (Digest { hash, bytes }, parts.map(Arc::from))
}
