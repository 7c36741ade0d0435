//! What an interrupted command leaves behind: nothing.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, Once, PoisonError};
use std::thread;

/// Temporary files, and folders of them, that this process has made. A path stays here after its file is
/// gone: its name is random, and nothing else takes it.
static TEMPORARY: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// Runs `work`, which makes temporary files or puts them in their place. A signal that arrives meanwhile
/// ends the process after `work`; then the files that `work` has added to the list are removed.
pub(super) fn deferred<R>(work: impl FnOnce(&mut Vec<PathBuf>) -> R) -> R {
    static HANDLER: Once = Once::new();
    HANDLER.call_once(|| {
        on_signal(|signal| {
            // The lock is never given back: no file is put in its place any more.
            let temporary = TEMPORARY.lock().unwrap_or_else(PoisonError::into_inner);
            temporary.iter().for_each(|path| remove(path));
            end_by(signal);
        });
    });
    work(&mut TEMPORARY.lock().unwrap_or_else(PoisonError::into_inner))
}

/// Waits for the end of the process where a signal is ending it: what fails now fails since its files are gone.
pub(super) fn let_signal_end() {
    drop(TEMPORARY.lock());
}

/// Nothing is left to do where it cannot be removed: it is gone, or the folder is closed by now.
fn remove(path: &Path) {
    let _ = if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
}

/// Calls `work` on a thread of its own at each Ctrl-C, request to terminate, and end of the terminal. A signal
/// that the process was started to ignore, as under `nohup`, stays ignored. Where no handler can be set,
/// signals end the process as they always do.
#[cfg(unix)]
pub(super) fn on_signal(mut work: impl FnMut(i32) + Send + 'static) {
    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
    use signal_hook::iterator::Signals;

    let ignored = ignored_signals();
    let heeded =
        [SIGHUP, SIGINT, SIGTERM].into_iter().filter(|number| ignored >> (number - 1) & 1 == 0);
    if let Ok(mut signals) = Signals::new(heeded) {
        thread::spawn(move || signals.forever().for_each(&mut work));
    }
}

/// A bit for each signal that is ignored, from signal 1; none where the system does not say.
#[cfg(unix)]
fn ignored_signals() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}

/// Ends the process the way that the signal does where nothing handles it, so that a shell sees which it was.
#[cfg(unix)]
fn end_by(signal: i32) {
    let _ = signal_hook::low_level::emulate_default_handler(signal);
}

#[cfg(not(unix))]
pub(super) fn on_signal(_: impl FnMut(i32) + Send + 'static) {}

#[cfg(not(unix))]
fn end_by(_: i32) {}
