//! Commands that a signal ends: they leave nothing behind.

use std::fs;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::{Place, program};

/// Starts the program on an emulator, silently.
fn start(place: &Place, args: &[&str]) -> Child {
    let mut command = Command::new(program());
    command.current_dir(place.0.path()).args(args).env("FERROWARP_DEVICE", "emulator");
    // A shell's background job ignores SIGINT, and so would the program if the tests are one.
    let listen = || {
        for signal in [libc::SIGINT, libc::SIGTERM] {
            // SAFETY: the default action needs no handler, and `signal` may be called between fork and exec.
            unsafe { libc::signal(signal, libc::SIG_DFL) };
        }
        Ok(())
    };
    // SAFETY: the closure makes system calls alone.
    unsafe { command.pre_exec(listen) };
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

/// Waits until `is_there` says so; the program must not end before.
fn wait_until(child: &mut Child, is_there: impl Fn() -> bool) {
    let start = Instant::now();
    while !is_there() {
        assert!(start.elapsed() < Duration::from_secs(120), "the program does not get there");
        assert_eq!(child.try_wait().unwrap(), None, "the program ended before it was interrupted");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Sends a signal, and expects that the process ends by it.
fn end_by(signal: i32, mut child: Child) {
    // SAFETY: the process is a child that nobody has waited for, so the number is its.
    assert_eq!(unsafe { libc::kill(child.id() as i32, signal) }, 0);
    let start = Instant::now();
    let status = loop {
        match child.try_wait().unwrap() {
            Some(status) => break status,
            None if start.elapsed() > Duration::from_secs(60) => {
                child.kill().unwrap();
                panic!("the program does not end by signal {signal}");
            }
            None => std::thread::sleep(Duration::from_millis(5)),
        }
    };
    assert_eq!(status.signal(), Some(signal));
}

/// The folders and files below the place, without the place itself.
fn everything(place: &Place) -> Vec<PathBuf> {
    let (mut all, mut folders) = (Vec::new(), vec![place.0.path().to_owned()]);
    while let Some(folder) = folders.pop() {
        // A folder may go while it is read.
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let path = entry.path();
            all.push(path.strip_prefix(place.0.path()).unwrap().to_owned());
            folders.extend(path.is_dir().then_some(path));
        }
    }
    all.sort();
    all
}

/// More frames than an emulator makes while a test runs.
const LONG: [&str; 8] = ["--width", "64", "--height", "64", "--frames", "100000", "--steps", "1"];

/// Whether a process has an open file in the place, under a name or none.
fn is_writing(place: &Place, id: u32) -> bool {
    let opened = fs::read_dir(format!("/proc/{id}/fd")).into_iter().flatten().flatten();
    let root = place.0.path().canonicalize().unwrap();
    opened.into_iter().any(|file| fs::read_link(file.path()).is_ok_and(|to| to.starts_with(&root)))
}

#[test]
fn an_interrupted_film_leaves_nothing() {
    for signal in [libc::SIGINT, libc::SIGTERM] {
        let place = Place::new().with("film.gif", "precious");
        let mut child = start(&place, &[&["heat", "-o", "film.gif"][..], &LONG].concat());
        let id = child.id();
        wait_until(&mut child, || is_writing(&place, id));
        end_by(signal, child);
        assert_eq!(everything(&place), [PathBuf::from("film.gif")]);
        assert_eq!(fs::read(place.path("film.gif")).unwrap(), b"precious");
    }
}

#[test]
fn an_interrupted_folder_of_pictures_is_as_it_was() {
    for signal in [libc::SIGINT, libc::SIGTERM] {
        let place = Place::new();
        fs::create_dir(place.path("old")).unwrap();
        fs::write(place.path("old/00000.png"), "precious").unwrap();
        for folder in ["new", "old"] {
            let mut child = start(&place, &[&["heat", "-o", folder][..], &LONG].concat());
            let has_frames = || everything(&place).iter().any(|path| path.ends_with("00002.png"));
            wait_until(&mut child, has_frames);
            end_by(signal, child);
            assert_eq!(everything(&place), ["old", "old/00000.png"].map(PathBuf::from));
            assert_eq!(fs::read(place.path("old/00000.png")).unwrap(), b"precious");
        }
    }
}

/// Not even a signal that no process can handle leaves a file, where the file system has files without names.
#[test]
fn a_killed_film_leaves_nothing() {
    let place = Place::new();
    let mut nameless = fs::File::options();
    if nameless.write(true).custom_flags(libc::O_TMPFILE).open(place.0.path()).is_err() {
        eprintln!("not run: this file system has no files without names");
        return;
    }
    let mut child = start(&place, &[&["heat", "-o", "film.gif"][..], &LONG].concat());
    let id = child.id();
    wait_until(&mut child, || is_writing(&place, id));
    end_by(libc::SIGKILL, child);
    assert!(everything(&place).is_empty(), "{:?}", everything(&place));
}

/// A signal that the program was started to ignore, as by `nohup`, stays ignored.
#[test]
fn an_ignored_signal_stays_ignored() {
    let place = Place::new();
    let ran = Command::new("sh")
        .current_dir(place.0.path())
        .env("FERROWARP_DEVICE", "emulator")
        .arg("-c")
        .arg(
            "trap '' HUP; \"$0\" heat -o film.gif --width 64 --height 64 --frames 40 --steps 20 & \
              sleep 0.3; kill -HUP $!; wait $!",
        )
        .arg(program())
        .output()
        .unwrap();
    assert!(ran.status.success(), "{ran:?}");
    assert_eq!(everything(&place), [PathBuf::from("film.gif")]);
}
