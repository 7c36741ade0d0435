//! A launch: its clusters of blocks, in the order of the schedule, over CPU threads.
//!
//! Each thread keeps a window of resident clusters. A cluster that is not through after a while
//! makes room for the others of its window, and when a whole round brings none to its end, the
//! window grows: so blocks that wait for later ones are served as on a GPU that has them all
//! resident. In a cooperative launch, the window is the whole grid.

use super::block::Progress;
use super::cluster::{self, Cluster};
use super::stuck::{Outside, Probe, Quorum};
use super::watch::counters::Counters;
use crate::fault::{RegionKind, Trap, TrapKind, Waiting, Waits, WaitsOn};
use crate::machine::{Check, Cx, LaunchContext, Schedule, Watch};
use crate::memory::GlobalMemory;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Instructions that a cluster runs before another of the window has its turn.
const TURN: i64 = 1 << 15;
/// Blocks that a random schedule lets run side by side from the start.
const RANDOM_WINDOW: usize = 8;

/// Rounds without fruit, with as many clusters resident as there may be, after which it is asked
/// whether all wait.
const ROUNDS: usize = 16;
/// How long all may wait for blocks that have not begun.
const PATIENCE: Duration = Duration::from_secs(3);

/// What one launch executed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Stats {
    /// Instructions, times the lanes that took part in each.
    pub lane_instructions: u64,
    /// Instructions of warps.
    pub warp_instructions: u64,
    /// What was counted of each instruction, where the device was told to count.
    pub counters: Option<Counters>,
}

/// What the CPU threads of a launch share.
struct Shared<'m> {
    launch: &'m LaunchContext<'m>,
    memory: &'m GlobalMemory,
    checks: &'m [Box<dyn Check + 'm>],
    clusters: u64,
    ticket: AtomicU64,
    worker: AtomicU64,
    stop: AtomicBool,
    trap: Mutex<Option<Box<Trap>>>,
    fuel: Option<(u64, AtomicI64)>,
    window: usize,
    lane_instructions: AtomicU64,
    warp_instructions: AtomicU64,
    quorum: Quorum<'m>,
}

