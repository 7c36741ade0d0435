//! What builds programs and kernels: the compiler, the source of its library, the linker, NVIDIA's assembler.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use cuda_builder::installed::{Compiler, find_ptxas};
use cuda_builder::{CudaBuilderError, NotAssembled};

use super::line::Line;

/// The compiler that a project in the current folder is built with.
pub(super) fn find_compiler() -> Result<Compiler, CudaBuilderError> {
    Compiler::find(Path::new("."))
}

pub(super) fn compiler(found: &Result<Compiler, CudaBuilderError>) -> Line {
    const NAME: &str = "compiler";
    match found {
        Ok(Compiler { version, tested, .. }) => {
            Line::right(NAME, format!("{version}; kernels are tested with Rust {tested}"))
        }
        Err(CudaBuilderError::CompilerTooOld { found, needed }) => Line::wrong(
            NAME,
            format!("{found}; kernels need Rust {needed}"),
            "copy Ferrowarp's `rust-toolchain.toml` beside your `Cargo.toml`; rustup then installs the release that it names",
        ),
        Err(CudaBuilderError::CompilerMissing { said }) => Line::wrong(
            NAME,
            format!("rustc does not run: {said}"),
            "install rustup (https://rustup.rs), then run `rustup toolchain install` in this folder; or `make toolchain` in Ferrowarp's",
        ),
        Err(other) => {
            Line::wrong(NAME, other.to_string(), "`make toolchain` in Ferrowarp's folder")
        }
    }
}

pub(super) fn rust_src(found: &Result<Compiler, CudaBuilderError>) -> Line {
    const NAME: &str = "rust-src";
    const FIX: &str =
        "`rustup component add rust-src` in this folder; Debian's package is `rust-web-src`";
    let Ok(compiler) = found else {
        return Line::wrong(
            NAME,
            "not looked for: there is no compiler that it could belong to",
            FIX,
        );
    };
    match compiler.library_source() {
        Ok(folder) => Line::right(NAME, folder.display().to_string()),
        Err(_) => Line::wrong(NAME, format!("not below {}", compiler.sysroot.display()), FIX),
    }
}

/// Compiles and links an empty program, which is what tells whether a linker works.
pub(super) fn link_a_program() -> Result<String, String> {
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let mut command = Command::new(rustc);
    command.args(["--crate-name", "linked", "--crate-type", "bin", "-"]);
    command.arg("-o").arg(folder.path().join("linked"));
    let linker = chosen_linker();
    if let Some(linker) = &linker {
        command.arg("-C").arg(format!("linker={}", linker.display()));
    }
    compile(command)?;
    Ok(linker
        .map_or_else(|| "the compiler's default".to_owned(), |file| file.display().to_string()))
}

/// The linker that a variable of cargo names, such as `CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_LINKER`.
fn chosen_linker() -> Option<PathBuf> {
    let system = if cfg!(target_os = "macos") { "APPLE" } else { std::env::consts::OS };
    let is_ours = |name: &str| {
        let rest = name.strip_prefix("CARGO_TARGET_").and_then(|rest| rest.strip_suffix("_LINKER"));
        let ours = [std::env::consts::ARCH, system].map(str::to_uppercase);
        rest.is_some_and(|rest| ours.iter().all(|part| rest.contains(part.as_str())))
    };
    let mut all = std::env::vars_os();
    all.find(|(name, _)| name.to_str().is_some_and(is_ours)).map(|(_, file)| file.into())
}

/// Runs the compiler on an empty program; its first error otherwise.
fn compile(mut command: Command) -> Result<(), String> {
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|error| format!("rustc does not start: {error}"))?;
    if let Some(mut source) = child.stdin.take() {
        // A compiler that reads nothing has an error of its own.
        let _ = source.write_all(b"fn main() {}");
    }
    let output = child.wait_with_output().map_err(|error| error.to_string())?;
    if output.status.success() {
        return Ok(());
    }
    Err(first_error(&String::from_utf8_lossy(&output.stderr)))
}

