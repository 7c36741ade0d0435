//! The functions by which a program finds the others.

use std::ffi::{c_char, c_int, c_void};

use crate::abi::{CUuuid, In, Out, text};
use crate::backend::{self, DRIVER_VERSION, Served};
use crate::codes::{
    CUDA_ERROR_INVALID_VALUE, CUDA_ERROR_NOT_FOUND, CUDA_ERROR_NOT_INITIALIZED,
    CUDA_ERROR_NOT_SUPPORTED,
};
use crate::detail::{Answer, Failure};
use crate::foreign::per_thread;
use crate::foreign::versions::{PerThread, row_of};
use crate::{real, table};

/// Flags of a search: the null stream is what it always was, or the thread's own stream.
const LEGACY_STREAM: u64 = 1;
const PER_THREAD_STREAM: u64 = 2;
/// The CUDA version that brought streams of a thread's own.
const PER_THREAD_SINCE: c_int = 7000;

/// How a search ended, by the driver API's numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Status {
    Success = 0,
    SymbolNotFound = 1,
    VersionNotSufficient = 2,
}

/// The search of CUDA 11: what is not found is an error.
#[allow(non_snake_case)]
pub(crate) fn cuGetProcAddress(
    symbol: In<c_char>,
    function: Out<*mut c_void>,
    version: c_int,
    flags: u64,
) -> Answer {
    let symbol = text(symbol)?.to_string_lossy();
    match search(&symbol, function, version, flags)? {
        Status::Success => Ok(()),
        Status::SymbolNotFound => Err(not_found(format!("there is no function `{symbol}`"))),
        Status::VersionNotSufficient => {
            Err(not_found(format!("`{symbol}` is newer than CUDA version {version}")))
        }
    }
}

fn not_found(text: String) -> Failure {
    Failure::new(CUDA_ERROR_NOT_FOUND, text)
}

/// The search of CUDA 12: what is not found is a null pointer, and the status says why.
#[allow(non_snake_case)]
pub(crate) fn cuGetProcAddress_v2(
    symbol: In<c_char>,
    function: Out<*mut c_void>,
    version: c_int,
    flags: u64,
    status: Out<c_int>,
) -> Answer {
    let symbol = text(symbol)?.to_string_lossy();
    let found = search(&symbol, function, version, flags)?;
    status.set_if_wanted(found as c_int);
    Ok(())
}

fn search(symbol: &str, function: Out<*mut c_void>, version: c_int, flags: u64) -> Answer<Status> {
    function.set(std::ptr::null_mut())?;
    if flags > PER_THREAD_STREAM {
        let text = format!("flags are {flags}; they may be 0, {LEGACY_STREAM} or 2");
        return Err(Failure::new(CUDA_ERROR_INVALID_VALUE, text));
    }
    if version > DRIVER_VERSION {
        let text = format!("CUDA version {version}; the driver's is {DRIVER_VERSION}");
        return Err(Failure::new(CUDA_ERROR_INVALID_VALUE, text));
    }
    let (status, address) = match lookup(symbol, version, flags == PER_THREAD_STREAM) {
        Ok(address) => (Status::Success, address),
        Err(status) => (status, std::ptr::null()),
    };
    function.set(address.cast_mut())?;
    Ok(status)
}

/// The variant of a function that a program of this CUDA version means.
fn lookup(base: &str, version: c_int, own_stream: bool) -> Result<*const c_void, Status> {
    let row = row_of(base).ok_or(Status::SymbolNotFound)?;
    let known = || row.since.iter().take_while(|&&since| since <= DRIVER_VERSION);
    if known().next().is_none() {
        return Err(Status::SymbolNotFound);
    }
    let variants = known().take_while(|&&since| since <= version).count();
    let name = match variants {
        0 => return Err(Status::VersionNotSufficient),
        1 => base.to_owned(),
        variant => format!("{base}_v{variant}"),
    };
    let own_stream = own_stream && version >= PER_THREAD_SINCE;
    let twin = match row.per_thread {
        PerThread::Ptds if own_stream => per_thread::address(&format!("{name}_ptds")),
        PerThread::Ptsz if own_stream => per_thread::address(&format!("{name}_ptsz")),
        _ => table::address(&name),
    };
    twin.ok_or(Status::SymbolNotFound)
}

