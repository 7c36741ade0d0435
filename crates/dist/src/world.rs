//! All ranks.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use ferrowarp::{Backend as Driver, Gpu, backend, devices};

use crate::control::Control;
use crate::environment::{Environment, Launcher, Settings, check_elastic};
use crate::error::{DistError, DistResult};

/// How long ranks wait for each other at the meeting, unless `FERROWARP_DIST_TIMEOUT` says otherwise.
const TIMEOUT: Duration = Duration::from_secs(120);

/// All ranks: the processes that a launcher has started for one program. A clone is the same world.
///
/// ```no_run
/// use ferrowarp_dist::{Communicator, Reduction, World};
/// use ferrowarp::DeviceBuffer;
///
/// let world = World::from_env()?;
/// let gpu = world.gpu()?;
/// let ranks = Communicator::new(&world, &gpu)?;
/// let mut sum = DeviceBuffer::from_slice(&gpu, &[world.rank() as f32; 1000])?;
/// ranks.all_reduce_in_place(&gpu, &mut sum, Reduction::Sum)?;
/// ranks.synchronize(&gpu)?;
/// drop(ranks);
/// world.finish()?;
/// # Ok::<(), ferrowarp_dist::DistError>(())
/// ```
///
/// Rank 0 keeps the control connections of all ranks, by which each notices it when another is lost. So no rank should end while
/// others work on: [`finish`](Self::finish) waits for all. A world that is dropped without it tells the others that this
/// rank has ended, and what they do with it then fails; an `mpirun` that has started it then counts the process as failed.
#[derive(Clone)]
pub struct World {
    inner: Arc<Inner>,
}

struct Inner {
    environment: Environment,
    timeout: Duration,
    /// `None` for a world of one.
    control: Option<Control>,
    /// The number of the next thing that all ranks do together, in the same order.
    next: AtomicU64,
}

impl World {
    /// The world that the launcher's variables describe: meets all other ranks.
    ///
    /// `FERROWARP_DIST_TIMEOUT` is how many seconds it waits for them, 120 if it is not set. Call it once in a process.
    ///
    /// # Errors
    /// As [`Environment::read`]; [`Elastic`](DistError::Elastic) after a restart with another number of ranks;
    /// [`MissingRanks`](DistError::MissingRanks), [`Unreachable`](DistError::Unreachable),
    /// [`Listen`](DistError::Listen) or [`Refused`](DistError::Refused) if the meeting fails;
    /// [`UnlikeSettings`](DistError::UnlikeSettings) if the ranks' [`Settings`] differ.
    pub fn from_env() -> DistResult<Self> {
        let environment = Environment::read()?;
        let seconds = std::env::var("FERROWARP_DIST_TIMEOUT").ok();
        let timeout = seconds.map_or(Ok(TIMEOUT), |value| {
            let seconds =
                value.trim().parse().ok().and_then(|s| Duration::try_from_secs_f64(s).ok());
            let (name, expected) = ("FERROWARP_DIST_TIMEOUT", "a number of seconds");
            seconds.ok_or(DistError::BadVariable { name, value, expected })
        })?;
        Self::meet(environment, timeout)
    }

    /// The world that `environment` describes: meets all other ranks, for which it waits at most `timeout`.
    ///
    /// # Errors
    /// As [`from_env`](Self::from_env).
    pub fn meet(environment: Environment, timeout: Duration) -> DistResult<Self> {
        check_elastic(&environment)?;
        let control = Some(Control::meet(&environment, timeout)?);
        let next = AtomicU64::new(0);
        let own = Self { inner: Arc::new(Inner { environment, timeout, control, next }) };
        let settings = own.environment().settings.encode();
        Settings::compare(&own.exchange("the comparison of settings", settings, timeout)?)?;
        Ok(own)
    }

    /// A world of this process alone: no launcher, no NCCL and no MPI are needed.
    #[must_use]
    pub fn alone() -> Self {
        let environment = Environment::alone();
        let next = AtomicU64::new(0);
        Self { inner: Arc::new(Inner { environment, timeout: TIMEOUT, control: None, next }) }
    }

    /// The number of this process, from 0.
    #[must_use]
    pub fn rank(&self) -> u32 {
        self.inner.environment.rank
    }

    /// How many processes there are.
    #[must_use]
    pub fn size(&self) -> u32 {
        self.inner.environment.size
    }

    /// The number of this process among those of its host, from 0.
    #[must_use]
    pub fn local_rank(&self) -> u32 {
        self.inner.environment.local_rank
    }

    /// Who started the ranks.
    #[must_use]
    pub fn launcher(&self) -> Launcher {
        self.inner.environment.launcher
    }

    /// What the launcher has said.
    #[must_use]
    pub fn environment(&self) -> &Environment {
        &self.inner.environment
    }

