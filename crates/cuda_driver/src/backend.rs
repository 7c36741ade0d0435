//! Which driver answers, decided once, at the first `cuInit` that succeeds.

use std::env;
use std::sync::{Mutex, OnceLock, PoisonError};

use crate::codes::{CUDA_ERROR_INVALID_VALUE, CUDA_ERROR_NO_DEVICE, CUDA_ERROR_NOT_INITIALIZED};
use crate::detail::{Answer, Failure};
use crate::emulated::serve;
use crate::process::Origin;
use crate::real::Unusable;
use crate::table::{FUNCTIONS, Symbols};
use crate::{detail, real};

/// The CUDA version whose interface the front has, and the emulator says it is: 13.0.
pub(crate) const DRIVER_VERSION: i32 = 13000;

/// The environment variable that chooses.
const VARIABLE: &str = "FERROWARP_DEVICE";

/// Who answers the driver calls of this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Backend {
    /// The installed NVIDIA driver.
    Cuda,
    /// The emulator inside this process.
    Emulator,
}

/// The chosen driver, ready for calls.
#[derive(Clone, Copy)]
pub(crate) enum Served {
    Cuda(&'static Symbols),
    Emulator,
}

struct Chosen {
    served: Served,
    /// No driver works in a child after `fork`.
    origin: Origin,
    passed_over: Option<String>,
}

static CHOSEN: OnceLock<Chosen> = OnceLock::new();
static CHOOSING: Mutex<()> = Mutex::new(());

/// What the variable asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wish {
    Auto,
    Cuda,
    Emulator,
}

/// Who answers the driver calls of this process; `None` before a `cuInit` that succeeded.
pub fn backend() -> Option<Backend> {
    CHOSEN.get().map(|chosen| match chosen.served {
        Served::Cuda(_) => Backend::Cuda,
        Served::Emulator => Backend::Emulator,
    })
}

/// Whether this process was forked from one in which a `cuInit` had succeeded: no driver works here.
#[inline]
pub fn forked() -> bool {
    CHOSEN.get().is_some_and(|chosen| !chosen.origin.is_here())
}

/// Why the emulator was taken where the NVIDIA driver would have been preferred, in a few words:
/// its library does not open, it has no device, …
pub fn cuda_passed_over() -> Option<&'static str> {
    CHOSEN.get()?.passed_over.as_deref()
}

/// The chosen driver, or `CUDA_ERROR_NOT_INITIALIZED`.
pub(crate) fn served() -> Answer<Served> {
    let Some(chosen) = CHOSEN.get() else {
        return Err(Failure::new(CUDA_ERROR_NOT_INITIALIZED, "cuInit was not called yet"));
    };
    if chosen.origin.is_here() { Ok(chosen.served) } else { Err(forked_away()) }
}

/// The chosen driver; before `cuInit` the one that it would choose.
pub(crate) fn likely() -> Answer<Served> {
    match CHOSEN.get() {
        Some(_) => served(),
        None => Ok(choose(wish_of_environment()?, || Ok(Served::Emulator))?.0),
    }
}

fn forked_away() -> Failure {
    Failure::new(
        CUDA_ERROR_NOT_INITIALIZED,
        "this process was forked from one that had initialised CUDA; CUDA works only in the \
         parent, or in a program that the child starts with exec",
    )
}

/// Chooses a driver and starts it; does nothing where that is done.
pub(crate) fn init() -> Answer {
    let _choosing = CHOOSING.lock().unwrap_or_else(PoisonError::into_inner);
    if CHOSEN.get().is_some() {
        return served().map(|_| ());
    }
    detail::verbose()?;
    let (served, passed_over) = choose(wish_of_environment()?, start_emulator)?;
    let chosen = Chosen { served, origin: Origin::here(), passed_over };
    CHOSEN.set(chosen).map_err(|_| Failure::from(CUDA_ERROR_NOT_INITIALIZED))
}

fn wish_of_environment() -> Answer<Wish> {
    let value = env::var_os(VARIABLE).map(|value| value.to_string_lossy().into_owned());
    wish(value.as_deref())
}

fn wish(value: Option<&str>) -> Answer<Wish> {
    match value {
        None | Some("" | "auto") => Ok(Wish::Auto),
        Some("cuda") => Ok(Wish::Cuda),
        Some("emulator") => Ok(Wish::Emulator),
        Some(other) => Err(Failure::new(
            CUDA_ERROR_INVALID_VALUE,
            format!("{VARIABLE} is `{other}`; it may be `auto`, `cuda` or `emulator`"),
        )),
    }
}

/// The driver, and why it is not the preferred one.
fn choose(wish: Wish, emulator: impl Fn() -> Answer<Served>) -> Answer<(Served, Option<String>)> {
    match wish {
        Wish::Emulator => Ok((emulator()?, None)),
        Wish::Cuda => Ok((Served::Cuda(real::open().map_err(|why| no_cuda(&why))?), None)),
        Wish::Auto => match real::open() {
            Ok(symbols) => Ok((Served::Cuda(symbols), None)),
            Err(why) => Ok((emulator()?, Some(why.to_string()))),
        },
    }
}

fn start_emulator() -> Answer<Served> {
    serve::start(FUNCTIONS)?;
    Ok(Served::Emulator)
}

fn no_cuda(why: &Unusable) -> Failure {
    let text = format!(
        "{VARIABLE} is `cuda`, but {why}; install the NVIDIA driver on a machine with an NVIDIA \
         GPU, or set {VARIABLE}=emulator, or unset it to take what there is"
    );
    Failure::new(CUDA_ERROR_NO_DEVICE, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_variable_is_read_strictly() {
        assert_eq!(wish(None).unwrap(), Wish::Auto);
        assert_eq!(wish(Some("auto")).unwrap(), Wish::Auto);
        assert_eq!(wish(Some("cuda")).unwrap(), Wish::Cuda);
        assert_eq!(wish(Some("emulator")).unwrap(), Wish::Emulator);
        let failure = wish(Some("CUDA")).unwrap_err();
        assert_eq!(failure.code, CUDA_ERROR_INVALID_VALUE);
        for word in ["`CUDA`", "`auto`", "`cuda`", "`emulator`"] {
            assert!(failure.text.contains(word), "{}", failure.text);
        }
    }

    #[test]
    fn an_unmet_wish_says_the_way_out() {
        let failure = no_cuda(&Unusable::NoDevice);
        assert_eq!(failure.code, CUDA_ERROR_NO_DEVICE);
        for word in ["no device", "install the NVIDIA driver", "FERROWARP_DEVICE=emulator"] {
            assert!(failure.text.contains(word), "{}", failure.text);
        }
    }
}
