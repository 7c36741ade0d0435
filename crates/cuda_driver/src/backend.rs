//! The backend that serves the driver calls, chosen once, at the first `cuInit` that succeeds.

use std::env;
use std::sync::{Mutex, OnceLock, PoisonError};

use crate::codes::{CUDA_ERROR_INVALID_VALUE, CUDA_ERROR_NO_DEVICE, CUDA_ERROR_NOT_INITIALIZED};
use crate::detail::{DriverError, DriverResult};
use crate::emulated::serve;
use crate::process::StartingProcess;
use crate::real::Unusable;
use crate::symbols::{FUNCTIONS, Symbols};
use crate::{detail, real};

/// The CUDA version whose API the front implements and the emulator reports: 13.0.
pub(crate) const DRIVER_VERSION: i32 = 13000;

/// The environment variable that requests a backend.
const VARIABLE: &str = "FERROWARP_DEVICE";

/// The backend that serves the driver calls of this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Backend {
    /// The installed NVIDIA driver.
    Cuda,
    /// The emulator inside this process.
    Emulator,
}

/// The chosen driver, ready to be called.
#[derive(Clone, Copy)]
pub(crate) enum Driver {
    Cuda(&'static Symbols),
    Emulator,
}

struct ChosenDriver {
    driver: Driver,
    /// The process that chose it: no driver works in a child after `fork`.
    origin: StartingProcess,
    passed_over: Option<String>,
}

static CHOSEN: OnceLock<ChosenDriver> = OnceLock::new();
static CHOOSING: Mutex<()> = Mutex::new(());

/// The backend that the environment variable requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RequestedBackend {
    Auto,
    Cuda,
    Emulator,
}

/// The backend that serves the driver calls of this process; `None` before the first successful
/// `cuInit`.
pub fn backend() -> Option<Backend> {
    CHOSEN.get().map(|chosen| match chosen.driver {
        Driver::Cuda(_) => Backend::Cuda,
        Driver::Emulator => Backend::Emulator,
    })
}

/// Whether this process was forked from one in which `cuInit` had succeeded. No driver works in
/// such a process.
#[inline]
pub fn forked() -> bool {
    CHOSEN.get().is_some_and(|chosen| !chosen.origin.is_current())
}

/// Why the emulator was chosen although the NVIDIA driver is preferred, as a short phrase: its
/// library does not open, it has no device, … `None` if the emulator was requested, or is not in
/// use.
pub fn cuda_passed_over() -> Option<&'static str> {
    CHOSEN.get()?.passed_over.as_deref()
}

/// The functions of the NVIDIA driver, if that is the chosen one and this process may call it.
#[inline]
pub(crate) fn cuda() -> Option<&'static Symbols> {
    match CHOSEN.get() {
        Some(&ChosenDriver { driver: Driver::Cuda(symbols), origin, .. }) => {
            origin.is_current().then_some(symbols)
        }
        _ => None,
    }
}

/// The chosen driver, or `CUDA_ERROR_NOT_INITIALIZED`.
pub(crate) fn driver() -> DriverResult<Driver> {
    let Some(chosen) = CHOSEN.get() else {
        return Err(DriverError::new(CUDA_ERROR_NOT_INITIALIZED, "cuInit was not called yet"));
    };
    if chosen.origin.is_current() { Ok(chosen.driver) } else { Err(used_after_fork()) }
}

/// The chosen driver; before `cuInit`, the one that `cuInit` would choose.
pub(crate) fn probable_driver() -> DriverResult<Driver> {
    match CHOSEN.get() {
        Some(_) => driver(),
        None => Ok(choose(requested_backend()?, || Ok(Driver::Emulator))?.0),
    }
}

fn used_after_fork() -> DriverError {
    DriverError::new(
        CUDA_ERROR_NOT_INITIALIZED,
        "this process was forked from one that had initialised CUDA; CUDA works only in the \
         parent, or in a program that the child starts with exec",
    )
}

/// Chooses a driver and starts it. Does nothing if that has happened already.
pub(crate) fn init() -> DriverResult {
    let _choosing = CHOOSING.lock().unwrap_or_else(PoisonError::into_inner);
    if CHOSEN.get().is_some() {
        return driver().map(|_| ());
    }
    detail::verbose()?;
    let (driver, passed_over) = choose(requested_backend()?, start_emulator)?;
    let chosen = ChosenDriver { driver, origin: StartingProcess::current(), passed_over };
    CHOSEN.set(chosen).map_err(|_| DriverError::from(CUDA_ERROR_NOT_INITIALIZED))
}

fn requested_backend() -> DriverResult<RequestedBackend> {
    let value = env::var_os(VARIABLE).map(|value| value.to_string_lossy().into_owned());
    parse_backend(value.as_deref())
}

fn parse_backend(value: Option<&str>) -> DriverResult<RequestedBackend> {
    match value {
        None | Some("" | "auto") => Ok(RequestedBackend::Auto),
        Some("cuda") => Ok(RequestedBackend::Cuda),
        Some("emulator") => Ok(RequestedBackend::Emulator),
        Some(other) => Err(DriverError::new(
            CUDA_ERROR_INVALID_VALUE,
            format!("{VARIABLE} is `{other}`; it may be `auto`, `cuda` or `emulator`"),
        )),
    }
}

/// The driver, and why the preferred one was passed over, if it was.
fn choose(
    requested: RequestedBackend,
    emulator: impl Fn() -> DriverResult<Driver>,
) -> DriverResult<(Driver, Option<String>)> {
    match requested {
        RequestedBackend::Emulator => Ok((emulator()?, None)),
        RequestedBackend::Cuda => {
            Ok((Driver::Cuda(real::open().map_err(|why| no_cuda(&why))?), None))
        }
        RequestedBackend::Auto => match real::open() {
            Ok(symbols) => Ok((Driver::Cuda(symbols), None)),
            Err(why) => Ok((emulator()?, Some(why.to_string()))),
        },
    }
}

fn start_emulator() -> DriverResult<Driver> {
    serve::start(FUNCTIONS)?;
    Ok(Driver::Emulator)
}

fn no_cuda(why: &Unusable) -> DriverError {
    let text = format!(
        "{VARIABLE} is `cuda`, but {why}; install the NVIDIA driver on a machine with an NVIDIA \
         GPU, or set {VARIABLE}=emulator, or unset it to use whatever is available"
    );
    DriverError::new(CUDA_ERROR_NO_DEVICE, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_variable_is_read_strictly() {
        assert_eq!(parse_backend(None).unwrap(), RequestedBackend::Auto);
        assert_eq!(parse_backend(Some("auto")).unwrap(), RequestedBackend::Auto);
        assert_eq!(parse_backend(Some("cuda")).unwrap(), RequestedBackend::Cuda);
        assert_eq!(parse_backend(Some("emulator")).unwrap(), RequestedBackend::Emulator);
        let failure = parse_backend(Some("CUDA")).unwrap_err();
        assert_eq!(failure.code, CUDA_ERROR_INVALID_VALUE);
        for word in ["`CUDA`", "`auto`", "`cuda`", "`emulator`"] {
            assert!(failure.text.contains(word), "{}", failure.text);
        }
    }

    #[test]
    fn an_unavailable_backend_says_what_to_do() {
        let failure = no_cuda(&Unusable::NoDevice);
        assert_eq!(failure.code, CUDA_ERROR_NO_DEVICE);
        for word in ["no device", "install the NVIDIA driver", "FERROWARP_DEVICE=emulator"] {
            assert!(failure.text.contains(word), "{}", failure.text);
        }
    }
}
