//! The compiler: what it knows, and why it failed.

use std::path::{Path, PathBuf};
use std::process::Command;

use ptx_format::panic::RELEASES;

use crate::environment::clean_environment;
use crate::{CudaBuilderError, NvvmArch};

/// The compiler of a kernel crate, as far as a build depends on it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rustc {
    /// `rustc 1.96.0 (…)`. Files that rustc writes have it in the hash of their names: cargo runs a compiler again only
    /// for what this compiler has not compiled yet, so another one must not write over it.
    pub version: String,
    /// Whether it refuses a crate whose dependencies are compiled for another processor, as Rust 1.99 does.
    pub compares_processors: bool,
    processors: Vec<String>,
}

impl Rustc {
    /// The one that cargo takes in this folder. One that does not run has nothing: it fails when it compiles, and that
    /// error says more.
    pub fn of(root: &Path) -> Self {
        let target = ["--target", "nvptx64-nvidia-cuda", "-Zunstable-options"];
        let print = ["--print", "target-cpus", "--print", "target-spec-json"];
        let text = rustc(root, &[&target[..], &print].concat()).unwrap_or_default();
        Self {
            version: rustc(root, &["--version"]).unwrap_or_default(),
            compares_processors: text.contains("\"requires-consistent-cpu\": true"),
            processors: processors(&text).into_iter().map(str::to_owned).collect(),
        }
    }

    /// Refuses an architecture that the code generator lacks. LLVM itself would only print a remark,
    /// and make code for an ancient processor under the new one's name.
    pub fn knows(&self, archs: &[NvvmArch]) -> Result<(), CudaBuilderError> {
        let lacks = |arch: &&NvvmArch| !self.processors.contains(&arch.target_cpu());
        match archs.iter().find(lacks) {
            Some(arch) if !self.processors.is_empty() => {
                let known = self.processors.join(", ");
                Err(CudaBuilderError::UnsupportedArch { arch: *arch, known })
            }
            _ => Ok(()),
        }
    }

    /// What a user should know who builds with a release that was not tried: it may write what is read here in another
    /// way.
    pub fn warning(&self) -> Option<String> {
        let is_newer = release(&self.version).is_some_and(|found| found > *RELEASES.end());
        is_newer.then(|| {
            format!(
                "this is {}, and kernels are tested with Rust {} only; a `rust-toolchain.toml` with `channel = \"{}\"` \
                 beside your `Cargo.toml` makes rustup take one of these",
                self.version,
                tested(),
                named(*RELEASES.end())
            )
        })
    }
}

/// The releases that kernels are tested with: `1.96 to 1.99`.
pub(crate) fn tested() -> String {
    format!("{} to {}", named(*RELEASES.start()), named(*RELEASES.end()))
}

/// `1.96`
fn named((major, minor): (u32, u32)) -> String {
    format!("{major}.{minor}")
}

fn processors(text: &str) -> Vec<&str> {
    let words = text.lines().filter_map(|line| line.split_whitespace().next());
    words.filter(|word| word.starts_with("sm_")).collect()
}

/// The reason for a failed run: a compiler that cannot work, else the kernel crate itself.
pub(crate) fn reason(root: &Path) -> CudaBuilderError {
    let version = match rustc(root, &["--version"]) {
        Ok(version) => version,
        Err(said) => return CudaBuilderError::CompilerMissing { said },
    };
    if let Err(too_old) = check_release(&version) {
        return too_old;
    }
    match rustc(root, &["--print", "sysroot"]).map(PathBuf::from) {
        Ok(sysroot) if !has_library_source(&sysroot) => {
            CudaBuilderError::LibrarySourceMissing { sysroot }
        }
        _ => CudaBuilderError::BuildFailed,
    }
}

/// Refuses a compiler that is too old for kernels.
pub(crate) fn check_release(version: &str) -> Result<(), CudaBuilderError> {
    if release(version).is_some_and(|found| found < *RELEASES.start()) {
        let (found, needed) = (version.to_owned(), tested());
        return Err(CudaBuilderError::CompilerTooOld { found, needed });
    }
    Ok(())
}

