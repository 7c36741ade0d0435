//! What the user told the cargo that runs the build script: whether it may use the network, and change lock files.
//!
//! Cargo tells a build script nothing of its flags. On Linux the command line of each process can be read, that of the
//! cargo above the build script too.

/// The flags that hold for the kernels too.
const HANDED_ON: [&str; 3] = ["--offline", "--locked", "--frozen"];

/// Those that the outer cargo was given, if this is part of a build script.
pub(crate) fn flags() -> Vec<&'static str> {
    match std::env::var_os("OUT_DIR").and_then(|_| outer_cargo()) {
        Some(command_line) => handed_on(&command_line),
        None => Vec::new(),
    }
}

/// What stands behind `--` is for the program or for rustc.
fn handed_on(command_line: &[String]) -> Vec<&'static str> {
    let own: Vec<&String> = command_line.iter().take_while(|word| *word != "--").collect();
    HANDED_ON.into_iter().filter(|flag| own.iter().any(|word| word == flag)).collect()
}

/// The command line of the nearest cargo among the processes above this one.
#[cfg(target_os = "linux")]
fn outer_cargo() -> Option<Vec<String>> {
    let mut process = std::os::unix::process::parent_id();
    while process > 1 {
        let command_line = std::fs::read(format!("/proc/{process}/cmdline")).ok()?;
        let words = command_line.split(|byte| *byte == 0);
        let words: Vec<String> = words.map(|word| String::from_utf8_lossy(word).into()).collect();
        if words.first().is_some_and(|program| is_cargo(program)) {
            return Some(words);
        }
        process = parent(&std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?)?;
    }
    None
}

#[cfg(not(target_os = "linux"))]
fn outer_cargo() -> Option<Vec<String>> {
    None
}

#[cfg(target_os = "linux")]
fn is_cargo(program: &str) -> bool {
    std::path::Path::new(program).file_name().is_some_and(|name| name == "cargo")
}

/// The parent's number in `PID (NAME) STATE PARENT …`. The name may hold spaces and brackets.
#[cfg(target_os = "linux")]
fn parent(stat: &str) -> Option<u32> {
    stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn flags_of_cargo_are_handed_on_and_others_are_not() {
        let of = |line: &str| handed_on(&line.split(' ').map(str::to_owned).collect::<Vec<_>>());
        assert_eq!(of("cargo build --locked --release --offline"), ["--offline", "--locked"]);
        assert_eq!(of("/usr/bin/cargo --frozen check"), ["--frozen"]);
        assert_eq!(of("cargo run -- --locked"), [""; 0]);
    }

    #[test]
    fn processes_are_read() {
        assert_eq!(parent("12 (a b) c) S 7 12 12 0"), Some(7));
        assert!(is_cargo("/usr/bin/cargo") && is_cargo("cargo") && !is_cargo("cargo-clippy"));
    }
}
