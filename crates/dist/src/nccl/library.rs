//! The library `libnccl.so.2` of this process.

use std::ffi::{CStr, OsString, c_char};
use std::ptr;
use std::sync::Mutex;

use super::functions::{Comm, Functions, IDENTITY_BYTES, Identity, LEAST_VERSION, SUCCESS, Status};
use super::handle::end_before_exit;
use super::places;
use crate::error::DistError;

/// NCCL, opened. It is never closed.
pub(super) struct Library {
    pub(super) functions: Functions,
    pub(super) version: u32,
    /// How it was opened.
    pub(super) name: String,
}

impl Library {
    /// The library, opened at the first call that succeeds.
    pub(super) fn get() -> Result<&'static Self, DistError> {
        static OPENED: Mutex<Option<&'static Library>> = Mutex::new(None);
        let mut opened = OPENED.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        match *opened {
            Some(library) => Ok(library),
            None => Ok(opened.insert(Box::leak(Box::new(Self::open()?)))),
        }
    }

    fn open() -> Result<Self, DistError> {
        let named = std::env::var_os("FERROWARP_NCCL_LIBRARY").filter(|named| !named.is_empty());
        let is_named = named.is_some();
        let (mut tried, mut reason) = (Vec::new(), String::new());
        let mut attempt = |file: OsString| {
            let opened = Self::open_file(&file);
            tried.push(file.to_string_lossy().into_owned());
            match opened {
                Ok(library) => Some(library),
                Err(why) => {
                    // The first one says most: the others are tried only because it failed.
                    if reason.is_empty() {
                        reason = why;
                    }
                    None
                }
            }
        };
        let mut found = places::candidates(named).into_iter().find_map(&mut attempt);
        if found.is_none() && !is_named {
            found = places::of_python().and_then(attempt);
        }
        found.ok_or(DistError::NcclLibrary { reason, tried })
    }

    fn open_file(file: &OsString) -> Result<Self, String> {
        // SAFETY: what NCCL does when it is loaded is to set variables of its own.
        let library =
            unsafe { libloading::Library::new(file) }.map_err(|error| error.to_string())?;
        // SAFETY: the file is NCCL by its name or by the user's word, and is leaked below.
        let functions = unsafe { Functions::load(&library) }
            .map_err(|error| format!("it is not NCCL 2.18 or later: {error}"))?;
        std::mem::forget(library);
        // What is registered last runs first: before what NCCL itself has registered for the exit.
        end_before_exit();
        let mut version = 0;
        // SAFETY: `version` is writable.
        let asked = unsafe { (functions.ncclGetVersion)(&mut version) };
        let version = u32::try_from(version).unwrap_or(0);
        if asked != SUCCESS || version < LEAST_VERSION {
            let (major, minor) = (version / 10_000, version / 100 % 100);
            return Err(format!("it is NCCL {major}.{minor}, and 2.18 is needed"));
        }
        Ok(Self { functions, version, name: file.to_string_lossy().into_owned() })
    }

    pub(super) fn new_identity(&self) -> Result<Vec<u8>, DistError> {
        let mut identity = Identity([0; IDENTITY_BYTES]);
        // SAFETY: `identity` is writable.
        let made = unsafe { (self.functions.ncclGetUniqueId)(&mut identity) };
        match made {
            SUCCESS => Ok(identity.0.to_vec()),
            code => Err(self.error("ncclGetUniqueId", code, ptr::null_mut())),
        }
    }

    /// NCCL's error of that number.
    pub(super) fn error(&self, call: &'static str, code: Status, comm: Comm) -> DistError {
        // SAFETY: the function takes every number, and returns a text that is never freed.
        let message = text(unsafe { (self.functions.ncclGetErrorString)(code) });
        // SAFETY: the function does not use the communicator, which may be none; its text stays until the next error, and is
        // copied at once.
        let detail_text = text(unsafe { (self.functions.ncclGetLastError)(comm) });
        DistError::Nccl { call, code, message, detail_text: detail_text.trim().to_owned() }
    }
}

fn text(from: *const c_char) -> String {
    if from.is_null() {
        return String::new();
    }
    // SAFETY: NCCL's texts end with a zero.
    unsafe { CStr::from_ptr(from) }.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[ignore = "needs NCCL, which no test brings: pip install nvidia-nccl-cu12"]
    fn the_installed_library_has_all_functions() {
        let library = Library::get().unwrap();
        assert!(library.version >= LEAST_VERSION, "{}", library.version);
        println!("NCCL {} as {}", library.version, library.name);
        let error = library.error("ncclAllReduce", 4, ptr::null_mut());
        assert!(
            error.to_string().starts_with("ncclAllReduce of NCCL: invalid argument"),
            "{error}"
        );
    }

    #[test]
    fn a_file_that_is_not_nccl_is_refused() {
        let refused = |file: &str| Library::open_file(&file.into()).err().unwrap();
        assert!(refused("/nowhere/libnccl.so.2").contains("/nowhere/libnccl.so.2"));
        let not_nccl = refused("libc.so.6");
        assert!(not_nccl.contains("it is not NCCL 2.18 or later"), "{not_nccl}");
    }
}
