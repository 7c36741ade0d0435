//! Communicators of some of the ranks.

use super::Communicator;
#[cfg(doc)]
use crate::error::DistError;
use crate::error::DistResult;
use crate::fate::Fate;

impl Communicator {
    /// Makes communicators of the ranks that have the same colour. In them ranks are numbered by their `key`, and those of one key
    /// by their number here. All ranks call it; one without a colour gets none.
    ///
    /// ```no_run
    /// # use ferrowarp_dist::{Communicator, DistResult};
    /// # fn rows(ranks: &Communicator) -> DistResult<()> {
    /// // Ranks as a grid of 4 columns: one communicator for each row.
    /// let row = ranks.split(Some(ranks.rank() / 4), 0)?.expect("it has a colour");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`RankLost`](DistError::RankLost) if one cannot come, [`MissingRanks`](DistError::MissingRanks) names those that do not come
    /// within the [deadline](Self::set_deadline); NCCL's or MPI's refusal.
    pub fn split(&self, colour: Option<u32>, key: i32) -> DistResult<Option<Self>> {
        self.check()?;
        let inner = &self.inner;
        let name = format!("{}/{}", inner.key, self.next_split());
        let choice = encode(colour, key);
        let deadline = inner.fate.deadline();
        let choices = inner.world.exchange_among(
            "a split of a communicator",
            &name,
            self.members(),
            choice,
            deadline,
        )?;
        let members = members_of(&choices, colour);
        let position = members.iter().position(|rank| *rank == self.rank()).unwrap_or(0);
        let in_world = members.iter().map(|rank| self.members()[*rank as usize]).collect();
        let fate = Fate::new(in_world, inner.fate.peers().cloned(), deadline);
        // Backends take small numbers: the first member's is one that no other colour has.
        let number = colour.and_then(|_| members.iter().min().copied());
        let transport = inner.transport.split(number, position as u32, fate.clone())?;
        let Some((transport, number)) = transport.zip(number) else { return Ok(None) };
        let name = format!("{name}.{number}");
        Self::of(&inner.world, &inner.gpu, position as u32, name, fate, transport).map(Some)
    }
}

/// The ranks of that colour, in the order of their keys.
fn members_of(choices: &[Vec<u8>], colour: Option<u32>) -> Vec<u32> {
    let choices = choices.iter().map(|choice| decode(choice)).enumerate();
    let same = choices.filter(|(_, (own, _))| own.is_some() && *own == colour);
    let mut ranks: Vec<_> = same.map(|(rank, (_, key))| (key, rank as u32)).collect();
    ranks.sort_unstable();
    ranks.into_iter().map(|(_, rank)| rank).collect()
}

fn encode(colour: Option<u32>, key: i32) -> Vec<u8> {
    serde_json::to_vec(&(colour, key)).expect("numbers are JSON")
}

fn decode(choice: &[u8]) -> (Option<u32>, i32) {
    serde_json::from_slice(choice).unwrap_or((None, 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_of_a_colour_are_ordered_by_key_and_then_by_rank() {
        let choices = [(Some(1), 5), (Some(0), 0), (Some(1), -2), (None, 0), (Some(1), 5)];
        let choices = choices.map(|(colour, key)| encode(colour, key));
        assert_eq!(members_of(&choices, Some(1)), [2, 0, 4]);
        assert_eq!(members_of(&choices, Some(0)), [1]);
        assert_eq!(members_of(&choices, None), [0; 0]);
    }
}
