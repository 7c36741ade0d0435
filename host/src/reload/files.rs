//! Which files a module is made from, and when one of them changes.

use std::collections::BTreeSet;
use std::fs::{File, Metadata};
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::iter;
use std::mem;
use std::ops::Range;
use std::path::{Path, PathBuf};

use notify::event::{AccessKind, AccessMode, ModifyKind, RenameMode};
use notify::{EventKind, RecommendedWatcher, RecursiveMode, Watcher as _, WatcherKind};

use ptx_format::index::{ModulePart, parts_at_end};

use crate::error::{GpuError, GpuResult};
use crate::module::{HeadStart, Text};

/// The folders that are watched. Folders, not files: an editor that replaces a file by another one
/// of the same name leaves a watched file behind.
pub(super) struct Files {
    /// None where another thread watches, and passes the events on.
    watcher: Option<RecommendedWatcher>,
    folders: BTreeSet<PathBuf>,
    interest: Interest,
}

/// What an event says of what a module is made from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sign {
    /// Something changed, and more of it may follow.
    Changed,
    /// The file is being written. That its writer has closed it is an event too.
    Written,
    /// A writer of the file has closed it; it may open it again.
    Closed,
    /// Another file took its place.
    Replaced,
}

enum Interest {
    File(PathBuf),
    /// Rust sources and manifests in the folders, and whatever else the last build read.
    Crate {
        read: BTreeSet<PathBuf>,
    },
}

impl Files {
    /// Watches one file, which need not be there.
    pub(super) fn of_file(
        path: &Path,
        tell: impl Fn(notify::Event) + Send + 'static,
    ) -> GpuResult<Self> {
        let folder = match path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        let folder = folder.canonicalize().map_err(cannot_watch(folder))?;
        let file = folder.join(path.file_name().unwrap_or_default());
        Self::new(Interest::File(file), [folder], tell)
    }

    /// One file of a folder, whose events come from the thread that watches the folder.
    pub(super) fn told(file: &Path) -> Self {
        let interest = Interest::File(file.to_owned());
        Self { watcher: None, folders: BTreeSet::new(), interest }
    }

    /// Watches a folder, by the name that the system knows it by, and not the folders in it.
    pub(super) fn of_folder(
        folder: &Path,
        tell: impl Fn(notify::Event) + Send + 'static,
    ) -> GpuResult<Self> {
        // Which of its files count is for the thread to say that gets the events.
        Self::new(Interest::File(folder.to_owned()), [folder.to_owned()], tell)
    }

    /// Watches a kernel crate.
    pub(super) fn of_crate(
        root: &Path,
        tell: impl Fn(notify::Event) + Send + 'static,
    ) -> GpuResult<Self> {
        let root = root.canonicalize().map_err(cannot_watch(root))?;
        let folders = sources_below(&root).into_iter().chain([root]);
        Self::new(Interest::Crate { read: BTreeSet::new() }, folders, tell)
    }

    fn new(
        interest: Interest,
        folders: impl IntoIterator<Item = PathBuf>,
        tell: impl Fn(notify::Event) + Send + 'static,
    ) -> GpuResult<Self> {
        let handler = move |event: notify::Result<notify::Event>| {
            // What the system could not tell shows with the next event.
            event.into_iter().for_each(&tell);
        };
        let watcher = notify::recommended_watcher(handler).map_err(|error| failed("", error))?;
        let folders: BTreeSet<_> = folders.into_iter().collect();
        let mut files = Self { watcher: Some(watcher), folders: BTreeSet::new(), interest };
        folders.into_iter().try_for_each(|folder| files.watch(folder))?;
        Ok(files)
    }

    fn watch(&mut self, folder: PathBuf) -> GpuResult<()> {
        if let Some(watcher) = &mut self.watcher {
            let watched = watcher.watch(&folder, RecursiveMode::NonRecursive);
            watched.map_err(|error| failed(&folder, error))?;
        }
        self.folders.insert(folder);
        Ok(())
    }

