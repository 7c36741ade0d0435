//! Vector clocks: for each thread, up to which tick of each block the accesses of that block's
//! threads happen before what the thread does next.
//!
//! A tick counts the synchronisations of a block. A barrier of the whole block brings all of its
//! threads to one tick, so a clock is stored as one number for each block (its floor), with entries
//! for single warps and lanes only where they are ahead of it. Clocks of other blocks form a
//! persistent tree that threads share.

use std::sync::Arc;

/// Lanes of a warp.
const LANES: usize = 32;

/// The clock of a warp.
#[derive(Clone, Debug, PartialEq, Eq)]
struct WarpClock {
    warp: u32,
    /// Of all its lanes.
    floor: u32,
    /// Of some lanes, more.
    lanes: Option<Box<[u32; LANES]>>,
}

impl WarpClock {
    fn of_lane(&self, lane: usize) -> u32 {
        self.lanes.as_ref().map_or(self.floor, |lanes| lanes[lane].max(self.floor))
    }

    fn raise(&mut self, mask: u32, tick: u32) {
        if mask == u32::MAX {
            self.floor = self.floor.max(tick);
        } else {
            let own = self.lanes.get_or_insert_with(|| Box::new([0; LANES]));
            let raised = own.iter_mut().enumerate().filter(|(lane, _)| mask >> lane & 1 != 0);
            raised.for_each(|(_, own)| *own = (*own).max(tick));
        }
        self.tidy();
    }

    fn join(&mut self, other: &Self) {
        self.floor = self.floor.max(other.floor);
        if let Some(theirs) = &other.lanes {
            let own = self.lanes.get_or_insert_with(|| Box::new([0; LANES]));
            own.iter_mut().zip(theirs.iter()).for_each(|(own, their)| *own = (*own).max(*their));
        }
        self.tidy();
    }

    /// Forgets lanes of which no more is known than of all.
    fn tidy(&mut self) {
        let floor = self.floor;
        if self.lanes.as_ref().is_some_and(|lanes| lanes.iter().all(|lane| *lane <= floor)) {
            self.lanes = None;
        }
    }

    /// The latest tick of any lane.
    fn latest(&self) -> u32 {
        let lanes = self.lanes.iter().flat_map(|lanes| lanes.iter().copied());
        lanes.fold(self.floor, u32::max)
    }

    fn covers(&self, other: &Self) -> bool {
        self.floor >= other.floor
            && (other.lanes.is_none()
                || (0..LANES).all(|lane| self.of_lane(lane) >= other.of_lane(lane)))
    }
}

/// The clock of a block: up to which tick the accesses of its threads happen before.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BlockClock {
    /// Of all its threads.
    pub floor: u32,
    /// Of some warps, more; in ascending order.
    warps: Vec<WarpClock>,
}

impl BlockClock {
    /// Of all threads, up to a tick.
    pub fn all(tick: u32) -> Self {
        Self { floor: tick, warps: Vec::new() }
    }

    /// Whether a lane's accesses at a tick happen before.
    pub fn includes(&self, warp: u32, lane: usize, tick: u32) -> bool {
        tick <= self.floor
            || self
                .warps
                .iter()
                .find(|own| own.warp == warp)
                .is_some_and(|own| tick <= own.of_lane(lane))
    }

    /// Advances lanes of a warp to a tick.
    pub fn raise(&mut self, warp: u32, mask: u32, tick: u32) {
        if tick > self.floor {
            self.warp(warp).raise(mask, tick);
        }
    }

    fn warp(&mut self, warp: u32) -> &mut WarpClock {
        let index = match self.warps.binary_search_by_key(&warp, |own| own.warp) {
            Ok(index) => index,
            Err(index) => {
                let fresh = WarpClock { warp, floor: self.floor, lanes: None };
                self.warps.insert(index, fresh);
                index
            }
        };
        &mut self.warps[index]
    }

