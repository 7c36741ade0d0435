//! A launch: its clusters of blocks, in the order of the schedule, over CPU threads.
//!
//! Each thread keeps a window of resident clusters. A cluster that is not through after a while makes
//! room for the others of its window, and when a whole round brings none to its end, the window
//! grows: so blocks that wait for later ones are served as on a GPU that has them all resident. In a
//! cooperative launch, the window is the whole grid.

use super::block::Progress;
use super::cluster::Cluster;
use super::schedule::Schedule;
use super::watch::counters::Counters;
use super::watch::{Check, Watch};
use super::{Cx, LaunchContext};
use crate::fault::{Trap, TrapKind};
use crate::memory::GlobalMemory;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// Instructions that a cluster runs before another of the window has its turn.
const TURN: i64 = 1 << 15;
/// Blocks that a random schedule lets run side by side from the start.
const RANDOM_WINDOW: usize = 8;

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
}

/// Runs all clusters of a launch on this thread and others.
///
/// # Errors
/// The first trap that stopped it.
pub fn run(
    launch: &LaunchContext<'_>,
    memory: &GlobalMemory,
    checks: &[Box<dyn Check + '_>],
    workers: usize,
    resident: usize,
    fuel: Option<u64>,
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
    };
    std::thread::scope(|scope| {
        for _ in 1..workers {
            scope.spawn(|| work(&shared));
        }
        work(&shared);
    });
    match shared.trap.into_inner().unwrap_or_else(PoisonError::into_inner) {
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
    if let Err(trap) = run_clusters(shared, &mut cx) {
        shared.stop.store(true, Ordering::Release);
        let mut first = shared.trap.lock().unwrap_or_else(PoisonError::into_inner);
        first.get_or_insert(trap);
    }
    shared.lane_instructions.fetch_add(cx.lane_instructions, Ordering::Relaxed);
    shared.warp_instructions.fetch_add(cx.warp_instructions, Ordering::Relaxed);
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
    while !shared.stop.load(Ordering::Acquire) {
        while resident.len() < size
            && let Some(number) = next_cluster(shared)
        {
            let mut cluster = free.pop().unwrap_or_else(|| Cluster::new(shared.launch));
            cluster.start(shared.launch, number);
            resident.push_back(cluster);
            fruitless = 0;
        }
        let Some(mut cluster) = pick(&mut resident, cx) else { break };
        match turn(shared, cx, &mut cluster)? {
            Progress::Done => {
                free.push(cluster);
                (fruitless, size) = (0, resident.len().max(least));
            }
            Progress::Preempted | Progress::Blocked => {
                resident.push_back(cluster);
                fruitless += 1;
            }
        }
        if fruitless > resident.len() && size < shared.window {
            (size, fruitless) = (resident.len() + 1, 0);
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
    if let Some((limit, fuel)) = &shared.fuel {
        let spent = (cx.warp_instructions - before) as i64;
        if fuel.fetch_sub(spent, Ordering::Relaxed) < spent {
            return Err(Box::new(cluster.out_of_fuel(cx, TrapKind::Fuel { instructions: *limit })));
        }
    }
    Ok(progress)
}
