//! Variables of the environment, read through a function, so that tests have their own.

use std::str::FromStr;

use crate::error::DistError;

/// The variables of a process.
pub(super) struct Variables<'a> {
    lookup: &'a dyn Fn(&str) -> Option<String>,
}

impl<'a> Variables<'a> {
    pub(super) fn new(lookup: &'a dyn Fn(&str) -> Option<String>) -> Self {
        Self { lookup }
    }

    /// The value, if it is set and holds more than blanks.
    pub(super) fn text(&self, name: &str) -> Option<String> {
        (self.lookup)(name).map(|value| value.trim().to_owned()).filter(|value| !value.is_empty())
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.text(name).is_some()
    }

    /// The value as a number.
    pub(super) fn number<T: FromStr>(&self, name: &'static str) -> Result<Option<T>, DistError> {
        let Some(value) = self.text(name) else { return Ok(None) };
        let parsed = value.parse();
        parsed.map(Some).map_err(|_| DistError::BadVariable {
            name,
            value,
            expected: "a number from 0",
        })
    }

    /// The first of these that is set, as a number.
    pub(super) fn first_number(&self, names: &[&'static str]) -> Result<Option<u32>, DistError> {
        for name in names {
            if let Some(number) = self.number(name)? {
                return Ok(Some(number));
            }
        }
        Ok(None)
    }

    /// The first of these that is set, as a number; an error that names the first if none is.
    pub(super) fn needed(
        &self,
        launcher: &'static str,
        names: &[&'static str],
    ) -> Result<u32, DistError> {
        let missing = DistError::MissingVariable { launcher, name: names[0] };
        self.first_number(names)?.ok_or(missing)
    }
}