    /// Also watches the folders of all that a build has read.
    pub(super) fn follow(&mut self, sources: &[PathBuf]) {
        if let Interest::Crate { read } = &mut self.interest {
            *read = sources.iter().cloned().collect();
        }
        let folders = sources.iter().filter_map(|file| file.parent()).map(Path::to_owned);
        let new: BTreeSet<_> = folders.filter(|folder| !self.folders.contains(folder)).collect();
        // A folder that cannot be watched costs the edits in it, not the module.
        new.into_iter().for_each(|folder| drop(self.watch(folder)));
    }

    /// Watches anew what was watched, and new folders of sources: a folder that was replaced is
    /// another one to the system.
    pub(super) fn refresh(&mut self) {
        let mut folders = self.folders.clone();
        if matches!(self.interest, Interest::Crate { .. }) {
            folders.extend(self.folders.iter().flat_map(|folder| sources_below(folder)));
        }
        // A folder that is gone comes back through the one above it.
        folders.into_iter().for_each(|folder| drop(self.watch(folder)));
    }

    /// What an event tells of what the module is made from; nothing if it is about something else.
    pub(super) fn sign(&self, event: &notify::Event) -> Option<Sign> {
        if event.need_rescan() {
            return Some(Sign::Changed);
        }
        let sign = sign(&event.kind)?;
        let is_read = event.paths.iter().any(|path| self.reads(path));
        is_read.then_some(match self.interest {
            Interest::File(_) => sign,
            // One edit may be of several files.
            Interest::Crate { .. } => Sign::Changed,
        })
    }

    fn reads(&self, path: &Path) -> bool {
        match &self.interest {
            Interest::File(file) => path == file,
            Interest::Crate { read } => {
                let source = path.extension().is_some_and(|kind| kind == "rs" || kind == "toml");
                let hidden = path.file_name().is_some_and(|name| {
                    let name = name.to_string_lossy();
                    name.starts_with('.') || name.ends_with('~')
                });
                let folder = path.is_dir() && !path.ends_with("target");
                read.contains(path) || ((source || folder) && !hidden)
            }
        }
    }
}

/// The folders of sources in a package's folder, or in a folder of sources.
fn sources_below(folder: &Path) -> Vec<PathBuf> {
    match folder.components().any(|part| part.as_os_str() == "src") {
        true => below(folder),
        false => below(&folder.join("src")),
    }
}

/// A folder and those in it; nothing if it is not there.
fn below(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let folders = entries.flatten().map(|entry| entry.path()).filter(|path| path.is_dir());
    let mut all: Vec<PathBuf> = folders.flat_map(|path| below(&path)).collect();
    all.push(folder.to_owned());
    all
}

/// Nothing for a file that was only read, or whose times or rights changed. Linux alone tells when a writer
/// closes a file; there, both halves of a rename are events of their own.
pub(super) fn sign(kind: &EventKind) -> Option<Sign> {
    let is_linux = RecommendedWatcher::kind() == WatcherKind::Inotify;
    match kind {
        EventKind::Access(AccessKind::Close(AccessMode::Write)) => Some(Sign::Closed),
        EventKind::Access(_) | EventKind::Modify(ModifyKind::Metadata(_)) => None,
        EventKind::Modify(ModifyKind::Data(_)) if is_linux => Some(Sign::Written),
        EventKind::Modify(ModifyKind::Name(RenameMode::To)) if is_linux => Some(Sign::Replaced),
        EventKind::Modify(ModifyKind::Name(RenameMode::Both)) if is_linux => None,
        _ => Some(Sign::Changed),
    }
}

/// A PTX file, which is read into the same memory again and again: the system takes longer to hand out the pages for a
/// text of all kernels than to read it.
pub(super) struct PtxFile {
    path: PathBuf,
    /// Memory for the next text.
    spare: Vec<u8>,
}

