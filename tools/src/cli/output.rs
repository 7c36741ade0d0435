//! Files that appear whole or not at all.

use std::fs::{self, File, Permissions};
use std::io::{self, BufWriter, ErrorKind, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use tempfile::{Builder, NamedTempFile, TempDir};

use super::error::CliError;
use super::interrupt::deferred;
use crate::bench::picture::Format;

/// What begins the names of temporary files.
const PREFIX: &str = ".ferrowarp-";

/// An output file. What is written goes to a temporary file beside the target, which takes the
/// target's place at the end; if that does not come, the target stays as it was. Neither an error nor
/// an interrupt leaves the temporary file.
#[derive(Debug)]
pub(super) struct Output {
    path: PathBuf,
    sink: Sink,
}

#[derive(Debug)]
enum Sink {
    /// A new file without a name, which the system removes with the process, and the place that it will take.
    #[cfg(target_os = "linux")]
    Unnamed(File, PathBuf),
    /// A new file with a name, where the file system has none without, and the place that it will take.
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

    /// As [`create`](Self::create), of a chart, whose format the end of the name says.
    pub(super) fn create_chart(path: &Path) -> Result<(Format, Self), CliError> {
        let unknown = || CliError::UnknownChart { path: path.to_owned() };
        let format = Format::of(path).ok_or_else(unknown)?;
        Ok((format, Self::create(path)?))
    }

    /// Writes with `write`, and puts the file in its place.
    pub(super) fn finish(
        self,
        write: impl FnOnce(&mut (dyn WriteSeek + '_)) -> Result<(), CliError>,
    ) -> Result<(), CliError> {
        let Self { path, sink } = self;
        let placed = match sink {
            Sink::Straight(mut file) => return write_to(&mut file, &path, write),
            #[cfg(target_os = "linux")]
            Sink::Unnamed(mut file, target) => {
                write_to(&mut file, &path, write)?;
                file.sync_all().and_then(|()| place_unnamed(&file, &target))
            }
            Sink::Beside(mut file, target) => {
                write_to(file.as_file_mut(), &path, write)?;
                let place = |file: NamedTempFile| deferred(|_| file.persist(&target));
                let placed = file.as_file().sync_all().and_then(|()| Ok(place(file)?));
                placed.and_then(|_| sync(folder_of(&target)))
            }
        };
        placed.map_err(CliError::write(&path))
    }
}

/// A folder of files that appear together at the end, or not at all.
#[derive(Debug)]
pub(super) struct OutputFolder {
    target: PathBuf,
    /// In the target if that is there, else beside it: then it becomes the target.
    temporary: TempDir,
    is_new: bool,
}

impl OutputFolder {
    /// Prepares to write files into the folder `target`, which is made if it is not there.
    pub(super) fn create(target: &Path) -> Result<Self, CliError> {
        Self::open(target).map_err(CliError::write(target))
    }

    fn open(target: &Path) -> io::Result<Self> {
        let is_new = !target.try_exists()?;
        let place = if is_new { folder_of(target) } else { target };
        fs::create_dir_all(place)?;
        let temporary = deferred(|temporary| {
            let mut builder = Builder::new();
            builder.prefix(PREFIX);
            // What a new folder gets; the process's umask takes its part away.
            #[cfg(unix)]
            builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o777));
            let folder = builder.tempdir_in(place)?;
            temporary.push(folder.path().to_owned());
            io::Result::Ok(folder)
        })?;
        Ok(Self { target: target.to_owned(), temporary, is_new })
    }

    /// Writes a file of the folder.
    pub(super) fn add(
        &self,
        name: &str,
        write: impl FnOnce(&mut (dyn WriteSeek + '_)) -> Result<(), CliError>,
    ) -> Result<(), CliError> {
        let path = self.target.join(name);
        // No file comes into a folder that an interrupt is removing.
        let created = deferred(|_| File::create(self.temporary.path().join(name)));
        write_to(&mut created.map_err(CliError::write(&path))?, &path, write)
    }

    /// Puts all files in their place.
    pub(super) fn finish(self) -> Result<(), CliError> {
        self.place().map_err(CliError::write(&self.target))
    }

    fn place(&self) -> io::Result<()> {
        let temporary = self.temporary.path();
        let files: Vec<PathBuf> =
            fs::read_dir(temporary)?.map(|entry| Ok(entry?.path())).collect::<io::Result<_>>()?;
        files.iter().try_for_each(|file| File::open(file)?.sync_all())?;
        sync(temporary)?;
        deferred(|_| {
            if self.is_new {
                return fs::rename(temporary, &self.target);
            }
            let place = |file: &PathBuf| match file.file_name() {
                Some(name) => fs::rename(file, self.target.join(name)),
                None => Ok(()),
            };
            files.iter().try_for_each(place)
        })?;
        sync(if self.is_new { folder_of(&self.target) } else { &self.target })
    }
}

/// The folder that a path lies in.
fn folder_of(path: &Path) -> &Path {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    parent.unwrap_or(Path::new("."))
}

/// Lets the names in a folder outlast a power cut, as `sync_all` does with what stands in a file.
fn sync(folder: &Path) -> io::Result<()> {
    match File::open(folder)?.sync_all() {
        // Some file systems have nothing to do for folders, and say so.
        Err(error) if error.kind() == ErrorKind::InvalidInput => Ok(()),
        synced => synced,
    }
}

/// What encoders need.
pub(super) trait WriteSeek: Write + Seek {}
impl<T: Write + Seek> WriteSeek for T {}

/// A file that remembers what went wrong: encoders wrap the system's errors in their own, or lose them.
struct Remembering<'a> {
    file: &'a mut File,
    failed: Option<io::Error>,
}

impl Remembering<'_> {
    fn remember<T>(&mut self, result: io::Result<T>) -> io::Result<T> {
        result.map_err(|error| {
            let kind = error.kind();
            if kind != ErrorKind::Interrupted {
                self.failed.get_or_insert(error);
            }
            kind.into()
        })
    }
}

impl Write for Remembering<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.file.write(bytes);
        self.remember(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        let flushed = self.file.flush();
        self.remember(flushed)
    }
}

