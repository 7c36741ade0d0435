//! Panics of kernels, as errors.

use std::fmt;

use super::GpuError;

/// A panic in a kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct KernelPanic {
    /// The kernel's name; several with `or` between where it is one of them.
    pub kernel: String,
    /// What the panic says.
    pub message: String,
    /// The source file, from the package or workspace that it is part of.
    pub file: String,
    /// Its line, from 1; 0 if it is not known.
    pub line: u32,
    /// Its column, from 1.
    pub column: u32,
    /// The index of the block in its grid.
    pub block: [u32; 3],
    /// The index of the thread in its block.
    pub thread: [u32; 3],
    /// How many more threads of the launch panicked after this one.
    pub others: u32,
    /// The low half of the id of its grid (`%gridid`), which is that of one launch, or of the replays of one graph; `None`
    /// where it is not known.
    pub grid: Option<u32>,
}

impl fmt::Display for KernelPanic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c] = self.block;
        let [x, y, z] = self.thread;
        write!(f, "kernel `{}` panicked", self.kernel)?;
        if self.line > 0 {
            write!(f, " at {}:{}:{}", self.file, self.line, self.column)?;
        }
        write!(f, ", block ({a},{b},{c}), thread ({x},{y},{z}): {}", self.message)?;
        match self.others {
            0 => Ok(()),
            1 => f.write_str(" (1 more thread panicked)"),
            n => write!(f, " ({n} more threads panicked)"),
        }
    }
}

impl std::error::Error for KernelPanic {}

impl From<KernelPanic> for GpuError {
    fn from(panic: KernelPanic) -> Self {
        Self::KernelPanic(Box::new(panic))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_one_sentence() {
        let mut panic = KernelPanic {
            kernel: "gather".to_owned(),
            message: "index out of bounds: the len is 5 but the index is 7".to_owned(),
            file: "kernels/src/lib.rs".to_owned(),
            line: 11,
            column: 16,
            block: [0, 1, 2],
            thread: [7, 0, 0],
            others: 0,
            grid: Some(5),
        };
        let text = "kernel `gather` panicked at kernels/src/lib.rs:11:16, block (0,1,2), \
                    thread (7,0,0): index out of bounds: the len is 5 but the index is 7";
        assert_eq!(panic.to_string(), text);
        panic.others = 3;
        assert_eq!(panic.to_string(), format!("{text} (3 more threads panicked)"));
        let error = GpuError::from(panic.clone());
        assert!(error.to_string().starts_with(text), "{error}");
        let fault = Box::new(GpuError::Unsupported { what: "a wild store" });
        let both = GpuError::FaultAfterPanic { panic: Box::new(panic.clone()), fault };
        assert!(both.to_string().starts_with(text), "{both}");
        assert!(
            both.to_string()
                .ends_with("; after the panic, this device does not support a wild store")
        );
        assert_eq!(both.panic(), Some(&panic));
    }
}
