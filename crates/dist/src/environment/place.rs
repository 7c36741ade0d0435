//! Where the ranks meet.

use std::fmt;
use std::path::PathBuf;

use super::launchers::{Found, Launcher};
use super::nodelist::first_host;
use super::variables::Variables;
use crate::error::DistError;

/// How many ports are tried, one after another: any of them may be in use.
const PORTS: u16 = 16;

/// Where the ranks find rank 0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MeetingPlace {
    /// Rank 0 listens on the first of these ports that is free; the others try all of them. Processes of other runs that listen
    /// there are told apart.
    Ports {
        /// The host of rank 0: a name or an address.
        host: String,
        /// The first port.
        first: u16,
        /// How many there are.
        count: u16,
    },
    /// Rank 0 writes into this file where it listens.
    File {
        /// The file. It lies where all ranks see it.
        path: PathBuf,
        /// Whether only this host sees it, so that rank 0 listens for this host alone.
        is_local: bool,
    },
    /// Rank 0 sends where it listens through MPI.
    Mpi,
}

impl fmt::Display for MeetingPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ports { host, first, count: 1 } => write!(f, "{host}, port {first}"),
            Self::Ports { host, first, count } => {
                write!(f, "{host}, ports {first} to {}", first + (count - 1))
            }
            Self::File { path, .. } => write!(f, "the file {}", path.display()),
            Self::Mpi => f.write_str("an address that MPI carries"),
        }
    }
}

/// Finds the place: a file, an address, or what the launcher offers.
pub(super) fn find(
    variables: &Variables<'_>,
    found: &Found,
    run: &str,
) -> Result<MeetingPlace, DistError> {
    if let Some(path) = variables.text("FERROWARP_DIST_FILE") {
        return Ok(MeetingPlace::File { path: path.into(), is_local: false });
    }
    let own_port: Option<u16> = variables.number("FERROWARP_DIST_PORT")?;
    let master_port: Option<u16> = variables.number("MASTER_PORT")?;
    let host = match found.launcher {
        Launcher::Slurm => Some(slurm_host(variables, found)?),
        _ => variables.text("MASTER_ADDR"),
    };
    let ports = match (own_port, master_port, found.launcher) {
        (Some(port), _, _) => Some((port, 1)),
        (None, Some(port), _) => Some(after(port)),
        (None, None, Launcher::Slurm) => Some((port_of(run), PORTS)),
        (None, None, _) => None,
    };
    match (host, ports) {
        (Some(host), Some((first, count))) => Ok(MeetingPlace::Ports { host, first, count }),
        (Some(_), None) => Err(DistError::Inconsistent {
            launcher: found.launcher,
            reason: "MASTER_ADDR is set, and neither MASTER_PORT nor FERROWARP_DIST_PORT"
                .to_owned(),
        }),
        (None, _) if found.local_size == Some(found.size) => Ok(local_file(variables, run)),
        (None, _) if found.launcher.starts_mpi() => Ok(MeetingPlace::Mpi),
        (None, _) => {
            Err(DistError::MissingVariable { launcher: found.launcher.name(), name: "MASTER_ADDR" })
        }
    }
}

/// The ports after the one that torchrun's agent listens on; before it at the end of the range.
fn after(port: u16) -> (u16, u16) {
    match port.checked_add(PORTS) {
        Some(_) => (port + 1, PORTS),
        None => (port - PORTS, PORTS),
    }
}

fn slurm_host(variables: &Variables<'_>, found: &Found) -> Result<String, DistError> {
    if let Some(host) = variables.text("MASTER_ADDR") {
        return Ok(host);
    }
    if found.local_size == Some(found.size) {
        return Ok("127.0.0.1".to_owned());
    }
    const LISTS: [&str; 3] = ["SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST", "SLURM_NODELIST"];
    let list = LISTS.into_iter().find_map(|name| Some((name, variables.text(name)?)));
    let missing =
        DistError::MissingVariable { launcher: Launcher::Slurm.name(), name: "SLURM_JOB_NODELIST" };
    let (name, value) = list.ok_or(missing)?;
    first_host(&value).ok_or(DistError::BadVariable { name, value, expected: "a list of hosts" })
}

/// A port that all ranks of the run find alike: below those that systems give out by themselves.
fn port_of(run: &str) -> u16 {
    const FIRST: u64 = 15_000;
    const COUNT: u64 = 15_000;
    (FIRST + hash(run) % COUNT) as u16
}

/// A file for the ranks of one run on one host.
fn local_file(variables: &Variables<'_>, run: &str) -> MeetingPlace {
    let folder = variables.text("TMPDIR").map_or_else(|| PathBuf::from("/tmp"), PathBuf::from);
    let path = folder.join(format!("ferrowarp-dist-{:016x}", hash(run)));
    MeetingPlace::File { path, is_local: true }
}

/// FNV-1a (Fowler, Noll, Vo), 64 bits: the same for all ranks, whatever compiled them.
pub(super) fn hash(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}
