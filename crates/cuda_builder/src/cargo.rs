//! The inner cargo: how it is started, and what it says.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader, IsTerminal};
use std::path::{Path, PathBuf};
use std::process::{ChildStderr, Command, Stdio};
use std::thread;

use serde_json::Value;

use crate::cancel::Cancel;
use crate::environment::{WITHOUT, clean_environment};
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

/// Where the compiler's messages go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Messages {
    /// To this process's stderr, as rustc writes them.
    Shown,
    /// To the outcome or to the error, for stderr: another run shows its own meanwhile.
    Held,
    /// To the outcome or to the error, for whoever asked for the build.
    Kept,
}

/// Runs cargo in the kernel crate's folder. `without` names a file with the kernels to leave out.
pub(crate) fn run(
    root: &Path,
    cargo_args: &[String],
    rustc_args: &[String],
    messages: Messages,
    without: Option<&Path>,
    cancel: &Cancel,
) -> Result<Outcome, CudaBuilderError> {
    let program = program();
    let is_kept = messages == Messages::Kept;
    let command = || command(&program, root, cargo_args, is_kept, without);
    let mut whole = command();
    whole.arg("--message-format=json-render-diagnostics").arg("--").args(rustc_args);
    whole.stdout(Stdio::piped());
    // On a terminal cargo shows its progress, which it does not on a pipe.
    let is_shown = messages == Messages::Shown;
    let is_piped = !is_shown || !std::io::stderr().is_terminal();
    whole.stderr(if is_piped { Stdio::piped() } else { Stdio::inherit() });
    let not_started = |source| CudaBuilderError::CargoMissing { program: program.clone(), source };
    let mut child = whole.spawn().map_err(not_started)?;
    let stderr = child.stderr.take();
    let (out, messages) = (child.stdout.take(), stderr.map(|stderr| read(stderr, is_shown)));
    let running = cancel.started(child);
    let mut outcome = out.map(|out| listen(BufReader::new(out))).unwrap_or_default();
    let messages = messages.and_then(|thread| thread.join().ok());
    let messages = messages.unwrap_or_default();
    let not_waited = |source| CudaBuilderError::CargoMissing { program: program.clone(), source };
    match running.wait().map_err(not_waited)? {
        None => Err(CudaBuilderError::Cancelled),
        Some(status) if status.success() => {
            outcome.messages = if is_shown { String::new() } else { messages };
            Ok(outcome)
        }
        Some(_) => {
            let places = match messages.contains(notes::LIBRARY_CALL) {
                true => places(command(), rustc_args),
                false => BTreeSet::new(),
            };
            Err(failure(root, !is_shown, messages, &places))
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
