//! The installed NVIDIA driver: opened at run time, so that nothing needs it to link or to start.

pub(crate) mod module;

use std::sync::OnceLock;

use libloading::Library;

use crate::abi::Out;
use crate::codes::{self, CUDA_ERROR_NOT_FOUND, CUDA_SUCCESS, CUresult};
use crate::detail::{Answer, Failure};
use crate::table::Symbols;

/// The name under which every NVIDIA driver installs its library.
const LIBRARY: &str = "libcuda.so.1";

/// Why the installed driver cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Unusable {
    #[error("the driver's library does not open ({0})")]
    NotOpened(#[from] libloading::Error),
    #[error("the driver's library has no `{0}`")]
    Incomplete(&'static str),
    #[error("the driver's {function} returned {code} ({name})")]
    Refused { function: &'static str, code: CUresult, name: String },
    #[error("the driver finds no device")]
    NoDevice,
}

struct Driver {
    symbols: Symbols,
    /// Keeps the symbols valid: it is never closed.
    _library: Library,
}

static DRIVER: OnceLock<Driver> = OnceLock::new();

/// Opens the driver, initialises it, and sees that it has a device.
pub(crate) fn open() -> Result<&'static Symbols, Unusable> {
    if DRIVER.get().is_none() {
        // SAFETY: the library's initialisers are NVIDIA's own; every CUDA program runs them.
        let library = unsafe { Library::new(LIBRARY) }?;
        // SAFETY: it is the CUDA driver, and stands beside its symbols in a static.
        let symbols = unsafe { Symbols::load(&library) };
        let _ = DRIVER.set(Driver { symbols, _library: library });
    }
    let symbols = &DRIVER.get().ok_or(Unusable::NoDevice)?.symbols;
    init(symbols)?;
    if device_count(symbols)? > 0 { Ok(symbols) } else { Err(Unusable::NoDevice) }
}

fn init(symbols: &Symbols) -> Result<(), Unusable> {
    let function = symbols.cuInit.ok_or(Unusable::Incomplete("cuInit"))?;
    // SAFETY: cuInit may be called at any time; 0 is its only flag.
    accepted("cuInit", unsafe { function(0) })
}

fn device_count(symbols: &Symbols) -> Result<i32, Unusable> {
    let function = symbols.cuDeviceGetCount.ok_or(Unusable::Incomplete("cuDeviceGetCount"))?;
    let mut count = 0;
    // SAFETY: the driver is initialised, and the pointer is to a live i32.
    accepted("cuDeviceGetCount", unsafe { function(Out::from(&mut count)) })?;
    Ok(count)
}

fn accepted(function: &'static str, code: CUresult) -> Result<(), Unusable> {
    if code == CUDA_SUCCESS {
        return Ok(());
    }
    let name = codes::error_name(code).map_or("unknown".into(), |name| name.to_string_lossy());
    Err(Unusable::Refused { function, code, name: name.into_owned() })
}

/// The library's function of this name (which ends with a NUL), if there is one.
///
/// # Safety
/// `F` is the function's type, and the library stays open while it is used.
pub(crate) unsafe fn symbol<F: Copy>(library: &Library, name: &str) -> Option<F> {
    // SAFETY: the caller's.
    unsafe { library.get::<F>(name.as_bytes()) }.ok().map(|symbol| *symbol)
}

/// The real driver's answer.
pub(crate) fn checked(code: CUresult) -> Answer {
    if code == CUDA_SUCCESS { Ok(()) } else { Err(Failure::from(code)) }
}

/// A function that the installed driver does not have.
pub(crate) fn missing(name: &str) -> Failure {
    let text = format!("the installed NVIDIA driver has no {name}; a newer one may");
    Failure::new(CUDA_ERROR_NOT_FOUND, text)
}
