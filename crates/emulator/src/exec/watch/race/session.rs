//! What the launches of a device share, and what one of them adds.

use super::location::{Locations, Reach};
use super::observer::RaceObserver;
use super::shadow::Pages;
use super::traits::traits;
use crate::exec::LaunchContext;
use crate::exec::cluster::Shape;
use crate::exec::watch::{Check, Observer};
use crate::isa::Scope;
use crate::program::Program;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Blocks of a launch, by their numbers among all launches of a session.
#[derive(Clone)]
pub(super) struct Blocks {
    /// Of the first.
    pub base: u32,
    /// How many.
    pub count: u32,
    /// Blocks in each direction.
    pub grid: [u32; 3],
    /// Threads of a block in each direction.
    pub block: [u32; 3],
    /// What they execute.
    pub program: Arc<Program>,
    ended: bool,
}

impl Blocks {
    fn holds(&self, block: u32) -> bool {
        block.wrapping_sub(self.base) < self.count
    }

    /// Index of a block.
    pub fn index(&self, block: u32) -> [u32; 3] {
        let [x, y, _] = self.grid.map(u64::from);
        let number = u64::from(block.wrapping_sub(self.base));
        [number % x, number / x % y, number / x / y].map(|index| index as u32)
    }

    /// Index of a thread.
    pub fn thread(&self, warp: u32, lane: usize) -> [u32; 3] {
        let thread = warp * 32 + lane as u32;
        let [x, y, _] = self.block;
        [thread % x, thread / x % y, thread / x / y]
    }
}

/// What has been seen since last no launch ran.
#[derive(Default)]
pub(super) struct Session {
    /// Accesses to device memory.
    pub pages: Pages,
    /// What was published through device memory.
    pub locations: Locations,
    launches: Mutex<Vec<Blocks>>,
}

impl Session {
    fn launches(&self) -> MutexGuard<'_, Vec<Blocks>> {
        self.launches.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The launch of a block.
    pub fn launch_of(&self, block: u32) -> Option<Blocks> {
        self.launches().iter().find(|launch| launch.holds(block)).cloned()
    }
}

/// The race check of a device.
#[derive(Default)]
pub struct RaceState {
    /// The session, and how many launches it has running.
    current: Mutex<(Arc<Session>, usize)>,
}

impl RaceState {
    fn current(&self) -> MutexGuard<'_, (Arc<Session>, usize)> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The check of one more launch.
    pub fn check<'m>(&'m self, launch: &LaunchContext<'_>) -> RaceCheck<'m> {
        let mut current = self.current();
        if current.1 == 0 {
            current.0 = Arc::default();
        }
        current.1 += 1;
        let session = Arc::clone(&current.0);
        let count = launch.grid.iter().map(|count| u64::from(*count)).product::<u64>();
        let mut launches = session.launches();
        let beside = launches.iter().filter(|other| !other.ended).cloned().collect();
        let base = launches.last().map_or(0, |last| last.base.wrapping_add(last.count));
        let own = Blocks {
            base,
            count: u32::try_from(count).unwrap_or(u32::MAX),
            grid: launch.grid,
            block: launch.block,
            program: Arc::clone(launch.program),
            ended: false,
        };
        launches.push(own.clone());
        drop(launches);
        let (traits, clusters) = (traits(launch.program), launch.clusters);
        RaceCheck { state: self, session, own, beside, clusters, traits }
    }
}

/// The race check of a launch.
pub struct RaceCheck<'m> {
    state: &'m RaceState,
    pub(super) session: Arc<Session>,
    pub(super) own: Blocks,
    /// Launches that ran when this one began.
    beside: Vec<Blocks>,
    clusters: Shape,
    /// Of each operation.
    pub(super) traits: Vec<u8>,
}

impl RaceCheck<'_> {
    /// The cluster of a block of this launch.
    fn cluster(&self, block: u32) -> Option<[u32; 3]> {
        let index = self.own.holds(block).then(|| self.own.index(block))?;
        Some(std::array::from_fn(|dim| index[dim] / self.clusters.blocks[dim].max(1)))
    }

    /// Whether a block belongs to this launch.
    pub(super) fn owns(&self, block: u32) -> bool {
        self.own.holds(block)
    }

    /// Whether a block belongs to a launch that ended before this one began.
    pub(super) fn is_past(&self, block: u32) -> bool {
        block < self.own.base && !self.beside.iter().any(|other| other.holds(block))
    }
}

impl Reach for RaceCheck<'_> {
    fn reaches(&self, scope: Scope, from: u32, to: u32) -> bool {
        match scope {
            _ if from == to => true,
            Scope::Block => false,
            Scope::Cluster => self.cluster(from).is_some_and(|own| Some(own) == self.cluster(to)),
            Scope::Device | Scope::System => true,
        }
    }
}

impl Check for RaceCheck<'_> {
    fn observer(&self) -> Box<dyn Observer + '_> {
        Box::new(RaceObserver::new(self))
    }
}

impl Drop for RaceCheck<'_> {
    fn drop(&mut self) {
        for launch in self.session.launches().iter_mut() {
            launch.ended |= launch.base == self.own.base;
        }
        self.state.current().1 -= 1;
    }
}