pub(crate) fn has_library_source(sysroot: &Path) -> bool {
    sysroot.join("lib/rustlib/src/rust/library/core/src/lib.rs").is_file()
}

/// What the compiler prints, or why it does not: rustup's stand-in may lack the toolchain that a file asks for.
pub(crate) fn rustc(root: &Path, args: &[&str]) -> Result<String, String> {
    let program = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let mut command = Command::new(program);
    clean_environment(&mut command);
    let output =
        command.current_dir(root).args(args).output().map_err(|error| error.to_string())?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    match output.status.success() {
        true => Ok(text(&output.stdout)),
        false => Err(error_line(&text(&output.stderr)).to_owned()),
    }
}

/// rustup says more around it: what it tries to download, and where in its own code it gave up.
fn error_line(stderr: &str) -> &str {
    let errors = stderr.lines().find_map(|line| line.strip_prefix("error: "));
    errors.or(stderr.lines().next()).unwrap_or_default()
}

/// `rustc 1.96.0 (…)` → (1, 96).
fn release(version: &str) -> Option<(u32, u32)> {
    let mut numbers = version.split_whitespace().nth(1)?.split('.');
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_are_read() {
        assert_eq!(release("rustc 1.96.0 (ac68faa20 2026-05-25)"), Some((1, 96)));
        assert_eq!(release("rustc 1.63.0-nightly (abc 2022-01-01)"), Some((1, 63)));
        assert_eq!(release(""), None);
        assert!(check_release("rustc 1.95.0 (59807616e 2026-04-14)").is_err());
        assert!(check_release("rustc 1.96.0 (ac68faa20 2026-05-25)").is_ok());
    }

    #[test]
    fn a_release_after_the_last_tested_one_has_a_warning() {
        let warning = |release: &str| {
            let version = format!("rustc {release} (abc 2030-01-01)");
            Rustc { version, ..Rustc::default() }.warning()
        };
        for tested in ["1.96.0", "1.97.2", "1.99.1"] {
            assert_eq!(warning(tested), None);
        }
        let says = warning("1.100.0").unwrap();
        for part in ["rustc 1.100.0", "Rust 1.96 to 1.99", "`channel = \"1.99\"`"] {
            assert!(says.contains(part), "{says}");
        }
    }

    /// Whatever runs this test compiles kernels for the architectures that ship.
    #[test]
    fn the_compiler_of_the_tests_has_processors() {
        let here = Rustc::of(Path::new(env!("CARGO_MANIFEST_DIR")));
        assert!(here.version.starts_with("rustc 1."), "{}", here.version);
        assert!(here.knows(&[NvvmArch::Compute80, NvvmArch::Compute90a]).is_ok());
        assert_eq!(here.compares_processors, release(&here.version) >= Some((1, 99)));
    }

    #[test]
    fn who_has_an_old_compiler_is_told_the_file_that_chooses_another() {
        let (found, needed) = ("rustc 1.95.0".to_owned(), "1.96 to 1.99".to_owned());
        let says = CudaBuilderError::CompilerTooOld { found, needed }.to_string();
        assert!(says.contains("1.96") && says.contains("rustc 1.95.0"), "{says}");
        assert!(says.contains("`rust-toolchain.toml`"), "{says}");
    }

    #[test]
    fn this_compiler_has_no_fault() {
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        assert!(matches!(reason(here), CudaBuilderError::BuildFailed));
    }

    #[test]
    fn a_compiler_that_does_not_start_is_named() {
        let said = rustc(Path::new(env!("CARGO_MANIFEST_DIR")), &["--no-such-option"]).unwrap_err();
        assert!(said.contains("no-such-option"), "{said}");
        let says = CudaBuilderError::CompilerMissing { said }.to_string();
        assert!(says.contains("no-such-option") && says.contains("make toolchain"), "{says}");
    }

    #[test]
    fn an_empty_sysroot_has_no_source() {
        assert!(!has_library_source(Path::new(env!("CARGO_MANIFEST_DIR"))));
    }
}
