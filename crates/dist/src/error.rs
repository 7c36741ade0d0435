//! What can go wrong among ranks, and what to do about it.

use std::fmt;
use std::io;
use std::time::Duration;

use ferrowarp::GpuError;
use thiserror::Error;

use crate::environment::Launcher;

/// The result of work of several ranks.
pub type DistResult<T> = Result<T, DistError>;

/// Why work of several ranks failed.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum DistError {
    /// No launcher has started this process.
    #[error(
        "no launcher has started this process. Looked for: {}. Start it with one of them, on one machine by \
         `ferrowarp launch -n 2 -- PROGRAM`, or take World::alone() for a world of one rank",
        looked_for()
    )]
    NoLauncher,

    /// A launcher has set some of its variables.
    #[error(
        "{launcher} started this process, it seems, and {name} is not set: set it, or start the ranks by another launcher"
    )]
    MissingVariable {
        /// The launcher.
        launcher: &'static str,
        /// The variable.
        name: &'static str,
    },

    /// A variable holds something else than it should.
    #[error("{name} is `{value}`, and should be {expected}")]
    BadVariable {
        /// The variable.
        name: &'static str,
        /// What it holds.
        value: String,
        /// What it should.
        expected: &'static str,
    },

    /// The variables of a launcher contradict each other.
    #[error("the variables of {launcher} make no sense: {reason}")]
    Inconsistent {
        /// The launcher.
        launcher: Launcher,
        /// What is wrong.
        reason: String,
    },

    /// A variable that chooses what carries the data is not the same on all ranks.
    #[error("{name} is {}: it must be the same on all ranks", values_of(values))]
    UnlikeSettings {
        /// The variable.
        name: String,
        /// Each value, or `None` where it is not set, with the ranks that have it.
        values: Vec<(Option<String>, Vec<u32>)>,
    },

    /// torchrun has started the ranks again, and other numbers of them.
    #[error(
        "start {restart} after a failure has {now} ranks, and the one before had {before}: each rank's share would be another. \
         Start torchrun with one number of nodes (--nnodes=N, not MIN:MAX)"
    )]
    Elastic {
        /// Which start after the first it is.
        restart: u32,
        /// How many ranks there were.
        before: u32,
        /// How many there are.
        now: u32,
    },

    /// Ranks did not come to a meeting, or to what all of its ranks do together.
    #[error("{} did not come to {what} within {:.0} s", ranks_of(ranks), waited.as_secs_f64())]
    MissingRanks {
        /// What they did not come to.
        what: String,
        /// Which.
        ranks: Vec<u32>,
        /// How long the others waited.
        waited: Duration,
    },

    /// Rank 0 cannot be reached.
    #[error("rank 0 was not found at {place} within {:.0} s: {reason}", waited.as_secs_f64())]
    Unreachable {
        /// Where it was looked for.
        place: String,
        /// What happened there.
        reason: String,
        /// How long it was tried.
        waited: Duration,
    },

    /// Rank 0 cannot listen.
    #[error(
        "rank 0 cannot listen at {place}: {source}. FERROWARP_DIST_PORT names another port, FERROWARP_DIST_FILE a file"
    )]
    Listen {
        /// Where.
        place: String,
        /// The system's reason.
        source: io::Error,
    },

    /// Rank 0 does not take this process.
    #[error("rank 0 refuses this process: {reason}")]
    Refused {
        /// Why.
        reason: String,
    },

    /// A rank is lost, so that what it takes part in cannot end.
    #[error("rank {rank} is lost: {how}")]
    RankLost {
        /// Which, in the world.
        rank: u32,
        /// How it is known.
        how: Loss,
    },

    /// What the ranks do together has taken longer than it may.
    #[error("{what} is not done after {:.0} s, which is the deadline, and no rank is known to be lost: does each rank make the same calls?", waited.as_secs_f64())]
    Deadline {
        /// What.
        what: String,
        /// How long it was waited for.
        waited: Duration,
    },

    /// The program has aborted the communicator.
    #[error("the communicator was aborted")]
    Aborted,

    /// The communicator cannot be made, as nothing here carries data between ranks.
    #[error("nothing here carries data between ranks for {device}: {}", reasons.join("; "))]
    NoBackend {
        /// The device.
        device: String,
        /// Why not, for each backend.
        reasons: Vec<String>,
    },

    /// NCCL's library cannot be used.
    #[error("NCCL cannot be used: {reason}. `pip install nvidia-nccl-cu12` has it, NVIDIA's package repositories as libnccl2, and \
             FERROWARP_NCCL_LIBRARY names the file libnccl.so.2. Tried: {}", tried.join(", "))]
    NcclLibrary {
        /// Why.
        reason: String,
        /// Which files were tried.
        tried: Vec<String>,
    },

    /// NCCL has failed.
    #[error("{call} of NCCL: {message}{}", detail(detail_text))]
    Nccl {
        /// Which function.
        call: &'static str,
        /// NCCL's number for the error.
        code: i32,
        /// NCCL's text for it.
        message: String,
        /// NCCL's last message about the communicator; empty if there is none. `NCCL_DEBUG=WARN` prints more.
        detail_text: String,
    },

    /// MPI has failed, or cannot begin.
    #[error("{call} of MPI: {message}")]
    Mpi {
        /// Which function.
        call: &'static str,
        /// What is wrong.
        message: String,
    },

    /// Ranks have the same device, which NCCL does not allow.
    #[error(
        "{} have the same device (PCI {pci} of {host}): start as many ranks on a host as it has GPUs, and let each see its own",
        ranks_of(ranks)
    )]
    SharedDevice {
        /// Which.
        ranks: Vec<u32>,
        /// The device's place on the bus.
        pci: String,
        /// The host.
        host: String,
    },

    /// There is no device for this rank.
    #[error("rank {local_rank} of this host has no device: there are {devices} here")]
    NoDevice {
        /// The rank, among those of its host.
        local_rank: u32,
        /// How many devices the process sees.
        devices: usize,
    },

    /// A length is not what the operation needs.
    #[error("{operation}: {what} has {found} elements, and must have {expected}")]
    Length {
        /// The operation.
        operation: &'static str,
        /// What has the length.
        what: &'static str,
        /// What it should be.
        expected: usize,
        /// What it is.
        found: usize,
    },

    /// Ranks do not agree on the shapes of what they compute together.
    #[cfg(feature = "ops")]
    #[error(
        "{operation}: rank {rank} says {found}, and rank 0 {expected}: they must be the same on all ranks"
    )]
    UnlikeShapes {
        /// The operation.
        operation: &'static str,
        /// The first rank that says something else than rank 0.
        rank: u32,
        /// What it says.
        found: String,
        /// What rank 0 says.
        expected: String,
    },

    /// A buffer cannot be divided among the ranks.
    #[error(
        "{operation}: {what} has {found} elements, which is not a multiple of the {ranks} ranks"
    )]
    NotDivisible {
        /// The operation.
        operation: &'static str,
        /// What has the length.
        what: &'static str,
        /// Its length.
        found: usize,
        /// The ranks.
        ranks: u32,
    },

    /// A slab has no plane, so that its neighbours get no halo from it.
    #[cfg(feature = "ops")]
    #[error(
        "rank {rank} has no plane of a grid of {planes} planes for {ranks} ranks: give each rank one or more, or run fewer ranks"
    )]
    ThinSlab {
        /// The rank.
        rank: u32,
        /// The planes of the whole grid.
        planes: usize,
        /// How many ranks there are.
        ranks: u32,
    },

    /// There is no such rank.
    #[error("{operation}: there is no rank {rank} in a communicator of {size}")]
    NoSuchRank {
        /// The operation.
        operation: &'static str,
        /// Which.
        rank: u32,
        /// How many there are.
        size: u32,
    },

    /// The backend cannot be used in a graph.
    #[error(
        "{backend} moves data by the host, so its operations cannot be part of a graph: enqueue them on a stream"
    )]
    NotInGraphs {
        /// Which.
        backend: &'static str,
    },

    /// More data than the backend takes at once.
    #[error(
        "{operation}: {found} are more than {backend} takes at once, which is {limit}: use several calls"
    )]
    TooLarge {
        /// The operation.
        operation: &'static str,
        /// Which backend.
        backend: &'static str,
        /// How many elements or bytes.
        found: usize,
        /// How many it takes.
        limit: usize,
    },

    /// A rank sends to itself what it does not receive in the same group, or the other way round.
    #[error(
        "a group sends {sends} times to this rank itself and receives {receives} times: both stand in one group"
    )]
    Unmatched {
        /// How often it sends.
        sends: usize,
        /// How often it receives.
        receives: usize,
    },

    /// A rank has found a reason why a communicator cannot be made.
    #[error("rank {rank} cannot take part in the communicator: {reason}")]
    Unable {
        /// Which.
        rank: u32,
        /// Its reason.
        reason: String,
    },

    /// A rank has refused a call that others make, which has ended the communicator.
    #[error(
        "rank {rank} has refused a call that other ranks make, which ends the communicator: {reason}"
    )]
    CallRefused {
        /// Which, in the world.
        rank: u32,
        /// The error that its call has returned.
        reason: String,
    },

    /// A call of the driver has failed.
    #[error("{operation} has failed with the driver's code {code}{}", detail(detail_text))]
    Driver {
        /// Which function.
        operation: &'static str,
        /// The driver's code.
        code: u32,
        /// What the driver says beside; empty if nothing.
        detail_text: String,
    },

    /// The device or its driver.
    #[error(transparent)]
    Gpu(#[from] GpuError),
}

