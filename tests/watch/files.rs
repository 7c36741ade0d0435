//! PTX files that are written, replaced, broken and gone.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::thread;
use std::time::{Duration, Instant};

use ferrowarp::reload::{ReloadEvent, Watch};
use ferrowarp::{Gpu, GpuError, GpuResult, HotModule};
use tempfile::TempDir;

use crate::kernels::image;
use crate::stamps::{bare, next, ptx, stamped, swapped};

/// Watches a file with texts of these tests.
fn watch(gpu: &Gpu, file: &Path) -> GpuResult<HotModule> {
    // SAFETY: each text is `stamp`, which stays inside the words that its launcher gives, or is refused.
    unsafe { gpu.watch_ptx(file) }
}

/// A PTX file that is watched.
struct Place {
    dir: TempDir,
    gpu: Gpu,
    hot: HotModule,
    events: Receiver<ReloadEvent>,
}

impl Place {
    fn new() -> Self {
        let (dir, gpu) = (tempfile::tempdir().unwrap(), bare());
        let file = dir.path().join("kernels.ptx");
        fs::write(&file, ptx(1)).unwrap();
        let hot = watch(&gpu, &file).unwrap();
        let events = hot.events();
        Self { dir, gpu, hot, events }
    }

    fn file(&self) -> PathBuf {
        self.dir.path().join("kernels.ptx")
    }

    /// Writes the file as a careful editor does: another one takes its place.
    fn replace(&self, text: &str) {
        let new = self.dir.path().join(".kernels.ptx.new");
        fs::write(&new, text).unwrap();
        fs::rename(new, self.file()).unwrap();
    }

    /// Replaces the file with even numbers, and writes it with odd ones.
    fn edit(&self, number: u32) {
        match number % 2 {
            0 => self.replace(&ptx(number)),
            _ => fs::write(self.file(), ptx(number)).unwrap(),
        }
    }

    fn stamp(&self) -> u32 {
        stamped(&self.gpu, &self.hot)
    }

    /// Waits longer than any edit counts as incomplete, and asserts that nothing was told.
    #[track_caller]
    fn assert_quiet(&self) {
        thread::sleep(Duration::from_millis(300));
        let told = self.events.try_recv();
        assert!(matches!(told, Err(TryRecvError::Empty)), "{told:?}");
    }
}

/// Two kernels: the first half of the text is a module too, with the `stamp` of that number.
fn halves(number: u32) -> (String, String) {
    let whole = ptx(number);
    let second = whole.replace("entry stamp", "entry other");
    let (_, second) = second.split_once(".visible").expect("an entry");
    (whole.clone(), format!(".visible{second}"))
}

#[test]
fn a_file_that_is_written_or_replaced_is_loaded() {
    let place = Place::new();
    assert_eq!(place.stamp(), 1);
    fs::write(place.file(), ptx(2)).unwrap();
    assert_eq!((swapped(&place.events), place.stamp()), (2, 2));
    for number in 3..8 {
        place.replace(&ptx(number));
        assert_eq!((swapped(&place.events), place.stamp()), (number.into(), number));
    }
}

#[test]
fn a_file_that_is_written_piece_by_piece_is_loaded_when_it_is_whole() {
    use std::io::Write;
    let place = Place::new();
    let text = ptx(2);
    let mut file = fs::File::create(place.file()).unwrap();
    for line in text.split_inclusive('\n') {
        file.write_all(line.as_bytes()).unwrap();
    }
    drop(file);
    next(&place.events, |event| match event {
        ReloadEvent::Swapped { version, .. } => (version.bytes == text.len()).then_some(()),
        _ => None,
    });
    assert_eq!(place.stamp(), 2);
}