    /// The maximum with another clock, entry by entry.
    pub fn join(&mut self, other: &Self) {
        if other.floor > self.floor {
            let floor = other.floor;
            self.floor = floor;
            self.warps.retain_mut(|own| {
                own.floor = own.floor.max(floor);
                own.tidy();
                own.floor > floor || own.lanes.is_some()
            });
        }
        for theirs in &other.warps {
            if theirs.floor > self.floor || theirs.lanes.is_some() {
                self.warp(theirs.warp).join(theirs);
            }
        }
    }

    /// Whether it knows all that another does.
    pub fn covers(&self, other: &Self) -> bool {
        let mut own = self.warps.iter().peekable();
        self.floor >= other.floor
            && other.warps.iter().all(|theirs| {
                while own.next_if(|own| own.warp < theirs.warp).is_some() {}
                match own.peek().filter(|own| own.warp == theirs.warp) {
                    Some(own) => own.covers(theirs),
                    None => theirs.latest() <= self.floor,
                }
            })
    }
}

/// Children of an inner node.
const FAN: u32 = 16;
/// Bits of a block's number that a level of the tree decides.
const BITS: u32 = FAN.trailing_zeros();

#[derive(Debug)]
enum Node {
    Leaf(BlockClock),
    Inner([Option<Arc<Node>>; FAN as usize]),
}

/// What is known of many blocks. Never changed once made: trees that know nearly the same share
/// what they have in common, so a chain of blocks that each learn from the one before costs little.
#[derive(Clone, Debug, Default)]
pub struct Tree {
    /// Levels of inner nodes.
    height: u32,
    root: Option<Arc<Node>>,
}

impl Tree {
    /// The clock of a block: up to which tick the accesses of its threads happen before.
    pub fn get(&self, block: u32) -> Option<&BlockClock> {
        if !self.reaches(block) {
            return None;
        }
        let mut node = self.root.as_deref()?;
        let mut level = self.height;
        loop {
            match node {
                Node::Leaf(clock) => return Some(clock),
                Node::Inner(children) => {
                    level -= 1;
                    node = children[child(block, level)].as_deref()?;
                }
            }
        }
    }

    fn reaches(&self, block: u32) -> bool {
        self.height * BITS >= u32::BITS || block >> (self.height * BITS) == 0
    }

    /// The blocks that it knows of.
    pub fn blocks(&self) -> Vec<u32> {
        let mut out = Vec::new();
        let mut open: Vec<(&Node, u32, u32)> =
            self.root.iter().map(|root| (&**root, self.height, 0)).collect();
        while let Some((node, level, block)) = open.pop() {
            match node {
                Node::Leaf(_) => out.push(block),
                Node::Inner(children) => {
                    let some = children.iter().zip(0..).filter_map(|(own, index)| {
                        Some((&**own.as_ref()?, level - 1, block | index << ((level - 1) * BITS)))
                    });
                    open.extend(some);
                }
            }
        }
        out
    }

    /// True if it is the very same tree, not only an equal one.
    pub fn is(&self, other: &Self) -> bool {
        match (&self.root, &other.root) {
            (None, None) => true,
            (Some(own), Some(other)) => Arc::ptr_eq(own, other),
            _ => false,
        }
    }

    /// A tree that knows only of one block.
    pub fn of(block: u32, clock: BlockClock) -> Self {
        let mut height = 0;
        let mut node = Arc::new(Node::Leaf(clock));
        while height * BITS < u32::BITS && block >> (height * BITS) != 0 {
            node = inner(child(block, height), node);
            height += 1;
        }
        Self { height, root: Some(node) }
    }

    /// Whether it knows of no block.
    pub fn is_empty(&self) -> bool {
        self.root.is_none()
    }

    /// This and one block more.
    pub fn with(&self, block: u32, clock: BlockClock) -> Self {
        self.join(&Self::of(block, clock))
    }

    /// All that two trees know.
    pub fn join(&self, other: &Self) -> Self {
        let (Some(own), Some(theirs)) = (&self.root, &other.root) else {
            return if self.root.is_some() { self.clone() } else { other.clone() };
        };
        let height = self.height.max(other.height);
        let root = joined(&lifted(own, self.height, height), &lifted(theirs, other.height, height));
        Self { height, root: Some(root) }
    }