/// Runs all clusters of a launch on this thread and others, `workers` CPU threads in all, with
/// `resident` blocks at a time; until the fuel is spent, or with what is outside calm, all that runs is
/// known to poll forever.
///
/// # Errors
/// The first trap that stopped it.
pub fn run(
    launch: &LaunchContext<'_>,
    memory: &GlobalMemory,
    checks: &[Box<dyn Check + '_>],
    (workers, resident): (usize, usize),
    (fuel, outside): (Option<u64>, Option<&dyn Outside>),
) -> Result<Stats, Box<Trap>> {
    let clusters = launch.clusters.count();
    let workers = workers.clamp(1, clusters.clamp(1, 1 << 16) as usize);
    let shared = Shared {
        launch,
        memory,
        checks,
        clusters,
        ticket: AtomicU64::new(0),
        worker: AtomicU64::new(0),
        stop: AtomicBool::new(false),
        trap: Mutex::new(None),
        fuel: fuel.map(|fuel| (fuel, AtomicI64::new(i64::try_from(fuel).unwrap_or(i64::MAX)))),
        window: match launch.schedule {
            Schedule::Sequential if launch.workspace == 0 => 1,
            _ => (resident / launch.clusters.size() as usize).div_ceil(workers).max(2),
        },
        lane_instructions: AtomicU64::new(0),
        warp_instructions: AtomicU64::new(0),
        quorum: Quorum::new(workers, outside),
    };
    std::thread::scope(|scope| {
        for _ in 1..workers {
            scope.spawn(|| work(&shared));
        }
        work(&shared);
    });
    let (absent, held) = shared.absent();
    let trap = shared.trap.into_inner().unwrap_or_else(PoisonError::into_inner);
    match trap.or_else(|| stuck(launch, shared.quorum.into_waiting()?, (absent, held))) {
        Some(trap) => Err(trap),
        None => Ok(Stats {
            lane_instructions: shared.lane_instructions.into_inner(),
            warp_instructions: shared.warp_instructions.into_inner(),
            counters: None,
        }),
    }
}

/// One CPU thread: takes clusters until there are none, or until another stops.
fn work(shared: &Shared<'_>) {
    let mut cx = Cx::new(shared.launch, shared.memory.cursor(), Watch::new(shared.checks));
    cx.dice = shared.launch.schedule.dice(shared.worker.fetch_add(1, Ordering::Relaxed));
    let ran = run_clusters(shared, &mut cx);
    shared.quorum.leave();
    if let Err(trap) = ran {
        shared.stop.store(true, Ordering::Release);
        if shared.launch.follows_from_panic(&trap.kind) {
            // The launch ends, and the device works on: the kernel has reported the panic.
            return shared.count(&cx);
        }
        let mut first = shared.trap.lock().unwrap_or_else(PoisonError::into_inner);
        first.get_or_insert(trap);
    }
    shared.count(&cx);
}

fn run_clusters(shared: &Shared<'_>, cx: &mut Cx<'_>) -> Result<(), Box<Trap>> {
    let mut resident: VecDeque<Cluster> = VecDeque::new();
    let mut free: Vec<Cluster> = Vec::new();
    let mut fruitless = 0;
    let least = match cx.dice {
        _ if shared.launch.workspace != 0 => shared.window,
        Some(_) => RANDOM_WINDOW.min(shared.window),
        None => 1,
    };
    let mut size = least;
    let mut patience = Patience::default();
    let mut probe = Probe::new(&shared.quorum);
    let halted = shared.launch.halted;
    while !shared.stop.load(Ordering::Acquire) && !halted.load(Ordering::Acquire) {
        while resident.len() < size
            && let Some(number) = next_cluster(shared)
        {
            let mut cluster = free.pop().unwrap_or_else(|| Cluster::new(shared.launch));
            cluster.start(shared.launch, number);
            resident.push_back(cluster);
            fruitless = 0;
            probe.progress(cx);
        }
        if shared.quorum.is_stuck() {
            let mut waiting = all_waiting(cx, &mut resident);
            probe.refine(cx, &mut waiting);
            shared.quorum.tell(waiting);
            break;
        }
        let Some(mut cluster) = pick(&mut resident, cx) else { break };
        let progress = match turn(shared, cx, &mut cluster) {
            // What the cluster misses follows from a panic; the others run on, and are looked at.
            Err(trap) if shared.launch.follows_from_panic(&trap.kind) => {
                cluster = Cluster::new(shared.launch);
                Progress::Done
            }
            progress => progress?,
        };
        if shared.is_spent() {
            resident.push_front(cluster);
            return Err(Box::new(out_of_fuel(shared, cx, &mut resident)));
        }
        match progress {
            Progress::Done => {
                free.push(cluster);
                (fruitless, size) = (0, resident.len().max(least));
                patience = Patience::default();
                probe.progress(cx);
            }
            Progress::Preempted | Progress::Blocked => {
                resident.push_back(cluster);
                fruitless += 1;
                probe.look(cx, &mut resident);
            }
        }
        if fruitless > resident.len() && size < shared.window && shared.absent().0 > 0 {
            (size, fruitless) = (resident.len() + 1, 0);
        } else if fruitless > ROUNDS * resident.len() {
            fruitless = 0;
            probe.suspect(cx, &mut resident);
            patience.ask(shared, cx, &mut resident)?;
        }
    }
    Ok(())
}

/// The cluster that has its turn.
fn pick(resident: &mut VecDeque<Cluster>, cx: &mut Cx<'_>) -> Option<Cluster> {
    let index = match &mut cx.dice {
        Some(dice) if !resident.is_empty() => dice.below(resident.len() as u64) as usize,
        _ => 0,
    };
    resident.remove(index)
}

fn next_cluster(shared: &Shared<'_>) -> Option<u64> {
    let number = shared.ticket.fetch_add(1, Ordering::AcqRel);
    (number < shared.clusters).then(|| shared.launch.schedule.block(number, shared.clusters))
}

/// Runs a cluster for a while.
fn turn(
    shared: &Shared<'_>,
    cx: &mut Cx<'_>,
    cluster: &mut Cluster,
) -> Result<Progress, Box<Trap>> {
    let before = cx.warp_instructions;
    let turn = cx.dice.as_mut().map_or(TURN, |dice| dice.slice(TURN));
    let progress = cluster.run(cx, turn)?;
    if let Some((_, fuel)) = &shared.fuel {
        fuel.fetch_sub((cx.warp_instructions - before) as i64, Ordering::Relaxed);
    }
    Ok(progress)
}

impl Shared<'_> {
    /// Adds what a CPU thread has executed.
    fn count(&self, cx: &Cx<'_>) {
        self.lane_instructions.fetch_add(cx.lane_instructions, Ordering::Relaxed);
        self.warp_instructions.fetch_add(cx.warp_instructions, Ordering::Relaxed);
    }

    /// Blocks that have not begun, and those that have.
    fn absent(&self) -> (u64, u64) {
        let begun = self.ticket.load(Ordering::Relaxed).min(self.clusters);
        let size = u64::from(self.launch.clusters.size());
        ((self.clusters - begun) * size, begun * size)
    }

    /// True once the launch has executed more than it may.
    fn is_spent(&self) -> bool {
        self.fuel.as_ref().is_some_and(|(_, left)| left.load(Ordering::Relaxed) < 0)
    }
}

