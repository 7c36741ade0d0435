//! Where peers are compiled and from where they are started.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use tempfile::TempDir;

use super::error::PeerError;
use super::process::Process;
use super::sources::{CUDA_HEADER, Language, PYTHON_MODULE, Source};

/// How long a peer may think about one request.
const PATIENCE: Duration = Duration::from_secs(120);
/// How many lines of a compiler's complaint are shown.
const COMPLAINT_LINES: usize = 4;

/// A folder with the peers' files, which goes with it.
#[derive(Debug)]
pub struct Workshop {
    dir: TempDir,
}

impl Workshop {
    /// An empty one.
    ///
    /// # Errors
    /// What the system answers.
    pub fn new() -> io::Result<Self> {
        let dir = tempfile::Builder::new().prefix("ferrowarp-peers-").tempdir()?;
        fs::write(dir.path().join("peer.cuh"), CUDA_HEADER)?;
        fs::write(dir.path().join("peer.py"), PYTHON_MODULE)?;
        Ok(Self { dir })
    }

    /// What `start` makes of each source's program, all of them at the same time.
    pub fn each<'a, T: Send>(
        &self,
        sources: &[&'a Source],
        start: impl Fn(&Source, PathBuf) -> Result<T, PeerError> + Sync,
    ) -> Vec<(&'a Source, Result<T, PeerError>)> {
        let made = &|source: &Source| start(source, self.build(source)?);
        thread::scope(|scope| {
            let spawn = |&source| (source, scope.spawn(move || made(source)));
            let builds: Vec<_> = sources.iter().map(spawn).collect();
            let join = |thread: thread::ScopedJoinHandle<'_, _>| {
                thread.join().expect("building and starting do not panic")
            };
            builds.into_iter().map(|(source, thread)| (source, join(thread))).collect()
        })
    }

    fn build(&self, source: &Source) -> Result<PathBuf, PeerError> {
        let name = format!("{}.{}", source.family, source.language.extension());
        let file = self.dir.path().join(name);
        fs::write(&file, source.text)?;
        match source.language {
            Language::Python => Ok(file),
            Language::Cuda => compile(&file, &links(source.text)),
        }
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

fn compile(file: &Path, links: &[&str]) -> Result<PathBuf, PeerError> {
    let nvcc = nvcc().ok_or(PeerError::Missing("nvcc"))?;
    let program = file.with_extension("");
    let output = Command::new(nvcc)
        .args(["-O3", "-std=c++17", "--extended-lambda", "--expt-relaxed-constexpr"])
        .args(["-diag-suppress", "186", "-arch=native", "-o"])
        .args([&program, file])
        .args(links)
        .stdin(Stdio::null())
        .output()?;
    if output.status.success() {
        return Ok(program);
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

fn nvcc() -> Option<PathBuf> {
    on_path(&["nvcc"], &["/usr/local/cuda/bin"])
}

fn python() -> Option<PathBuf> {
    on_path(&["python3", "python"], &[])
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

    #[test]
    fn a_complaint_is_its_errors() {
        let said = "x.cu(1): warning: hm\n\nx.cu(2): error: no\nnote\nx.cu(3): error: never\n";
        assert_eq!(complaint(said), "x.cu(2): error: no | x.cu(3): error: never");
        assert_eq!(complaint("cannot find gcc\n"), "cannot find gcc");
    }
}
