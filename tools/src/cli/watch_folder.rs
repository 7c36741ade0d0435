//! `ferrowarp watch --ptx DIR`: a folder of PTX files that come, change and go.

use std::io::Write;
use std::path::Path;
use std::sync::mpsc::channel;

use super::error::CliError;
use super::interrupt::on_signal;
use super::watch::{Runs, not_loaded, show};
use ferrowarp::reload::{FolderEvent, ReloadEvent, WatchFolder};
use ferrowarp::{Gpu, HotFolder};

/// What the loop waits for.
enum News {
    Event(FolderEvent),
    /// Ctrl-C, or the end of the terminal.
    Stop,
}

/// Shows what happens in the folder, and runs the demos with each new version; `keep` of each file are kept. With `once`
/// only with what is there now.
pub(super) fn run(
    gpu: &Gpu,
    folder: &Path,
    (keep, once): (usize, bool),
    runs: &Runs,
    out: &mut impl Write,
) -> Result<(), CliError> {
    let (sender, news) = channel();
    let tell = sender.clone();
    // SAFETY: the user of the program names what it is to run; its help says that this is trusted.
    let watch = unsafe { WatchFolder::new(folder) }.keep(keep);
    let tell = move |event: &FolderEvent| drop(tell.send(News::Event(event.clone())));
    let hot = watch.on_event(tell).start(gpu)?;
    if once {
        let there: Vec<News> = news.try_iter().collect();
        return run_once(&hot, &there, runs, out);
    }
    on_signal(move |_| drop(sender.send(News::Stop)));
    while let Ok(News::Event(event)) = news.recv() {
        take(&hot, &event, runs, out)?;
        out.flush()?;
    }
    Ok(writeln!(out, "ended")?)
}

/// Runs the demos with each file that is there.
fn run_once(
    hot: &HotFolder,
    there: &[News],
    runs: &Runs,
    out: &mut impl Write,
) -> Result<(), CliError> {
    let (mut names, mut count) = (Vec::new(), 0);
    for news in there {
        let News::Event(event) = news else { continue };
        count += usize::from(matches!(event, FolderEvent::NotLoaded { .. }));
        names.extend(take(hot, event, runs, out)?);
    }
    match (count, names.is_empty()) {
        (0, true) => Ok(()),
        (0, false) => Err(CliError::WrongDemos { names }),
        _ => Err(CliError::FilesNotLoaded { count }),
    }
}

/// Shows an event, and runs the demos if it is a new version. The names of those that computed something wrong.
fn take(
    hot: &HotFolder,
    event: &FolderEvent,
    runs: &Runs,
    out: &mut impl Write,
) -> Result<Vec<&'static str>, CliError> {
    let (path, new) = match event {
        FolderEvent::Added { path, version } => {
            writeln!(out, "{}: {version}", name(path))?;
            (path, version.number)
        }
        FolderEvent::Changed { path, event } => {
            write!(out, "{}: ", name(path))?;
            show(event, out)?;
            match event {
                ReloadEvent::Swapped { version, .. } => (path, version.number),
                _ => return Ok(Vec::new()),
            }
        }
        FolderEvent::Removed { path } => {
            writeln!(out, "{} has gone", name(path))?;
            return Ok(Vec::new());
        }
        FolderEvent::NotLoaded { path, error } => {
            write!(out, "{}: ", name(path))?;
            not_loaded(error, out)?;
            return Ok(Vec::new());
        }
        // The library may come to report more.
        _ => return Ok(Vec::new()),
    };
    // Another edit may have come meanwhile, which is an event of its own.
    let module = path.file_stem().and_then(|name| hot.module(&name.to_string_lossy()));
    let Some((module, version)) =
        module.and_then(|module| module.version(new).ok().map(|version| (module, version)))
    else {
        return Ok(Vec::new());
    };
    let before = new.checked_sub(1).and_then(|number| module.version(number).ok());
    runs.run(before.as_ref(), &version, out)
}

/// A file without its folder.
fn name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}