/// How a rank was lost.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Loss {
    /// Its connection ended without a farewell: it was killed, or has crashed.
    Died,
    /// Nothing was heard of it for as long: its host or the network is down, or it was stopped.
    Silent {
        /// How long.
        for_: Duration,
    },
    /// It has ended while others still waited for it: it has failed, or makes other calls than they do.
    Ended,
    /// NCCL has noticed it.
    Reported {
        /// What NCCL says.
        message: String,
    },
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Died => f.write_str("its process has died"),
            Self::Silent { for_ } => {
                write!(f, "nothing was heard of it for {:.0} s", for_.as_secs_f64())
            }
            Self::Ended => f.write_str("it has ended while others waited for it"),
            Self::Reported { message } => f.write_str(message),
        }
    }
}

fn looked_for() -> String {
    let names =
        crate::environment::LOOKED_FOR.map(|(launcher, names)| format!("{names} ({launcher})"));
    names.join("; ")
}

/// "ranks 1, 3 and 4"
fn ranks_of(ranks: &[u32]) -> String {
    const SHOWN: usize = 16;
    let mut names: Vec<_> = ranks.iter().take(SHOWN).map(u32::to_string).collect();
    if ranks.len() > SHOWN {
        names.push(format!("{} others", ranks.len() - SHOWN));
    }
    match names.as_slice() {
        [] => "some rank".to_owned(),
        [one] => format!("rank {one}"),
        [first @ .., last] => format!("ranks {} and {last}", first.join(", ")),
    }
}