/// The threads of all resident clusters, those first that wait for something.
fn all_waiting(cx: &mut Cx<'_>, resident: &mut VecDeque<Cluster>) -> Vec<(u32, Waiting)> {
    let mut all: Vec<_> = resident.iter_mut().flat_map(|cluster| cluster.waiting(cx)).collect();
    sort(&mut all);
    all
}

/// Who polls comes first, who just runs last.
fn sort(all: &mut [(u32, Waiting)]) {
    let rank = |on: &WaitsOn| match on {
        WaitsOn::Change { .. } => 0,
        WaitsOn::Turn => 2,
        _ => 1,
    };
    all.sort_by_key(|(_, own)| {
        let [x, y, z] = own.block;
        (rank(&own.on), [z, y, x])
    });
}

/// The trap of a launch whose threads poll for ever, or wait for those that do; unless a thread has
/// panicked: the kernel has reported that, and what others miss follows from it.
fn stuck(
    launch: &LaunchContext<'_>,
    mut waiting: Vec<(u32, Waiting)>,
    (absent, held): (u64, u64),
) -> Option<Box<Trap>> {
    if launch.has_panicked() {
        return None;
    }
    sort(&mut waiting);
    let absent = (absent > 0).then_some((absent, held));
    Some(Box::new(cluster::trap_of(launch.program, &waiting, |waiting| TrapKind::Deadlock {
        waiting: Waits { absent, endless: true, ..waiting },
    })))
}

fn out_of_fuel(shared: &Shared<'_>, cx: &mut Cx<'_>, resident: &mut VecDeque<Cluster>) -> Trap {
    let instructions = shared.fuel.as_ref().map_or(0, |(limit, _)| *limit);
    let waiting = all_waiting(cx, resident);
    cluster::trap_of(cx.launch.program, &waiting, |waiting| TrapKind::Fuel {
        instructions,
        waiting,
    })
}

/// How long a thread has seen nothing but waiting while blocks have not begun.
#[derive(Default)]
struct Patience {
    since: Option<Instant>,
}

impl Patience {
    /// Gives up where all threads have waited for long, none of them for the host, and there are
    /// blocks that cannot begin before some end.
    fn ask(
        &mut self,
        shared: &Shared<'_>,
        cx: &mut Cx<'_>,
        resident: &mut VecDeque<Cluster>,
    ) -> Result<(), Box<Trap>> {
        let (absent, held) = shared.absent();
        if !shared.launch.checks.sync || absent == 0 {
            return Ok(());
        }
        let waiting = all_waiting(cx, resident);
        if waiting.iter().any(|(_, own)| !is_between_threads(cx, &own.on)) {
            self.since = None;
            return Ok(());
        }
        if self.since.get_or_insert_with(Instant::now).elapsed() < PATIENCE {
            return Ok(());
        }
        Err(Box::new(cluster::trap_of(cx.launch.program, &waiting, |waiting| TrapKind::Deadlock {
            waiting: Waits { absent: Some((absent, held)), ..waiting },
        })))
    }
}

/// Whether a thread waits for what other threads of the launch do.
fn is_between_threads(cx: &Cx<'_>, on: &WaitsOn) -> bool {
    match on {
        WaitsOn::Turn => false,
        WaitsOn::Change { address, .. } => {
            let nearest = cx.cursor.memory().nearest(*address);
            nearest.is_none_or(|own| own.kind != RegionKind::Host)
        }
        _ => true,
    }
}
