//! Why PTX is not loaded.

use super::SourceLocation;

/// A PTX module cannot be loaded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LoadError {
    /// The text is no PTX.
    #[error(transparent)]
    Parse(#[from] crate::ptx::ParseError),
    /// An instruction, or a form of one, that the emulator does not know.
    #[error("PTX line {line}: unknown instruction `{instruction}`")]
    UnknownInstruction {
        /// The instruction with its modifiers.
        instruction: String,
        /// Line.
        line: u32,
    },
    /// An instruction that exists, but not here.
    #[error("PTX line {line}: `{instruction}` is not supported: {why}")]
    Unsupported {
        /// The instruction with its modifiers.
        instruction: String,
        /// The reason.
        why: &'static str,
        /// Line.
        line: u32,
    },
    /// The PTX version is newer than the emulator.
    #[error("PTX version {}.{} is newer than {}.{}, the newest supported", found.0, found.1, supported.0, supported.1)]
    UnsupportedVersion {
        /// Version of the text.
        found: (u32, u32),
        /// Newest version supported.
        supported: (u32, u32),
    },
    /// The text is for another architecture.
    #[error("PTX for `{found}` does not run on `{device}`")]
    UnsupportedTarget {
        /// `.target` of the text.
        found: String,
        /// Architecture of the device.
        device: String,
    },
    /// A name that nothing defines.
    #[error("PTX line {line}: `{symbol}` is not defined")]
    Unresolved {
        /// The name.
        symbol: String,
        /// Line that uses it.
        line: u32,
    },
    /// Any of these, with the line of the source that the PTX was compiled from.
    #[error("{error}, from {place}")]
    Placed {
        /// The error.
        error: Box<LoadError>,
        /// Where it is in the source, from `.loc`.
        place: SourceLocation,
    },
    /// No text at all.
    #[error("the PTX text is empty")]
    Empty,
    /// Well-formed text that breaks a rule of PTX.
    #[error("PTX line {line}: {what}")]
    Invalid {
        /// The rule, as a sentence.
        what: String,
        /// Line.
        line: u32,
    },
}

impl LoadError {
    /// The error without its place in the source.
    pub fn root(&self) -> &Self {
        match self {
            Self::Placed { error, .. } => error.root(),
            own => own,
        }
    }

    /// The line of the text that it is about, counted from 1; `None` where it is about all of it.
    pub fn line(&self) -> Option<u32> {
        match self {
            Self::Parse(error) => Some(error.line),
            Self::UnknownInstruction { line, .. }
            | Self::Unsupported { line, .. }
            | Self::Unresolved { line, .. }
            | Self::Invalid { line, .. } => Some(*line),
            Self::Placed { error, .. } => error.line(),
            Self::UnsupportedVersion { .. } | Self::UnsupportedTarget { .. } | Self::Empty => None,
        }
    }
}
