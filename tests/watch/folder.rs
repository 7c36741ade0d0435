//! A folder of PTX files: files that come, change and go.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::thread;
use std::time::Duration;

use ferrowarp::reload::{FolderEvent, ReloadEvent, WatchFolder};
use ferrowarp::{DeviceBuffer, Gpu, GpuError, HotFolder};
use tempfile::TempDir;

use crate::stamps::{bare, one, ptx, stamp, stamped};

/// A folder that is watched.
struct Place {
    dir: TempDir,
    gpu: Gpu,
    folder: HotFolder,
    events: Receiver<FolderEvent>,
}

impl Place {
    fn new(files: &[(&str, &str)]) -> Self {
        let (dir, gpu) = (tempfile::tempdir().unwrap(), bare());
        for (name, text) in files {
            fs::write(dir.path().join(name), text).unwrap();
        }
        // SAFETY: each text is `stamp`, which stays inside the words that its launcher gives, or is refused.
        let folder = unsafe { gpu.watch_folder(dir.path()) }.unwrap();
        let events = folder.events();
        Self { dir, gpu, folder, events }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Writes a file, or has another one take its place.
    fn write(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).unwrap();
    }

    fn replace(&self, name: &str, text: &str) {
        let new = self.path(".new");
        fs::write(&new, text).unwrap();
        fs::rename(new, self.path(name)).unwrap();
    }

    fn remove(&self, name: &str) {
        fs::remove_file(self.path(name)).unwrap();
    }

    /// What the module of a file stamps.
    fn stamp(&self, name: &str) -> u32 {
        stamped(&self.gpu, &self.folder.module(name).expect("a module"))
    }

    fn names(&self) -> Vec<String> {
        self.folder.modules().into_iter().map(|(name, _)| name).collect()
    }

    /// The next event as `file what`, where `what` is `added N`, `swapped N`, `unchanged`, `removed` or `refused`.
    #[track_caller]
    fn next(&self) -> String {
        told(&self.events.recv_timeout(Duration::from_secs(60)).expect("an event"))
    }

    /// Waits longer than any edit counts as incomplete, and asserts that nothing was told.
    #[track_caller]
    fn assert_quiet(&self) {
        thread::sleep(Duration::from_millis(300));
        let told = self.events.try_recv();
        assert!(matches!(told, Err(TryRecvError::Empty)), "{told:?}");
    }
}

fn told(event: &FolderEvent) -> String {
    let (path, what) = match event {
        FolderEvent::Added { path, version } => (path, format!("added {}", version.number)),
        FolderEvent::Removed { path } => (path, "removed".to_owned()),
        FolderEvent::NotLoaded { path, .. } => (path, "refused".to_owned()),
        FolderEvent::Changed { path, event } => match event {
            ReloadEvent::Swapped { version, .. } => (path, format!("swapped {}", version.number)),
            ReloadEvent::Unchanged { .. } => (path, "unchanged".to_owned()),
            ReloadEvent::LoadFailed { .. } => (path, "refused".to_owned()),
            other => (path, format!("{other:?}")),
        },
        other => panic!("{other:?}"),
    };
    let name = path.file_name().and_then(|name| name.to_str()).expect("a name");
    format!("{name} {what}")
}

#[test]
fn files_that_are_there_are_modules() {
    let place = Place::new(&[("a.ptx", &ptx(1)), ("b.ptx", &ptx(2)), ("c.txt", "no PTX")]);
    assert_eq!(place.names(), ["a", "b"]);
    assert_eq!((place.stamp("a"), place.stamp("b")), (1, 2));
    assert!(place.folder.module("c").is_none() && place.folder.module("a.ptx").is_none());
    place.assert_quiet();
}

