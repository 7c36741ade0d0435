//! Opening the library of the installed NVIDIA driver.

use std::sync::OnceLock;

use libloading::Library;

use crate::abi::Out;
use crate::codes::{self, CUDA_ERROR_NOT_FOUND, CUDA_SUCCESS, ResultCode};
use crate::detail::{DriverError, DriverResult};
use crate::symbols::Symbols;

/// The name under which every NVIDIA driver installs its library.
const LIBRARY: &str = "libcuda.so.1";

/// The environment variable that names the driver's library, for systems on which another library
/// has its usual name.
const VARIABLE: &str = "FERROWARP_CUDA_LIBRARY";

/// A symbol that only this front's own shared library exports, to tell it from NVIDIA's.
pub(crate) const MARK: &str = "FERROWARP_LIBCUDA";

/// Why the installed driver cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Unusable {
    #[error("the driver's library does not open ({0})")]
    NotOpened(#[from] libloading::Error),
    #[error(
        "`{0}` is Ferrowarp's own library and not NVIDIA's; {VARIABLE} may name the file of \
         NVIDIA's"
    )]
    Front(String),
    #[error("the driver's library has no `{0}`")]
    Incomplete(&'static str),
    #[error("the driver's {function} returned {code} ({name})")]
    Refused { function: &'static str, code: ResultCode, name: String },
    #[error("the driver finds no device")]
    NoDevice,
}

struct Driver {
    symbols: Symbols,
    /// Never closed, which keeps the symbols valid.
    _library: Library,
}

static DRIVER: OnceLock<Driver> = OnceLock::new();

/// Opens and initializes the driver, and checks that it has a device.
pub(crate) fn open() -> Result<&'static Symbols, Unusable> {
    if DRIVER.get().is_none() {
        let library = open_library()?;
        // SAFETY: it is the CUDA driver, and stands beside its symbols in a static.
        let symbols = unsafe { Symbols::load(&library) };
        let _ = DRIVER.set(Driver { symbols, _library: library });
    }
    let symbols = &DRIVER.get().ok_or(Unusable::NoDevice)?.symbols;
    init(symbols)?;
    if device_count(symbols)? > 0 { Ok(symbols) } else { Err(Unusable::NoDevice) }
}

/// Opens the library of the driver. Fails if that is the shared library which this crate is part
/// of, since the front would call itself.
fn open_library() -> Result<Library, Unusable> {
    let name = std::env::var_os(VARIABLE).filter(|name| !name.is_empty());
    let name = name.unwrap_or_else(|| LIBRARY.into());
    // SAFETY: the library's initialisers are NVIDIA's own, which every CUDA program runs, or this
    // front's, of which there are none.
    let library = unsafe { Library::new(&name) }?;
    // SAFETY: only its presence is asked; a pointer to a value may be to any one.
    let is_front = unsafe { library.get::<*const u8>(MARK.as_bytes()) }.is_ok();
    if is_front { Err(Unusable::Front(name.to_string_lossy().into_owned())) } else { Ok(library) }
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

fn accepted(function: &'static str, code: ResultCode) -> Result<(), Unusable> {
    if code == CUDA_SUCCESS {
        return Ok(());
    }
    let name = codes::error_name(code).map_or("unknown".into(), |name| name.to_string_lossy());
    Err(Unusable::Refused { function, code, name: name.into_owned() })
}

/// The result code of the real driver as a result.
pub(crate) fn checked(code: ResultCode) -> DriverResult {
    if code == CUDA_SUCCESS { Ok(()) } else { Err(DriverError::from(code)) }
}

/// The error for a function that the installed driver lacks.
pub(crate) fn missing(name: &str) -> DriverError {
    let text = format!("the installed NVIDIA driver has no {name}; a newer one may");
    DriverError::new(CUDA_ERROR_NOT_FOUND, text)
}
