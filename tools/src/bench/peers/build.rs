//! Where peers are compiled and from where they are started.

use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use tempfile::TempDir;

use super::error::PeerError;
use super::process::Process;
use super::sources::{CUDA_HEADER, Language, PYTHON_MODULE, Source};

/// How long a peer may think about one request.
const PATIENCE: Duration = Duration::from_secs(120);
/// How many lines of a compiler's complaint are shown.
const COMPLAINT_LINES: usize = 4;

/// A folder with the peers' files, which goes with it. What is compiled is kept in the user's cache, where there is
/// one, for the next run.
#[derive(Debug)]
pub struct Workshop {
    dir: TempDir,
    /// The architecture to compile for.
    arch: String,
    cache: Option<PathBuf>,
}

impl Workshop {
    /// An empty one, for a GPU of that compute capability.
    ///
    /// # Errors
    /// What the system answers.
    pub fn new((major, minor): (u32, u32)) -> io::Result<Self> {
        let dir = tempfile::Builder::new().prefix("ferrowarp-peers-").tempdir()?;
        fs::write(dir.path().join("peer.cuh"), CUDA_HEADER)?;
        fs::write(dir.path().join("peer.py"), PYTHON_MODULE)?;
        Ok(Self { dir, arch: format!("sm_{major}{minor}"), cache: cache() })
    }

    /// The program of a source, which is compiled if it needs that.
    ///
    /// # Errors
    /// The compiler is missing, or refuses it.
    pub fn program(&self, source: &Source) -> Result<PathBuf, PeerError> {
        // Python finds its own modules `copy` and `random` elsewhere, and not a family's file of that name.
        let name = format!("peers_of_{}.{}", source.family, source.language.extension());
        let file = self.dir.path().join(name);
        fs::write(&file, source.text)?;
        match source.language {
            Language::Python => Ok(file),
            Language::Cuda => self.compile(&file, source.text),
        }
    }

    fn compile(&self, file: &Path, text: &str) -> Result<PathBuf, PeerError> {
        let nvcc = nvcc().ok_or(PeerError::Missing("nvcc"))?;
        let version = Command::new(&nvcc).arg("--version").stdin(Stdio::null()).output()?;
        let kept = self.cache.as_ref().map(|dir| {
            let family = file.file_stem().unwrap_or_default().to_string_lossy();
            dir.join(format!("{family}-{}-{:016x}", self.arch, key(text, &version.stdout)))
        });
        if let Some(kept) = kept.as_ref().filter(|kept| kept.is_file()) {
            return Ok(kept.clone());
        }
        let program = file.with_extension("");
        compile(&nvcc, &self.arch, file, &links(text), &program)?;
        Ok(kept.and_then(|kept| keep(&program, kept).ok()).unwrap_or(program))
    }

    /// Starts a program.
    ///
    /// # Errors
    /// The interpreter is missing, or the program cannot be started.
    pub fn start(&self, program: &Path) -> Result<Process, PeerError> {
        let mut command = if program.extension().is_some_and(|end| end == "py") {
            let mut python = Command::new(python().ok_or(PeerError::Missing("python3"))?);
            python.arg(program).env("PYTHONDONTWRITEBYTECODE", "1");
            python
        } else {
            Command::new(program)
        };
        Process::start(command.current_dir(self.dir.path()), PATIENCE)
    }
}

/// The libraries that lines like `// link: -lcurand` name.
fn links(text: &str) -> Vec<&str> {
    let lines = text.lines().filter_map(|line| line.strip_prefix("// link:"));
    lines.flat_map(str::split_whitespace).collect()
}

/// The folder for what is worth keeping between runs.
fn cache() -> Option<PathBuf> {
    let absolute = |name| std::env::var_os(name).map(PathBuf::from).filter(|dir| dir.is_absolute());
    let dir = absolute("XDG_CACHE_HOME").or_else(|| Some(absolute("HOME")?.join(".cache")))?;
    Some(dir.join("ferrowarp/peers"))
}

/// What a compiled peer depends on, in one number.
fn key(text: &str, compiler: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    (text, CUDA_HEADER, compiler, env!("CARGO_PKG_VERSION")).hash(&mut hasher);
    hasher.finish()
}