    /// The device for this rank, with the kernels of `ferrowarp`: of the devices that the process sees the one with the number of
    /// its local rank. Where it sees one alone, as Slurm's `--gpus-per-task=1` arranges, that one; ranks share emulated devices.
    ///
    /// # Errors
    /// [`NoDevice`](DistError::NoDevice) if the host has more ranks than devices; as
    /// [`Gpu::on`].
    pub fn gpu(&self) -> DistResult<Gpu> {
        Ok(Gpu::on(self.device()?)?)
    }

    /// The number of the device for this rank, for a [`Gpu`] with kernels of your own: see [`gpu`](Self::gpu).
    ///
    /// # Errors
    /// [`NoDevice`](DistError::NoDevice), or the driver cannot start.
    pub fn device(&self) -> DistResult<u32> {
        let (local_rank, devices) = (self.local_rank(), devices()?.len());
        let is_emulated = matches!(backend()?, Driver::Emulator);
        choose_device(local_rank, devices, is_emulated)
            .ok_or(DistError::NoDevice { local_rank, devices })
    }

    /// Waits until all ranks have come here.
    ///
    /// # Errors
    /// [`RankLost`](DistError::RankLost) if one cannot come; [`MissingRanks`](DistError::MissingRanks) names those that have not
    /// come within `timeout`.
    pub fn barrier(&self, timeout: Duration) -> DistResult<()> {
        self.exchange("a barrier", Vec::new(), timeout).map(drop)
    }

    /// Gives a few bytes to all ranks, and returns what each has given, by rank. They go by way of rank 0: for names and numbers,
    /// not for data.
    ///
    /// # Errors
    /// As [`barrier`](Self::barrier).
    pub fn exchange_bytes(&self, value: Vec<u8>, timeout: Duration) -> DistResult<Vec<Vec<u8>>> {
        self.exchange("an exchange", value, timeout)
    }

    fn exchange(&self, what: &str, value: Vec<u8>, timeout: Duration) -> DistResult<Vec<Vec<u8>>> {
        let key = format!("world/{}", self.next_number());
        let members: Vec<u32> = (0..self.size()).collect();
        self.exchange_among(what, &key, &members, value, timeout)
    }

    pub(crate) fn exchange_among(
        &self,
        what: &str,
        key: &str,
        members: &[u32],
        value: Vec<u8>,
        timeout: Duration,
    ) -> DistResult<Vec<Vec<u8>>> {
        match &self.inner.control {
            Some(control) => control.exchange(what, key, members, value, timeout),
            None => Ok(vec![value]),
        }
    }

    /// Waits until all ranks have come here, and ends this one's part in the world. Drop communicators before.
    ///
    /// # Errors
    /// [`RankLost`](DistError::RankLost) if a rank has died or has ended without this. The world has ended all the same.
    pub fn finish(self) -> DistResult<()> {
        /// More than programs run. A rank that never comes is killed by somebody, and is lost then.
        const LONG: Duration = Duration::from_secs(365 * 24 * 3600);
        self.barrier(LONG)?;
        crate::mpi::finish();
        Ok(())
    }

    /// A number for something that all ranks do, in the same order.
    pub(crate) fn next_number(&self) -> u64 {
        self.inner.next.fetch_add(1, Ordering::Relaxed)
    }

    /// How long ranks wait for each other when they meet.
    pub(crate) fn timeout(&self) -> Duration {
        self.inner.timeout
    }

    pub(crate) fn control(&self) -> Option<&Control> {
        self.inner.control.as_ref()
    }
}

/// "rank 2 of 4 (torchrun)"
impl fmt::Display for World {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.environment.fmt(f)
    }
}

impl fmt::Debug for World {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "World({self})")
    }
}

fn choose_device(local_rank: u32, devices: usize, is_emulated: bool) -> Option<u32> {
    match devices {
        0 => None,
        1 => Some(0),
        _ if (local_rank as usize) < devices => Some(local_rank),
        _ if is_emulated => Some(local_rank % devices as u32),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_rank_of_a_host_has_a_device_of_its_own() {
        let chosen = |rank| choose_device(rank, 4, false);
        assert_eq!([0, 1, 3, 4].map(chosen), [Some(0), Some(1), Some(3), None]);
        assert_eq!(choose_device(3, 1, false), Some(0));
        assert_eq!(choose_device(5, 4, true), Some(1));
        assert_eq!(choose_device(0, 0, false), None);
    }

    #[test]
    fn a_world_of_one_needs_nobody() {
        let world = World::alone();
        assert_eq!((world.rank(), world.size(), world.local_rank()), (0, 1, 0));
        let own = world.exchange_bytes(vec![7], Duration::ZERO).unwrap();
        assert_eq!(own, [[7]]);
        assert_eq!(world.to_string(), "rank 0 of 1 (no launcher)");
        world.finish().unwrap();
    }
}
