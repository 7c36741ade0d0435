//! Opening the library of the installed NVIDIA driver.

use std::sync::OnceLock;

use libloading::Library;

use crate::abi::Out;
use crate::codes::{self, CUDA_ERROR_NOT_FOUND, CUDA_SUCCESS, ResultCode};
use crate::detail::{DriverError, DriverResult};
use crate::real::names::{self, Tried, VARIABLE};
use crate::symbols::Symbols;

/// A symbol that only this front's own shared library exports, to tell it from NVIDIA's.
pub(crate) const MARK: &str = "FERROWARP_LIBCUDA";

/// Why the installed driver cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Unusable {
    /// None of its names opens.
    #[error("{}", not_opened(.0))]
    NotOpened(Vec<Tried>),
    /// The library is this front, built as a shared library.
    #[error(
        "`{0}` is Ferrowarp's own library and not NVIDIA's; {VARIABLE} may name the file of \
         NVIDIA's"
    )]
    Front(String),
    /// The library lacks a function that every driver has.
    #[error("the driver's library has no `{0}`")]
    Incomplete(&'static str),
    /// The driver does not start.
    #[error("the driver's {function} returned {code} ({name})")]
    Refused {
        /// The function that failed.
        function: &'static str,
        /// The driver's code.
        code: ResultCode,
        /// The code's name.
        name: String,
    },
    /// The driver works, and there is no device.
    #[error("the driver finds no device")]
    NoDevice,
}

/// Names all that was tried.
fn not_opened(tried: &[Tried]) -> String {
    match tried {
        [] => "NVIDIA has no driver for this system".to_owned(),
        [one] => format!("the driver's library does not open: {one}"),
        all => {
            let all: Vec<_> = all.iter().map(Tried::to_string).collect();
            format!("the driver's library does not open under any of its names: {}", all.join(", "))
        }
    }
}

/// The installed NVIDIA driver, which has at least one device.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct InstalledDriver {
    /// The name under which its library opened.
    pub library: String,
    /// The newest CUDA version that it supports: 13000 is 13.0.
    pub cuda_version: i32,
    /// The number of its devices.
    pub devices: i32,
}

/// Opens the installed NVIDIA driver, whichever backend this process uses or would choose.
///
/// # Errors
/// Why it cannot be used.
pub fn installed_driver() -> Result<InstalledDriver, Unusable> {
    let symbols = open()?;
    let version = symbols.cuDriverGetVersion.ok_or(Unusable::Incomplete("cuDriverGetVersion"))?;
    let mut cuda_version = 0;
    // SAFETY: the driver is initialised, and the pointer is to a live i32.
    accepted("cuDriverGetVersion", unsafe { version(Out::from(&mut cuda_version)) })?;
    let library = DRIVER.get().map_or_else(String::new, |driver| driver.name.clone());
    Ok(InstalledDriver { library, cuda_version, devices: device_count(symbols)? })
}

struct Driver {
    symbols: Symbols,
    /// Under which it opened.
    name: String,
    /// Never closed, which keeps the symbols valid.
    _library: Library,
}

static DRIVER: OnceLock<Driver> = OnceLock::new();

/// Opens and initializes the driver, and checks that it has a device.
pub(crate) fn open() -> Result<&'static Symbols, Unusable> {
    if DRIVER.get().is_none() {
        let (library, name) = open_library()?;
        // SAFETY: it is the CUDA driver, and stands beside its symbols in a static.
        let symbols = unsafe { Symbols::load(&library) };
        let _ = DRIVER.set(Driver { symbols, name, _library: library });
    }
    let symbols = &DRIVER.get().ok_or(Unusable::NoDevice)?.symbols;
    init(symbols)?;
    if device_count(symbols)? > 0 { Ok(symbols) } else { Err(Unusable::NoDevice) }
}

/// Opens the library of the driver. Fails if that is the shared library which this crate is part
/// of, since the front would call itself.
fn open_library() -> Result<(Library, String), Unusable> {
    let (library, name) = names::open().map_err(Unusable::NotOpened)?;
    // SAFETY: only its presence is asked; a pointer to a value may be to any one.
    let is_front = unsafe { library.get::<*const u8>(MARK.as_bytes()) }.is_ok();
    if is_front { Err(Unusable::Front(name)) } else { Ok((library, name)) }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_system_without_a_driver_is_told_from_one_that_lacks_it() {
        assert_eq!(Unusable::NotOpened(vec![]).to_string(), "NVIDIA has no driver for this system");
        let text = Unusable::NotOpened(names::absent(&["libcuda.so.1"])).to_string();
        assert_eq!(text, "the driver's library does not open: libcuda.so.1");
        let text = Unusable::NotOpened(names::absent(&["libcuda.so.1", "libcuda.so"])).to_string();
        assert!(text.ends_with("under any of its names: libcuda.so.1, libcuda.so"), "{text}");
    }
}
