//! What strong accesses and fences hand on: publishing and acquiring.

use super::{RaceObserver, Read};
use crate::exec::watch::race::clock::Tree;
use crate::exec::watch::race::location::{Heard, Location, Reach};
use crate::fault::RegionKind;
use crate::isa::{Order, Scope, Semantics};
use crate::machine::{Cx, Op, Place, Touch, lanes};

/// What a strong write carries.
struct News {
    scope: Scope,
    tree: Tree,
    /// Whether a `fence.sc` came before the write, and the tree is what was known then.
    by_sc_fence: bool,
}

/// Whether an address is one of the host's memory.
fn is_hosts(cx: &Cx<'_>, address: u64) -> bool {
    matches!(cx.place(address), Place::Global)
        && cx.cursor.memory().nearest(address).is_some_and(|own| own.kind == RegionKind::Host)
}

impl RaceObserver<'_> {
    /// A strong write publishes: what its lanes know if it releases, what they knew at their last fence
    /// otherwise.
    pub(super) fn publish(&mut self, cx: &Cx<'_>, op: &Op, touch: &Touch<'_>, updates: bool) {
        if op.order.scope() == Scope::System {
            self.check.tells_host();
        }
        let releases = matches!(
            op.order.semantics(),
            Semantics::Release | Semantics::AcquireRelease | Semantics::SequentiallyConsistent
        );
        let warp = cx.warp.index;
        let quiet = !releases && !self.team.warps[warp as usize].has_fenced(touch.mask);
        let nothing = !self.check.session.locations.any() && self.team.locations.is_empty();
        if quiet && (updates || nothing) {
            return;
        }
        for lane in lanes(touch.mask) {
            let news = self.news(op.order, releases, (warp, lane));
            if op.order.scope() == Scope::System && is_hosts(cx, touch.at[lane]) {
                let host = news.iter().filter(|own| own.scope == Scope::System);
                host.for_each(|own| self.check.session.publish_to_host(&own.tree));
            }
            self.write(cx, touch.at[lane], updates, &news);
        }
    }

    /// What a lane's strong write carries.
    fn news(&self, order: Order, releases: bool, (warp, lane): (u32, usize)) -> Vec<News> {
        let own = &self.team.warps[warp as usize];
        let id = self.team.id;
        let fenced = own.fences(lane).map(|fence| {
            let scope = fence.scope.min(order.scope());
            let tree = fence.know.published(id, (warp, lane), fence.tick);
            News { scope, tree, by_sc_fence: fence.sc }
        });
        let mut news: Vec<_> = fenced.collect();
        if releases {
            let tree = own.know(lane).published(id, (warp, lane), self.team.tick);
            news.push(News { scope: order.scope(), tree, by_sc_fence: false });
        }
        news
    }

    /// Gives the cell at an address what a write carries; a plain write takes away what it carried.
    fn write(&mut self, cx: &Cx<'_>, address: u64, updates: bool, news: &[News]) {
        let id = self.team.id;
        let change = |location: &mut Location| {
            if !updates {
                *location = Location::default();
            }
            news.iter().for_each(|own| location.add(id, own.scope, &own.tree, own.by_sc_fence));
        };
        match cx.place(address) {
            Place::Global => self.check.session.locations.change(address, change),
            Place::Shared(block, offset) => {
                if let Some(team) = self.team_of(block) {
                    change(team.locations.entry(offset).or_default());
                }
            }
            Place::Local(..) | Place::Param(_) => {}
        }
    }

    /// What the cell at an address carries for a reader.
    fn read(&mut self, cx: &Cx<'_>, address: u64, scope: Scope) -> Vec<Heard> {
        let (check, id) = (self.check, self.team.id);
        let look = |location: &Location| location.read(check, id, scope);
        match cx.place(address) {
            Place::Global if !check.session.locations.any() => Vec::new(),
            Place::Global => check.session.locations.look(address, look),
            Place::Shared(block, offset) => self
                .team_of(block)
                .and_then(|team| team.locations.get(&offset).map(look))
                .unwrap_or_default(),
            Place::Local(..) | Place::Param(_) => Vec::new(),
        }
    }

    /// Follows up strong reads: an acquire learns at once, another with the next fence.
    pub(super) fn follow(&mut self, cx: &Cx<'_>, op: &Op) {
        let acquires = matches!(
            op.order.semantics(),
            Semantics::Acquire | Semantics::AcquireRelease | Semantics::SequentiallyConsistent
        );
        let (warp, id) = (cx.warp.index as usize, self.team.id);
        for Read { mask, at } in std::mem::take(&mut self.reads) {
            for lane in lanes(mask) {
                let mut news = self.read(cx, at[lane], op.order.scope());
                if op.order.scope() == Scope::System && is_hosts(cx, at[lane]) {
                    // The host may have written what was read, after it had read what was published.
                    let tree = self.check.session.known_to_host();
                    news.push(Heard { by: None, tree, sc: Tree::default() });
                }
                for Heard { by, tree, sc } in news {
                    let own = &mut self.team.warps[warp];
                    if !sc.is_empty() {
                        own.hear(lane, &sc);
                    }
                    match acquires {
                        true => own.learn(1 << lane, |know| know.learn(&tree, id)),
                        false => own.note(lane, by, &tree),
                    }
                }
            }
        }
    }

    pub(super) fn fence(&mut self, cx: &Cx<'_>, order: Order, mask: u32) {
        let (warp, id, scope) = (cx.warp.index as usize, self.team.id, order.scope());
        let (check, tick) = (self.check, self.team.tick);
        if scope == Scope::System {
            check.tells_host();
            check.hears_host();
        }
        let own = &mut self.team.warps[warp];
        let sc = order.semantics() == Semantics::SequentiallyConsistent;
        if sc && scope >= Scope::Device && own.teams().iter().any(|team| !team.know.sc.is_empty()) {
            own.learn(mask, |know| {
                let before = std::mem::take(&mut know.sc);
                know.learn(&before, id);
            });
        }
        if order.semantics() != Semantics::Release {
            let news = own.take_pending(mask, |news| match news.by {
                Some(by) => check.reaches(scope, id, by),
                None => scope >= Scope::Device,
            });
            for (mask, tree) in news {
                own.learn(mask, |know| know.learn(&tree, id));
            }
        }
        if order.semantics() != Semantics::Acquire {
            own.fence(mask, scope, tick, sc);
            self.team.tick += 1;
        }
    }
}
