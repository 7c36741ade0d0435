//! What a demo did, how far that is from right, and what is missing where it could not run.

use std::fmt;
use std::time::Duration;

use super::pictures::Picture;
use ferrowarp::error::GpuError;

/// How far the device's result is from the reference's.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Check {
    /// Largest difference found.
    pub largest: f64,
    /// Largest difference that arithmetic explains; 0 where the result is exact.
    pub allowed: f64,
}

impl Check {
    /// Of results that must agree bit for bit: 0 or infinity.
    pub(super) fn exact<T: PartialEq>(found: &[T], expected: &[T]) -> Self {
        Self { largest: if found == expected { 0.0 } else { f64::INFINITY }, allowed: 0.0 }
    }

    /// Of the largest difference among pairs.
    pub(super) fn within(allowed: f64, pairs: impl Iterator<Item = (f64, f64)>) -> Self {
        let differences = pairs.map(|(found, expected)| (found - expected).abs());
        let largest =
            differences.fold(0.0, |a: f64, b| if b.is_nan() { f64::INFINITY } else { a.max(b) });
        Self { largest, allowed }
    }

    /// The same, if what the demo says of itself holds too; else a result that is infinitely wrong.
    pub(super) fn provided(self, holds: bool) -> Self {
        if holds { self } else { Self { largest: f64::INFINITY, ..self } }
    }

    /// Whether the result is right.
    #[must_use]
    pub fn passed(self) -> bool {
        self.largest <= self.allowed
    }
}

/// What one demo did.
#[derive(Debug)]
pub struct Outcome {
    /// Size of the problem, for people.
    pub size: String,
    /// Time on the device: the median of several runs.
    pub time: Duration,
    /// Bytes that had to move: each input read once, each output written once.
    pub bytes: usize,
    /// The comparison with the reference.
    pub check: Check,
    /// The picture that came out, if it is one.
    pub picture: Option<Picture>,
}

/// How a demo ended.
#[derive(Debug)]
pub enum Ending {
    /// It ran.
    Ran(Outcome),
    /// It did not: the device, or the machine, lacks what it is about.
    NotHere(Lack),
}

/// What is missing for a demo. `Display` says it, and what would let the demo run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Lack {
    /// More devices.
    Devices {
        /// How many there are.
        found: usize,
        /// How many it takes.
        needed: usize,
    },
    /// Something that the device cannot do.
    Feature {
        /// What that is.
        what: &'static str,
    },
}

impl Lack {
    /// What the device does not support, if that is the error.
    pub(super) fn of(error: &GpuError) -> Option<Self> {
        match error.root() {
            GpuError::Unsupported { what } => Some(Self::Feature { what }),
            _ => None,
        }
    }
}

impl fmt::Display for Lack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const EMULATED: &str = "FERROWARP_DEVICE=emulator";
        match self {
            Self::Devices { found, needed } => write!(
                f,
                "it takes {needed} devices, and there is {found}: {EMULATED} \
                 FERROWARP_EMULATOR_DEVICES={needed} has them"
            ),
            Self::Feature { what } => {
                write!(f, "this device does not support {what}; {EMULATED} has one that does")
            }
        }
    }
}

impl Ending {
    /// What came out, if it ran.
    #[must_use]
    pub fn outcome(&self) -> Option<&Outcome> {
        match self {
            Self::Ran(outcome) => Some(outcome),
            Self::NotHere(_) => None,
        }
    }

    /// Whether it ran and computed something wrong.
    #[must_use]
    pub fn is_wrong(&self) -> bool {
        self.outcome().is_some_and(|outcome| !outcome.check.passed())
    }
}

impl Outcome {
    /// Effective bandwidth in GB/s (10⁹ bytes).
    #[must_use]
    pub fn gigabytes_per_second(&self) -> f64 {
        self.bytes as f64 / self.time.as_secs_f64() / 1e9
    }
}

impl fmt::Display for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            check if !check.passed() => {
                write!(f, "WRONG: {:.3e} > {:.3e}", self.largest, self.allowed)
            }
            Self { allowed: 0.0, .. } => f.write_str("exact"),
            Self { largest, .. } => write!(f, "{largest:.2e}"),
        }
    }
}
