//! One CPU thread's part in finding that a launch is stuck.

use super::Quorum;
use super::observer::{Seen, Witness};
use crate::exec::cluster::Cluster;
use crate::fault::{Waiting, WaitsOn};
use crate::machine::{Cx, LANES, Watch};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::atomic::Ordering;

/// The most that the time between two attempts grows by.
const LONGEST: usize = 1 << 10;

/// Watches what a CPU thread executes while it seems to make no progress.
pub struct Probe<'q> {
    quorum: &'q Quorum<'q>,
    seen: Rc<RefCell<Seen>>,
    /// Whether it watches.
    on: bool,
    /// The epoch that the warps' rounds are about, and whether all of them were told of.
    epoch: u64,
    proven: bool,
    /// Occasions to let pass before it watches again, and how many there are after the next failure.
    pass: usize,
    next: usize,
}

impl<'q> Probe<'q> {
    /// The probe of one CPU thread.
    pub fn new(quorum: &'q Quorum<'q>) -> Self {
        let seen = Rc::default();
        Self { quorum, seen, on: false, epoch: 0, proven: false, pass: 0, next: 1 }
    }

    /// No cluster has come to its end for many rounds.
    pub fn suspect(&mut self, cx: &mut Cx<'_>, resident: &mut VecDeque<Cluster>) {
        if self.on || self.quorum.outside.is_none() {
            return;
        }
        if self.pass > 0 {
            self.pass -= 1;
            return;
        }
        self.on = true;
        *self.seen.borrow_mut() = Seen::default();
        cx.unsteady = false;
        Watch::add(&mut cx.watch, Box::new(Witness(Rc::clone(&self.seen))));
        // What the thread did before this was not watched. It ends the epoch after the witness has come, so
        // that a whole epoch is watched by all threads, or has no proof of all.
        self.quorum.change();
        self.restart(resident);
    }

    /// The last of the resident clusters had its turn, and has not ended.
    pub fn look(&mut self, cx: &mut Cx<'_>, resident: &mut VecDeque<Cluster>) {
        if !self.on {
            return;
        }
        let pending = resident.back().is_some_and(Cluster::has_copies);
        if self.seen.borrow().changed || cx.unsteady || pending {
            return self.give_up(cx);
        }
        if self.quorum.epoch.load(Ordering::Acquire) != self.epoch {
            return self.restart(resident);
        }
        if let Some(cluster) = resident.back_mut() {
            cluster.come_round();
        }
        if !self.proven && resident.iter().all(Cluster::has_come_round) {
            self.proven = true;
            self.quorum.prove(self.epoch);
        }
        if self.proven {
            self.quorum.decide();
        }
    }

    /// A cluster has ended, or another has begun.
    pub fn progress(&mut self, cx: &mut Cx<'_>) {
        if self.on {
            self.give_up(cx);
        }
        (self.pass, self.next) = (0, 1);
    }

    /// Looks away, for twice as long as the last time.
    fn give_up(&mut self, cx: &mut Cx<'_>) {
        Watch::remove_last(&mut cx.watch);
        (self.on, self.pass) = (false, self.next);
        self.next = (2 * self.next).min(LONGEST);
        self.quorum.change();
    }

    /// Begins the proof in another epoch.
    fn restart(&mut self, resident: &mut VecDeque<Cluster>) {
        self.epoch = self.quorum.epoch.load(Ordering::Acquire);
        self.proven = false;
        resident.iter_mut().for_each(Cluster::forget_rounds);
    }

    /// Says of threads that can run what they keep reading.
    pub fn refine(&self, cx: &Cx<'_>, waiting: &mut [(u32, Waiting)]) {
        let seen = self.seen.borrow();
        for (pc, own) in waiting {
            if !matches!(own.on, WaitsOn::Turn | WaitsOn::Change { .. }) {
                continue;
            }
            let (warp, lane) = place(cx, own);
            let read = seen.reads.get(&warp).and_then(|lanes| lanes[lane]);
            own.on = WaitsOn::Nothing;
            if let Some(read) = read {
                own.on = WaitsOn::Change { address: read.address, strong: read.strong };
                *pc = read.pc;
            }
            own.ptx_line = cx.launch.program.line(*pc);
        }
    }
}

/// The block's number and the warp of a thread, and its lane.
fn place(cx: &Cx<'_>, own: &Waiting) -> ((u64, u32), usize) {
    let number = |[x, y, z]: [u32; 3], [width, height, _]: [u32; 3]| {
        let [x, y, z, width, height] = [x, y, z, width, height].map(u64::from);
        x + width * (y + height * z)
    };
    let block = number(own.block, cx.launch.grid);
    let thread = number(own.thread, cx.launch.block) as usize;
    ((block, (thread / LANES) as u32), thread % LANES)
}
