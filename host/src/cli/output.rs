//! Files that appear whole or not at all.

use std::fs::{self, File, Permissions};
use std::io::{self, BufWriter, Seek, Write};
use std::path::{Path, PathBuf};

use tempfile::{Builder, NamedTempFile};

use super::error::CliError;

/// An output file. What is written goes to a temporary file beside the target, which takes the
/// target's place at the end; if that does not come, the target stays as it was.
#[derive(Debug)]
pub(super) struct Output {
    path: PathBuf,
    sink: Sink,
}

#[derive(Debug)]
enum Sink {
    /// A new file, and the place that it will take.
    Beside(NamedTempFile, PathBuf),
    /// A device or a pipe, which cannot be replaced.
    Straight(File),
}

impl Output {
    /// Prepares to write `path`; an error here comes before any work.
    pub(super) fn create(path: &Path) -> Result<Self, CliError> {
        let sink = open(path).map_err(CliError::write(path))?;
        Ok(Self { path: path.to_owned(), sink })
    }

    /// Writes with `write`, and puts the file in its place.
    pub(super) fn finish(
        self,
        write: impl FnOnce(&mut (dyn WriteSeek + '_)) -> Result<(), CliError>,
    ) -> Result<(), CliError> {
        let Self { path, sink } = self;
        match sink {
            Sink::Straight(mut file) => write_to(&mut file, &path, write),
            Sink::Beside(mut file, target) => {
                write_to(file.as_file_mut(), &path, write)?;
                let persisted = file.persist(target).map_err(|error| error.error);
                persisted.map(drop).map_err(CliError::write(&path))
            }
        }
    }
}

/// What encoders need.
pub(super) trait WriteSeek: Write + Seek {}
impl<T: Write + Seek> WriteSeek for T {}

fn write_to(
    file: &mut File,
    path: &Path,
    write: impl FnOnce(&mut (dyn WriteSeek + '_)) -> Result<(), CliError>,
) -> Result<(), CliError> {
    let mut buffered = BufWriter::new(file);
    write(&mut buffered)?;
    buffered.flush().map_err(CliError::write(path))
}

fn open(path: &Path) -> io::Result<Sink> {
    match fs::metadata(path) {
        Ok(found) if found.is_dir() => Err(io::ErrorKind::IsADirectory.into()),
        Ok(found) if !found.is_file() => File::options().write(true).open(path).map(Sink::Straight),
        Ok(found) if found.permissions().readonly() => {
            Err(io::Error::new(io::ErrorKind::ReadOnlyFilesystem, "the file is read-only"))
        }
        // The file behind a symbolic link is replaced, not the link.
        Ok(found) => beside(&fs::canonicalize(path)?, Some(found.permissions())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => beside(path, None),
        Err(error) => Err(error),
    }
}

/// A temporary file beside `target`, with the permissions that the target has or would get.
fn beside(target: &Path, permissions: Option<Permissions>) -> io::Result<Sink> {
    let parent = target.parent().filter(|parent| !parent.as_os_str().is_empty());
    let mut builder = Builder::new();
    builder.prefix(".ferrowarp-");
    // What a new file gets; the process's umask takes its part away.
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
    let file = builder.tempfile_in(parent.unwrap_or(Path::new(".")))?;
    if let Some(permissions) = permissions {
        file.as_file().set_permissions(permissions)?;
    }
    Ok(Sink::Beside(file, target.to_owned()))
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

    fn write(path: &Path, text: &str, fail: bool) -> Result<(), CliError> {
        Output::create(path)?.finish(|file| {
            file.write_all(text.as_bytes()).map_err(CliError::write(path))?;
            if fail { Err(CliError::Empty { path: path.to_owned() }) } else { Ok(()) }
        })
    }

    #[test]
    fn a_finished_file_takes_the_place_and_a_failed_one_leaves_no_trace() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("out");
        write(&path, "first", false).unwrap();
        write(&path, "second", true).unwrap_err();
        assert_eq!(fs::read_to_string(&path).unwrap(), "first");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
        write(&path, "third", false).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "third");
    }

    #[test]
    fn a_link_stays_a_link_and_permissions_stay() {
        let dir = tempfile::tempdir().unwrap();
        let (path, link) = (dir.path().join("out"), dir.path().join("link"));
        fs::write(&path, "old").unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o640)).unwrap();
        symlink(&path, &link).unwrap();
        write(&link, "new", false).unwrap();
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::read_to_string(&path).unwrap(), "new");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o640);
    }

    #[test]
    fn what_cannot_be_written_says_why() {
        let dir = tempfile::tempdir().unwrap();
        let message = |path: &Path| write(path, "x", false).unwrap_err().to_string();
        assert!(message(dir.path()).ends_with("it is a directory"));
        assert!(message(&dir.path().join("no/out")).ends_with("no such file or directory"));
        let read_only = dir.path().join("read-only");
        fs::write(&read_only, "old").unwrap();
        fs::set_permissions(&read_only, Permissions::from_mode(0o444)).unwrap();
        assert!(message(&read_only).ends_with("the file is read-only"));
    }

    #[test]
    fn a_device_is_written_and_not_replaced() {
        write(Path::new("/dev/null"), "x", false).unwrap();
        assert!(!fs::metadata("/dev/null").unwrap().is_file());
    }
}
