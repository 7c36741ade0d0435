//! Which rank this process is, of how many, and where the ranks meet: what the launcher's variables say.

mod elastic;
mod launchers;
mod nodelist;
mod place;
mod settings;
mod variables;

use std::fmt;

use crate::error::DistError;

pub(crate) use elastic::check_elastic;
pub(crate) use launchers::LOOKED_FOR;
pub use launchers::Launcher;
pub use place::MeetingPlace;
pub use settings::Settings;
use variables::Variables;

/// What the launcher says to this process.
///
/// | launcher | rank, size | on its host | where the ranks meet |
/// |---|---|---|---|
/// | torchrun, `ferrowarp launch`, by hand | `RANK`, `WORLD_SIZE` | `LOCAL_RANK`, `LOCAL_WORLD_SIZE` | `MASTER_ADDR`, a port after `MASTER_PORT` |
/// | Open MPI | `OMPI_COMM_WORLD_RANK`, `…_SIZE` | `OMPI_COMM_WORLD_LOCAL_RANK`, `…_SIZE` | a file on one host, MPI on several |
/// | MPICH, Intel MPI | `PMI_RANK`, `PMI_SIZE` | `MPI_LOCALRANKID`, `MPI_LOCALNRANKS` | as Open MPI |
/// | Slurm | `SLURM_PROCID`, `SLURM_STEP_NUM_TASKS` or `SLURM_NTASKS` | `SLURM_LOCALID` | the first host of the list, a port from the job's number |
/// | PMIx | `PMIX_RANK`, the size from Slurm's or Open MPI's variables | as theirs | as theirs |
///
/// The first row that applies is taken. Under each of them `MASTER_ADDR`, `FERROWARP_DIST_PORT` and `FERROWARP_DIST_FILE` say
/// otherwise where the ranks meet, and `FERROWARP_DIST_ID` which run this is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Environment {
    /// Who started this process.
    pub launcher: Launcher,
    /// Its number among all, from 0.
    pub rank: u32,
    /// How many there are.
    pub size: u32,
    /// Its number among those of its host, from 0.
    pub local_rank: u32,
    /// How many are on its host, where the launcher says it.
    pub local_size: Option<u32>,
    /// How often the launcher has started the ranks again.
    pub restarts: u32,
    /// What tells this run from others: processes of another run are refused.
    pub run: String,
    /// Where the ranks meet.
    pub place: MeetingPlace,
    /// What must be the same on all ranks.
    pub settings: Settings,
}

impl Environment {
    /// That of one process without a launcher.
    pub(crate) fn alone() -> Self {
        let run = format!("alone/{}", std::process::id());
        let (launcher, place) = (Launcher::Alone, MeetingPlace::Mpi);
        let (rank, size, local_rank, local_size, restarts) = (0, 1, 0, Some(1), 0);
        let settings = Settings::default();
        Self { launcher, rank, size, local_rank, local_size, restarts, run, place, settings }
    }

    /// Reads the variables of this process.
    ///
    /// # Errors
    /// [`NoLauncher`](DistError::NoLauncher) if none of the variables is set;
    /// [`MissingVariable`](DistError::MissingVariable), [`BadVariable`](DistError::BadVariable) or
    /// [`Inconsistent`](DistError::Inconsistent) if some are, and do not make sense.
    pub fn read() -> Result<Self, DistError> {
        Self::parse(|name| std::env::var(name).ok(), parent())
    }

    /// Finds all from what `lookup` has for each variable. `parent` is the number of the process that started this one: ranks on
    /// one host of a launcher that names its job nowhere have it in common.
    ///
    /// ```
    /// use ferrowarp_dist::{Environment, Launcher};
    ///
    /// let variables = [("RANK", "3"), ("WORLD_SIZE", "4"), ("LOCAL_RANK", "1"), ("MASTER_ADDR", "a"), ("MASTER_PORT", "29500")];
    /// let lookup = |name: &str| variables.iter().find(|(own, _)| *own == name).map(|(_, value)| value.to_string());
    /// let environment = Environment::parse(lookup, 1)?;
    /// assert_eq!((environment.rank, environment.size, environment.local_rank), (3, 4, 1));
    /// assert_eq!(environment.launcher, Launcher::Variables);
    /// # Ok::<(), ferrowarp_dist::DistError>(())
    /// ```
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub fn parse(lookup: impl Fn(&str) -> Option<String>, parent: u32) -> Result<Self, DistError> {
        let variables = Variables::new(&lookup);
        let found = launchers::detect(&variables)?;
        check_numbers(&found)?;
        let run =
            variables.text("FERROWARP_DIST_ID").unwrap_or_else(|| found.run(&variables, parent));
        let place = place::find(&variables, &found, &run)?;
        let settings = Settings::read(&variables)?;
        let launchers::Found { launcher, rank, size, local_rank, local_size, restarts } = found;
        Ok(Self { launcher, rank, size, local_rank, local_size, restarts, run, place, settings })
    }
}

/// "rank 2 of 4 (torchrun)"
impl fmt::Display for Environment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rank {} of {} ({})", self.rank, self.size, self.launcher)
    }
}

fn check_numbers(found: &launchers::Found) -> Result<(), DistError> {
    let &launchers::Found { rank, size, local_rank, local_size, .. } = found;
    let local = local_size.unwrap_or(size);
    let reason = match () {
        () if size == 0 => "there are 0 ranks".to_owned(),
        () if rank >= size => format!("this is rank {rank} of {size}; ranks count from 0"),
        () if local > size => format!("{local} ranks are on this host, and {size} on all"),
        () if local_rank >= local => {
            format!("this is rank {local_rank} of the {local} on this host; ranks count from 0")
        }
        () => return Ok(()),
    };
    Err(DistError::Inconsistent { launcher: found.launcher, reason })
}

#[cfg(unix)]
fn parent() -> u32 {
    std::os::unix::process::parent_id()
}

#[cfg(not(unix))]
fn parent() -> u32 {
    0
}

#[cfg(test)]
mod tests;