#[test]
fn files_come_change_and_go() {
    let place = Place::new(&[("a.ptx", &ptx(1))]);
    place.write("b.ptx", &ptx(2));
    assert_eq!(place.next(), "b.ptx added 1");
    place.replace("c.ptx", &ptx(3));
    assert_eq!(place.next(), "c.ptx added 1");
    assert_eq!(
        (place.names(), place.stamp("b"), place.stamp("c")),
        (["a", "b", "c"].map(str::to_owned).to_vec(), 2, 3)
    );
    place.write("b.ptx", &ptx(4));
    assert_eq!((place.next(), place.stamp("b")), ("b.ptx swapped 2".to_owned(), 4));
    place.replace("a.ptx", &ptx(5));
    assert_eq!((place.next(), place.stamp("a")), ("a.ptx swapped 2".to_owned(), 5));
    place.remove("b.ptx");
    assert_eq!(
        (place.next(), place.names()),
        ("b.ptx removed".to_owned(), ["a", "c"].map(str::to_owned).to_vec())
    );
    fs::rename(place.path("c.ptx"), place.path("d.ptx")).unwrap();
    let mut both = [place.next(), place.next()];
    both.sort();
    assert_eq!(both, ["c.ptx removed", "d.ptx added 1"]);
    assert_eq!((place.names(), place.stamp("d")), (["a", "d"].map(str::to_owned).to_vec(), 3));
    place.assert_quiet();
}

#[test]
fn a_module_that_is_held_outlives_its_file_and_takes_it_up_again() {
    let place = Place::new(&[("a.ptx", &ptx(1))]);
    let held = place.folder.module("a").expect("a module");
    place.remove("a.ptx");
    assert_eq!(place.next(), "a.ptx removed");
    assert!(place.folder.module("a").is_none());
    assert_eq!(stamped(&place.gpu, &held), 1);
    place.write("a.ptx", &ptx(2));
    assert_eq!((place.next(), stamped(&place.gpu, &held)), ("a.ptx swapped 2".to_owned(), 2));
    assert_eq!(place.stamp("a"), 2);
    // Gone for a moment, and the same as before.
    place.remove("a.ptx");
    assert_eq!(place.next(), "a.ptx removed");
    place.write("a.ptx", &ptx(2));
    assert_eq!((place.next(), place.names()), ("a.ptx unchanged".to_owned(), vec!["a".to_owned()]));
}

#[test]
fn a_file_whose_module_nobody_holds_is_new_when_it_comes_back() {
    let place = Place::new(&[("a.ptx", &ptx(1))]);
    place.write("a.ptx", &ptx(2));
    assert_eq!(place.next(), "a.ptx swapped 2");
    place.remove("a.ptx");
    assert_eq!(place.next(), "a.ptx removed");
    place.write("a.ptx", &ptx(3));
    assert_eq!((place.next(), place.stamp("a")), ("a.ptx added 1".to_owned(), 3));
}

#[test]
fn a_module_whose_file_goes_while_its_kernel_runs_ends_after_it() {
    let place = Place::new(&[("a.ptx", &ptx(1))]);
    for number in 2..12 {
        let mut words = DeviceBuffer::<u32>::zeroed(&place.gpu, 100_000).unwrap();
        let module = place.folder.module("a").expect("a module");
        stamp(&module, &mut words).unwrap();
        place.remove("a.ptx");
        drop(module);
        assert_eq!(place.next(), "a.ptx removed");
        assert_eq!(one(&words.to_vec().unwrap()), number - 1);
        place.replace("a.ptx", &ptx(number));
        assert_eq!(place.next(), "a.ptx added 1");
    }
}

#[test]
fn a_file_that_is_broken_is_loaded_when_it_is_fixed() {
    let broken = ptx(1).replace("st.u32", "st.nowhere.u32");
    let (dir, gpu) = (tempfile::tempdir().unwrap(), bare());
    fs::write(dir.path().join("a.ptx"), &broken).unwrap();
    let (sender, told) = channel();
    // SAFETY: each text is `stamp`, or is refused.
    let folder = unsafe { WatchFolder::new(dir.path()) }
        .keep(2)
        .on_event(move |event| drop(sender.send(event.clone())))
        .start(&gpu)
        .unwrap();
    let next = || told.recv_timeout(Duration::from_secs(60)).expect("an event");
    let FolderEvent::NotLoaded { path, error } = next() else { panic!("it is broken") };
    assert!(path.ends_with("a.ptx") && error.driver().is_some_and(|driver| driver.code() == 218));
    assert!(folder.module("a").is_none());
    let events = folder.events();
    fs::write(dir.path().join("a.ptx"), ptx(7)).unwrap();
    let added = events.recv_timeout(Duration::from_secs(60)).unwrap();
    assert_eq!(self::told(&added), "a.ptx added 1");
    let module = folder.module("a").expect("a module");
    fs::write(dir.path().join("a.ptx"), &broken).unwrap();
    assert_eq!(self::told(&events.recv_timeout(Duration::from_secs(60)).unwrap()), "a.ptx refused");
    assert_eq!(stamped(&gpu, &module), 7);
}

