//! The inner cargo: how it is started, and what it says.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead, BufReader, IsTerminal};
use std::path::{Path, PathBuf};
use std::process::{ChildStderr, Command, Stdio};
use std::thread;

use serde_json::Value;

use crate::cancel::Cancel;
use crate::{CudaBuilderError, cargo_flags, notes, toolchain, unsupported};

/// What a successful run made.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    /// The kernel crate's name, with underscores.
    pub crate_name: String,
    /// The file in which cargo lists what the kernel crate and its path dependencies read.
    pub dep_info: PathBuf,
    /// The crates that had to be compiled.
    pub compiled_crates: Vec<String>,
    /// The compiler's messages, if they were kept.
    pub messages: String,
}

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
const WITHOUT: &str = "CUDA_BUILDER_WITHOUT";

/// Runs cargo in the kernel crate's folder. The compiler's messages go to this process's stderr, as
/// rustc wrote them, or are kept. `without` names a file with the kernels to leave out.
pub(crate) fn run(
    root: &Path,
    cargo_args: &[String],
    rustc_args: &[String],
    keep_messages: bool,
    without: Option<&Path>,
    cancel: &Cancel,
) -> Result<Outcome, CudaBuilderError> {
    let program = program();
    let command = || command(&program, root, cargo_args, keep_messages, without);
    let mut whole = command();
    whole.arg("--message-format=json-render-diagnostics").arg("--").args(rustc_args);
    whole.stdout(Stdio::piped());
    // On a terminal cargo shows its progress, which it does not on a pipe.
    let is_piped = keep_messages || !std::io::stderr().is_terminal();
    whole.stderr(if is_piped { Stdio::piped() } else { Stdio::inherit() });
    let not_started = |source| CudaBuilderError::CargoMissing { program: program.clone(), source };
    let mut child = whole.spawn().map_err(not_started)?;
    let stderr = child.stderr.take();
    let (out, messages) = (child.stdout.take(), stderr.map(|stderr| read(stderr, !keep_messages)));
    let running = cancel.started(child);
    let mut outcome = out.map(|out| listen(BufReader::new(out))).unwrap_or_default();
    let messages = messages.and_then(|thread| thread.join().ok());
    let messages = messages.unwrap_or_default();
    let not_waited = |source| CudaBuilderError::CargoMissing { program: program.clone(), source };
    match running.wait().map_err(not_waited)? {
        None => Err(CudaBuilderError::Cancelled),
        Some(status) if status.success() => {
            outcome.messages = if keep_messages { messages } else { String::new() };
            Ok(outcome)
        }
        Some(_) => {
            let places = match messages.contains(notes::LIBRARY_CALL) {
                true => places(command(), rustc_args),
                false => BTreeSet::new(),
            };
            Err(failure(root, keep_messages, messages, &places))
        }
    }
}

/// Cargo with everything that does not depend on what rustc is to write.
fn command(
    program: &str,
    root: &Path,
    cargo_args: &[String],
    keep_messages: bool,
    without: Option<&Path>,
) -> Command {
    let mut command = Command::new(program);
    clean_environment(&mut command);
    command.current_dir(root).args(cargo_args).stdin(Stdio::null());
    if keep_messages {
        command.arg("--quiet");
        #[cfg(unix)]
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
    } else {
        command.args(cargo_flags::flags());
    }
    if let Some(list) = without {
        command.env(WITHOUT, list);
    }
    command
}

/// Where the crate has what LLVM has no code for: the same run, with the intermediate form in place of the PTX.
fn places(mut command: Command, rustc_args: &[String]) -> BTreeSet<String> {
    let emit = |arg: &String| Some(PathBuf::from(arg.strip_prefix("--emit=asm=")?));
    let Some(ir) = rustc_args.iter().find_map(emit).map(|raw| raw.with_extension("lacking.ll"))
    else {
        return BTreeSet::new();
    };
    command.arg("--").args(rustc_args.iter().filter(|arg| !arg.starts_with("--emit=")));
    command.arg(format!("--emit=llvm-ir={}", ir.display()));
    // Its messages were shown already. Where it fails there is no file, and the note has no places.
    let _ = command.stdout(Stdio::null()).stderr(Stdio::null()).status();
    let places =
        fs::read_to_string(&ir).map(|text| unsupported::locations(&text)).unwrap_or_default();
    let _ = fs::remove_file(ir);
    places
}

/// Reads what cargo says while its standard output is read elsewhere: a full pipe would stop it.
fn read(stderr: ChildStderr, show: bool) -> thread::JoinHandle<String> {
    thread::spawn(move || {
        let mut messages = String::new();
        // A pipe that breaks has said what it said.
        for line in BufReader::new(stderr).split(b'\n').map_while(Result::ok) {
            let line = notes::shortened(&String::from_utf8_lossy(&line));
            if show {
                eprintln!("{line}");
            }
            messages.push_str(&line);
            messages.push('\n');
        }
        messages
    })
}

/// Why a run failed, with the messages that nobody has seen, and what this builder knows about them.
fn failure(
    root: &Path,
    kept: bool,
    mut messages: String,
    places: &BTreeSet<String>,
) -> CudaBuilderError {
    let reason = toolchain::reason(root);
    if !matches!(reason, CudaBuilderError::BuildFailed) {
        return reason;
    }
    let note = notes::about(&messages, places).unwrap_or_default();
    if kept {
        messages.push_str(&note);
        return CudaBuilderError::Rejected { messages };
    }
    if !note.is_empty() {
        eprintln!("{note}");
    }
    reason
}

/// The cargo that runs the build script, or the one on the path.
fn program() -> String {
    std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned())
}

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

/// Reads cargo's messages. Artifacts come in the order in which they were made, so that the last
/// static library is the kernel crate's.
fn listen(messages: impl BufRead) -> Outcome {
    let mut outcome = Outcome::default();
    for line in messages.lines().map_while(Result::ok) {
        match serde_json::from_str::<Value>(&line) {
            Ok(message) if message["reason"] == "compiler-artifact" => {
                artifact(&message, &mut outcome);
            }
            Ok(_) => {}
            Err(_) => eprintln!("{line}"),
        }
    }
    outcome
}

fn artifact(message: &Value, outcome: &mut Outcome) {
    let name = message["target"]["name"].as_str().unwrap_or_default().replace('-', "_");
    if message["fresh"] == false {
        outcome.compiled_crates.push(name.clone());
    }
    if message["target"]["kind"][0] == "staticlib" {
        let library = message["filenames"][0].as_str().unwrap_or_default();
        outcome.dep_info = Path::new(library).with_extension("d");
        outcome.crate_name = name;
    }
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

    #[test]
    fn the_static_library_is_the_kernel_crate() {
        let messages = r#"{"reason":"compiler-artifact","target":{"kind":["lib"],"name":"core"},"filenames":["a.rlib"],"fresh":true}
not a message
{"reason":"compiler-artifact","target":{"kind":["staticlib"],"name":"my-kernels"},"filenames":["/t/libmy_kernels.a"],"fresh":false}
{"reason":"build-finished","success":true}"#;
        let outcome = listen(messages.as_bytes());
        assert_eq!(outcome.crate_name, "my_kernels");
        assert_eq!(outcome.dep_info, Path::new("/t/libmy_kernels.d"));
        assert_eq!(outcome.compiled_crates, ["my_kernels"]);
    }
}
