//! How many particles messages and arrays have room for.
//!
//! Only the devices know how many particles go where in a step. Messages and arrays have room for as many as in the steps before and
//! some more, and each device keeps the greatest numbers that there were in a round of steps. After the round all ranks learn
//! them. Where one was too great, particles are missing, and all ranks repeat the round with more room.

/// The greatest numbers in a round: of each rank those for each rank, and how many particles it had in its cells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Needs {
    ranks: usize,
    words: Vec<u32>,
}

impl Needs {
    /// `words`: of each rank how many particles each rank needs of it, and how many it had in its cells.
    pub(super) fn of_rounds(words: Vec<u32>, ranks: usize) -> Self {
        Self { ranks, words }
    }

    /// `words`: of each rank how many particles each rank needs of it now, and how many it has itself.
    pub(super) fn of_start(words: Vec<u32>, ranks: usize) -> Self {
        let mut needs = Self { ranks, words };
        for to in 0..ranks {
            let received = (0..ranks).map(|from| needs.message(from, to));
            let all = received.fold(needs.in_cells(to), u32::saturating_add);
            needs.words[to * (ranks + 1) + ranks] = all;
        }
        needs
    }

    fn message(&self, from: usize, to: usize) -> u32 {
        self.words[from * (self.ranks + 1) + to]
    }

    fn in_cells(&self, rank: usize) -> u32 {
        self.words[rank * (self.ranks + 1) + self.ranks]
    }
}

/// For how many particles there is room: the same on all ranks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Room {
    rank: usize,
    ranks: usize,
    /// In the message of each rank to each rank.
    messages: Vec<u32>,
    /// In the cells of each rank.
    cells: Vec<u32>,
}

impl Room {
    /// What a rank has room for by itself, before it knows of others.
    pub(super) fn alone(rank: u32, ranks: u32, n: usize) -> Self {
        let (rank, ranks) = (rank as usize, ranks as usize);
        Self { rank, ranks, messages: vec![0; ranks * ranks], cells: vec![n as u32; ranks] }
    }

    /// Whether no particle is missing.
    pub(super) fn held(&self, needs: &Needs) -> bool {
        let ranks = 0..self.ranks;
        let holds = |from: usize| {
            let message = |to: usize| needs.message(from, to) <= self.messages[self.pair(from, to)];
            needs.in_cells(from) <= self.cells[from] && ranks.clone().all(message)
        };
        ranks.clone().all(holds)
    }

    /// More room, after a round in which particles were missing. What was needed later is not known: nothing shrinks.
    pub(super) fn grown(&self, needs: &Needs) -> Self {
        self.changed(needs, |now, _, target| now.max(target))
    }

    /// The room for further steps: as it is where that is enough by some, and not far too much.
    pub(super) fn after(&self, needs: &Needs) -> Self {
        self.changed(needs, |now, need, target| {
            let least = need + (target - need) / 4;
            if now < least || now > target.saturating_mul(2) { target } else { now }
        })
    }

    /// What `adapt` makes of each number, of what was needed and of that with some more.
    fn changed(&self, needs: &Needs, adapt: impl Fn(u32, u32, u32) -> u32) -> Self {
        let mut room = self.clone();
        for from in 0..self.ranks {
            for to in 0..self.ranks {
                let need = needs.message(from, to);
                // None goes to most ranks that are not neighbours. A first one has the round repeated.
                let more = if need == 0 { 0 } else { need / 8 + 16 };
                let now = &mut room.messages[self.pair(from, to)];
                *now = adapt(*now, need, need.saturating_add(more));
            }
            let (need, now) = (needs.in_cells(from), &mut room.cells[from]);
            *now = adapt(*now, need, need.saturating_add(need / 32 + 64));
        }
        room
    }

    fn pair(&self, from: usize, to: usize) -> usize {
        from * self.ranks + to
    }

    fn message(&self, from: usize, to: usize) -> usize {
        self.messages[self.pair(from, to)] as usize
    }

    /// Where this rank's messages to the ranks end, each with a slot for its header, after a 0.
    pub(super) fn sent_ends(&self) -> Vec<u32> {
        ends((0..self.ranks).map(|to| self.message(self.rank, to)))
    }

    /// Where the ranks' messages to this one end, each with a slot for its header, after a 0.
    pub(super) fn received_ends(&self) -> Vec<u32> {
        ends((0..self.ranks).map(|from| self.message(from, self.rank)))
    }

    /// The most routes of this rank.
    pub(super) fn routes(&self) -> usize {
        (0..self.ranks).map(|to| self.message(self.rank, to)).sum()
    }

    /// The most particles that may come of the ranks before this one.
    pub(super) fn front(&self) -> usize {
        (0..self.rank).map(|from| self.message(from, self.rank)).sum()
    }

    /// The most particles in this rank's cells.
    pub(super) fn cells(&self) -> usize {
        self.cells[self.rank] as usize
    }

    /// The particles of arrays in which those in the cells have all that may come on either side.
    pub(super) fn len(&self) -> usize {
        let all: usize = (0..self.ranks).map(|from| self.message(from, self.rank)).sum();
        all + self.cells()
    }
}

fn ends(rooms: impl Iterator<Item = usize>) -> Vec<u32> {
    let mut end = 0;
    let each = rooms.map(|room| {
        end += room as u32 + 1;
        end
    });
    std::iter::once(0).chain(each).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_follows_what_is_needed() {
        let start = Needs::of_start(vec![0, 80, 1000, 40, 0, 500], 2);
        let room = Room::alone(1, 2, 500);
        assert!(!room.held(&start));
        let room = room.after(&start);
        assert!(room.held(&start));
        assert_eq!((room.sent_ends(), room.received_ends()), (vec![0, 62, 63], vec![0, 107, 108]));
        assert_eq!((room.front(), room.routes(), room.cells()), (106, 61, 500 + 80 + 18 + 64));
        // A little more is held, and so it stays.
        let more = Needs::of_rounds(vec![0, 82, 1040, 45, 0, 585], 2);
        assert!(room.held(&more));
        assert_eq!(room.after(&more), room);
        // Too much is not held, one particle of a message or of the cells; nor does it stay.
        for words in [vec![0, 107, 0, 0, 0, 0], vec![0, 0, 0, 0, 0, 663]] {
            let needs = Needs::of_rounds(words, 2);
            assert!(!room.held(&needs) && room.after(&needs).held(&needs));
        }
        // Far less has less room afterwards.
        assert!(room.after(&Needs::of_rounds(vec![0, 3, 9, 3, 0, 9], 2)).front() < 30);
        assert_eq!(room.after(&Needs::of_rounds(vec![0; 6], 2)).routes(), 0);
    }

    #[test]
    fn each_failed_round_has_more_room_than_the_one_before() {
        let mut room = Room::alone(0, 3, 0);
        for needed in [1u32, 30, 31, 1000, 70_000, u32::MAX / 8] {
            let needs = Needs::of_rounds(vec![needed; 12], 3);
            let grown = room.grown(&needs);
            assert!(grown.held(&needs) && grown.cells() >= room.cells(), "{needed}");
            room = grown;
        }
        assert_eq!(room.grown(&Needs::of_rounds(vec![0; 12], 3)), room);
    }
}
