//! What was being done when an error happened.

use std::error::Error;
use std::fmt;

use super::{GpuError, GpuResult};

/// An error, and what was being done when it happened.
pub struct InContext {
    pub(super) what: String,
    pub(super) error: GpuError,
}

impl InContext {
    /// What was being done.
    #[must_use]
    pub fn what(&self) -> &str {
        &self.what
    }

    /// The error.
    #[must_use]
    pub fn error(&self) -> &GpuError {
        &self.error
    }
}

impl fmt::Display for InContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.what, self.error)
    }
}

impl Error for InContext {
    /// The line already holds the inner error, so the chain continues after it.
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.error.source()
    }
}

/// Says what was being done when an error happened.
///
/// ```
/// use ferrowarp::{GpuContext, GpuError, GpuResult};
///
/// fn check(expected: usize, found: usize) -> GpuResult<()> {
///     let error = GpuError::SizeMismatch { operation: "comparing", expected, found };
///     (expected == found).then_some(()).ok_or(error)
/// }
/// let error = check(3, 2).gpu_context("reading the weights").unwrap_err();
/// assert!(error.to_string().starts_with("reading the weights: comparing: 3 elements"));
/// ```
pub trait GpuContext<T> {
    /// Adds `what` in front of the error.
    ///
    /// # Errors
    /// The same error as before, with `what` in front.
    fn gpu_context(self, what: impl Into<String>) -> GpuResult<T>;

    /// Adds `what()` in front of the error; it is called for an error only.
    ///
    /// # Errors
    /// The same error as before, with `what()` in front.
    fn with_gpu_context<S: Into<String>>(self, what: impl FnOnce() -> S) -> GpuResult<T>;
}

impl<T, E: Into<GpuError>> GpuContext<T> for Result<T, E> {
    fn gpu_context(self, what: impl Into<String>) -> GpuResult<T> {
        self.map_err(|error| error.into().context(what))
    }

    #[inline]
    fn with_gpu_context<S: Into<String>>(self, what: impl FnOnce() -> S) -> GpuResult<T> {
        self.map_err(|error| error.into().context(what()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contexts_stand_in_front_and_the_root_is_found() {
        let root = GpuError::OutOfMemory { requested: 2048, free: 1024, total: 4096, peak: 512 };
        let error = Err::<(), _>(root).gpu_context("inner").gpu_context("outer").unwrap_err();
        let line = "outer: inner: out of GPU memory: 2.0 KiB requested, 1.0 KiB of 4.0 KiB free, \
                    peak use here 512 bytes";
        assert_eq!(error.to_string(), line);
        assert_eq!(error.contexts().collect::<Vec<_>>(), ["outer", "inner"]);
        assert!(matches!(error.root(), GpuError::OutOfMemory { requested: 2048, .. }));
        assert!(error.source().is_none());
    }
}