    /// As [`join`](Self::join), in place where nothing shares the nodes: no memory is allocated for what is known already.
    pub fn learn(&mut self, other: &Self) {
        match (&mut self.root, &other.root) {
            (Some(own), Some(theirs)) if self.height == other.height => learn(own, theirs),
            _ => *self = self.join(other),
        }
    }
}

fn child(block: u32, level: u32) -> usize {
    (block >> (level * BITS) & (FAN - 1)) as usize
}

fn inner(index: usize, node: Arc<Node>) -> Arc<Node> {
    let mut children = [const { None }; FAN as usize];
    children[index] = Some(node);
    Arc::new(Node::Inner(children))
}

/// The same knowledge under more levels.
fn lifted(node: &Arc<Node>, from: u32, to: u32) -> Arc<Node> {
    (from..to).fold(Arc::clone(node), |node, _| inner(0, node))
}

/// What two nodes of one level know; one of them where it knows all that the other does.
fn joined(a: &Arc<Node>, b: &Arc<Node>) -> Arc<Node> {
    if Arc::ptr_eq(a, b) {
        return Arc::clone(a);
    }
    match (&**a, &**b) {
        (Node::Leaf(own), Node::Leaf(theirs)) if own.covers(theirs) => Arc::clone(a),
        (Node::Leaf(own), Node::Leaf(theirs)) if theirs.covers(own) => Arc::clone(b),
        (Node::Leaf(own), Node::Leaf(theirs)) => {
            let mut both = own.clone();
            both.join(theirs);
            Arc::new(Node::Leaf(both))
        }
        (Node::Inner(own), Node::Inner(theirs)) => joined_inner((a, own), (b, theirs)),
        // Nodes of one level are of one kind.
        _ => Arc::clone(a),
    }
}

/// As [`joined`], in place where nothing shares the node.
fn learn(own: &mut Arc<Node>, theirs: &Arc<Node>) {
    if Arc::ptr_eq(own, theirs) {
        return;
    }
    match (Arc::get_mut(own), &**theirs) {
        (Some(Node::Leaf(own)), Node::Leaf(theirs)) => own.join(theirs),
        (Some(Node::Inner(own)), Node::Inner(theirs)) => {
            for (own, theirs) in own.iter_mut().zip(theirs) {
                match (own, theirs) {
                    (Some(own), Some(theirs)) => learn(own, theirs),
                    (own @ None, Some(theirs)) => *own = Some(Arc::clone(theirs)),
                    (_, None) => {}
                }
            }
        }
        _ => *own = joined(own, theirs),
    }
}

type Children = [Option<Arc<Node>>; FAN as usize];

fn joined_inner(
    (a, own): (&Arc<Node>, &Children),
    (b, theirs): (&Arc<Node>, &Children),
) -> Arc<Node> {
    let children: Children = std::array::from_fn(|index| match (&own[index], &theirs[index]) {
        (Some(own), Some(theirs)) => Some(joined(own, theirs)),
        (own, theirs) => own.as_ref().or(theirs.as_ref()).cloned(),
    });
    let same = |other: &Children| {
        children.iter().zip(other).all(|(own, other)| match (own, other) {
            (Some(own), Some(other)) => Arc::ptr_eq(own, other),
            (own, other) => own.is_none() && other.is_none(),
        })
    };
    if same(own) {
        return Arc::clone(a);
    }
    if same(theirs) {
        return Arc::clone(b);
    }
    Arc::new(Node::Inner(children))
}

/// The vector clock of a thread.
#[derive(Clone, Debug, Default)]
pub struct VectorClock {
    /// Of its own block.
    pub own: BlockClock,
    /// Of others.
    pub others: Tree,
    /// What its next `fence.sc` of device scope will teach it. A write that comes after another
    /// such fence was observed, by this thread or by one that is ordered before it; were its own
    /// fence the first of the two in their total order, the write would come after what observed
    /// it. So the other is the first, and all before that is ordered before all that follows its
    /// own.
    pub sc: Tree,
}

impl VectorClock {
    /// The maximum with the clock of another thread of the block.
    pub fn join(&mut self, other: &Self) {
        self.own.join(&other.own);
        self.others.learn(&other.others);
        self.sc.learn(&other.sc);
    }

