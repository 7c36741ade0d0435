//! Whether a warp comes back to a state that it was in before.

use super::{Wait, Warp};
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};

/// What is kept of a warp's state: two independent hashes of 64 bits.
type Snapshot = [u64; 2];

/// Where a warp came from.
#[derive(Default)]
pub struct Rounds {
    /// A state that it was in.
    from: Option<Snapshot>,
    /// Lanes that have run since the last look.
    pub(super) ran: u32,
    /// How often it was looked at.
    looks: u32,
    /// Whether it came back.
    round: bool,
}

impl Warp {
    /// Forgets what is known of rounds.
    pub fn forget_rounds(&mut self) {
        self.rounds = Rounds::default();
    }

    /// Whether it came back to a state it was in before, or has no lane that could run.
    pub fn has_come_round(&self) -> bool {
        self.rounds.round
    }

    /// Looks whether the warp is where it was, once each lane that can run has done so since the
    /// last look.
    ///
    /// The state to come back to is replaced after 1, 2, 4, … looks, so that a round of any length
    /// is found, and a way into it does not matter (Brent, 1980).
    pub fn come_round(&mut self) {
        if self.rounds.round {
            return;
        }
        let runs = self.lanes_that_run();
        if runs & !self.rounds.ran != 0 {
            return;
        }
        self.rounds.ran = 0;
        let now = self.snapshot();
        if runs == 0 || self.rounds.from == Some(now) {
            self.rounds.round = true;
            return;
        }
        self.rounds.looks += 1;
        if self.rounds.looks.is_power_of_two() {
            self.rounds.from = Some(now);
        }
    }

    /// The lanes that wait for nothing, and those that a look at an mbarrier sends on.
    fn lanes_that_run(&self) -> u32 {
        let runs = |wait| matches!(wait, Wait::Ready | Wait::Phase);
        self.groups.iter().filter(|own| runs(own.wait)).fold(0, |mask, own| mask | own.mask)
    }

    /// Where each lane is, and all registers. Which lanes of one place go on together does not
    /// count: a lane computes the same, alone or with others.
    fn snapshot(&self) -> Snapshot {
        [0u64, 1].map(|seed| {
            let mut hasher = DefaultHasher::new();
            seed.hash(&mut hasher);
            for lane in 0..32 {
                let own = self.groups.iter().find(|group| group.mask >> lane & 1 != 0);
                own.map(|own| (own.pc, own.frame, own.wait)).hash(&mut hasher);
            }
            for frame in self.frames.iter().flatten() {
                (&frame.rows32, &frame.rows64, &frame.predicates).hash(&mut hasher);
                (&frame.params, &frame.stack).hash(&mut hasher);
            }
            hasher.finish()
        })
    }
}
