//! Synchronisation cells: the vector clock that the value of an atomically accessed cell carries
//! from the thread that released it to the threads that acquire it.

use super::clock::{BlockClock, Tree};
use crate::isa::Scope;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Which threads a scope takes in.
pub trait Reach {
    /// Whether a thread of one block, with that scope, means threads of another.
    fn reaches(&self, scope: Scope, from: u32, to: u32) -> bool;
}

/// What was published for some scope.
#[derive(Clone, Debug)]
struct News {
    /// Block that published it; `None` for several.
    by: Option<u32>,
    scope: Scope,
    tree: Tree,
    /// What of it came before a `fence.sc` of device scope.
    sc: Tree,
}

/// What a read finds.
#[derive(Clone, Debug)]
pub struct Acquired {
    /// Block that published it; `None` for several.
    pub by: Option<u32>,
    /// What it knew.
    pub tree: Tree,
    /// What of it came before a `fence.sc` of device scope.
    pub sc: Tree,
}

/// What the value of a cell carries: since the last plain write, all that updates of it have added.
#[derive(Clone, Debug, Default)]
pub struct SyncCell {
    news: Vec<News>,
}

impl SyncCell {
    /// Adds what a write publishes. What reaches the whole device is one piece of news, the rest is
    /// kept for each block.
    pub fn add(&mut self, block: u32, scope: Scope, tree: &Tree, by_sc_fence: bool) {
        let wide = scope >= Scope::Device;
        let sc = if wide && by_sc_fence { tree.clone() } else { Tree::default() };
        let same = |own: &&mut News| match wide {
            true => own.scope >= Scope::Device,
            false => own.by == Some(block) && own.scope == scope,
        };
        match self.news.iter_mut().find(same) {
            Some(own) => {
                own.tree.learn(tree);
                own.sc.learn(&sc);
                if own.by != Some(block) {
                    own.by = None;
                }
            }
            None => self.news.push(News { by: Some(block), scope, tree: tree.clone(), sc }),
        }
    }

    /// What a read with that scope finds, with its publisher.
    pub fn read(&self, reach: &impl Reach, block: u32, scope: Scope) -> Vec<Acquired> {
        let mut out = Vec::new();
        for news in &self.news {
            let whole = || Acquired { by: news.by, tree: news.tree.clone(), sc: news.sc.clone() };
            match news.by {
                Some(by) => {
                    if reach.reaches(scope, block, by) && reach.reaches(news.scope, by, block) {
                        out.push(whole());
                    }
                }
                None if scope >= Scope::Device => out.push(whole()),
                // Several blocks have published, and the read only means its own.
                None => {
                    let own: Option<BlockClock> = news.tree.get(block).cloned();
                    let heard = |own| {
                        let tree = Tree::of(block, own);
                        Acquired { by: Some(block), tree, sc: Tree::default() }
                    };
                    out.extend(own.map(heard));
                }
            }
        }
        out
    }

    /// True if it carries nothing.
    pub fn is_empty(&self) -> bool {
        self.news.is_empty()
    }
}

const SHARDS: usize = 64;

/// The cells of device memory that something was published through.
pub struct SyncCells {
    shards: [Mutex<HashMap<u64, SyncCell>>; SHARDS],
    /// Whether there has been any, so that who synchronises by barriers alone pays nothing.
    used: AtomicBool,
}

impl Default for SyncCells {
    fn default() -> Self {
        Self { shards: std::array::from_fn(|_| Mutex::default()), used: AtomicBool::new(false) }
    }
}

impl SyncCells {
    /// Whether anything was ever published.
    pub fn any(&self) -> bool {
        self.used.load(Ordering::Acquire)
    }

    fn shard(&self, address: u64) -> MutexGuard<'_, HashMap<u64, SyncCell>> {
        let index = (address >> 2).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 58;
        self.shards[index as usize % SHARDS].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes what a cell carries.
    pub fn change(&self, address: u64, change: impl FnOnce(&mut SyncCell)) {
        self.used.store(true, Ordering::Release);
        let mut shard = self.shard(address);
        let location = shard.entry(address).or_default();
        change(location);
        if location.is_empty() {
            shard.remove(&address);
        }
    }

    /// Looks at what a cell carries.
    pub fn look<T: Default>(&self, address: u64, look: impl FnOnce(&SyncCell) -> T) -> T {
        self.shard(address).get(&address).map(look).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Blocks reach each other from `Device` on.
    struct Plain;

    impl Reach for Plain {
        fn reaches(&self, scope: Scope, from: u32, to: u32) -> bool {
            scope >= Scope::Device || from == to
        }
    }

    fn tree(block: u32) -> Tree {
        Tree::of(block, BlockClock::all(9))
    }

    #[test]
    fn news_reach_those_that_both_scopes_take_in() {
        let mut location = SyncCell::default();
        location.add(3, Scope::Block, &tree(3), true);
        let found = |location: &SyncCell, block, scope| location.read(&Plain, block, scope).len();
        assert_eq!(found(&location, 3, Scope::Block), 1);
        assert_eq!(found(&location, 3, Scope::Device), 1);
        assert_eq!(found(&location, 4, Scope::Device), 0);
        assert!(location.read(&Plain, 3, Scope::Block)[0].sc.is_empty(), "a fence of its block");
        location.add(4, Scope::Device, &tree(4), true);
        assert_eq!(found(&location, 5, Scope::Device), 1);
        assert_eq!(found(&location, 5, Scope::Block), 0);
        location.add(6, Scope::System, &tree(6), false);
        let both = &location.read(&Plain, 5, Scope::Device)[0];
        assert!(both.by.is_none() && both.tree.get(4).is_some() && both.tree.get(6).is_some());
        assert!(both.sc.get(4).is_some() && both.sc.get(6).is_none());
        let narrow = &location.read(&Plain, 6, Scope::Block)[0];
        assert!(narrow.tree.get(6).is_some() && narrow.tree.get(4).is_none());
    }

    #[test]
    fn an_empty_location_is_forgotten() {
        let locations = SyncCells::default();
        assert!(!locations.any());
        locations.change(64, |own| own.add(1, Scope::Device, &tree(1), false));
        assert!(locations.any() && locations.look(64, |own| !own.is_empty()));
        locations.change(64, |own| *own = SyncCell::default());
        assert!(!locations.look(64, |own| !own.is_empty()));
    }
}