/// Linux tells when a writer closes a file: until then half of it is no module, however long that takes.
#[cfg(target_os = "linux")]
#[test]
fn a_file_that_its_writer_has_open_is_not_loaded() {
    use std::io::Write;
    let place = Place::new(&[]);
    let whole = ptx(2);
    let mut file = fs::File::create(place.path("a.ptx")).unwrap();
    // The first half is a whole module, with another kernel's number.
    for text in [
        ptx(1),
        whole
            .replace("entry stamp", "entry other")
            .replace(".version 7.0\n.target sm_70\n.address_size 64\n", ""),
    ] {
        file.write_all(text.as_bytes()).unwrap();
        place.assert_quiet();
        assert_eq!(place.names(), [""; 0]);
    }
    drop(file);
    assert_eq!((place.next(), place.stamp("a")), ("a.ptx added 1".to_owned(), 1));
}

#[test]
fn an_empty_file_is_a_module_when_it_is_written() {
    let place = Place::new(&[("a.ptx", "")]);
    place.assert_quiet();
    place.write("b.ptx", "\n");
    place.assert_quiet();
    assert_eq!(place.names(), [""; 0]);
    place.write("a.ptx", &ptx(1));
    assert_eq!(place.next(), "a.ptx added 1");
    place.write("b.ptx", &ptx(2));
    assert_eq!((place.next(), place.stamp("b")), ("b.ptx added 1".to_owned(), 2));
}

#[test]
fn other_files_and_folders_do_not_count() {
    let place = Place::new(&[]);
    place.write("a.txt", &ptx(1));
    place.write(".a.ptx", &ptx(1));
    place.write("a.ptx~", &ptx(1));
    fs::create_dir(place.path("b.ptx")).unwrap();
    fs::write(place.path("b.ptx").join("c.ptx"), ptx(1)).unwrap();
    place.assert_quiet();
    assert_eq!(place.names(), [""; 0]);
}

#[test]
fn many_files_come_at_once() {
    const FILES: u32 = 40;
    let place = Place::new(&[]);
    for number in 0..FILES {
        place.write(&format!("{number:02}.ptx"), &ptx(number));
    }
    let mut added: Vec<String> = (0..FILES).map(|_| place.next()).collect();
    added.sort();
    assert_eq!(added, (0..FILES).map(|n| format!("{n:02}.ptx added 1")).collect::<Vec<_>>());
    for (number, (name, module)) in (0..FILES).zip(place.folder.modules()) {
        assert_eq!((name, stamped(&place.gpu, &module)), (format!("{number:02}"), number));
    }
}

#[test]
fn a_module_outlives_its_folder_and_is_not_reloaded_any_more() {
    let Place { dir, gpu, folder, events } = Place::new(&[("a.ptx", &ptx(1))]);
    let module = folder.module("a").expect("a module");
    drop(folder);
    fs::write(dir.path().join("a.ptx"), ptx(2)).unwrap();
    thread::sleep(Duration::from_millis(300));
    assert!(events.try_recv().is_err());
    assert_eq!(stamped(&gpu, &module), 1);
}

#[test]
fn a_folder_that_is_not_there_is_an_error() {
    // SAFETY: nothing is loaded.
    let error = unsafe { bare().watch_folder(Path::new("no/such/folder")) }.unwrap_err();
    assert!(matches!(error.root(), GpuError::Watch { .. }), "{error}");
}
