//! Restarts with another number of ranks, which are refused: each rank's share of the data would be another one.
//!
//! torchrun starts the ranks again after a failure, and with `--nnodes=MIN:MAX` perhaps fewer or more of them. It says how often
//! it did, and not how many there were. So the first start leaves the number in a small file, which ranks of the same torchrun on
//! the same host read at the next one.

use std::fs;
use std::path::PathBuf;

use super::Environment;
use super::place::hash;
use crate::error::DistError;

/// Refuses a restart with another number of ranks, as far as it can be known: on a host that had no rank before, it cannot.
pub(crate) fn check_elastic(environment: &Environment) -> Result<(), DistError> {
    check_in(environment, &std::env::temp_dir(), super::parent())
}

fn check_in(
    environment: &Environment,
    folder: &std::path::Path,
    parent: u32,
) -> Result<(), DistError> {
    if environment.launcher != super::Launcher::Torchrun || environment.local_rank != 0 {
        return Ok(());
    }
    let path = marker(environment, folder, parent);
    if environment.restarts == 0 {
        // Without it, the next start is not checked.
        let _ = fs::write(path, environment.size.to_string());
        return Ok(());
    }
    let before = fs::read_to_string(path).ok().and_then(|text| text.trim().parse().ok());
    match before {
        Some(before) if before != environment.size => {
            Err(DistError::Elastic { restart: environment.restarts, before, now: environment.size })
        }
        _ => Ok(()),
    }
}

/// The file of one torchrun, whose process starts all ranks of a host.
fn marker(environment: &Environment, folder: &std::path::Path, parent: u32) -> PathBuf {
    let run = environment.run.split('/').next().unwrap_or_default();
    folder.join(format!("ferrowarp-elastic-{:016x}", hash(&format!("{run}/{parent}"))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::environment::{Launcher, MeetingPlace, Settings};

    fn start(restarts: u32, size: u32, launcher: Launcher) -> Environment {
        let (local_size, place) = (Some(2), MeetingPlace::Mpi);
        let run = format!("uuid/{restarts}/host:29500");
        let settings = Settings::default();
        let (rank, local_rank) = (0, 0);
        Environment { launcher, rank, size, local_rank, local_size, restarts, run, place, settings }
    }

    #[test]
    fn a_restart_with_another_number_of_ranks_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let check =
            |restarts, size| check_in(&start(restarts, size, Launcher::Torchrun), folder.path(), 7);
        check(1, 8).unwrap(); // a host that is new
        check(0, 8).unwrap();
        check(1, 8).unwrap();
        let error = check(2, 6).unwrap_err();
        assert!(matches!(error, DistError::Elastic { restart: 2, before: 8, now: 6 }), "{error}");
        check(0, 6).unwrap(); // a new run
        check(1, 6).unwrap();
    }

    #[test]
    fn other_torchruns_and_launchers_are_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        check_in(&start(0, 8, Launcher::Torchrun), folder.path(), 7).unwrap();
        check_in(&start(1, 6, Launcher::Torchrun), folder.path(), 8).unwrap();
        check_in(&start(1, 6, Launcher::Variables), folder.path(), 7).unwrap();
    }
}
