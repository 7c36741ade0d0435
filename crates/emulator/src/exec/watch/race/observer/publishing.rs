//! Release and acquire: what strong accesses and fences publish through memory, and who acquires
//! it.

use super::{RaceObserver, Read};
use crate::exec::watch::race::clock::Tree;
use crate::exec::watch::race::sync_cell::{Acquired, Reach, SyncCell};
use crate::fault::{Nearest, RegionKind};
use crate::isa::{Order, Scope, Semantics};
use crate::machine::{Cx, MemoryLocation, Op, Row64, Touch, lanes};

/// What a strong write carries.
struct News {
    scope: Scope,
    tree: Tree,
    /// Whether a `fence.sc` came before the write, and the tree is what was known then.
    by_sc_fence: bool,
}

/// The lanes of an access whose addresses are in the host's memory. Neighbours mostly share a range of memory, which is looked up
/// once.
fn lanes_in_host_memory(cx: &Cx<'_>, at: &Row64, mask: u32) -> u32 {
    let (mut found, mut range) = (0, None::<Nearest>);
    for lane in lanes(mask).filter(|lane| matches!(cx.place(at[*lane]), MemoryLocation::Global)) {
        let is_there = |own: &Nearest| (own.base..own.base + own.bytes).contains(&at[lane]);
        if !range.as_ref().is_some_and(is_there) {
            range = cx.cursor.memory().nearest(at[lane]);
        }
        let is_hosts = range.as_ref().is_some_and(|own| own.kind == RegionKind::Host);
        found |= u32::from(is_hosts) << lane;
    }
    found
}

impl RaceObserver<'_> {
    /// A strong write publishes: what its lanes know if it releases, what they knew at their last
    /// fence otherwise.
    pub(super) fn publish(&mut self, cx: &Cx<'_>, op: &Op, touch: &Touch<'_>, updates: bool) {
        if op.order.scope() == Scope::System {
            self.check.tells_host();
        }
        let releases = matches!(
            op.order.semantics(),
            Semantics::Release | Semantics::AcquireRelease | Semantics::SequentiallyConsistent
        );
        let warp = cx.warp.index;
        let quiet = !releases && !self.current.warps[warp as usize].has_fenced(touch.mask);
        let nothing = !self.check.session.locations.any() && self.current.locations.is_empty();
        if quiet && (updates || nothing) {
            return;
        }
        let hosts = match op.order.scope() {
            Scope::System => lanes_in_host_memory(cx, touch.at, touch.mask),
            _ => 0,
        };
        for lane in lanes(touch.mask) {
            let news = self.news(op.order, releases, (warp, lane));
            if hosts >> lane & 1 != 0 {
                let host = news.iter().filter(|own| own.scope == Scope::System);
                host.for_each(|own| self.check.session.publish_to_host(&own.tree));
            }
            self.write(cx, touch.at[lane], updates, &news);
        }
    }

    /// What a lane's strong write carries.
    fn news(&self, order: Order, releases: bool, (warp, lane): (u32, usize)) -> Vec<News> {
        let own = &self.current.warps[warp as usize];
        let id = self.current.id;
        let fenced = own.fences(lane).map(|fence| {
            let scope = fence.scope.min(order.scope());
            let tree = fence.clock.published(id, (warp, lane), fence.tick);
            News { scope, tree, by_sc_fence: fence.sc }
        });
        let mut news: Vec<_> = fenced.collect();
        if releases {
            let tree = own.clock(lane).published(id, (warp, lane), self.current.tick);
            news.push(News { scope: order.scope(), tree, by_sc_fence: false });
        }
        news
    }

    /// Gives the cell at an address what a write carries; a plain write takes away what it carried.
    fn write(&mut self, cx: &Cx<'_>, address: u64, updates: bool, news: &[News]) {
        let id = self.current.id;
        let change = |location: &mut SyncCell| {
            if !updates {
                *location = SyncCell::default();
            }
            news.iter().for_each(|own| location.add(id, own.scope, &own.tree, own.by_sc_fence));
        };
        match cx.place(address) {
            MemoryLocation::Global => self.check.session.locations.change(address, change),
            MemoryLocation::Shared(block, offset) => {
                if let Some(team) = self.threads_of(block) {
                    change(team.locations.entry(offset).or_default());
                }
            }
            MemoryLocation::Local(..) | MemoryLocation::Param(_) => {}
        }
    }

    /// What the cell at an address carries for a reader.
    fn read(&mut self, cx: &Cx<'_>, address: u64, scope: Scope) -> Vec<Acquired> {
        let (check, id) = (self.check, self.current.id);
        let look = |location: &SyncCell| location.read(check, id, scope);
        match cx.place(address) {
            MemoryLocation::Global if !check.session.locations.any() => Vec::new(),
            MemoryLocation::Global => check.session.locations.look(address, look),
            MemoryLocation::Shared(block, offset) => self
                .threads_of(block)
                .and_then(|team| team.locations.get(&offset).map(look))
                .unwrap_or_default(),
            MemoryLocation::Local(..) | MemoryLocation::Param(_) => Vec::new(),
        }
    }

    /// Follows up strong reads: an acquire learns at once, another with the next fence.
    pub(super) fn follow(&mut self, cx: &Cx<'_>, op: &Op) {
        let acquires = matches!(
            op.order.semantics(),
            Semantics::Acquire | Semantics::AcquireRelease | Semantics::SequentiallyConsistent
        );
        let (warp, id) = (cx.warp.index as usize, self.current.id);
        for Read { mask, at } in std::mem::take(&mut self.reads) {
            let hosts = match op.order.scope() {
                Scope::System => lanes_in_host_memory(cx, &at, mask),
                _ => 0,
            };
            for lane in lanes(mask) {
                let mut news = self.read(cx, at[lane], op.order.scope());
                if hosts >> lane & 1 != 0 {
                    // The host may have written what was read, after it had read what was
                    // published.
                    let tree = self.check.session.known_to_host();
                    news.push(Acquired { by: None, tree, sc: Tree::default() });
                }
                for Acquired { by, tree, sc } in news {
                    let own = &mut self.current.warps[warp];
                    if !sc.is_empty() {
                        own.hear(lane, &sc);
                    }
                    match acquires {
                        true => own.learn(1 << lane, |clock| clock.learn(&tree, id)),
                        false => own.note(lane, by, &tree),
                    }
                }
            }
        }
    }

    pub(super) fn fence(&mut self, cx: &Cx<'_>, order: Order, mask: u32) {
        let (warp, id, scope) = (cx.warp.index as usize, self.current.id, order.scope());
        let (check, tick) = (self.check, self.current.tick);
        if scope == Scope::System {
            check.tells_host();
            check.hears_host();
        }
        let own = &mut self.current.warps[warp];
        let sc = order.semantics() == Semantics::SequentiallyConsistent;
        if sc && scope >= Scope::Device && own.groups().iter().any(|team| !team.clock.sc.is_empty())
        {
            own.learn(mask, |clock| {
                let before = std::mem::take(&mut clock.sc);
                clock.learn(&before, id);
            });
        }
        if order.semantics() != Semantics::Release {
            let news = own.take_pending(mask, |news| match news.by {
                Some(by) => check.reaches(scope, id, by),
                None => scope >= Scope::Device,
            });
            for (mask, tree) in news {
                own.learn(mask, |clock| clock.learn(&tree, id));
            }
        }
        if order.semantics() != Semantics::Acquire {
            own.fence(mask, scope, tick, sc);
            self.current.tick += 1;
        }
    }
}
