//! Accesses are compared with what the shadow knows.

use super::RaceObserver;
use super::eye::{Eye, Values};
use crate::exec::watch::race::report;
use crate::exec::watch::race::runs::Run;
use crate::exec::watch::race::shadow::{Clash, Kind, LINE, Stripe};
use crate::fault::{Access, Kinship, TrapKind};
use crate::isa::Order;
use crate::machine::{Cx, Fault, Place, Verdict};
use std::sync::atomic::Ordering;

/// An access of a warp, or of a lane, to bytes of one space.
pub(super) struct Request {
    pub(super) warp: u32,
    pub(super) pc: u32,
    pub(super) kind: Kind,
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
            Place::Global => (run.start, None),
            Place::Shared(block, offset) => (offset, Some(block)),
            Place::Local(..) | Place::Param(_) => return Ok(()),
        };
        if !self.flights.is_empty() {
            self.beside_flights(cx, request, run, values)?;
        }
        let mut start = base;
        let end = base + (run.end - run.start);
        while start < end {
            let stop = (start / LINE + 1) * LINE;
            let stripe = self.stripe(request, run, (base, start), stop.min(end));
            let eye = Eye {
                check: self.check,
                block: self.team.id,
                lanes: &self.team.warps[request.warp as usize],
                floor: self.team.warps[request.warp as usize].floor(),
                values,
                line: (start - start % LINE).wrapping_sub(base).wrapping_add(run.start),
            };
            let result = match own {
                None => self
                    .pages
                    .with(&self.check.session.pages, start, |line| line.touch(&eye, stripe)),
                Some(number) if number == self.team.number => {
                    let line = &mut self.team.shared[(start / LINE) as usize];
                    line.pass(eye.block, eye.block, eye.floor);
                    line.touch(&eye, stripe)
                }
                Some(number) => match self.others.get_mut(&number) {
                    Some(owner) => {
                        let line = &mut owner.shared[(start / LINE) as usize];
                        line.pass(owner.id, eye.block, 0);
                        line.touch(&eye, stripe)
                    }
                    None => Ok(()),
                },
            };
            if let Err(clash) = result {
                let at = eye.line + u64::from(clash.offset);
                let kinship = self.kinship(request, &clash);
                return Err(self.race(cx, request, (&clash, kinship), at, values));
            }
            start = stop;
        }
        match own {
            None => self.beside_transfers(cx, request, run),
            Some(_) => Ok(()),
        }
    }

    /// A run of lanes touches memory: it is compared with the copies that threads have under way.
    fn beside_flights(
        &self,
        cx: &Cx<'_>,
        request: &Request,
        run: &Run,
        values: Option<&Values<'_>>,
    ) -> Verdict {
        let access = request.kind.access();
        let Some(own) = self.flights.find(run.start, run.end, access) else { return Ok(()) };
        let at = own.start.max(run.start);
        let old = Stripe {
            block: own.block,
            lanes: 1 << own.lane,
            pc: own.pc,
            warp: own.warp as u8,
            kind: Kind::new(own.access, Order::WEAK),
            ..Stripe::default()
        };
        let lane = run.lane_at(at) as usize;
        let clash = Clash { old, old_lane: own.lane, lane, offset: 0 };
        Err(self.race(cx, request, (&clash, Kinship::Copy), at, values))
    }

    /// A run of lanes has touched device memory: it is compared with the host's copies.
    pub(super) fn beside_transfers(
        &mut self,
        cx: &Cx<'_>,
        request: &Request,
        run: &Run,
    ) -> Verdict {
        let changes = self.check.session.changes.load(Ordering::Acquire);
        if self.transfers.0 != changes {
            self.transfers = (changes, self.check.transfers_beside());
        }
        let stores = request.kind.access() != Access::Load;
        for transfer in &self.transfers.1 {
            for (area, writes) in transfer.areas.iter().filter(|(_, writes)| stores || *writes) {
                if let Some(shared) = area.shared(run.start, run.end)
                    && !self.check.may_know(transfer)
                {
                    let lane = run.lane_at(shared.0) as usize;
                    let access = (self.team.id, request.warp, lane, request.pc, request.kind);
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

    /// The part of a run that lies in one line, up to `end`.
    fn stripe(&self, request: &Request, run: &Run, (base, start): (u64, u64), end: u64) -> Stripe {
        let whole = Stripe {
            block: self.team.id,
            tick: self.team.tick,
            lanes: run.lanes,
            pc: request.pc,
            warp: request.warp as u8,
            start: (start % LINE) as u8,
            end: (end - (start - start % LINE)) as u8,
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
        Stripe { lanes, first: first as u8, ..whole }
    }

    fn race(
        &self,
        cx: &Cx<'_>,
        request: &Request,
        (clash, kinship): (&Clash, Kinship),
        at: u64,
        values: Option<&Values<'_>>,
    ) -> Box<Fault> {
        let lane = clash.lane;
        let start = values.map_or(at, |values| values.touch.at[lane]);
        let element = request.bytes.min(8);
        let start = start + (at - start) / u64::from(element) * u64::from(element);
        let written = values.filter(|_| request.written).map(|values| {
            values.element(lane, ((start - values.touch.at[lane]) / u64::from(element)) as u32)
        });
        let race = report::race(
            cx,
            self.check,
            &report::Found {
                clash,
                pc: request.pc,
                kind: request.kind,
                block: self.team.id,
                warp: request.warp,
                address: start,
                bytes: element,
                written,
                kinship,
            },
        );
        Fault::new(lane, TrapKind::Race(Box::new(race)))
    }

    fn kinship(&self, request: &Request, clash: &Clash) -> Kinship {
        let old = &clash.old;
        if old.block != self.team.id {
            return match self.check.owns(old.block) {
                true => Kinship::Grid,
                false => Kinship::Device,
            };
        }
        match (
            u32::from(old.warp) == request.warp,
            old.pc == request.pc && old.tick == self.team.tick,
        ) {
            (true, true) => Kinship::Instruction,
            (true, false) => Kinship::Warp,
            (false, _) => Kinship::Block,
        }
    }

    // ---- publishing and acquiring

    /// Lanes of one store write different values to the same place.
    pub(super) fn same_place(
        &mut self,
        cx: &Cx<'_>,
        request: &Request,
        run: &Run,
        lane: usize,
        values: &Values<'_>,
    ) -> Verdict {
        if !matches!(cx.place(run.start), Place::Global | Place::Shared(..)) {
            return Ok(());
        }
        if request.kind.strength().is_some() {
            return self.run(cx, request, run, Some(values));
        }
        let old = Stripe {
            block: self.team.id,
            tick: self.team.tick,
            lanes: run.lanes,
            pc: request.pc,
            warp: request.warp as u8,
            kind: request.kind,
            ..Stripe::default()
        };
        let clash = Clash { old, old_lane: run.first as usize, lane, offset: 0 };
        let kinship = self.kinship(request, &clash);
        Err(self.race(cx, request, (&clash, kinship), run.start, Some(values)))
    }
}
