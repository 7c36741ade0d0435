//! Kernel crates to compile: copies of the fixtures that a test may edit.

#![allow(dead_code, reason = "each test file uses a part of it")]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use cuda_builder::{Compiled, CudaBuilder, CudaBuilderError, Part, parts};

/// Where every test compiles: where the project's own build script does, so that `core` is
/// compiled once for all.
pub fn target_dir() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("cuda-builder")
}

/// A copy of a fixture in a folder of its own.
pub struct Fixture {
    pub dir: PathBuf,
    pub name: String,
}

impl Fixture {
    /// Copies a fixture. The copy's packages bear the test's name: tests share a target directory,
    /// in which two packages of one name would write the same files.
    pub fn copy(fixture: &str, test: &str) -> Self {
        let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join(test);
        let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(fixture);
        if dir.exists() {
            fs::remove_dir_all(&dir).unwrap();
        }
        copy_folder(&from, &dir);
        let copied = Fixture { dir, name: test.to_owned() };
        copied.edit("Cargo.toml", &format!("name = \"{fixture}\""), &format!("name = {test:?}"));
        if copied.dir.join("helper").exists() {
            let name = format!("{test}_helper");
            copied.edit("helper/Cargo.toml", "name = \"helper\"", &format!("name = {name:?}"));
            copied.edit("Cargo.toml", "{ path", &format!("{{ package = {name:?}, path"));
        }
        copied
    }

    /// Replaces text in one of its files; the text must be there.
    pub fn edit(&self, file: &str, from: &str, to: &str) {
        let path = self.dir.join(file);
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.contains(from), "`{from}` is not in {file}");
        fs::write(path, text.replace(from, to)).unwrap();
    }

    /// A builder for it in the shared target directory.
    pub fn builder(&self) -> CudaBuilder {
        CudaBuilder::new(&self.dir).target_dir(target_dir())
    }

    /// Compiles it with options; `f` sets them.
    pub fn compile(
        &self,
        f: impl FnOnce(CudaBuilder) -> CudaBuilder,
    ) -> Result<Compiled, CudaBuilderError> {
        f(self.builder()).compile()
    }

    /// The PTX for the default architecture with options; `f` sets them.
    pub fn ptx(&self, f: impl FnOnce(CudaBuilder) -> CudaBuilder) -> String {
        let compiled = self.compile(f).unwrap();
        fs::read_to_string(&compiled.modules[0].path).unwrap()
    }

    /// The command-line program on it, in the shared target directory.
    pub fn command(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_cuda-builder"));
        command.arg(&self.dir).arg("--target-dir").arg(target_dir());
        command
    }
}

fn copy_folder(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        let target = to.join(entry.file_name());
        match entry.file_type().unwrap().is_dir() {
            true => copy_folder(&entry.path(), &target),
            false => fs::write(target, fs::read(entry.path()).unwrap()).unwrap(),
        }
    }
}

/// Every part of a text declares what it mentions.
pub fn assert_closed_parts(ptx: &str) {
    let parts = parts(ptx).expect("the text has parts");
    parts.iter().for_each(|part| assert_closed(ptx, part));
}

/// A word that a part mentions and the whole text declares is declared in the part.
fn assert_closed(ptx: &str, part: &Part) {
    let declared = |text: &str| -> BTreeSet<String> {
        let at_left = text.lines().filter(|line| line.starts_with('.'));
        let code = at_left.map(|line| line.split(['=', '{']).next().unwrap_or_default().to_owned());
        code.flat_map(|line| words(&line)).collect()
    };
    let text = part.text(ptx);
    let (all, own) = (declared(ptx), declared(&text));
    let code = text.lines().filter(|line| !line.trim_start().starts_with("."));
    let mut mentioned = code.flat_map(|line| words(line.split("//").next().unwrap_or_default()));
    let missing = mentioned.find(|word| all.contains(word) && !own.contains(word));
    assert_eq!(missing, None, "{:?}", part.kernels);
}

/// The names of a line, without the words of PTX.
fn words(line: &str) -> Vec<String> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '$' | '.');
    let words = line.split(|c| !is_name(c)).filter(|word| word.len() > 4 && !word.starts_with('.'));
    words.map(str::to_owned).collect()
}

/// Standard output and standard error as text.
pub fn texts(output: &Output) -> (String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr))
}
