//! Compares each access with shadow memory, with copies that are not complete, and with the host's
//! transfers.

use super::RaceObserver;
use super::warp_view::{Values, WarpView};
use crate::exec::watch::race::report;
use crate::exec::watch::race::runs::Run;
use crate::exec::watch::race::shadow::{AccessKind, CELL_BYTES, Conflict, ShadowAccess};
use crate::exec::watch::race::transfer::Transfer;
use crate::fault::{Access, Kinship, TrapKind};
use crate::isa::Order;
use crate::machine::{Cx, Fault, MemoryLocation, Verdict};
use std::sync::atomic::Ordering;

/// An access of a warp, or of a lane, to bytes of one space.
pub(super) struct Request {
    pub(super) warp: u32,
    pub(super) pc: u32,
    pub(super) kind: AccessKind,
    pub(super) bytes: u32,
    pub(super) written: bool,
}

impl RaceObserver<'_> {
    /// A run of lanes touches memory: its lines are compared one by one.
    pub(super) fn run(
        &mut self,
        cx: &Cx<'_>,
        request: &Request,
        run: &Run,
        values: Option<&Values<'_>>,
    ) -> Verdict {
        let (base, own) = match cx.place(run.start) {
            MemoryLocation::Global => (run.start, None),
            MemoryLocation::Shared(block, offset) => (offset, Some(block)),
            MemoryLocation::Local(..) | MemoryLocation::Param(_) => return Ok(()),
        };
        if !self.pending_copies.is_empty() {
            self.check_pending_copies(cx, request, run, values)?;
        }
        let mut start = base;
        let end = base + (run.end - run.start);
        while start < end {
            let stop = (start / CELL_BYTES + 1) * CELL_BYTES;
            let stripe = self.stripe(request, run, (base, start), stop.min(end));
            let warp_view = WarpView {
                check: self.check,
                block: self.current.id,
                lanes: &self.current.warps[request.warp as usize],
                floor: self.current.warps[request.warp as usize].floor(),
                values,
                line: (start - start % CELL_BYTES).wrapping_sub(base).wrapping_add(run.start),
                reached: &self.reached,
            };
            let result = match own {
                None => self
                    .pages
                    .with(&self.check.session.pages, start, |line| line.touch(&warp_view, stripe)),
                Some(number) if number == self.current.number => {
                    let line = &mut self.current.shared[(start / CELL_BYTES) as usize];
                    line.pass(warp_view.block, warp_view.block, warp_view.floor);
                    line.touch(&warp_view, stripe)
                }
                Some(number) => match self.others.get_mut(&number) {
                    Some(owner) => {
                        let line = &mut owner.shared[(start / CELL_BYTES) as usize];
                        line.pass(owner.id, warp_view.block, 0);
                        line.touch(&warp_view, stripe)
                    }
                    None => Ok(()),
                },
            };
            if let Err(conflict) = result {
                let at = warp_view.line + u64::from(conflict.offset);
                let kinship = self.kinship(request, &conflict);
                return Err(self.race(cx, request, (&conflict, kinship), at, values));
            }
            start = stop;
        }
        match own {
            None => self.check_transfers(cx, request, run),
            Some(_) => Ok(()),
        }
    }

    /// A run of lanes touches memory: it is compared with the copies that threads have under way.
    fn check_pending_copies(
        &self,
        cx: &Cx<'_>,
        request: &Request,
        run: &Run,
        values: Option<&Values<'_>>,
    ) -> Verdict {
        let access = request.kind.access();
        let Some(own) = self.pending_copies.find(run.start, run.end, access) else { return Ok(()) };
        let at = own.start.max(run.start);
        let old = ShadowAccess {
            block: own.block,
            lanes: 1 << own.lane,
            pc: own.pc,
            warp: own.warp as u8,
            kind: AccessKind::new(own.access, Order::WEAK),
            ..ShadowAccess::default()
        };
        let lane = run.lane_at(at) as usize;
        let conflict = Conflict { old, old_lane: own.lane, lane, offset: 0 };
        Err(self.race(cx, request, (&conflict, Kinship::Copy), at, values))
    }

    /// A run of lanes has touched device memory: it is compared with the host's copies.
    pub(super) fn check_transfers(&mut self, cx: &Cx<'_>, request: &Request, run: &Run) -> Verdict {
        let changes = self.check.session.changes.load(Ordering::Acquire);
        if self.transfers.0 != changes {
            self.transfers = (changes, self.check.transfers_beside());
        }
        let stores = request.kind.access() != Access::Load;
        for transfer in &self.transfers.1 {
            for (area, writes) in transfer.areas.iter().filter(|(_, writes)| stores || *writes) {
                if let Some(shared) = area.shared(run.start, run.end)
                    && !self.check.may_know(transfer)
                    && !self.has_reached(request.warp, run.lanes, transfer)
                {
                    let lane = run.lane_at(shared.0) as usize;
                    let access = (self.current.id, request.warp, lane, request.pc, request.kind);
                    let race = report::kernel_second(
                        (self.check, access),
                        (transfer, *writes),
                        shared,
                        cx.cursor.memory(),
                    );
                    return Err(Fault::new(lane, TrapKind::StreamRace(Box::new(race))));
                }
            }
        }
        Ok(())
    }

    /// Whether other launches lead from a transfer to all of these lanes.
    fn has_reached(&self, warp: u32, lanes: u32, transfer: &Transfer) -> bool {
        let groups = self.current.warps[warp as usize].groups().iter();
        groups.filter(|group| group.mask & lanes != 0).all(|group| {
            self.reached.get(self.check, &group.clock.others).follows(&transfer.moment)
        })
    }

    /// The part of a run that lies in one line, up to `end`.
    fn stripe(
        &self,
        request: &Request,
        run: &Run,
        (base, start): (u64, u64),
        end: u64,
    ) -> ShadowAccess {
        let whole = ShadowAccess {
            block: self.current.id,
            tick: self.current.tick,
            lanes: run.lanes,
            pc: request.pc,
            warp: request.warp as u8,
            start: (start % CELL_BYTES) as u8,
            end: (end - (start - start % CELL_BYTES)) as u8,
            width: run.width as u8,
            first: run.first as u8,
            kind: request.kind,
        };
        if run.width == 0 {
            return whole;
        }
        let skipped = ((start - base) / u64::from(run.width)) as u32;
        let count = ((end - start) / u64::from(run.width)) as u32;
        let first = run.first + skipped;
        let lanes = (u64::MAX >> (64 - count) << first) as u32;
        ShadowAccess { lanes, first: first as u8, ..whole }
    }

    fn race(
        &self,
        cx: &Cx<'_>,
        request: &Request,
        (conflict, kinship): (&Conflict, Kinship),
        at: u64,
        values: Option<&Values<'_>>,
    ) -> Box<Fault> {
        let lane = conflict.lane;
        let start = values.map_or(at, |values| values.touch.at[lane]);
        let element = request.bytes.min(8);
        let start = start + (at - start) / u64::from(element) * u64::from(element);
        let written = values.filter(|_| request.written).map(|values| {
            values.element(lane, ((start - values.touch.at[lane]) / u64::from(element)) as u32)
        });
        let race = report::race(
            cx,
            self.check,
            &report::SecondAccess {
                conflict,
                pc: request.pc,
                kind: request.kind,
                block: self.current.id,
                warp: request.warp,
                address: start,
                bytes: element,
                written,
                kinship,
            },
        );
        Fault::new(lane, TrapKind::Race(Box::new(race)))
    }

    fn kinship(&self, request: &Request, conflict: &Conflict) -> Kinship {
        let old = &conflict.old;
        if old.block != self.current.id {
            return match self.check.owns(old.block) {
                true => Kinship::Grid,
                false => Kinship::Device,
            };
        }
        match (
            u32::from(old.warp) == request.warp,
            old.pc == request.pc && old.tick == self.current.tick,
        ) {
            (true, true) => Kinship::Instruction,
            (true, false) => Kinship::Warp,
            (false, _) => Kinship::Block,
        }
    }

    /// Lanes of one store write different values to the same place.
    pub(super) fn same_place(
        &mut self,
        cx: &Cx<'_>,
        request: &Request,
        run: &Run,
        lane: usize,
        values: &Values<'_>,
    ) -> Verdict {
        if !matches!(cx.place(run.start), MemoryLocation::Global | MemoryLocation::Shared(..)) {
            return Ok(());
        }
        if request.kind.strength().is_some() {
            return self.run(cx, request, run, Some(values));
        }
        let old = ShadowAccess {
            block: self.current.id,
            tick: self.current.tick,
            lanes: run.lanes,
            pc: request.pc,
            warp: request.warp as u8,
            kind: request.kind,
            ..ShadowAccess::default()
        };
        let conflict = Conflict { old, old_lane: run.first as usize, lane, offset: 0 };
        let kinship = self.kinship(request, &conflict);
        Err(self.race(cx, request, (&conflict, kinship), run.start, Some(values)))
    }
}