impl PtxFile {
    pub(super) fn new(path: PathBuf) -> Self {
        Self { path, spare: Vec::new() }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Parts that `is_wanted` wants by their numbers, as the end of the file has them: it may be another one when
    /// all of it is read. None of what cannot be read, and at most `most`.
    pub(super) fn parts_at_end(
        &self,
        most: usize,
        is_wanted: impl Fn(u64) -> bool,
    ) -> Vec<(ModulePart, String)> {
        let Ok(file) = File::open(&self.path) else { return Vec::new() };
        let mut parts = index_at_end(&file).unwrap_or_default();
        parts.retain(|part| is_wanted(part.hash));
        parts.truncate(most);
        let read = |range: Range<usize>| String::from_utf8(read_range(&file, range).ok()?).ok();
        let text = |part: ModulePart| part.read_text(read).map(|text| (part, text));
        parts.into_iter().filter_map(text).collect()
    }

    /// The text of the file, of which the driver may have parts already; nothing of one that changed while it was read.
    ///
    /// # Errors
    /// What the system says, and [`InvalidData`](io::ErrorKind::InvalidData) of bytes that are no text.
    pub(super) fn read(&mut self, ahead: HeadStart) -> io::Result<Option<Text>> {
        let state = |of: &Metadata| (of.len(), of.modified().ok());
        let (file, mut bytes) = (File::open(&self.path)?, mem::take(&mut self.spare));
        let before = state(&file.metadata()?);
        let length = usize::try_from(before.0).map_err(io::Error::other)?;
        let more = length.saturating_sub(bytes.len());
        bytes.try_reserve_exact(more).map_err(io::Error::other)?;
        bytes.resize(length, 0);
        match read_exact(&file, &mut bytes) {
            Err(error) if error.kind() != io::ErrorKind::UnexpectedEof => return Err(error),
            Ok(()) if before == state(&file.metadata()?) => {}
            _ => {
                self.spare = bytes;
                return Ok(None);
            }
        }
        let ptx = String::from_utf8(bytes);
        ptx.map(|ptx| Some(Text::begun(ptx, ahead)))
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error.utf8_error()))
    }

    /// Takes back the memory of a text that is in use.
    pub(super) fn recycle(&mut self, text: Text) {
        self.spare = text.into_ptx().unwrap_or_default().into_bytes();
    }
}

/// The parts that the index at the end of a file names. Its length stands nowhere: ever longer ends are looked at, up to
/// an eighth of the file.
fn index_at_end(file: &File) -> Option<Vec<ModulePart>> {
    const SHORTEST: usize = 1 << 16;
    let bytes = usize::try_from(file.metadata().ok()?.len()).ok()?;
    let most = SHORTEST.max(bytes / 8);
    // That of all shipped kernels is a 170th of the text.
    let longer = |length: &usize| (*length < most).then(|| (length * 2).min(most));
    let mut lengths = iter::successors(Some(SHORTEST.max(bytes / 128)), longer);
    lengths.find_map(|length| {
        let end = read_range(file, bytes.saturating_sub(length)..bytes).ok()?;
        // From the first whole line on.
        let line = end.iter().position(|byte| *byte == b'\n')? + 1;
        parts_at_end(str::from_utf8(&end[line..]).ok()?, bytes)
    })
}

/// Bytes of a file; an error if not all of them are there.
fn read_range(mut file: &File, range: Range<usize>) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.seek(SeekFrom::Start(range.start as u64))?;
    file.take(range.len() as u64).read_to_end(&mut bytes)?;
    match bytes.len() == range.len() {
        true => Ok(bytes),
        false => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}

/// Reads the beginning of a file; of a long one several threads read a piece each.
#[cfg(unix)]
fn read_exact(file: &File, bytes: &mut [u8]) -> io::Result<()> {
    use std::os::unix::fs::FileExt as _;
    use std::panic::resume_unwind;
    use std::thread;

    const SMALLEST: usize = 1 << 22;
    const MOST_THREADS: usize = 8;
    let each = bytes.len().div_ceil(MOST_THREADS).max(SMALLEST);
    let mut pieces = bytes.chunks_mut(each).zip((0..).step_by(each));
    let read = |(piece, at): (&mut [u8], u64)| file.read_exact_at(piece, at);
    thread::scope(|scope| {
        let first = pieces.next();
        let others: Vec<_> = pieces.map(|piece| scope.spawn(|| read(piece))).collect();
        let others =
            others.into_iter().map(|thread| thread.join().unwrap_or_else(|p| resume_unwind(p)));
        first.map(read).into_iter().chain(others).collect()
    })
}

/// Reads the beginning of a file.
#[cfg(not(unix))]
fn read_exact(mut file: &File, bytes: &mut [u8]) -> io::Result<()> {
    file.read_exact(bytes)
}