/// NVIDIA's own libraries ask here for functions that are not documented; the emulator has none.
#[allow(non_snake_case)]
pub(crate) fn cuGetExportTable(table: Out<*const c_void>, id: In<CUuuid>) -> Answer {
    match backend::likely() {
        Ok(Served::Cuda(symbols)) => {
            let function =
                symbols.cuGetExportTable.ok_or_else(|| real::missing("cuGetExportTable"))?;
            // SAFETY: the real function of the same signature; its contract is the caller's.
            real::checked(unsafe { function(table, id) })
        }
        Ok(Served::Emulator) => {
            table.set(std::ptr::null())?;
            let text = "the emulator does not have tables of undocumented functions";
            Err(Failure::new(CUDA_ERROR_NOT_SUPPORTED, text))
        }
        Err(_) => Err(Failure::from(CUDA_ERROR_NOT_INITIALIZED)),
    }
}

/// The version of whoever answers, or will answer after `cuInit`.
#[allow(non_snake_case)]
pub(crate) fn cuDriverGetVersion(version: Out<c_int>) -> Answer {
    match backend::likely()? {
        Served::Cuda(symbols) => {
            let function =
                symbols.cuDriverGetVersion.ok_or_else(|| real::missing("cuDriverGetVersion"))?;
            // SAFETY: the real function of the same signature; its contract is the caller's.
            real::checked(unsafe { function(version) })
        }
        Served::Emulator => version.set(DRIVER_VERSION),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(name: &str) -> Result<*const c_void, Status> {
        Ok(table::address(name).unwrap_or_else(|| panic!("no {name}")))
    }

    #[test]
    fn the_version_chooses_the_variant() {
        assert_eq!(lookup("cuMemAlloc", 3020, false), named("cuMemAlloc_v2"));
        assert_eq!(lookup("cuMemAlloc", 13000, false), named("cuMemAlloc_v2"));
        assert_eq!(lookup("cuCtxCreate", 3020, false), named("cuCtxCreate_v2"));
        assert_eq!(lookup("cuCtxCreate", 12050, false), named("cuCtxCreate_v4"));
        assert_eq!(lookup("cuCtxCreate", 13000, false), named("cuCtxCreate_v4"));
        assert_eq!(lookup("cuMemAdvise", 12000, false), named("cuMemAdvise"));
        assert_eq!(lookup("cuMemAdvise", 13000, false), named("cuMemAdvise_v2"));
        assert_eq!(lookup("cuDeviceGetUuid", 11030, false), named("cuDeviceGetUuid"));
        assert_eq!(lookup("cuDeviceGetUuid", 11040, false), named("cuDeviceGetUuid_v2"));
        assert_eq!(lookup("cuGetProcAddress", 13000, false), named("cuGetProcAddress_v2"));
        assert_eq!(lookup("cuInit", 2000, false), named("cuInit"));
    }

    #[test]
    fn what_is_not_there_says_why() {
        assert_eq!(lookup("cuMemAllocAsync", 11000, false), Err(Status::VersionNotSufficient));
        assert_eq!(lookup("cuNothing", 13000, false), Err(Status::SymbolNotFound));
        // A base name has no suffix, and a name that is part of another is none.
        assert_eq!(lookup("cuMemAlloc_v2", 13000, false), Err(Status::SymbolNotFound));
        assert_eq!(lookup("cuMem", 13000, false), Err(Status::SymbolNotFound));
        // Device pointers of 32 bits, as before CUDA 3.2.
        assert_eq!(lookup("cuMemAlloc", 2000, false), Err(Status::SymbolNotFound));
        // Newer than the driver that this is.
        assert_eq!(lookup("cuGraphGetId", 13000, false), Err(Status::SymbolNotFound));
    }

    #[test]
    fn a_program_can_ask_for_its_threads_own_stream() {
        let twin = |name: &str| Ok(per_thread::address(name).unwrap());
        let copy = lookup("cuMemcpyHtoD", 7000, true);
        assert_eq!(copy, twin("cuMemcpyHtoD_v2_ptds"));
        assert_ne!(copy, lookup("cuMemcpyHtoD", 7000, false));
        assert_eq!(lookup("cuLaunchKernel", 13000, true), twin("cuLaunchKernel_ptsz"));
        // What has to do with no stream is the same for both, and older versions know no twin.
        assert_eq!(lookup("cuMemAlloc", 13000, true), named("cuMemAlloc_v2"));
        assert_eq!(lookup("cuLaunchKernel", 6050, true), named("cuLaunchKernel"));
    }
}
