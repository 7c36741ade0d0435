//! `ferrowarp new`: a project that compiles.

use std::fs;
use std::io::Write;
use std::path::{Component, Path, PathBuf};

use super::error::CliError;

/// Options of `ferrowarp new`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  ferrowarp new own
  ferrowarp new ~/projects/own
  ferrowarp new own --path ../ferrowarp
  ferrowarp new own --git https://example.com/ferrowarp.git

The project has a kernel crate, a host crate that launches it, and a test. In its folder `cargo run` and `cargo test`
work at once, with a GPU and without one, and `ferrowarp watch --crate kernels` builds the kernels at each edit.")]
pub(super) struct Args {
    /// The project's folder, which is made; its last part is the project's name
    #[arg(value_name = "PATH", value_parser = project)]
    project: Project,
    /// The folder of Ferrowarp's sources [default: where this program was built, if that is a checkout; else the registry]
    #[arg(long, value_name = "DIR", conflicts_with = "git")]
    path: Option<PathBuf>,
    /// A git repository with Ferrowarp's sources
    #[arg(long, value_name = "URL")]
    git: Option<String>,
}

/// Names that the project's dependencies have, or that cargo or Rust keep for themselves.
const TAKEN: [&str; 16] = [
    "alloc",
    "build",
    "core",
    "cuda_builder",
    "cuda_driver",
    "cuda_std",
    "cuda_std_macros",
    "cust",
    "emulator",
    "ferrowarp",
    "kernels",
    "kernels_gpu",
    "proc_macro",
    "std",
    "test",
    "tests",
];

/// Rust's keywords, which a crate cannot be called.
const KEYWORDS: [&str; 40] = [
    "abstract", "as", "async", "await", "become", "box", "break", "const", "continue", "do", "dyn",
    "else", "enum", "extern", "false", "final", "fn", "for", "gen", "if", "impl", "in", "let",
    "loop", "macro", "match", "mod", "move", "mut", "override", "priv", "pub", "ref", "return",
    "static", "struct", "trait", "true", "type", "use",
];

/// A project that is to be made.
#[derive(Clone, Debug, PartialEq)]
struct Project {
    folder: PathBuf,
    name: String,
}

/// A folder whose last part is a project's name.
fn project(text: &str) -> Result<Project, String> {
    let folder = PathBuf::from(text);
    let last = folder.file_name().and_then(|last| last.to_str());
    let name = name(last.ok_or("the path ends in no name")?)?;
    Ok(Project { folder, name })
}

/// A package's name that is also a crate's.
fn name(text: &str) -> Result<String, String> {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    if !text.starts_with(|c: char| c.is_ascii_alphabetic()) || !text.chars().all(fits) {
        return Err("a name has letters, digits, `-` and `_`, and begins with a letter".to_owned());
    }
    let crate_name = crate_name(text);
    if TAKEN.contains(&crate_name.as_str()) || KEYWORDS.contains(&crate_name.as_str()) {
        return Err(format!("`{text}` means something to Rust or to Ferrowarp already"));
    }
    Ok(text.to_owned())
}

fn crate_name(package: &str) -> String {
    package.replace('-', "_")
}

/// Where a project's dependencies come from.
enum Origin {
    /// The registry, with this program's version.
    Registry,
    /// A folder, as seen from the project's.
    Folder(PathBuf),
    Git(String),
}

pub(super) fn run(args: &Args, out: &mut impl Write) -> Result<(), CliError> {
    let Project { folder: dir, name } = &args.project;
    let ferrowarp = args.ferrowarp()?;
    fs::create_dir(dir).map_err(CliError::write(dir))?;
    let origin = match (&args.git, &ferrowarp) {
        (Some(url), _) => Origin::Git(url.clone()),
        (None, Some(folder)) => Origin::Folder(relative(dir, folder)?),
        (None, None) => Origin::Registry,
    };
    let files = files(name, &origin);
    for (path, text) in &files {
        write(&dir.join(path), text.as_bytes())?;
    }
    // The versions that Ferrowarp is tested with.
    if let Some(lock) = ferrowarp.map(|folder| folder.join("Cargo.lock"))
        && let Ok(text) = fs::read(&lock)
    {
        write(&dir.join("Cargo.lock"), &text)?;
    }
    writeln!(out, "{} is there. Next:\n  cd {}\n  cargo run", dir.display(), dir.display())?;
    Ok(())
}

impl Args {
    /// The folder with Ferrowarp's sources; none where they come from git or from the registry.
    fn ferrowarp(&self) -> Result<Option<PathBuf>, CliError> {
        if self.git.is_some() {
            return Ok(None);
        }
        let found = match &self.path {
            Some(path) if is_ferrowarp(path) => path.clone(),
            Some(path) => {
                fs::read_dir(path).map_err(CliError::read(path))?;
                return Err(CliError::NotFerrowarp { path: path.clone() });
            }
            None => {
                let program = std::env::current_exe().unwrap_or_default();
                let Some(found) = program.ancestors().find(|dir| is_ferrowarp(dir)) else {
                    return Ok(None);
                };
                found.to_owned()
            }
        };
        found.canonicalize().map(Some).map_err(CliError::read(&found))
    }
}