fn first_error(text: &str) -> String {
    let error = text.lines().find_map(|line| line.strip_prefix("error: "));
    error.or(text.lines().next()).unwrap_or("it says nothing").to_owned()
}

pub(super) fn linker(linked: Result<String, String>) -> Line {
    const NAME: &str = "linker";
    match linked {
        Ok(linker) => Line::right(NAME, format!("{linker}; an empty program links")),
        Err(said) => {
            Line::wrong(NAME, format!("an empty program does not link: {said}"), LINKER_FIX)
        }
    }
}

const LINKER_FIX: &str = if cfg!(target_os = "macos") {
    "`xcode-select --install`"
} else if cfg!(target_env = "msvc") {
    "install Visual Studio's build tools with `Desktop development with C++`"
} else if cfg!(windows) {
    "`rustup component add rust-mingw`, or install MinGW-w64"
} else {
    "install a C compiler, which links: `apt install gcc`, `dnf install gcc`, `pacman -S gcc`"
};

/// The assembler and what it prints of its version.
pub(super) fn ptxas_version() -> Option<(PathBuf, String)> {
    let file = find_ptxas()?;
    let output = Command::new(&file).arg("--version").stdin(Stdio::null()).output().ok()?;
    Some((file, String::from_utf8_lossy(&output.stdout).into_owned()))
}

pub(super) fn ptxas(found: Option<(PathBuf, String)>) -> Line {
    const NAME: &str = "ptxas";
    match found {
        Some((file, printed)) => {
            let release = printed.lines().find_map(|line| line.split_once("release "));
            let release = release.map_or("an unknown release", |(_, rest)| rest);
            Line::right(NAME, format!("{release}, {}", file.display()))
        }
        None => {
            let text = NotAssembled::NoAssembler.to_string();
            let (found, fix) = text.split_once("): ").unwrap_or((&text, ""));
            Line::missing(NAME, format!("{found}); only reports of the builder use it"), fix)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::line::State;
    use super::*;

    #[test]
    fn each_fault_of_the_compiler_has_its_fix() {
        let line = |error| compiler(&Err(error));
        let (found, needed) = ("rustc 1.80.0".to_owned(), "1.96".to_owned());
        let old = line(CudaBuilderError::CompilerTooOld { found, needed });
        assert_eq!(old.state, State::Wrong);
        assert!(old.found.contains("1.80.0") && old.found.contains("1.96"), "{}", old.found);
        assert!(old.fix.unwrap().contains("rust-toolchain.toml"));
        let none = line(CudaBuilderError::CompilerMissing { said: "no such file".into() });
        assert!(none.found.contains("no such file"), "{}", none.found);
        assert!(none.fix.unwrap().contains("rustup toolchain install"));
    }

    #[test]
    fn without_a_compiler_its_source_is_wrong_too() {
        let line = rust_src(&Err(CudaBuilderError::CompilerMissing { said: String::new() }));
        assert_eq!(line.state, State::Wrong);
        assert!(line.fix.unwrap().contains("rust-src"));
        assert_eq!(rust_src(&find_compiler()).state, State::Right);
    }

    #[test]
    fn the_linkers_own_words_are_shown() {
        let text = first_error("warning: x\nerror: linker `cc` not found\n  |\n");
        let line = linker(Err(text));
        assert!(line.found.ends_with("does not link: linker `cc` not found"), "{}", line.found);
        assert!(line.fix.is_some());
        assert_eq!(linker(Ok("cc".into())).state, State::Right);
    }

    #[test]
    fn the_assembler_is_optional() {
        let none = ptxas(None);
        assert_eq!(none.state, State::Missing);
        assert!(none.fix.unwrap().contains("pip install nvidia-cuda-nvcc"));
        let printed = "ptxas: NVIDIA\nCuda compilation tools, release 13.0, V13.0.88\n".to_owned();
        let some = ptxas(Some(("/opt/ptxas".into(), printed)));
        assert_eq!((some.state, &*some.found), (State::Right, "13.0, V13.0.88, /opt/ptxas"));
    }
}
