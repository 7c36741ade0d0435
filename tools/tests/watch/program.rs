//! `ferrowarp watch`, as a user calls it.

use std::fs;
use std::io::{BufRead, BufReader, Lines};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

use assert_cmd::assert::OutputAssertExt;
use ferrowarp::{Gpu, module, shipped};
use predicates::prelude::PredicateBooleanExt;
use predicates::str::{contains, is_empty, is_match};
use ptx_format::index::{self, ModulePart};

use crate::stamps::ptx;

/// The program beside the tests: as cargo built it, or where `FERROWARP_BIN` says.
fn watch(dir: &Path, args: &[&str]) -> Command {
    let built = || env!("CARGO_BIN_EXE_ferrowarp").into();
    let program = std::env::var_os("FERROWARP_BIN").map_or_else(built, PathBuf::from);
    let mut command = Command::new(program);
    command.current_dir(dir).arg("watch").args(args);
    command
}

/// The PTX of the shipped kernels for this device.
fn shipped() -> String {
    let device = Gpu::with_images(&[]).unwrap().compute_capability();
    module::best_image(shipped::IMAGES, device).expect("an image for this device").ptx().to_owned()
}

/// Of that the module with one kernel. A driver compiles all of a text that was edited, which takes it minutes for all kernels.
fn shipped_part(kernel: &str) -> String {
    let all = shipped();
    let parts = index::parts(&all).expect("the builder has put an index at the end");
    let is_it = |part: &&ModulePart| part.kernels.iter().any(|own| own == kernel);
    parts.iter().find(is_it).expect("the kernel is shipped").text(&all)
}

/// A program that runs, and what it has written.
struct Running {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Running {
    fn start(dir: &Path, args: &[&str]) -> Self {
        let mut command = watch(dir, args);
        // A shell's background job ignores SIGINT, and so would the program if the tests are one.
        let listen = || {
            // SAFETY: the default action needs no handler, and `signal` may be called between fork and exec.
            unsafe { libc::signal(libc::SIGINT, libc::SIG_DFL) };
            Ok(())
        };
        // SAFETY: the closure makes system calls alone.
        unsafe { command.pre_exec(listen) };
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, lines }
    }

    /// Reads on to a line with these words.
    #[track_caller]
    fn says(&mut self, words: &str) -> String {
        let line = self.lines.find(|line| line.as_ref().is_ok_and(|line| line.contains(words)));
        line.unwrap_or_else(|| panic!("it ended before it said `{words}`")).unwrap()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn help_has_examples() {
    let dir = tempfile::tempdir().unwrap();
    let help = watch(dir.path(), &["--help"]).assert().success();
    help.stdout(contains("Examples:\n  ferrowarp watch --run saxpy\n").and(contains("--compare")));
}

#[test]
fn a_file_is_run_once() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("k.ptx"), ptx(1)).unwrap();
    let once = watch(dir.path(), &["--ptx", "k.ptx", "--once"]).assert().success();
    once.stdout(is_match(r"version 1 \(sm_70, \d+ bytes, [0-9a-f]{16}\): from k.ptx").unwrap())
        .stderr(is_empty());
    fs::write(dir.path().join("k.ptx"), shipped()).unwrap();
    let args = ["--ptx", "k.ptx", "--once", "--run", "saxpy", "--size", "1000"];
    let row = is_match(r"(?m)^saxpy +1 +1000 elements +\d+\.\d{3} ms").unwrap();
    watch(dir.path(), &args).assert().success().stdout(row);
}

