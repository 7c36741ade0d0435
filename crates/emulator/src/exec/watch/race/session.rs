//! What the launches of a device share, and what one of them adds.

use super::clock::Tree;
use super::observer::RaceObserver;
use super::reached::Reached;
use super::report;
use super::shadow::{Pages, ShadowAccess};
use super::sync_cell::{Reach, SyncCells};
use super::traits::traits;
use super::transfer::Transfer;
use crate::fault::{Access, StreamRace};
use crate::isa::Scope;
use crate::machine::stream_order::{Clock, Moment, Order};
use crate::machine::{Check, LaunchContext, Observer, Program, Shape, lanes};
use crate::memory::GlobalMemory;
use std::cell::LazyCell;
use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Operations of a line that are kept; more, and the oldest are forgotten.
const MOST_OF_A_LINE: usize = 4096;

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
    /// Where it stands among the host's operations, if that is known.
    pub moment: Option<Arc<Moment>>,
    ended: Arc<AtomicBool>,
    /// What its blocks had acquired from others when they ended.
    learnt: Arc<Mutex<Tree>>,
}

impl Blocks {
    fn holds(&self, block: u32) -> bool {
        block.wrapping_sub(self.base) < self.count
    }

    /// Whether it was over when an operation began: as the host ordered them, or where that is not
    /// known of both, as they ran.
    fn is_before(&self, moment: Option<&Moment>) -> bool {
        match (moment, self.moment.as_deref()) {
            (Some(own), Some(other)) => own.knows(other),
            _ => self.ended.load(Ordering::Acquire),
        }
    }