impl Seek for Remembering<'_> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let sought = self.file.seek(to);
        self.remember(sought)
    }
}

fn write_to(
    file: &mut File,
    path: &Path,
    write: impl FnOnce(&mut (dyn WriteSeek + '_)) -> Result<(), CliError>,
) -> Result<(), CliError> {
    let mut buffered = BufWriter::new(Remembering { file, failed: None });
    let written =
        write(&mut buffered).and_then(|()| buffered.flush().map_err(CliError::write(path)));
    match buffered.into_parts().0.failed {
        Some(source) => Err(CliError::Write { path: path.to_owned(), source }),
        None => written,
    }
}

fn open(path: &Path) -> io::Result<Sink> {
    match fs::metadata(path) {
        Ok(found) if found.is_dir() => Err(ErrorKind::IsADirectory.into()),
        Ok(found) if !found.is_file() => File::options().write(true).open(path).map(Sink::Straight),
        Ok(found) if found.permissions().readonly() => {
            Err(io::Error::new(ErrorKind::ReadOnlyFilesystem, "the file is read-only"))
        }
        // The file behind a symbolic link is replaced, not the link.
        Ok(found) => temporary(&fs::canonicalize(path)?, Some(found.permissions())),
        Err(error) if error.kind() == ErrorKind::NotFound => temporary(path, None),
        Err(error) => Err(error),
    }
}

/// A temporary file for `target`, with the permissions that the target has or would get.
fn temporary(target: &Path, permissions: Option<Permissions>) -> io::Result<Sink> {
    let allow = |file: &File| permissions.map_or(Ok(()), |own| file.set_permissions(own));
    #[cfg(target_os = "linux")]
    if let Some(file) = unnamed_in(folder_of(target)) {
        allow(&file)?;
        return Ok(Sink::Unnamed(file, target.to_owned()));
    }
    let mut builder = Builder::new();
    builder.prefix(PREFIX);
    // What a new file gets; the process's umask takes its part away.
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
    let file = deferred(|temporary| {
        let file = builder.tempfile_in(folder_of(target))?;
        temporary.push(file.path().to_owned());
        io::Result::Ok(file)
    })?;
    allow(file.as_file())?;
    Ok(Sink::Beside(file, target.to_owned()))
}

/// A file without a name in `folder`, where the file system has such files and the process can name them later.
#[cfg(target_os = "linux")]
fn unnamed_in(folder: &Path) -> Option<File> {
    use rustix::fs::{Mode, OFlags, open};
    let flags = OFlags::TMPFILE | OFlags::WRONLY | OFlags::CLOEXEC;
    // The mode of any new file; the process's umask takes its part away.
    let file = open(folder, flags, Mode::from_raw_mode(0o666)).ok().map(File::from)?;
    link_of(&file).exists().then_some(file)
}

/// The path of an open file that has no other.
#[cfg(target_os = "linux")]
fn link_of(file: &File) -> PathBuf {
    use std::os::fd::AsRawFd;
    PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()))
}