#[test]
fn a_folder_is_run_once() {
    let dir = tempfile::tempdir().unwrap();
    let plugins = dir.path().join("plugins");
    fs::create_dir(&plugins).unwrap();
    let args = ["--ptx", "plugins", "--once"];
    watch(dir.path(), &args).assert().success();
    fs::write(plugins.join("a.ptx"), ptx(1)).unwrap();
    fs::write(plugins.join("b.ptx"), shipped()).unwrap();
    let both =
        is_match(r"(?m)^a\.ptx: version 1 \(sm_70, .*\n(.*\n)*b\.ptx: version 1 \(sm_").unwrap();
    watch(dir.path(), &args).assert().success().stdout(both).stderr(is_empty());
    fs::write(plugins.join("c.ptx"), ".version nonsense").unwrap();
    let refused = watch(dir.path(), &args).assert().code(1);
    refused
        .stdout(contains("not loaded: "))
        .stderr(contains("1 of the folder's files cannot be loaded"));
    fs::remove_file(plugins.join("c.ptx")).unwrap();
    // The demo's kernel is in one of the files alone.
    let args = ["--ptx", "plugins", "--once", "--run", "saxpy", "--size", "1000"];
    let row = is_match(r"(?m)^saxpy +1 +1000 elements +\d+\.\d{3} ms").unwrap();
    let wrong = contains("saxpy, version 1: ").and(contains("there is no kernel `saxpy`"));
    watch(dir.path(), &args).assert().code(1).stdout(row.and(wrong));
}

#[cfg(unix)]
#[test]
fn files_of_a_folder_come_change_and_go_until_a_signal_ends_it() {
    let dir = tempfile::tempdir().unwrap();
    let mut running = Running::start(dir.path(), &["--ptx", "."]);
    running.says("watching .; Ctrl-C ends");
    fs::write(dir.path().join("a.ptx"), ptx(1)).unwrap();
    running.says("a.ptx: version 1 (");
    fs::write(dir.path().join("a.ptx"), ptx(2)).unwrap();
    assert!(running.says("a.ptx: version 2 (").contains("loaded in "));
    fs::write(dir.path().join("b.ptx"), "nonsense").unwrap();
    running.says("not loaded: ");
    fs::remove_file(dir.path().join("a.ptx")).unwrap();
    running.says("a.ptx has gone");
    let pid = running.child.id().try_into().unwrap();
    // SAFETY: a signal to a process that this test has started and not waited for.
    assert_eq!(unsafe { libc::kill(pid, libc::SIGINT) }, 0);
    running.says("ended");
}

#[test]
fn what_cannot_be_watched_is_one_line_and_status_1() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("broken.ptx"), "nonsense").unwrap();
    let refuses = |args: &[&str], words: &str| {
        let lines = is_match("^error: [^\n]*\n$").unwrap();
        watch(dir.path(), args).assert().code(1).stderr(lines.and(contains(words)));
    };
    refuses(&["--ptx", "none.ptx"], "cannot watch none.ptx: ");
    refuses(&["--ptx", "broken.ptx"], "loading the first version: ");
    refuses(&["--crate", "none"], "there is no kernel crate at `none`");
    refuses(&["--run", "nonsense"], "there is no demo `nonsense`");
    watch(dir.path(), &["--compare"]).assert().code(2).stderr(contains("--run"));
}

#[cfg(unix)]
#[test]
fn edits_are_shown_run_and_compared_until_a_signal_ends_it() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("k.ptx");
    let text = shipped_part("reduce_tree_f32");
    fs::write(&file, &text).unwrap();
    // By the name of a kernel that is no demo's.
    let args = ["--ptx", "k.ptx", "--run", "reduce_tree_f32", "--size", "1000", "--compare"];
    let mut running = Running::start(dir.path(), &args);
    running.says("watching k.ptx; Ctrl-C ends");
    running.says("version 1 (");
    running.says("reduce_tree");
    fs::write(&file, format!("{text}\n// an edit\n")).unwrap();
    assert!(running.says("version 2 (").contains("loaded in "));
    let rows = [running.says("reduce_tree"), running.says("reduce_tree")];
    let versions = rows.map(|row| row.split_whitespace().nth(1).unwrap().to_owned());
    assert_eq!(versions, ["1", "2"]);
    fs::write(&file, text.replace(".visible .entry", "frobnicate")).unwrap();
    running.says("not loaded: ");
    fs::write(&file, text.replace("entry reduce_tree_f32", "entry reduce_bush_f32")).unwrap();
    assert!(running.says("refused: ").contains("there is no kernel `reduce_tree_f32`"));
    let pid = running.child.id().try_into().unwrap();
    // SAFETY: the process is this test's own child, and was not waited for.
    assert_eq!(unsafe { libc::kill(pid, libc::SIGINT) }, 0);
    running.says("ended");
    assert!(running.child.wait().unwrap().success());
}