    /// One of its blocks has ended, and had acquired this.
    pub fn learns(&self, tree: &Tree) {
        let mut learnt = self.learnt.lock().unwrap_or_else(PoisonError::into_inner);
        learnt.learn(tree);
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

/// Operations by their lines, in the order in which those began.
struct Lines<T> {
    lines: HashMap<u64, VecDeque<T>>,
}

impl<T> Default for Lines<T> {
    fn default() -> Self {
        Self { lines: HashMap::new() }
    }
}

impl<T: Clone> Lines<T> {
    /// The oldest of a line is forgotten where there are too many.
    fn push(&mut self, line: u64, own: T) {
        let line = self.lines.entry(line).or_default();
        if line.len() == MOST_OF_A_LINE {
            line.pop_front();
        }
        line.push_back(own);
    }

    /// Those of which `is_before` is false. It is asked of a line from the end on until it is true:
    /// what is before the last is before all.
    fn beside(&self, mut is_before: impl FnMut(&T) -> bool) -> Vec<T> {
        let mut out = Vec::new();
        for line in self.lines.values() {
            out.extend(line.iter().rev().take_while(|own| !is_before(own)).cloned());
        }
        out
    }
}

/// What has been seen since last the host knew all, or no launch ran.
#[derive(Default)]
pub(super) struct Session {
    /// Accesses to device memory.
    pub pages: Pages,
    /// What was published through device memory.
    pub locations: SyncCells,
    launches: Mutex<Launches>,
    transfers: Mutex<Lines<Arc<Transfer>>>,
    /// Counts the transfers.
    pub changes: AtomicU64,
    /// What kernels have published in the host's memory, so that the host may hand it on.
    through_host: Mutex<Tree>,
}

#[derive(Default)]
struct Launches {
    lines: Lines<Blocks>,
    /// The number of the next block.
    next: u32,
}

impl Session {
    fn launches(&self) -> MutexGuard<'_, Launches> {
        self.launches.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Something was published in the host's memory.
    pub fn publish_to_host(&self, tree: &Tree) {
        let mut all = self.through_host.lock().unwrap_or_else(PoisonError::into_inner);
        all.learn(tree);
    }

    /// What who reads the host's memory may know through the host.
    pub fn known_to_host(&self) -> Tree {
        self.through_host.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn transfers(&self) -> MutexGuard<'_, Lines<Arc<Transfer>>> {
        self.transfers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The launch of a block.
    pub fn launch_of(&self, block: u32) -> Option<Blocks> {
        let launches = self.launches();
        launches.lines.lines.values().flatten().find(|launch| launch.holds(block)).cloned()
    }

    /// The launches of some blocks, but for those in `found`, to which they are added.
    pub fn launches_of(&self, blocks: &[u32], found: &mut HashSet<u32>) -> Vec<Blocks> {
        let launches = self.launches();
        let new = launches.lines.lines.values().flatten().filter(|launch| {
            blocks.iter().any(|block| launch.holds(*block)) && found.insert(launch.base)
        });
        new.cloned().collect()
    }

    /// What the launches had acquired that were over at a moment, but for those in `found`, to which they are added.
    pub fn learnt_before(&self, moment: &Moment, found: &mut HashSet<u32>) -> Vec<Tree> {
        let launches = self.launches();
        let is_over = |launch: &Blocks| {
            launch.moment.as_deref().is_some_and(|own| {
                (own.line, own.ticket) != (moment.line, moment.ticket) && moment.knows(own)
            })
        };
        let all = launches.lines.lines.values().flatten();
        let over = all.filter(|launch| is_over(launch) && found.insert(launch.base));
        let learnt =
            over.map(|launch| launch.learnt.lock().unwrap_or_else(PoisonError::into_inner).clone());
        learnt.filter(|tree| !tree.is_empty()).collect()
    }

    /// The launches that nothing orders before an operation.
    fn launches_beside(&self, moment: Option<&Moment>) -> Vec<Blocks> {
        // Launches of no line end in any order.
        let launches = self.launches();
        let (mut of_lines, mut others) = (Vec::new(), Vec::new());
        for (line, own) in &launches.lines.lines {
            let new = own.iter().rev().filter(|own| !own.is_before(moment));
            match line {
                0 => others.extend(new.cloned()),
                _ => of_lines
                    .extend(own.iter().rev().take_while(|own| !own.is_before(moment)).cloned()),
            }
        }
        of_lines.extend(others);
        of_lines
    }

    /// The copies and fills that nothing orders with an operation.
    fn transfers_beside(&self, moment: &Moment) -> Vec<Arc<Transfer>> {
        self.transfers().beside(|own| own.moment.is_ordered(moment))
    }
}

/// The race check of the devices of a process.
#[derive(Default)]
pub struct RaceState {
    /// The session, and how many launches it has running.
    current: Mutex<(Arc<Session>, usize)>,
    /// What the host knows of its streams.
    pub order: Order,
}

impl RaceState {
    fn current(&self) -> MutexGuard<'_, (Arc<Session>, usize)> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The host enqueues an operation on one of its streams. Returns what the host knows.
    pub fn submit(&self, line: u64, ticket: u64) -> Arc<Clock> {
        let mut current = self.current();
        let (known, all) = self.order.submit(line, ticket);
        if all && current.1 == 0 {
            current.0 = Arc::default();
        }
        known
    }

    /// Memory is allocated again: earlier accesses to its addresses do not concern its new owner.
    pub fn forget(&self, start: u64, bytes: u64) {
        let session = Arc::clone(&self.current().0);
        session.pages.forget(start, start.saturating_add(bytes));
        let mut transfers = session.transfers();
        let mut rest = transfers.lines.values_mut().flatten();
        let end = start.saturating_add(bytes);
        let mut any = false;
        rest.by_ref().for_each(|own| {
            if own.areas.iter().any(|(area, _)| area.shared(start, end).is_some()) {
                *own = Arc::new(own.without(start, end));
                any = true;
            }
        });
        if any {
            session.changes.fetch_add(1, Ordering::AcqRel);
        }
    }

    /// A copy, or a fill, is about to begin.
    ///
    /// # Errors
    /// It touches bytes that another operation touches, one of the two writes, and nothing orders
    /// them.
    pub fn begin(&self, transfer: Transfer, memory: &GlobalMemory) -> Result<(), Box<StreamRace>> {
        let session = Arc::clone(&self.current().0);
        let transfer = Arc::new(transfer);
        // Kernels look for it after each of their accesses, and it looks for those that came
        // before.
        session.transfers().push(transfer.moment.line, Arc::clone(&transfer));
        session.changes.fetch_add(1, Ordering::AcqRel);
        look(&session, &transfer, memory)
    }

    /// As [`submit`](Self::submit), for an access of the host itself, which no later operation can race with.
    ///
    /// # Errors
    /// As for [`RaceState::begin`].
    pub fn at_once(
        &self,
        transfer: &Transfer,
        memory: &GlobalMemory,
    ) -> Result<(), Box<StreamRace>> {
        let session = Arc::clone(&self.current().0);
        look(&session, transfer, memory)
    }

    /// The check of one more launch.
    pub fn check<'m>(&'m self, launch: &LaunchContext<'_>) -> RaceCheck<'m> {
        let moment = launch.moment.cloned();
        let count = launch.grid.iter().map(|count| u64::from(*count)).product::<u64>();
        let count = u32::try_from(count).unwrap_or(u32::MAX);
        let mut current = self.current();
        let spent = current.0.launches().next.checked_add(count).is_none();
        if spent || (current.1 == 0 && moment.is_none()) {
            current.0 = Arc::default();
        }
        current.1 += 1;
        let session = Arc::clone(&current.0);
        let beside = session.launches_beside(moment.as_deref());
        let mut launches = session.launches();
        let own = Blocks {
            base: launches.next,
            count,
            grid: launch.grid,
            block: launch.block,
            program: Arc::clone(launch.program),
            moment,
            ended: Arc::default(),
            learnt: Arc::default(),
        };
        launches.next = own.base.saturating_add(count);
        launches.lines.push(own.moment.as_ref().map_or(0, |moment| moment.line), own.clone());
        drop(launches);
        let (traits, clusters) = (traits(launch.program), launch.clusters);
        let (told, heard) = (AtomicBool::new(false), AtomicBool::new(false));
        RaceCheck { state: self, session, own, beside, clusters, traits, told, heard }
    }
}

/// Compares a transfer with all that has happened and that nothing orders it with.
fn look(
    session: &Session,
    transfer: &Transfer,
    memory: &GlobalMemory,
) -> Result<(), Box<StreamRace>> {
    let reached = LazyCell::new(|| Reached::new(session, Some(&transfer.moment), &Tree::default()));
    for other in session.transfers_beside(&transfer.moment) {
        if let Some(race) = report::transfers(&other, transfer, memory)
            && !reached.follows(&other.moment)
        {
            return Err(Box::new(race));
        }
    }
    let launches = session.launches_beside(Some(&transfer.moment));
    if launches.is_empty() {
        return Ok(());
    }
    let launch_of = |stripe: &ShadowAccess| launches.iter().find(|own| own.holds(stripe.block));
    for (area, writes) in &transfer.areas {
        for (start, end) in area.each_row() {
            let is_over = |stripe: &ShadowAccess, launch: &Blocks| {
                launch.moment.as_deref().is_some_and(|own| reached.follows(own))
                    || lanes(stripe.lanes).all(|lane| reached.includes(stripe, lane))
            };
            let found = session.pages.find(start, end, |stripe| {
                (*writes || stripe.kind.access() != Access::Load)
                    && launch_of(stripe).is_some_and(|launch| !is_over(stripe, launch))
            });
            if let Some((stripe, shared)) = found
                && let Some(launch) = launch_of(&stripe)
            {
                let race =
                    report::kernel_first(launch, (&stripe, shared), (transfer, *writes), memory);
                return Err(Box::new(race));
            }
        }
    }
    Ok(())
}

/// The race check of a launch.
pub struct RaceCheck<'m> {
    state: &'m RaceState,
    pub(super) session: Arc<Session>,
    pub(super) own: Blocks,
    /// Launches that nothing orders before this one.
    beside: Vec<Blocks>,
    clusters: Shape,
    /// Of each operation.
    pub(super) traits: Vec<u8>,
    /// Whether it has written something for the host to see while it runs.
    told: AtomicBool,
    /// Whether it has read what the host may have written while it runs.
    heard: AtomicBool,
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

    /// Whether a block belongs to a launch that was over before this one began.
    pub(super) fn is_past(&self, block: u32) -> bool {
        block < self.own.base
            && !self
                .beside
                .iter()
                .any(|other| other.holds(block) && !self.has_heard_of(other.moment.as_deref()))
    }

    /// Whether the host may have told the kernel, while it runs, that another operation is
    /// over.
    fn has_heard_of(&self, other: Option<&Moment>) -> bool {
        self.heard.load(Ordering::Acquire)
            && other.is_some_and(|other| self.state.order.host().knows(other.line, other.ticket))
    }

    /// The kernel writes strongly, with system scope: from now on the host may know all that it
    /// did.
    pub(super) fn tells_host(&self) {
        if let Some(moment) = &self.own.moment
            && !self.told.swap(true, Ordering::AcqRel)
        {
            self.state.order.tell_host(&moment.end());
        }
    }

    /// The kernel reads strongly, with system scope: it may know all that the host knows.
    pub(super) fn hears_host(&self) {
        self.heard.store(true, Ordering::Release);
    }

    /// What happens before a thread of this launch that has acquired `known`.
    pub(super) fn reached(&self, known: &Tree) -> Reached {
        Reached::new(&self.session, self.own.moment.as_ref(), known)
    }

    /// When the launch of a block began.
    pub(super) fn moment_of(&self, block: u32) -> Option<Arc<Moment>> {
        self.session.launch_of(block)?.moment
    }

    /// The copies and fills that nothing orders with this launch.
    pub(super) fn transfers_beside(&self) -> Vec<Arc<Transfer>> {
        let moment = self.own.moment.as_deref();
        moment.map(|moment| self.session.transfers_beside(moment)).unwrap_or_default()
    }

    /// Whether the kernel may know that one of them is over.
    pub(super) fn may_know(&self, transfer: &Transfer) -> bool {
        self.has_heard_of(Some(&transfer.moment))
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
        self.own.ended.store(true, Ordering::Release);
        self.state.current().1 -= 1;
    }
}