/// Linux tells when a writer closes a file: until then half of it is no version, however long that takes.
#[cfg(target_os = "linux")]
#[test]
fn a_file_that_its_writer_has_open_is_not_loaded() {
    use std::io::Write;
    let place = Place::new();
    let (first, second) = halves(2);
    let mut file = fs::File::create(place.file()).unwrap();
    for half in [&first, &second] {
        file.write_all(half.as_bytes()).unwrap();
        place.assert_quiet();
        assert_eq!(place.stamp(), 1);
    }
    drop(file);
    assert_eq!((swapped(&place.events), place.stamp()), (2, 2));
    assert_eq!(place.hot.current().info().bytes, first.len() + second.len());
}

#[test]
fn an_edit_is_told_once() {
    let place = Place::new();
    place.replace(&ptx(2));
    assert_eq!((swapped(&place.events), place.stamp()), (2, 2));
    place.assert_quiet();
    fs::write(place.file(), ptx(3)).unwrap();
    assert_eq!((swapped(&place.events), place.stamp()), (3, 3));
    place.assert_quiet();
    // One that says itself that it is whole.
    fs::write(place.file(), cuda_builder::with_parts(&ptx(4))).unwrap();
    assert_eq!((swapped(&place.events), place.stamp()), (4, 4));
    place.assert_quiet();
}

#[test]
fn a_file_whose_time_is_set_behind_its_close_is_loaded() {
    let place = Place::new();
    for number in 2..6 {
        place.edit(number);
        let file = fs::File::open(place.file()).unwrap();
        file.set_modified(std::time::SystemTime::now()).unwrap();
        assert_eq!((swapped(&place.events), place.stamp()), (number.into(), number));
    }
}

/// Some of these times are set while the file is read, which is then read again: there is no further close.
#[test]
fn a_file_whose_time_is_set_while_it_is_read_is_loaded() {
    let place = Place::new();
    for number in 2..402 {
        let new = place.dir.path().join(".kernels.ptx.new");
        fs::write(&new, ptx(number)).unwrap();
        let file = fs::File::open(&new).unwrap();
        fs::rename(new, place.file()).unwrap();
        let renamed = Instant::now();
        while renamed.elapsed() < Duration::from_micros(u64::from(number % 200)) {}
        file.set_modified(std::time::SystemTime::now()).unwrap();
        assert_eq!((swapped(&place.events), place.stamp()), (number.into(), number));
    }
}

#[test]
fn a_file_that_is_emptied_first_is_loaded_when_it_is_written() {
    let place = Place::new();
    for number in 2..5 {
        fs::write(place.file(), "").unwrap();
        place.assert_quiet();
        fs::write(place.file(), ptx(number)).unwrap();
        assert_eq!((swapped(&place.events), place.stamp()), (number.into(), number));
    }
}

#[test]
fn the_last_of_many_quick_edits_is_in_use() {
    let place = Place::new();
    for number in 2..40 {
        place.edit(number);
    }
    while place.stamp() != 39 {
        swapped(&place.events);
    }
}

/// What stands in the place of the file was whole before.
#[cfg(unix)]
#[test]
fn a_link_that_takes_the_place_of_the_file_is_loaded() {
    let place = Place::new();
    let other = place.dir.path().join("other.ptx");
    fs::write(&other, ptx(2)).unwrap();
    fs::remove_file(place.file()).unwrap();
    fs::hard_link(&other, place.file()).unwrap();
    assert_eq!((swapped(&place.events), place.stamp()), (2, 2));
    fs::remove_file(place.file()).unwrap();
    fs::write(&other, ptx(3)).unwrap();
    std::os::unix::fs::symlink(&other, place.file()).unwrap();
    assert_eq!((swapped(&place.events), place.stamp()), (3, 3));
}

#[test]
fn other_files_and_reads_are_no_edits() {
    let place = Place::new();
    fs::write(place.dir.path().join("other.ptx"), ptx(5)).unwrap();
    fs::read(place.file()).unwrap();
    let touched = fs::File::open(place.file()).unwrap();
    touched.set_modified(std::time::SystemTime::now()).unwrap();
    place.assert_quiet();
    fs::write(place.file(), ptx(1)).unwrap();
    next(&place.events, |event| match event {
        ReloadEvent::Unchanged { version } => (version.number == 1).then_some(()),
        other => panic!("{other:?}"),
    });
    assert_eq!(place.stamp(), 1);
}

