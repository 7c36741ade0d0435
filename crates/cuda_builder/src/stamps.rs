//! What the sources of a build were, to see which of them were edited since.

use std::collections::BTreeMap;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// The contents of files, as numbers. Nothing for a file that may be another one than the build read.
pub(crate) type Stamps = BTreeMap<PathBuf, Option<u64>>;

/// By how much a file system's clock may be behind.
const CLOCK: Duration = Duration::from_millis(50);

/// The files as they are now.
pub(crate) fn now<'a>(files: impl IntoIterator<Item = &'a PathBuf>) -> Stamps {
    files.into_iter().map(|file| (file.clone(), stamp(file))).collect()
}

/// The files that a build read which began at `begin`: a source that was written since is not known. Cargo writes
/// its lock file itself.
pub(crate) fn before<'a>(
    files: impl IntoIterator<Item = &'a PathBuf>,
    begin: SystemTime,
) -> Stamps {
    let limit = begin - CLOCK;
    let is_older = |file: &Path| {
        let written = fs::metadata(file).and_then(|about| about.modified());
        written.is_ok_and(|time| time < limit)
    };
    let is_source = |file: &Path| file.extension().is_some_and(|kind| kind == "rs");
    let known = |file: &PathBuf| stamp(file).filter(|_| !is_source(file) || is_older(file));
    files.into_iter().map(|file| (file.clone(), known(file))).collect()
}

/// The files whose contents differ.
pub(crate) fn changed(from: &Stamps, to: &Stamps) -> Vec<PathBuf> {
    let differs = |(file, old): &(&PathBuf, &Option<u64>)| {
        old.is_none() || to.get(*file).is_none_or(|new| new != *old)
    };
    from.iter().filter(differs).map(|(file, _)| file.clone()).collect()
}

fn stamp(file: &Path) -> Option<u64> {
    let mut hasher = DefaultHasher::new();
    fs::read(file).ok()?.hash(&mut hasher);
    Some(hasher.finish())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stamps(files: &[(&str, Option<u64>)]) -> Stamps {
        files.iter().map(|(name, stamp)| (PathBuf::from(name), *stamp)).collect()
    }

    #[test]
    fn what_differs_is_gone_or_is_not_known_has_changed() {
        let old =
            stamps(&[("same", Some(1)), ("edited", Some(1)), ("gone", Some(1)), ("new", None)]);
        let new =
            stamps(&[("same", Some(1)), ("edited", Some(2)), ("gone", None), ("new", Some(3))]);
        let names = ["edited", "gone", "new"].map(PathBuf::from);
        assert_eq!(changed(&old, &new), names);
    }

    #[test]
    fn a_file_that_was_written_since_is_not_known() {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/stamps.rs");
        let hour = Duration::from_secs(3600);
        assert!(before([&file], SystemTime::now() + hour)[&file].is_some());
        assert!(before([&file], SystemTime::UNIX_EPOCH + hour)[&file].is_none());
    }
}
