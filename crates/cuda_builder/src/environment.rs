//! The environment of the inner cargo and rustc: that of the user, without what is for the host build.

use std::ffi::OsStr;
use std::process::Command;

/// Flags for every crate on the device, dependencies and `core` included: they are compiled before the kernels.
/// Build scripts and procedural macros, which run on the host, see none of them.
const FLAGS_FOR_ALL: [&str; 3] = [
    // MIR's jump threading copies barriers into divergent branches on Rust 1.96.
    "-Zmir-enable-passes=-JumpThreading",
    // No crate can have `std` here. One that names nothing of it need not say so,
    "-Zcrate-attr=no_std",
    // and one that says so does not say it twice.
    "-Zcrate-attr=allow(unused_attributes)",
];

/// What the inner cargo keeps of the variables that begin with `CARGO` or `RUST`: where things
/// are, how the network is reached, how messages look, and the outer cargo's job server.
const KEPT: [&str; 14] = [
    "CARGO_HOME",
    "CARGO_MAKEFLAGS",
    "CARGO_HTTP_",
    "CARGO_NET_",
    "CARGO_REGISTR",
    "CARGO_SOURCE_",
    "CARGO_TERM_COLOR",
    "CARGO_TERM_VERBOSE",
    "CARGO_LOG",
    "RUSTUP_",
    "RUST_BACKTRACE",
    "RUST_LOG",
    "RUST_MIN_STACK",
    "RUST_RECURSION_COUNT",
];

/// Build-script variables that do not begin with `CARGO` or `RUST`.
const SCRIPT_ONLY: [&str; 7] =
    ["OUT_DIR", "TARGET", "HOST", "NUM_JOBS", "OPT_LEVEL", "PROFILE", "DEBUG"];

/// Names the list of kernels that a partial build leaves out. `cuda_std_macros` reads it.
pub(crate) const WITHOUT: &str = "CUDA_BUILDER_WITHOUT";

/// Nothing that cargo or a wrapper (clippy, say) set for the host build reaches the kernels.
pub(crate) fn clean_environment(command: &mut Command) {
    for (name, _) in std::env::vars_os() {
        if is_foreign(&name) {
            command.env_remove(&name);
        }
    }
    command
        .env("RUSTC_BOOTSTRAP", "1")
        .env("CARGO_ENCODED_RUSTFLAGS", FLAGS_FOR_ALL.join("\u{1f}"));
}

fn is_foreign(name: &OsStr) -> bool {
    let Some(name) = name.to_str() else {
        return false;
    };
    let kept = name == "RUSTC" || KEPT.iter().any(|kept| name.starts_with(kept));
    let tools = name.starts_with("CARGO") || name.starts_with("RUST") || name.starts_with("DEP_");
    SCRIPT_ONLY.contains(&name) || name == WITHOUT || (tools || name == "CLIPPY_ARGS") && !kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_host_builds_variables_are_foreign() {
        let foreign = [
            "RUSTFLAGS",
            "CARGO_ENCODED_RUSTFLAGS",
            "RUSTC_WRAPPER",
            "RUSTC_WORKSPACE_WRAPPER",
            "CARGO_TARGET_DIR",
            "CARGO_BUILD_TARGET",
            "CARGO_PROFILE_RELEASE_LTO",
            "CARGO_INCREMENTAL",
            "CARGO_CFG_TARGET_OS",
            "CLIPPY_ARGS",
            "OUT_DIR",
            "DEP_CUDA_INCLUDE",
        ];
        assert_eq!(foreign.map(|name| is_foreign(OsStr::new(name))), [true; 12]);
    }

    #[test]
    fn what_says_where_things_are_stays() {
        let kept = ["CARGO_HOME", "CARGO_MAKEFLAGS", "RUSTUP_TOOLCHAIN", "RUSTC", "PATH", "HOME"];
        assert_eq!(kept.map(|name| is_foreign(OsStr::new(name))), [false; 6]);
    }
}
