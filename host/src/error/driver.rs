//! What the driver answers.

use std::error::Error;
use std::fmt;

use cuda_driver::Detail;

use super::words::one_line;
use super::{GpuError, codes};

/// A call that the driver answered with an error.
pub struct DriverError {
    operation: &'static str,
    code: u32,
    detail: Option<String>,
    hint: Option<&'static str>,
    #[cfg(feature = "cust")]
    source: Option<cust::error::CudaError>,
}

impl DriverError {
    /// The driver function.
    #[must_use]
    pub fn operation(&self) -> &'static str {
        self.operation
    }

    /// The driver's code, also one that is newer than this crate.
    #[must_use]
    pub fn code(&self) -> u32 {
        self.code
    }

    /// The code's name in CUDA's headers, for example `CUDA_ERROR_OUT_OF_MEMORY`.
    #[must_use]
    pub fn name(&self) -> &'static str {
        codes::name(self.code)
    }

    /// All that the driver or the emulator said: the assembler's log, the faulting thread and line.
    #[must_use]
    pub fn detail(&self) -> Option<&str> {
        self.detail.as_deref()
    }

    /// What to do about it, where that is known.
    #[must_use]
    pub fn hint(&self) -> Option<&'static str> {
        self.hint
    }

    /// The line of the PTX that the driver's compiler refused, from 1, and the column where the compiler names one, as the
    /// emulator's parser does. Of a text that is loaded in parts it is the line of the part.
    #[must_use]
    pub fn ptx_position(&self) -> Option<(u32, Option<u32>)> {
        let said = self.detail.as_deref()?;
        let number = |text: &str| -> Option<(u32, usize)> {
            let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
            Some((text[..end].parse().ok()?, end))
        };
        said.match_indices("line ").find_map(|(at, word)| {
            let behind = &said[at + word.len()..];
            let (line, end) = number(behind)?;
            let column = behind[end..].strip_prefix(", column ").and_then(number);
            Some((line, column.map(|(column, _)| column)))
        })
    }

    /// Describes `code`, which `operation` returned on this thread just now.
    pub(crate) fn new(operation: &'static str, code: u32) -> Self {
        Self::with_detail(operation, code, cuda_driver::take_detail())
    }

    fn with_detail(operation: &'static str, code: u32, detail: Option<Detail>) -> Self {
        Self {
            operation,
            code,
            hint: codes::hint(code, cuda_driver::backend()),
            detail: detail.map(|detail| detail.text).filter(|text| !text.trim().is_empty()),
            #[cfg(feature = "cust")]
            source: None,
        }
    }

    /// Describes an error of `cust`, which has no code that is newer than CUDA 11.4: the driver's details have it.
    #[cfg(feature = "cust")]
    pub(crate) fn from_cust(error: cust::error::CudaError) -> Self {
        let detail = cuda_driver::take_detail();
        let code = detail.as_ref().map_or(error as u32, |detail| detail.code);
        Self { source: Some(error), ..Self::with_detail("a driver call", code, detail) }
    }
}

impl fmt::Display for DriverError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.detail {
            Some(detail) => f.write_str(&one_line(detail))?,
            None => write!(f, "{}: {}", self.operation, codes::meaning(self.code))?,
        }
        if self.detail.as_ref().is_none_or(|detail| !detail.contains(self.name())) {
            write!(f, " ({} {})", self.name(), self.code)?;
        }
        self.hint.map_or(Ok(()), |hint| write!(f, "; {hint}"))
    }
}

impl Error for DriverError {
    #[cfg(feature = "cust")]
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.source.as_ref().map(|error| error as _)
    }
}

impl From<DriverError> for GpuError {
    fn from(error: DriverError) -> Self {
        Self::Driver(Box::new(error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_position_in_ptx_is_read_from_what_the_compiler_says() {
        let of = |text: &str| {
            let detail = Detail { text: text.to_owned(), code: 218 };
            DriverError::with_detail("cuModuleLoadData", 218, Some(detail)).ptx_position()
        };
        assert_eq!(of("line 12, column 5: expected an opcode, found `x`"), Some((12, Some(5))));
        let ptxas =
            "ptxas application ptx input, line 7; error   : Unknown symbol 'a', in column 9 of it";
        assert_eq!(of(ptxas), Some((7, None)));
        assert_eq!(of("the PTX is for another driver"), None);
        assert_eq!(of("a line of it: nothing"), None);
        assert_eq!(of("an inline function at line 3"), Some((3, None)));
    }

    #[test]
    fn a_code_that_nobody_knows_is_kept() {
        let error = GpuError::from(DriverError::new("cuFutureCall", 4321));
        let line = error.to_string();
        assert!(line.starts_with("cuFutureCall: "), "{line}");
        assert!(line.ends_with("(an unknown code 4321)"), "{line}");
    }
}
