//! Names of architectures, and which devices their code runs on.

use std::str::FromStr;

use crate::context::Context;
use crate::error::{GpuError, GpuResult};

/// An architecture's name, taken apart. The order is the order of preference.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Arch {
    capability: (u32, u32),
    reach: Reach,
}

/// The devices that code for an architecture runs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Reach {
    /// `sm_90`: that capability and every higher one.
    Forward,
    /// `sm_100f`: that capability and higher ones of the same family.
    Family,
    /// `sm_90a`: that capability alone.
    Exact,
}

impl Arch {
    fn runs_on(self, device: (u32, u32)) -> bool {
        match self.reach {
            Reach::Forward => self.capability <= device,
            Reach::Family => self.capability.0 == device.0 && self.capability.1 <= device.1,
            Reach::Exact => self.capability == device,
        }
    }
}

impl FromStr for Arch {
    type Err = ();

    fn from_str(name: &str) -> Result<Self, ()> {
        let number = name.strip_prefix("sm_").or_else(|| name.strip_prefix("compute_")).ok_or(())?;
        let (number, reach) = match number.strip_suffix(['a', 'f']) {
            Some(rest) if number.ends_with('a') => (rest, Reach::Exact),
            Some(rest) => (rest, Reach::Family),
            None => (number, Reach::Forward),
        };
        let number: u32 = number.parse().map_err(|_| ())?;
        Ok(Self { capability: (number / 10, number % 10), reach })
    }
}

/// The best of several architectures for a device, by name.
pub(crate) fn best_arch<'a>(
    names: impl IntoIterator<Item = &'a str>,
    device: (u32, u32),
) -> Option<&'a str> {
    let ranked = names.into_iter().filter_map(|name| Some((name.parse::<Arch>().ok()?, name)));
    ranked.filter(|(arch, _)| arch.runs_on(device)).max_by_key(|(arch, _)| *arch).map(|(_, n)| n)
}

/// Refuses a text for another device before the driver does, and with both architectures.
pub(super) fn check_target(context: &Context, ptx: &str) -> GpuResult<()> {
    let (target, device) = (target(ptx), context.info().compute_capability);
    // A text without a target, or with one of a later kind, is for the driver to judge.
    if target.parse::<Arch>().map_or(true, |arch| arch.runs_on(device)) {
        return Ok(());
    }
    Err(GpuError::UnsupportedArch { device, available: vec![target.to_owned()] })
}

/// The architecture that a PTX text names; empty where it names none.
pub(crate) fn target(ptx: &str) -> &str {
    let mut code = ptx.lines().map(|line| line.split("//").next().unwrap_or_default().trim());
    let line = code.find_map(|line| line.strip_prefix(".target"));
    line.and_then(|line| line.split([',', ' ', '\t']).find(|word| !word.is_empty())).unwrap_or("")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_target_is_read_from_the_text() {
        assert_eq!(target("// .target sm_10\n.version 8.0\n.target sm_90a, debug\n"), "sm_90a");
        assert_eq!(target(".target\tsm_70 // x"), "sm_70");
        assert_eq!(target("nonsense"), "");
    }
}