fn is_ferrowarp(dir: &Path) -> bool {
    let manifest = fs::read_to_string(dir.join("Cargo.toml")).unwrap_or_default();
    manifest.lines().any(|line| line.trim() == "name = \"ferrowarp\"")
}

fn files(name: &str, origin: &Origin) -> [(&'static str, String); 9] {
    let fill = |text: &str| {
        let text = text.replace("{name}", name).replace("{crate_name}", &crate_name(name));
        let text = text.replace("{ferrowarp}", &origin.dependency("", ""));
        let text = text.replace("{builder}", &origin.dependency("crates/cuda_builder", ""));
        text.replace("{std}", &origin.dependency("crates/cuda_std", ".."))
    };
    [
        ("Cargo.toml", fill(include_str!("host.toml"))),
        ("build.rs", fill(include_str!("build.rs.in"))),
        ("src/lib.rs", fill(include_str!("lib.rs.in"))),
        ("src/main.rs", fill(include_str!("main.rs.in"))),
        ("tests/scale.rs", fill(include_str!("test.rs.in"))),
        ("kernels/Cargo.toml", fill(include_str!("kernels.toml"))),
        ("kernels/src/lib.rs", fill(include_str!("kernels.rs"))),
        ("rust-toolchain.toml", include_str!("rust-toolchain.toml").to_owned()),
        (".gitignore", "/target\n".to_owned()),
    ]
}

impl Origin {
    /// What stands in the braces of a dependency on the package in `folder`, for a manifest that lies
    /// `up` from the project's own.
    fn dependency(&self, folder: &str, up: &str) -> String {
        match self {
            Self::Registry => format!("version = {}", quoted(env!("CARGO_PKG_VERSION"))),
            Self::Git(url) => format!("git = {}", quoted(url)),
            Self::Folder(path) if path.is_absolute() => {
                format!("path = {}", quoted(&path.join(folder).display().to_string()))
            }
            Self::Folder(path) => {
                let path = Path::new(up).join(path).join(folder);
                let path: PathBuf = path.components().collect();
                format!("path = {}", quoted(&path.display().to_string().replace('\\', "/")))
            }
        }
    }
}

/// A string in TOML, whose escapes are JSON's.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// `to` as seen from `from`; both are there.
fn relative(from: &Path, to: &Path) -> Result<PathBuf, CliError> {
    let from = from.canonicalize().map_err(CliError::read(from))?;
    let common = from.components().zip(to.components()).take_while(|(a, b)| a == b).count();
    if common == 0 {
        return Ok(to.to_owned());
    }
    let up = from.components().skip(common).map(|_| Component::ParentDir);
    Ok(up.chain(to.components().skip(common)).collect())
}

fn write(path: &Path, bytes: &[u8]) -> Result<(), CliError> {
    let parent = path.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(parent).map_err(CliError::write(parent))?;
    fs::write(path, bytes).map_err(CliError::write(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_crates() {
        for good in ["own", "my-kernels", "a1_b"] {
            assert_eq!(name(good).as_deref(), Ok(good));
        }
        for bad in ["", "1a", "-a", "a b", "größe", "fn", "std", "kernels", "kernels-gpu", "a/b"]
        {
            assert!(name(bad).is_err(), "{bad}");
        }
        let found = project("../a b/own/").unwrap();
        assert_eq!((found.folder.as_path(), &*found.name), (Path::new("../a b/own"), "own"));
        for bad in ["", "/", "..", "own/..", "own/1a"] {
            assert!(project(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn paths_are_relative_where_they_can_be() {
        let origin = Origin::Folder(PathBuf::from("../ferrowarp"));
        assert_eq!(origin.dependency("", ""), "path = \"../ferrowarp\"");
        let std = origin.dependency("crates/cuda_std", "..");
        assert_eq!(std, "path = \"../../ferrowarp/crates/cuda_std\"");
        let registry = Origin::Registry.dependency("crates/cuda_std", "..");
        assert_eq!(registry, format!("version = \"{}\"", env!("CARGO_PKG_VERSION")));
        let git = Origin::Git("https://a/\"b".to_owned());
        assert_eq!(git.dependency("crates/cuda_std", ".."), "git = \"https://a/\\\"b\"");
        let dir = tempfile::tempdir().unwrap();
        let (own, other) = (dir.path().join("own"), dir.path().join("x/ferrowarp"));
        fs::create_dir(&own).unwrap();
        let other =
            dir.path().canonicalize().unwrap().join(other.strip_prefix(dir.path()).unwrap());
        assert_eq!(relative(&own, &other).unwrap(), Path::new("../x/ferrowarp"));
    }
}