#[test]
fn a_broken_file_in_a_loop_keeps_the_version_serving() {
    let place = Place::new();
    for round in 0..20 {
        place.replace(&ptx(99).replace("st.u32", &format!("frob{round}.u32")));
        let log = next(&place.events, |event| match event {
            ReloadEvent::LoadFailed { error } => {
                Some(error.driver().expect("a driver error").detail().unwrap_or("").to_owned())
            }
            ReloadEvent::Swapped { version, .. } => panic!("{version}"),
            _ => None,
        });
        assert!(log.contains(&format!("frob{round}")), "{log}");
        assert_eq!(place.stamp(), 1);
    }
    place.replace(&ptx(2));
    assert_eq!((swapped(&place.events), place.stamp()), (2, 2));
}

#[test]
fn a_kernel_that_does_not_fit_is_told() {
    let place = Place::new();
    place.stamp();
    place.replace(&ptx(2).replace("u64 len)", "u64 len, .param .u32 more)"));
    let kernel = next(&place.events, |event| match event {
        ReloadEvent::Refused { kernel, .. } => Some(kernel),
        _ => None,
    });
    assert_eq!((kernel.as_str(), place.stamp()), ("stamp", 1));
}

#[test]
fn a_file_that_vanishes_keeps_its_version_and_may_come_back() {
    let place = Place::new();
    fs::remove_file(place.file()).unwrap();
    let path = next(&place.events, |event| match event {
        ReloadEvent::Unreadable { path, .. } => Some(path),
        _ => None,
    });
    assert_eq!((path, place.stamp()), (place.file(), 1));
    fs::write(place.file(), ptx(2)).unwrap();
    assert_eq!((swapped(&place.events), place.stamp()), (2, 2));
}

#[test]
fn a_file_may_come_later_where_the_program_has_kernels() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("later.ptx");
    let text: &'static str = ptx(7).leak();
    let gpu = Gpu::with_images(&[image(text)]).unwrap();
    let hot = watch(&gpu, &file).unwrap();
    let events = hot.events();
    assert_eq!(stamped(&gpu, &hot), 7);
    fs::write(file, ptx(8)).unwrap();
    assert_eq!((swapped(&events), stamped(&gpu, &hot)), (2, 8));
}

#[test]
fn what_cannot_be_watched_is_said_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let start = |name: &str| watch(&bare(), &dir.path().join(name)).unwrap_err();
    for name in ["none.ptx", "no/folder.ptx"] {
        let error = start(name);
        assert!(matches!(error.root(), GpuError::Watch { .. }), "{error}");
        assert!(error.to_string().starts_with("cannot watch "), "{error}");
    }
    fs::write(dir.path().join("broken.ptx"), "nonsense").unwrap();
    let error = start("broken.ptx");
    assert!(error.to_string().starts_with("loading the first version: "), "{error}");
    // SAFETY: nothing is there to be built.
    let error = unsafe { bare().watch_kernels(dir.path()) }.unwrap_err();
    let GpuError::KernelCrate(inner) = error.root() else { panic!("{error}") };
    assert!(inner.to_string().contains("it has no Cargo.toml"), "{inner}");
}

#[test]
fn a_callback_gets_what_a_receiver_gets_and_its_panic_stops_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let (file, gpu) = (dir.path().join("k.ptx"), bare());
    fs::write(&file, ptx(1)).unwrap();
    let (sender, told) = channel();
    let panics = |_: &ReloadEvent| panic!("a callback of a test");
    let tells = move |event: &ReloadEvent| drop(sender.send(event.clone()));
    // SAFETY: texts of these tests.
    let hot = unsafe { Watch::ptx(&file) }.on_event(panics).on_event(tells).start(&gpu).unwrap();
    for number in 2..4 {
        fs::write(&file, ptx(number)).unwrap();
        assert_eq!((swapped(&told), stamped(&gpu, &hot)), (number.into(), number));
    }
}
