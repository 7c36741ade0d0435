//! The shared library under the name that programs look for.
#![allow(dead_code, reason = "each test file uses a part")]

use std::env;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

use tempfile::TempDir;

/// Where cargo built it: beside the tests.
pub fn built() -> PathBuf {
    let tests = env::current_exe().expect("this executable");
    let path = tests.with_file_name("libferrowarp_libcuda.so");
    assert!(path.exists(), "cargo built no {}", path.display());
    path
}

/// A folder for `LD_LIBRARY_PATH`, and for `-L`.
pub fn folder() -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    for name in ["libcuda.so.1", "libcuda.so"] {
        symlink(built(), folder.path().join(name)).expect("a link");
    }
    folder
}