    /// The maximum with the clocks of a tree.
    pub fn learn(&mut self, tree: &Tree, block: u32) {
        if let Some(own) = tree.get(block) {
            self.own.join(own);
        }
        self.others.learn(tree);
    }

    /// What a lane publishes when it releases at a tick.
    pub fn published(&self, block: u32, (warp, lane): (u32, usize), tick: u32) -> Tree {
        let mut own = self.own.clone();
        own.raise(warp, 1 << lane, tick);
        self.others.with(block, own)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_is_known_by_floor_warp_and_lane() {
        let mut clock = BlockClock::all(3);
        assert!(clock.includes(7, 31, 3) && !clock.includes(7, 31, 4));
        clock.raise(2, 1 << 5, 6);
        clock.raise(4, u32::MAX, 5);
        assert!(clock.includes(2, 5, 6) && !clock.includes(2, 4, 4) && clock.includes(2, 4, 3));
        assert!(clock.includes(4, 0, 5) && !clock.includes(4, 0, 6));
        let mut all = BlockClock::all(5);
        assert!(!all.covers(&clock) && !clock.covers(&all));
        all.join(&clock);
        assert!(all.covers(&clock) && all.includes(2, 5, 6) && all.includes(9, 9, 5));
        clock.join(&BlockClock::all(6));
        assert_eq!(clock, BlockClock::all(6));
    }

    #[test]
    fn trees_hold_what_was_put_in_and_share_what_they_can() {
        let blocks = [0, 1, 15, 16, 17, 255, 256, 70_000, u32::MAX];
        let tree = blocks.iter().fold(Tree::default(), |tree, block| {
            tree.with(*block, BlockClock::all(block % 1000 + 1))
        });
        for block in blocks {
            assert_eq!(tree.get(block).map(|clock| clock.floor), Some(block % 1000 + 1));
        }
        assert!(tree.get(2).is_none() && tree.get(1 << 31).is_none());
        let mut known = tree.blocks();
        known.sort_unstable();
        assert_eq!((known.as_slice(), Tree::default().blocks().len()), (&blocks[..], 0));
        assert!(tree.join(&Tree::of(16, BlockClock::all(5))).is(&tree), "it knew more");
        assert!(Tree::default().join(&tree).is(&tree) && tree.join(&Tree::default()).is(&tree));
        let more = tree.join(&Tree::of(16, BlockClock::all(50)));
        assert_eq!(more.get(16).map(|clock| clock.floor), Some(50));
        assert_eq!(tree.get(16).map(|clock| clock.floor), Some(17));
        assert_eq!(more.get(u32::MAX), tree.get(u32::MAX));
    }

    /// What shares a tree's nodes does not learn with it.
    #[test]
    fn a_tree_learns_in_place_what_a_join_knows() {
        let trees = [
            Tree::default(),
            Tree::of(0, BlockClock::all(3)),
            Tree::of(0, BlockClock::all(7)),
            Tree::of(3, BlockClock::all(4)).with(2, BlockClock::all(9)),
            Tree::of(3, BlockClock::all(6)).with(70_000, BlockClock::all(1)),
        ];
        let known = |tree: &Tree| {
            let mut blocks = tree.blocks();
            blocks.sort_unstable();
            let clock = |block: u32| (block, tree.get(block).cloned());
            blocks.into_iter().map(clock).collect::<Vec<_>>()
        };
        for (own, other) in trees.iter().flat_map(|own| trees.iter().map(move |other| (own, other)))
        {
            let expected = known(&own.join(other));
            let before = known(own);
            let mut shared = own.clone();
            shared.learn(other);
            assert_eq!((known(&shared), known(own)), (expected.clone(), before));
            // Nothing shares the nodes of a tree that is made anew.
            let mut alone = Tree::default();
            for (block, clock) in known(own) {
                alone = alone.join(&Tree::of(block, clock.unwrap_or_default()));
            }
            alone.learn(other);
            alone.learn(other);
            assert_eq!(known(&alone), expected);
        }
    }
}
