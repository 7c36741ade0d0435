//! Where each system has the library of the NVIDIA driver, and which of these files is opened.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::path::Path;

use libloading::Library;

/// The environment variable that names the driver's library, for systems on which another library
/// has its usual name, or which have it elsewhere.
pub(crate) const VARIABLE: &str = "FERROWARP_CUDA_LIBRARY";

/// The system-wide search, then the folders that a search may not include: of WSL 2, NixOS, Tegra
/// (JetPack 6, then earlier ones) and Google's containers. `libcuda.so` comes last, since it may be
/// the stub of a CUDA toolkit.
const LINUX: &[&str] = &[
    "libcuda.so.1",
    "/usr/lib/wsl/lib/libcuda.so.1",
    "/run/opengl-driver/lib/libcuda.so.1",
    "/usr/lib/aarch64-linux-gnu/nvidia/libcuda.so.1",
    "/usr/lib/aarch64-linux-gnu/tegra/libcuda.so.1",
    "/usr/local/nvidia/lib64/libcuda.so.1",
    "libcuda.so",
];

/// The system folder alone is searched for it, see [`open`].
const WINDOWS: &[&str] = &["nvcuda.dll"];

/// The names that the library can have on a system of this name (`std::env::consts::OS`).
const fn names(os: &str) -> &'static [&'static str] {
    match os.as_bytes() {
        b"linux" | b"freebsd" => LINUX,
        b"windows" => WINDOWS,
        // NVIDIA has had no driver for macOS since 2019.
        _ => &[],
    }
}

/// A name that did not open, and the reason of the loader unless the file does not exist.
#[derive(Debug)]
pub struct Tried {
    name: String,
    reason: Option<String>,
}

impl fmt::Display for Tried {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.reason {
            Some(reason) => write!(out, "{} ({reason})", self.name),
            None => out.write_str(&self.name),
        }
    }
}

/// Opens the first library that the system has, or the one that the variable names. Returns its
/// name too; otherwise what was tried.
pub(super) fn open() -> Result<(Library, String), Vec<Tried>> {
    let named = std::env::var_os(VARIABLE).filter(|name| !name.is_empty());
    let by_user = named.is_some();
    let all = named.map_or_else(|| system_names(std::env::consts::OS), |name| vec![name]);
    first(&all, |name| {
        // SAFETY: the library's initialisers are NVIDIA's own, which every CUDA program runs, or
        // this front's, of which there are none.
        unsafe { if by_user { Library::new(name) } else { open_of_system(name) } }
    })
}

fn system_names(os: &str) -> Vec<OsString> {
    names(os).iter().map(OsString::from).collect()
}

/// The first name that opens.
fn first<L, E: std::error::Error>(
    names: &[OsString],
    open: impl Fn(&OsStr) -> Result<L, E>,
) -> Result<(L, String), Vec<Tried>> {
    let mut tried = Vec::new();
    for name in names {
        let text = name.to_string_lossy().into_owned();
        match open(name) {
            Ok(library) => return Ok((library, text)),
            Err(error) => tried.push(Tried { reason: reason(name, &text, &error), name: text }),
        }
    }
    Err(tried)
}

/// What the loader says, without the name that it repeats; nothing if the file does not exist.
fn reason(name: &OsStr, text: &str, error: &dyn std::error::Error) -> Option<String> {
    let said = error.source().map_or_else(|| error.to_string(), ToString::to_string);
    let said = said.strip_prefix(text).unwrap_or(&said).trim_start_matches([':', ' ']);
    let absent = said.ends_with("No such file or directory") || is_path(name) && !exists(name);
    (!absent).then(|| said.to_owned())
}

fn is_path(name: &OsStr) -> bool {
    Path::new(name).components().count() > 1
}

fn exists(name: &OsStr) -> bool {
    Path::new(name).exists()
}

/// Opens a library of the system.
///
/// # Safety
/// As for `Library::new`.
#[cfg(not(windows))]
unsafe fn open_of_system(name: &OsStr) -> Result<Library, libloading::Error> {
    // SAFETY: the caller's promise.
    unsafe { Library::new(name) }
}

/// Opens a library of the system folder alone: a file of that name beside the program, or in the
/// current folder, is not NVIDIA's driver.
///
/// # Safety
/// As for `Library::new`.
#[cfg(windows)]
unsafe fn open_of_system(name: &OsStr) -> Result<Library, libloading::Error> {
    use libloading::os::windows::{LOAD_LIBRARY_SEARCH_SYSTEM32, Library as Windows};
    // SAFETY: the caller's promise.
    unsafe { Windows::load_with_flags(name, LOAD_LIBRARY_SEARCH_SYSTEM32) }.map(Library::from)
}

/// What is reported of files that do not exist.
#[cfg(test)]
pub(super) fn absent(names: &[&str]) -> Vec<Tried> {
    names.iter().map(|&name| Tried { name: name.to_owned(), reason: None }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("{0}")]
    struct Said(&'static str);

    fn tried(os: &str, say: impl Fn(&OsStr) -> Result<(), Said>) -> Result<String, Vec<String>> {
        let opened = first(&system_names(os), say).map(|((), name)| name);
        opened.map_err(|tried| tried.iter().map(Tried::to_string).collect())
    }

    #[test]
    fn each_system_has_its_names() {
        assert_eq!(names("windows"), ["nvcuda.dll"]);
        assert!(names("macos").is_empty());
        let linux = names("linux");
        // The search of the system decides, and a toolkit's stub is the last resort.
        assert_eq!((linux[0], linux[linux.len() - 1]), ("libcuda.so.1", "libcuda.so"));
        for folder in ["/usr/lib/wsl/lib", "/aarch64-linux-gnu/tegra", "/aarch64-linux-gnu/nvidia"]
        {
            assert!(linux.iter().any(|name| name.contains(folder)), "{folder}");
        }
    }

    #[test]
    fn the_first_library_that_opens_is_taken() {
        let only = |which: &'static str| {
            move |name: &OsStr| if name == which { Ok(()) } else { Err(Said("no")) }
        };
        for name in LINUX {
            assert_eq!(tried("linux", only(name)).unwrap(), *name);
        }
        assert_eq!(tried("windows", only("nvcuda.dll")).unwrap(), "nvcuda.dll");
    }

    #[test]
    fn what_was_tried_is_listed_with_reasons_other_than_absence() {
        let absent = |_: &OsStr| {
            Err(Said("libcuda.so.1: cannot open shared object file: No such file or directory"))
        };
        assert_eq!(tried("linux", absent).unwrap_err(), LINUX);
        let damaged = |_: &OsStr| Err(Said("libcuda.so.1: file too short"));
        assert_eq!(tried("linux", damaged).unwrap_err()[0], "libcuda.so.1 (file too short)");
        assert_eq!(tried("macos", damaged).unwrap_err(), [""; 0]);
    }
}
