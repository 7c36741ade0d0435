//! The launchers, and by which variables each is known.

use std::fmt;

use super::variables::Variables;
use crate::error::DistError;

/// Who started the ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Launcher {
    /// None: a world of one rank.
    Alone,
    /// PyTorch's `torchrun`.
    Torchrun,
    /// `ferrowarp launch`.
    Ferrowarp,
    /// Another one that sets `RANK` and `WORLD_SIZE`, or a script.
    Variables,
    /// Open MPI's `mpirun`.
    OpenMpi,
    /// `mpiexec` of MPICH or Intel MPI, or another that serves PMI.
    Mpich,
    /// Slurm's `srun`.
    Slurm,
    /// A launcher that serves PMIx, and says the size in another's variables.
    Pmix,
}

impl Launcher {
    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Alone => "no launcher",
            Self::Torchrun => "torchrun",
            Self::Ferrowarp => "ferrowarp launch",
            Self::Variables => "RANK and WORLD_SIZE",
            Self::OpenMpi => "Open MPI",
            Self::Mpich => "MPICH or Intel MPI",
            Self::Slurm => "Slurm",
            Self::Pmix => "PMIx",
        }
    }

    /// Whether the ranks that it starts can begin MPI.
    #[must_use]
    pub fn starts_mpi(self) -> bool {
        matches!(self, Self::OpenMpi | Self::Mpich | Self::Slurm | Self::Pmix)
    }
}

impl fmt::Display for Launcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The variables by which each launcher is known: what an error lists if there is none.
pub(crate) const LOOKED_FOR: [(&str, &str); 5] = [
    ("torchrun and `ferrowarp launch`", "RANK, WORLD_SIZE"),
    ("Open MPI", "OMPI_COMM_WORLD_RANK"),
    ("MPICH and Intel MPI", "PMI_RANK"),
    ("Slurm", "SLURM_PROCID"),
    ("PMIx", "PMIX_RANK"),
];

const SLURM_SIZE: [&str; 2] = ["SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"];

/// The numbers of one launcher.
pub(super) struct Found {
    pub(super) launcher: Launcher,
    pub(super) rank: u32,
    pub(super) size: u32,
    pub(super) local_rank: u32,
    pub(super) local_size: Option<u32>,
    pub(super) restarts: u32,
}

/// Finds the launcher. Those that start ranks of their own in a job of another come first: torchrun runs under Slurm, say, and
/// sets all of its variables for each rank.
pub(super) fn detect(variables: &Variables<'_>) -> Result<Found, DistError> {
    let has = |name| variables.has(name);
    match () {
        () if has("RANK") && has("WORLD_SIZE") => torchrun(variables),
        () if has("OMPI_COMM_WORLD_RANK") => open_mpi(variables),
        () if has("PMI_RANK") && !has("SLURM_PROCID") => mpich(variables),
        () if has("SLURM_PROCID") => slurm(variables),
        () if has("PMIX_RANK") => pmix(variables),
        // One of them alone: the error names the other.
        () if has("RANK") || has("WORLD_SIZE") => torchrun(variables),
        () => Err(DistError::NoLauncher),
    }
}

fn torchrun(variables: &Variables<'_>) -> Result<Found, DistError> {
    let launcher = match () {
        () if variables.has("TORCHELASTIC_RUN_ID") => Launcher::Torchrun,
        () if variables.text("FERROWARP_DIST_LAUNCHER").as_deref() == Some("launch") => {
            Launcher::Ferrowarp
        }
        () => Launcher::Variables,
    };
    let needed = |name| variables.needed(launcher.name(), &[name]);
    Ok(Found {
        launcher,
        rank: needed("RANK")?,
        size: needed("WORLD_SIZE")?,
        local_rank: needed("LOCAL_RANK")?,
        local_size: variables.number("LOCAL_WORLD_SIZE")?,
        restarts: variables.number("TORCHELASTIC_RESTART_COUNT")?.unwrap_or(0),
    })
}

fn open_mpi(variables: &Variables<'_>) -> Result<Found, DistError> {
    let needed = |name| variables.needed(Launcher::OpenMpi.name(), &[name]);
    Ok(Found {
        launcher: Launcher::OpenMpi,
        rank: needed("OMPI_COMM_WORLD_RANK")?,
        size: needed("OMPI_COMM_WORLD_SIZE")?,
        local_rank: needed("OMPI_COMM_WORLD_LOCAL_RANK")?,
        local_size: variables.number("OMPI_COMM_WORLD_LOCAL_SIZE")?,
        restarts: 0,
    })
}

fn mpich(variables: &Variables<'_>) -> Result<Found, DistError> {
    let needed = |name| variables.needed(Launcher::Mpich.name(), &[name]);
    Ok(Found {
        launcher: Launcher::Mpich,
        rank: needed("PMI_RANK")?,
        size: needed("PMI_SIZE")?,
        local_rank: needed("MPI_LOCALRANKID")?,
        local_size: variables.number("MPI_LOCALNRANKS")?,
        restarts: 0,
    })
}

fn slurm(variables: &Variables<'_>) -> Result<Found, DistError> {
    let needed = |names: &[&'static str]| variables.needed(Launcher::Slurm.name(), names);
    let size = needed(&SLURM_SIZE)?;
    let hosts = variables.first_number(&["SLURM_STEP_NUM_NODES", "SLURM_NNODES"])?;
    Ok(Found {
        launcher: Launcher::Slurm,
        rank: needed(&["SLURM_PROCID"])?,
        size,
        local_rank: needed(&["SLURM_LOCALID"])?,
        local_size: hosts.filter(|hosts| *hosts == 1).map(|_| size),
        restarts: 0,
    })
}

fn pmix(variables: &Variables<'_>) -> Result<Found, DistError> {
    let needed = |names: &[&'static str]| variables.needed(Launcher::Pmix.name(), names);
    let size = needed(&["OMPI_COMM_WORLD_SIZE", SLURM_SIZE[0], SLURM_SIZE[1]])?;
    Ok(Found {
        launcher: Launcher::Pmix,
        rank: needed(&["PMIX_RANK"])?,
        size,
        local_rank: needed(&["OMPI_COMM_WORLD_LOCAL_RANK", "SLURM_LOCALID", "MPI_LOCALRANKID"])?,
        local_size: variables.first_number(&["OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS"])?,
        restarts: 0,
    })
}

impl Found {
    /// What all ranks of this run know and other runs do not.
    pub(super) fn run(&self, variables: &Variables<'_>, parent: u32) -> String {
        let text = |name| variables.text(name).unwrap_or_default();
        match self.launcher {
            Launcher::Torchrun | Launcher::Ferrowarp | Launcher::Variables => format!(
                "{}/{}/{}:{}",
                text("TORCHELASTIC_RUN_ID"),
                self.restarts,
                text("MASTER_ADDR"),
                text("MASTER_PORT"),
            ),
            Launcher::Slurm => format!("slurm/{}/{}", text("SLURM_JOB_ID"), text("SLURM_STEP_ID")),
            _ => {
                let names =
                    ["PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid", "PMI_JOBID", "PMI_ID_JOB"];
                let job = names.iter().find_map(|name| variables.text(name));
                job.map_or_else(|| format!("parent/{parent}"), |job| format!("job/{job}"))
            }
        }
    }
}
