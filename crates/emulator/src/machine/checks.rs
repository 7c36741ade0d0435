//! Which checks are on.

use std::fmt;
use std::str::FromStr;

/// The checks of a device's launches.
///
/// As text: `all`, `none`, or names parted by commas; `strict` may stand beside `all`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Checks {
    /// Accesses that stay inside what a GPU would let pass: another variable of the shared memory, data
    /// that the kernel reads as constant.
    pub memory: bool,
    /// Values that were never written.
    pub init: bool,
    /// Conflicting accesses that nothing orders.
    pub race: bool,
    /// Barriers and masks.
    pub sync: bool,
    /// With `sync`: every thread of a block reaches each barrier of the whole block, at one instruction,
    /// whatever compiled the kernel. Kernels that carry cuda_std's mark keep this rule with `sync` alone.
    pub strict: bool,
}

impl Checks {
    /// Every check, by rules that programs of any origin keep.
    pub const ALL: Self = Self { memory: true, init: true, race: true, sync: true, strict: false };
    /// No check.
    pub const NONE: Self =
        Self { memory: false, init: false, race: false, sync: false, strict: false };

    const NAMES: [&str; 5] = ["memory", "init", "race", "sync", "strict"];

    fn states(self) -> [bool; 5] {
        [self.memory, self.init, self.race, self.sync, self.strict]
    }

    fn set(&mut self, name: &str) -> Result<(), UnknownCheck> {
        match name {
            "all" => *self = Self { strict: self.strict, ..Self::ALL },
            "memory" => self.memory = true,
            "init" => self.init = true,
            "race" => self.race = true,
            "sync" => self.sync = true,
            "strict" => (self.sync, self.strict) = (true, true),
            _ => return Err(UnknownCheck { name: name.to_owned() }),
        }
        Ok(())
    }
}

/// A word that names no check.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{name}` is not a check; there are all, none, memory, init, race, sync, strict")]
pub struct UnknownCheck {
    /// The word.
    pub name: String,
}

impl FromStr for Checks {
    type Err = UnknownCheck;

    fn from_str(text: &str) -> Result<Self, UnknownCheck> {
        match text.trim() {
            "none" => Ok(Self::NONE),
            names => {
                let mut checks = Self::NONE;
                names.split(',').try_for_each(|name| checks.set(name.trim()))?;
                Ok(checks)
            }
        }
    }
}

impl fmt::Display for Checks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::ALL => f.write_str("all"),
            Self { memory: true, init: true, race: true, sync: true, strict: true } => {
                f.write_str("all,strict")
            }
            Self::NONE => f.write_str("none"),
            some => {
                let on = some.states().into_iter().zip(Self::NAMES).filter(|(on, _)| *on);
                f.write_str(&on.map(|(_, name)| name).collect::<Vec<_>>().join(","))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_of_checks_reads_back_as_the_same() {
        for text in
            ["all", "none", "memory", "init,race", "memory,race,sync", "sync,strict", "all,strict"]
        {
            assert_eq!(text.parse::<Checks>().unwrap().to_string(), text);
        }
        assert_eq!(" race , init ".parse::<Checks>().unwrap().to_string(), "init,race");
        assert!("strict".parse::<Checks>().unwrap().sync, "strict rules are rules of `sync`");
        let wrong = "race,speed".parse::<Checks>().unwrap_err();
        assert_eq!(
            wrong.to_string(),
            "`speed` is not a check; there are all, none, memory, init, race, sync, strict"
        );
    }
}