/// Copies a program to where it is kept; it appears there whole or not at all.
fn keep(program: &Path, kept: PathBuf) -> io::Result<PathBuf> {
    let dir = kept.parent().ok_or(io::ErrorKind::NotFound)?;
    fs::create_dir_all(dir)?;
    let beside = tempfile::NamedTempFile::new_in(dir)?;
    fs::copy(program, beside.path())?;
    beside.persist(&kept)?;
    Ok(kept)
}

fn compile(
    nvcc: &Path,
    arch: &str,
    file: &Path,
    links: &[&str],
    program: &Path,
) -> Result<(), PeerError> {
    let output = Command::new(nvcc)
        // Optimising the host's side of CUB takes as long as the device's, and no time of the host's is measured.
        .args(["-Xcompiler", "-O1", "-std=c++17", "--extended-lambda", "--expt-relaxed-constexpr"])
        .args(["-diag-suppress", "186", "-arch", arch, "-o"])
        .args([program, file])
        .args(links)
        .stdin(Stdio::null())
        .output()?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr) + String::from_utf8_lossy(&output.stdout);
    Err(PeerError::Compile(complaint(&said)))
}

/// The first lines with an error, or the first of all.
fn complaint(said: &str) -> String {
    let lines = || said.lines().filter(|line| !line.trim().is_empty());
    let errors: Vec<_> =
        lines().filter(|line| line.contains("error")).take(COMPLAINT_LINES).collect();
    let shown = if errors.is_empty() { lines().take(COMPLAINT_LINES).collect() } else { errors };
    shown.join(" | ")
}

/// The CUDA compiler, if it is on the machine.
#[must_use]
pub fn nvcc() -> Option<PathBuf> {
    on_path(&["nvcc"], &["/usr/local/cuda/bin"])
}

/// The interpreter that `FERROWARP_PYTHON` names, or the first on the PATH.
fn python() -> Option<PathBuf> {
    let named = std::env::var_os("FERROWARP_PYTHON").map(PathBuf::from);
    named.or_else(|| on_path(&["python3", "python"], &[]))
}

/// The first of `names` in the folders of PATH and in `more`.
fn on_path(names: &[&str], more: &[&str]) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let dirs: Vec<_> = std::env::split_paths(&path).chain(more.iter().map(PathBuf::from)).collect();
    names.iter().flat_map(|name| dirs.iter().map(move |dir| dir.join(name))).find(|f| f.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_stand_in_lines_of_their_own() {
        assert_eq!(links("// a peer\n// link: -lcurand -lcufft\n"), ["-lcurand", "-lcufft"]);
        assert!(links("int main() {}").is_empty());
    }

    #[cfg(unix)]
    #[test]
    fn a_compiler_is_called_and_its_complaint_is_told() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        let compiler = |script: &str| {
            let path = dir.path().join("nvcc");
            fs::write(&path, format!("#!/bin/sh\n{script}")).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
            let [file, program] = ["copy.cu", "copy"].map(|name| dir.path().join(name));
            compile(&path, "sm_90", &file, &["-lcurand"], &program).map(|()| program)
        };
        let program = compiler(
            "for last; do :; done; while [ \"$1\" != -o ]; do shift; done; echo $last > $2",
        );
        assert_eq!(fs::read_to_string(program.unwrap()).unwrap(), "-lcurand\n");
        let error = compiler("echo 'copy.cu(3): error: no such thing' >&2; exit 1").unwrap_err();
        assert_eq!(error.to_string(), "nvcc failed: copy.cu(3): error: no such thing");
    }

    #[test]
    fn what_is_kept_depends_on_text_and_compiler() {
        assert_eq!(key("a", b"12.4"), key("a", b"12.4"));
        assert_ne!(key("a", b"12.4"), key("b", b"12.4"));
        assert_ne!(key("a", b"12.4"), key("a", b"13.0"));
        let dir = tempfile::tempdir().unwrap();
        let [program, kept] = ["made", "far/away/kept"].map(|name| dir.path().join(name));
        fs::write(&program, "text").unwrap();
        assert_eq!(fs::read(keep(&program, kept).unwrap()).unwrap(), b"text");
    }

    #[test]
    fn a_complaint_is_its_errors() {
        let said = "x.cu(1): warning: hm\n\nx.cu(2): error: no\nnote\nx.cu(3): error: never\n";
        assert_eq!(complaint(said), "x.cu(2): error: no | x.cu(3): error: never");
        assert_eq!(complaint("cannot find gcc\n"), "cannot find gcc");
    }
}