/// Puts a file without a name in the place of `target`. A link replaces no file, so the file gets a temporary
/// name before the target's.
#[cfg(target_os = "linux")]
fn place_unnamed(file: &File, target: &Path) -> io::Result<()> {
    use rustix::fs::{AtFlags, CWD, linkat};
    let (from, folder) = (link_of(file), folder_of(target));
    let name = |path: &Path| Ok(linkat(CWD, &from, CWD, path, AtFlags::SYMLINK_FOLLOW)?);
    deferred(|_| {
        let named = Builder::new().prefix(PREFIX).make_in(folder, name)?;
        named.persist(target).map(drop).map_err(io::Error::from)
    })?;
    sync(folder)
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
    fn a_file_with_a_name_takes_the_place_too() {
        let dir = tempfile::tempdir().unwrap();
        let (path, file) = (dir.path().join("out"), NamedTempFile::new_in(dir.path()).unwrap());
        let output = Output { path: path.clone(), sink: Sink::Beside(file, path.clone()) };
        output.finish(|file| file.write_all(b"new").map_err(CliError::write(&path))).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "new");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn an_unfinished_output_has_no_name_where_the_system_can() {
        let dir = tempfile::tempdir().unwrap();
        let _output = Output::create(&dir.path().join("out")).unwrap();
        let can = unnamed_in(dir.path()).is_some();
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), usize::from(!can));
    }

    fn add(folder: &OutputFolder, name: &str) {
        let write = |file: &mut (dyn WriteSeek + '_)| Ok(file.write_all(name.as_bytes())?);
        folder.add(name, write).unwrap();
    }

    fn names(dir: &Path) -> Vec<String> {
        let entries = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name());
        let mut names: Vec<_> = entries.map(|name| name.into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn a_folder_appears_at_the_end() {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("made/pictures");
        for _ in 0..2 {
            let folder = OutputFolder::create(&target).unwrap();
            ["0", "1"].iter().for_each(|name| add(&folder, name));
            folder.finish().unwrap();
            assert_eq!(names(&target), ["0", "1"]);
            assert_eq!(names(&dir.path().join("made")), ["pictures"]);
        }
    }

    #[test]
    fn a_folder_that_is_not_finished_leaves_no_trace() {
        let dir = tempfile::tempdir().unwrap();
        let (new, old) = (dir.path().join("new"), dir.path().join("old"));
        fs::create_dir(&old).unwrap();
        fs::write(old.join("0"), "precious").unwrap();
        for target in [&new, &old] {
            let folder = OutputFolder::create(target).unwrap();
            add(&folder, "0");
            drop(folder);
        }
        assert_eq!(
            (names(dir.path()), names(&old)),
            (vec!["old".to_owned()], vec!["0".to_owned()])
        );
        assert_eq!(fs::read_to_string(old.join("0")).unwrap(), "precious");
    }

    /// An encoder that gives a text for the system's error.
    #[test]
    fn the_reason_of_the_system_is_told_whatever_the_encoder_says() {
        if !Path::new("/dev/full").exists() {
            return;
        }
        let encode = |file: &mut (dyn WriteSeek + '_)| {
            let lost = |_| CliError::Empty { path: PathBuf::new() };
            file.write_all(&[0; 100_000]).map_err(lost)
        };
        let output = Output::create(Path::new("/dev/full")).unwrap();
        let told = output.finish(encode).unwrap_err().to_string();
        assert_eq!(told, "cannot write /dev/full: the disk is full");
    }

    #[test]
    fn a_device_is_written_and_not_replaced() {
        write(Path::new("/dev/null"), "x", false).unwrap();
        assert!(!fs::metadata("/dev/null").unwrap().is_file());
    }
}