fn cannot_watch(path: &Path) -> impl FnOnce(io::Error) -> GpuError {
    move |source| GpuError::Watch { path: path.to_owned(), source }
}

fn failed(path: impl AsRef<Path>, error: notify::Error) -> GpuError {
    let source = match error.kind {
        notify::ErrorKind::Io(source) => source,
        other => io::Error::other(notify::Error::new(other)),
    };
    cannot_watch(path.as_ref())(source)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(file: &mut PtxFile) -> Text {
        file.read(HeadStart::default()).expect("it is readable").expect("nobody changes it")
    }

    #[test]
    fn a_text_is_read_whole_whatever_was_read_before_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("kernels.ptx");
        let mut file = PtxFile::new(path.clone());
        let long: String = (0..3 << 20).map(|number| format!("{number}\n")).collect();
        for text in ["", "short", &long, "shorter than that one", &long[1 << 20..], ""] {
            std::fs::write(&path, text).unwrap();
            let found = read(&mut file);
            assert!(found.ptx() == text, "{} bytes", text.len());
            file.recycle(found);
        }
    }

    #[test]
    fn the_end_of_a_file_tells_its_parts() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("kernels.ptx");
        let file = PtxFile::new(path.clone());
        let entry = |name| format!(".visible .entry {name}()\n{{\nret;\n}}\n// é\n");
        let text = format!(".version 8.0\n{}{}{}", entry("a"), entry("b"), entry("c"));
        let text = cuda_builder::with_parts(&text);
        let expected: Vec<_> = cuda_builder::parts(&text).expect("it has parts");
        let with_text = |part: &ModulePart| (part.clone(), part.text(&text));
        assert_eq!(file.parts_at_end(9, |_| true), [], "there is no file");
        std::fs::write(&path, &text).unwrap();
        let all: Vec<_> = expected.iter().map(with_text).collect();
        assert_eq!(file.parts_at_end(9, |_| true), all);
        assert_eq!(file.parts_at_end(2, |_| true), all[..2]);
        assert_eq!(file.parts_at_end(9, |hash| hash == all[1].0.hash), all[1..2]);
        // One that is longer than the end that is read, and one whose index is longer than the first end.
        let body = &text[..text.find("// ferrowarp.parts").expect("an index")];
        let long = cuda_builder::with_parts(&format!("{body}{}", "// é\n".repeat(1 << 16)));
        std::fs::write(&path, &long).unwrap();
        let texts = |found: Vec<(_, String)>| -> Vec<_> {
            found.into_iter().map(|(_, text)| text).collect()
        };
        assert_eq!(texts(file.parts_at_end(9, |_| true)), texts(all.clone()));
        let many = (0..3000).map(|number| {
            format!(".visible .entry k{number}()\n{{\nret;\n}}\n{}", "// é\n".repeat(80))
        });
        let many = cuda_builder::with_parts(&format!(".version 8.0\n{}", many.collect::<String>()));
        std::fs::write(&path, &many).unwrap();
        assert_eq!(file.parts_at_end(9999, |_| true).len(), 3000);
        // One that is cut, and one without parts.
        for wrong in [&text[..text.len() - 9], body] {
            std::fs::write(&path, wrong).unwrap();
            let found = file.parts_at_end(9, |_| true);
            assert!(found.is_empty(), "{found:?} of {wrong}");
        }
        // One of them ends behind the file.
        let end = text.rfind('-').expect("a range");
        std::fs::write(&path, format!("{}-99999999999999999\n// ferrowarp.end\n", &text[..end]))
            .unwrap();
        assert_eq!(file.parts_at_end(9, |_| true), all[..2]);
    }

    #[test]
    fn what_is_no_text_or_not_there_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("kernels.ptx");
        let mut file = PtxFile::new(path.clone());
        assert_eq!(file.read(HeadStart::default()).unwrap_err().kind(), io::ErrorKind::NotFound);
        std::fs::write(&path, b".version \xff").unwrap();
        assert_eq!(file.read(HeadStart::default()).unwrap_err().kind(), io::ErrorKind::InvalidData);
        std::fs::write(&path, ".version").unwrap();
        assert_eq!(read(&mut file).ptx(), ".version");
    }
}
