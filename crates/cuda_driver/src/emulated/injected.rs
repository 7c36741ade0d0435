//! Failures that a test asks for, since nothing else provokes them.

use std::env;
use std::sync::OnceLock;

use super::invalid;
use crate::codes::CUresult;
use crate::detail::{Answer, Failure};
use crate::table::FUNCTIONS;

/// The environment variable that names functions, and what they answer.
const FAIL: &str = "FERROWARP_EMULATOR_FAIL";

type Planned = Vec<(String, CUresult)>;

static PLANNED: OnceLock<Planned> = OnceLock::new();

/// Reads the variable.
pub(super) fn start() -> Answer {
    let text = env::var_os(FAIL).map(|text| text.to_string_lossy().into_owned());
    let planned = read(text.as_deref().unwrap_or_default())?;
    PLANNED.get_or_init(|| planned);
    Ok(())
}

/// `cuMemAlloc_v2:46,cuLaunchKernel:912`
fn read(text: &str) -> Answer<Planned> {
    let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
    parts.map(|part| one(part).ok_or_else(|| wrong(part))).collect()
}

fn one(part: &str) -> Option<(String, CUresult)> {
    let (name, code) = part.split_once(':')?;
    let code = code.trim().parse().ok().filter(|code| *code > 0)?;
    FUNCTIONS.contains(&name.trim()).then(|| (name.trim().to_owned(), code))
}

fn wrong(part: &str) -> Failure {
    invalid(format!(
        "{FAIL} has `{part}`; each part is a driver function and a code above 0, such as \
         `cuMemAlloc_v2:2`"
    ))
}

/// Fails where the call is one that shall fail.
pub(crate) fn check(name: &str) -> Answer {
    let planned = PLANNED.get().into_iter().flatten();
    match planned.into_iter().find(|(own, _)| own == name) {
        Some((_, code)) => Err(Failure::new(*code, format!("{FAIL} makes it answer {code}"))),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_and_codes_are_read_strictly() {
        let planned = read(" cuMemAlloc_v2:46 , cuLaunchKernel: 912").unwrap();
        assert_eq!(planned, [("cuMemAlloc_v2".to_owned(), 46), ("cuLaunchKernel".to_owned(), 912)]);
        assert!(read("").unwrap().is_empty());
        for text in ["cuMemAlloc_v2", "cuNothing:2", "cuInit:0", "cuInit:x", "cuInit:-1"] {
            let failure = read(text).unwrap_err();
            assert!(failure.text.contains(&format!("{FAIL} has `{text}`")), "{}", failure.text);
        }
    }
}
