//! Which files a build read, and where its target directory is.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use crate::CudaBuilderError;

/// Every file behind the kernel crate: the sources that cargo's dep-info lists (its own and those
/// of path dependencies), their manifests, the workspace's manifest, lock file and configuration, and the
/// file that chooses the compiler.
pub(crate) fn of(dep_info: &Path, root: &Path) -> Result<BTreeSet<PathBuf>, CudaBuilderError> {
    let text = fs::read_to_string(dep_info).map_err(CudaBuilderError::read(dep_info))?;
    let mut files: BTreeSet<PathBuf> = listed(&text).into_iter().collect();
    let manifests: BTreeSet<PathBuf> = files.iter().filter_map(|file| manifest(file)).collect();
    files.extend(manifests);
    for dir in root.ancestors() {
        let settings = ["Cargo.toml", "Cargo.lock", ".cargo/config.toml", "rust-toolchain.toml"];
        files.extend(settings.map(|name| dir.join(name)).into_iter().filter(|f| f.is_file()));
        if dir.join("Cargo.lock").is_file() {
            break;
        }
    }
    Ok(files)
}

/// The manifest of the package that a source file belongs to.
fn manifest(file: &Path) -> Option<PathBuf> {
    file.ancestors().skip(1).map(|dir| dir.join("Cargo.toml")).find(|path| path.is_file())
}

/// The files behind the colons of a makefile's rules; a space in a name is written `\ `.
fn listed(dep_info: &str) -> Vec<PathBuf> {
    let rules = dep_info.lines().filter_map(|line| line.split_once(": "));
    rules.flat_map(|(_, files)| names(files)).map(PathBuf::from).collect()
}

fn names(files: &str) -> Vec<String> {
    let mut names = vec![String::new()];
    for part in files.trim().split(' ') {
        let Some(name) = names.last_mut() else { break };
        match part.strip_suffix('\\') {
            Some(begin) => {
                name.push_str(begin);
                name.push(' ');
            }
            None => {
                name.push_str(part);
                names.push(String::new());
            }
        }
    }
    names.retain(|name| !name.is_empty());
    names
}

/// `cuda-builder` in the target directory that the build script's `OUT_DIR` lies in; outside a
/// build script, in the target directory of the kernel crate's workspace.
pub(crate) fn default_target_dir(root: &Path) -> PathBuf {
    let triple = std::env::var("TARGET").unwrap_or_default();
    let outer = std::env::var_os("OUT_DIR").and_then(|dir| target_of(Path::new(&dir), &triple));
    let target = outer.unwrap_or_else(|| {
        let workspace = root.ancestors().find(|dir| dir.join("Cargo.lock").is_file());
        workspace.unwrap_or(root).join("target")
    });
    target.join("cuda-builder")
}

/// `OUT_DIR` is `target/debug/build/…/out`, or `target/TRIPLE/debug/build/…/out`. No file marks
/// the target directory yet when a build script runs for the first time.
fn target_of(out_dir: &Path, triple: &str) -> Option<PathBuf> {
    let build = out_dir.ancestors().find(|dir| dir.ends_with("build"))?;
    let target = build.parent()?.parent()?;
    match target.ends_with(triple) && !triple.is_empty() {
        true => target.parent().map(Path::to_owned),
        false => Some(target.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dep_info_lists_files_with_spaces() {
        let text = "/t/libk.a: /k/src/lib.rs /k/a\\ b/c.rs\n\n/k/src/lib.rs:\n";
        assert_eq!(listed(text), [Path::new("/k/src/lib.rs"), Path::new("/k/a b/c.rs")]);
    }

    #[test]
    fn a_source_file_has_a_manifest() {
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        assert_eq!(manifest(&here.join("src/sources.rs")), Some(here.join("Cargo.toml")));
    }

    #[test]
    fn the_target_directory_is_above_the_profile() {
        let of = |out_dir: &str| target_of(Path::new(out_dir), "x86_64-unknown-linux-gnu");
        let target = Some(PathBuf::from("/build/p/target"));
        assert_eq!(of("/build/p/target/debug/build/p-12/out"), target);
        assert_eq!(of("/build/p/target/x86_64-unknown-linux-gnu/debug/build/p-12/out"), target);
        assert_eq!(of("/elsewhere"), None);
    }
}