/// "`0` on rank 1, not set on ranks 0 and 2"
fn values_of(values: &[(Option<String>, Vec<u32>)]) -> String {
    let one = |(value, ranks): &(Option<String>, Vec<u32>)| {
        let value = value.as_ref().map_or("not set".to_owned(), |value| format!("`{value}`"));
        format!("{value} on {}", ranks_of(ranks))
    };
    values.iter().map(one).collect::<Vec<_>>().join(", ")
}

fn detail(text: &str) -> String {
    if text.is_empty() { String::new() } else { format!(" ({text})") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_listed_as_people_do() {
        assert_eq!(ranks_of(&[2]), "rank 2");
        assert_eq!(ranks_of(&[1, 3]), "ranks 1 and 3");
        assert_eq!(ranks_of(&[1, 3, 4]), "ranks 1, 3 and 4");
        let many: Vec<u32> = (0..20).collect();
        assert!(ranks_of(&many).ends_with("15 and 4 others"), "{}", ranks_of(&many));
    }

    #[test]
    fn errors_name_ranks_and_what_to_do() {
        let waited = Duration::from_secs(30);
        let missing =
            DistError::MissingRanks { what: "the meeting".into(), ranks: vec![1, 3], waited };
        assert_eq!(missing.to_string(), "ranks 1 and 3 did not come to the meeting within 30 s");
        let lost = DistError::RankLost { rank: 2, how: Loss::Died };
        assert_eq!(lost.to_string(), "rank 2 is lost: its process has died");
        assert!(DistError::NoLauncher.to_string().contains("ferrowarp launch"));
    }
}
