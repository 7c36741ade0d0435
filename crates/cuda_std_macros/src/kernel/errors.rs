//! The errors of one expansion.

use syn::{Error, Result};

/// Collects errors, so that the compiler shows them all at once.
#[derive(Default)]
pub struct Errors(Option<Error>);

impl Errors {
    pub fn add(&mut self, error: Error) {
        match &mut self.0 {
            Some(all) => all.combine(error),
            none => *none = Some(error),
        }
    }

    pub fn take<T>(&mut self, result: Result<T>) -> Option<T> {
        result.map_err(|error| self.add(error)).ok()
    }

    pub fn into_result(self) -> Result<()> {
        self.0.map_or(Ok(()), Err)
    }
}
