//! What this crate makes of the driver's codes; names and meanings are in `cuda_driver`.

use cuda_driver::{Backend, error_meaning, error_name};

/// The name of `code` in CUDA's headers.
pub(super) fn name(code: u32) -> &'static str {
    let name = i32::try_from(code).ok().and_then(error_name);
    name.and_then(|name| name.to_str().ok()).unwrap_or("an unknown code")
}

/// What `code` means.
pub(super) fn meaning(code: u32) -> &'static str {
    let meaning = i32::try_from(code).ok().and_then(error_meaning);
    meaning.and_then(|text| text.to_str().ok()).unwrap_or("CUDA's documentation may say more")
}

/// What to do about `code`, where that is known.
pub(super) fn hint(code: u32, backend: Option<Backend>) -> Option<&'static str> {
    match code {
        36 | 221 | 222 => Some("update the NVIDIA driver, or run with FERROWARP_DEVICE=emulator"),
        46 => Some("`nvidia-smi` shows who holds it"),
        900 | 901 => Some(
            "what is captured cannot wait for its stream, nor ask about it: do that before the \
             capture or after it",
        ),
        904 => Some("let the captured stream wait for those that were forked from it"),
        906 => Some("launch on a stream of your own in place of the null stream"),
        702 if backend == Some(Backend::Emulator) => {
            Some("the limit is FERROWARP_FUEL: raise it, or unset it")
        }
        700 | 714..=719 if backend == Some(Backend::Cuda) => {
            Some("FERROWARP_DEVICE=emulator names the thread and the source line")
        }
        _ => None,
    }
}

/// Whether `code` ends the context: every later call will fail too.
pub(crate) fn is_sticky(code: u32) -> bool {
    matches!(code, 214 | 220 | 226 | 700 | 702 | 709 | 710 | 714..=719 | 721)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_from_the_drivers_table() {
        assert_eq!(name(700), "CUDA_ERROR_ILLEGAL_ADDRESS");
        assert_eq!(name(u32::MAX), "an unknown code");
        assert!(!meaning(2).is_empty());
    }

    #[test]
    fn the_emulator_already_says_where_so_only_a_real_gpu_gets_the_hint() {
        assert!(hint(700, Some(Backend::Cuda)).unwrap().contains("FERROWARP_DEVICE=emulator"));
        assert_eq!(hint(700, Some(Backend::Emulator)), None);
    }

    #[test]
    fn the_emulators_limit_is_a_setting_and_the_drivers_is_not() {
        assert!(hint(702, Some(Backend::Emulator)).unwrap().contains("FERROWARP_FUEL"));
        assert_eq!(hint(702, Some(Backend::Cuda)), None);
    }
}
