//! The order that leads through other launches: what a launch between two others knew when it began, and had acquired when it
//! was over.

use super::clock::Tree;
use super::session::Session;
use super::shadow::ShadowAccess;
use crate::machine::stream_order::Moment;
use std::collections::HashSet;
use std::sync::Arc;

/// What happens before the next access of a thread.
///
/// A thread that has acquired from a block comes after the beginning of that block's launch, so after all that was over
/// then; and an operation that begins after a launch comes after all from which that launch has acquired. Both
/// are followed to the end, through any number of launches.
#[derive(Default)]
pub struct Reached {
    /// Launches and other operations that have begun before.
    moments: Vec<Arc<Moment>>,
    /// What they have acquired.
    tree: Tree,
}

impl Reached {
    /// What happens before a thread of an operation that begins at `moment`, and which has acquired `known` since.
    pub(super) fn new(session: &Session, moment: Option<&Arc<Moment>>, known: &Tree) -> Self {
        let mut reached = Self::default();
        let (mut begun, mut over) = (HashSet::new(), HashSet::new());
        let mut moments: Vec<Arc<Moment>> = moment.cloned().into_iter().collect();
        let mut trees = vec![known.clone()];
        loop {
            while let Some(tree) = trees.pop() {
                let blocks = tree.blocks();
                let new = session.launches_of(&blocks, &mut begun);
                moments.extend(new.into_iter().filter_map(|launch| launch.moment));
                reached.tree.learn(&tree);
            }
            let Some(moment) = moments.pop() else { return reached };
            trees.extend(session.learnt_before(&moment, &mut over));
            reached.moments.push(moment);
        }
    }

    /// Whether an operation was over before.
    pub(super) fn follows(&self, other: &Moment) -> bool {
        self.moments.iter().any(|moment| moment.knows(other))
    }

    /// Whether a lane's part in an earlier access came before.
    pub(super) fn includes(&self, access: &ShadowAccess, lane: usize) -> bool {
        let clock = self.tree.get(access.block);
        clock.is_some_and(|clock| clock.includes(u32::from(access.warp), lane, access.tick))
    }
}
