//! Where `libnccl.so.2` may be.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

pub(super) const NAME: &str = "libnccl.so.2";

/// Where a wheel from PyPI has it, below a folder of packages.
const IN_WHEEL: &str = "nvidia/nccl/lib/libnccl.so.2";

/// All that is to be tried, in order: the file that `named` is, if it is set, and nothing else; the loader's path; wheels in known
/// folders; what `python3` finds.
pub(super) fn candidates(named: Option<OsString>) -> Vec<OsString> {
    if let Some(named) = named.filter(|named| !named.is_empty()) {
        return vec![named];
    }
    let mut all = vec![NAME.into()];
    all.extend(
        packages()
            .into_iter()
            .map(|folder| folder.join(IN_WHEEL))
            .filter(|file| file.is_file())
            .map(Into::into),
    );
    all
}

/// The wheel that `python3` would import, which takes a moment to ask for: the last resort.
pub(super) fn of_python() -> Option<OsString> {
    const SCRIPT: &str = "import importlib.util as u; s = u.find_spec('nvidia.nccl'); print(list(s.submodule_search_locations)[0])";
    let python = std::env::var_os("FERROWARP_PYTHON").unwrap_or_else(|| "python3".into());
    let asked = Command::new(python)
        .args(["-c", SCRIPT])
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output()
        .ok()?;
    let folder = String::from_utf8(asked.stdout).ok().filter(|_| asked.status.success())?;
    let file = Path::new(folder.trim()).join("lib").join(NAME);
    file.is_file().then(|| file.into())
}

/// Folders of Python's packages: those of an environment that is active, of the user, of the system.
fn packages() -> Vec<PathBuf> {
    let variable = |name: &str| std::env::var_os(name).map(PathBuf::from);
    let below_home = variable("HOME").map(|home| home.join(".local"));
    let roots = [variable("VIRTUAL_ENV"), variable("CONDA_PREFIX"), below_home];
    let system = ["/opt/conda", "/usr/local", "/usr"].map(PathBuf::from);
    roots.into_iter().flatten().chain(system).flat_map(|root| packages_of(&root)).collect()
}

/// `lib/python3.*/site-packages` and `dist-packages` below a folder, the newest Python first.
fn packages_of(root: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(root.join("lib")).into_iter().flatten().flatten();
    let is_python = |path: &PathBuf| {
        path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("python3"))
    };
    let mut pythons: Vec<_> = entries.map(|entry| entry.path()).filter(is_python).collect();
    pythons.sort_by_key(|path| std::cmp::Reverse(minor(path)));
    pythons
        .iter()
        .flat_map(|path| ["site-packages", "dist-packages"].map(|name| path.join(name)))
        .collect()
}

/// 12 of `python3.12`.
fn minor(path: &Path) -> u32 {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    name.rsplit('.').next().and_then(|minor| minor.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_named_is_the_only_one_tried() {
        assert_eq!(candidates(Some("/a/libnccl.so".into())), ["/a/libnccl.so"]);
        assert_eq!(candidates(Some(OsString::new()))[0], NAME);
        assert_eq!(candidates(None)[0], NAME);
    }

    #[test]
    fn wheels_are_found_below_a_root_newest_python_first() {
        let root = tempfile::tempdir().unwrap();
        for python in ["python3.9", "python3.12", "perl5"] {
            fs::create_dir_all(root.path().join("lib").join(python)).unwrap();
        }
        let found = packages_of(root.path());
        assert_eq!(found.len(), 4);
        assert_eq!(found[0], root.path().join("lib/python3.12/site-packages"));
    }
}
