//! The peers' texts, inside the executable.

/// A file of `benches/peers`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Source {
    /// The family whose cases it has.
    pub family: &'static str,
    /// What it is written in.
    pub language: Language,
    /// Its text.
    pub text: &'static str,
}

/// What a peer is written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Language {
    /// CUDA C++: needs `nvcc`.
    Cuda,
    /// Python, with whatever packages the machine has.
    Python,
}

impl Language {
    /// The end of the file's name.
    #[must_use]
    pub fn extension(self) -> &'static str {
        match self {
            Self::Cuda => "cu",
            Self::Python => "py",
        }
    }
}

/// Declares the files of a family: `copy: Cuda "cu", Python "py";`.
macro_rules! sources {
    ($($family:ident: $($language:ident $extension:literal),+;)*) => {
        /// All peers.
        pub static SOURCES: &[Source] = &[$($(Source {
            family: stringify!($family),
            language: Language::$language,
            text: include_str!(concat!(
                "../../../../benches/peers/", stringify!($family), ".", $extension
            )),
        },)+)*];
    };
}

sources! {
    copy: Cuda "cu", Python "py";
    histogram: Cuda "cu", Python "py";
    map: Cuda "cu", Python "py";
    random: Cuda "cu", Python "py";
    reduce: Cuda "cu", Python "py";
    rows: Python "py";
    scan: Cuda "cu";
    select: Cuda "cu";
    sort: Cuda "cu", Python "py";
    stencil: Cuda "cu", Python "py";
    transpose: Cuda "cu", Python "py";
}

/// What the peers in CUDA C++ share.
pub(super) const CUDA_HEADER: &str = include_str!("../../../../benches/peers/peer.cuh");
/// What the peers in Python share.
pub(super) const PYTHON_MODULE: &str = include_str!("../../../../benches/peers/peer.py");
