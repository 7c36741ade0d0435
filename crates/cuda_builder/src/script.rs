//! What a build script tells the cargo that runs it. Outside a build script nothing is printed.

use std::path::PathBuf;

use crate::ptxas::TOOLKITS;

/// When to run the build script again.
pub(crate) fn rerun_if_changed(sources: &[PathBuf]) {
    for source in sources {
        tell(&format!("rerun-if-changed={}", source.display()));
    }
    for toolkit in TOOLKITS {
        tell(&format!("rerun-if-env-changed={toolkit}"));
    }
}

/// Shows every line of a text to the user.
pub(crate) fn warn(text: &str) {
    for line in text.lines() {
        tell(&format!("warning={line}"));
    }
}

fn tell(instruction: &str) {
    if std::env::var_os("OUT_DIR").is_some() {
        println!("cargo::{instruction}");
    }
}
