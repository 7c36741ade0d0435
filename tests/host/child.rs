//! Tests in a process of their own.

use std::process::{Command, Output};
use std::time::Duration;
use std::{env, process, thread};

/// Runs the ignored test `name` (`module::test`) alone in another process with these variables.
pub fn child(name: &str, variables: &[(&str, &str)]) -> Output {
    let mut command = Command::new(env::current_exe().unwrap());
    command.args(["--ignored", "--exact", "--nocapture", name]);
    // With one thread a test's first line would stand behind its name.
    command.env_remove("RUST_TEST_THREADS").envs(variables.iter().copied()).output().unwrap()
}

/// Runs the ignored tests whose names have `part`, one after the other, in another process.
pub fn children(part: &str) -> Output {
    let mut command = Command::new(env::current_exe().unwrap());
    command.args(["--ignored", "--nocapture", "--test-threads", "1", part]).output().unwrap()
}

/// The child's lines that begin with `prefix`, without it; the child must have passed.
#[track_caller]
pub fn lines(output: &Output, prefix: &str) -> Vec<String> {
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && text.contains("1 passed"), "{text}\n{errors}");
    text.lines().filter_map(|line| line.strip_prefix(prefix)).map(str::to_owned).collect()
}

/// Ends this process, which is a child, after so long: what waits for ever fails.
pub fn end_after(most: Duration) {
    thread::spawn(move || {
        thread::sleep(most);
        eprintln!("the child was too slow");
        process::exit(3);
    });
}
