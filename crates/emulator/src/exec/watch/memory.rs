//! The check of accesses that a GPU would let pass: to another variable of shared or local memory, to
//! constants, and stores to what the launch reads as read-only.
//!
//! Where it is on, decoding leaves red zones between the variables of shared memory and of a
//! frame's local memory; an access there is out of bounds, and one that jumps over a zone into another
//! variable is not seen.

use super::race::runs::{Run, each_run};
use super::readonly::{Other, ReadOnly, Recent, reads_only};
use crate::fault::{Access, Accessor, Nearest, RegionKind, Space, TrapKind};
use crate::machine::{
    Check, Constant, Cx, Fault, Frame, LaunchContext, Observer, Place, Touch, TouchRange, Verdict,
    lanes,
};

/// Finds accesses to the wrong piece of valid memory.
pub struct MemoryCheck {
    read_only: Option<ReadOnly>,
}

impl MemoryCheck {
    /// The check of one launch.
    pub fn new(launch: &LaunchContext<'_>) -> Self {
        Self { read_only: ReadOnly::of(launch.program) }
    }
}

impl Check for MemoryCheck {
    fn observer(&self) -> Box<dyn Observer + '_> {
        let recent = self.read_only.as_ref().map(ReadOnly::recent);
        Box::new(MemoryObserver { recent, variable: 0 })
    }
}

struct MemoryObserver<'m> {
    recent: Option<Recent<'m>>,
    /// The variable of shared memory that was touched last.
    variable: usize,
}

/// A piece of memory that one lane touches.
struct Touched {
    lane: usize,
    at: u64,
    bytes: u64,
    access: Access,
}

impl Observer for MemoryObserver<'_> {
    fn sees_steps(&self) -> bool {
        false
    }

    fn touch(&mut self, cx: &Cx<'_>, frame: &mut Frame, touch: &Touch<'_>) -> Verdict {
        let bytes = u64::from(touch.bytes * touch.elements);
        let all = lanes(touch.mask).map(|lane| touch.at[lane]);
        let (low, high) = all.fold((u64::MAX, 0), |(low, high), at| (low.min(at), high.max(at)));
        match cx.cursor.remembered(low) {
            Some((_, end)) if end - high.min(end) >= bytes => {
                return self.in_allocation(cx, touch, (low, high + bytes));
            }
            _ if self.is_in_one_variable(cx, (low, high), bytes) => return Ok(()),
            _ => {}
        }
        let is_read_only = self.recent.is_some() && reads_only(touch.op);
        for lane in lanes(touch.mask) {
            let touched = Touched { lane, at: touch.at[lane], bytes, access: touch.access };
            self.piece(cx, Some(frame), &touched, is_read_only)?;
        }
        Ok(())
    }

    fn touch_range(&mut self, cx: &Cx<'_>, touch: &TouchRange) -> Verdict {
        let TouchRange { lane, at, bytes, access, .. } = *touch;
        self.piece(cx, None, &Touched { lane, at, bytes, access }, false)
    }
}

impl MemoryObserver<'_> {
    /// All lanes touch one allocation, the bytes from `low` to `end` at most: what lies side by side is looked
    /// at together.
    fn in_allocation(&mut self, cx: &Cx<'_>, touch: &Touch<'_>, (low, end): (u64, u64)) -> Verdict {
        let access = touch.access;
        let constants = &cx.launch.program.constant_variables;
        let is_near = |own: &Constant| low < own.address + own.bytes && own.address < end;
        let may_hit_constant = access != Access::Load && constants.iter().any(is_near);
        let is_read_only = self.recent.is_some() && reads_only(touch.op);
        if self.recent.is_none() && !may_hit_constant || access == Access::Load && !is_read_only {
            return Ok(());
        }
        each_run(touch.at, touch.mask, touch.bytes * touch.elements, |run| {
            self.in_global(cx, &run, access, is_read_only)
        })
    }

    /// Whether all lanes touch the same variable of shared memory as last time.
    fn is_in_one_variable(&mut self, cx: &Cx<'_>, (low, high): (u64, u64), bytes: u64) -> bool {
        let program = cx.launch.program;
        let (Place::Shared(a, from), Place::Shared(b, to)) = (cx.place(low), cx.place(high)) else {
            return false;
        };
        if program.shared_variables.is_empty() {
            return true;
        }
        let range = (from, to - from.min(to) + bytes);
        let holds = |index: usize| {
            program
                .shared_variables
                .get(index)
                .is_some_and(|own| contains((own.offset.into(), own.bytes.into()), range))
        };
        if a == b && !holds(self.variable) {
            self.variable = (0..program.shared_variables.len())
                .find(|index| holds(*index))
                .unwrap_or(self.variable);
        }
        a == b && holds(self.variable)
    }

    fn piece(
        &mut self,
        cx: &Cx<'_>,
        frame: Option<&Frame>,
        touched: &Touched,
        is_read_only: bool,
    ) -> Verdict {
        match (cx.place(touched.at), frame) {
            (Place::Shared(_, offset), _) => in_shared(cx, touched, offset),
            (Place::Local(_, offset), Some(frame)) => in_local(frame, touched, offset),
            (Place::Global, _) => {
                let Touched { lane, at, bytes, access } = *touched;
                self.in_global(cx, &Run::of_lane(lane, at, bytes), access, is_read_only)
            }
            _ => Ok(()),
        }
    }

    fn in_global(&mut self, cx: &Cx<'_>, run: &Run, access: Access, is_read_only: bool) -> Verdict {
        if access != Access::Load {
            let touches =
                |own: &&Constant| run.start < own.address + own.bytes && own.address < run.end;
            if let Some(constant) = cx.launch.program.constant_variables.iter().find(touches) {
                let address = run.start.max(constant.address);
                let lane = run.lane_at(address);
                let address = run.start + u64::from(lane - run.first) * u64::from(run.width);
                let variable = constant.name.clone();
                let kind = TrapKind::ConstantWritten { address, variable };
                return Err(Fault::new(lane as usize, kind));
            }
        }
        let Some(recent) = &mut self.recent else { return Ok(()) };
        let other = match access {
            Access::Load if is_read_only => recent.reads(cx, run),
            Access::Load => None,
            _ => recent.writes(cx, run),
        };
        other.map_or(Ok(()), |other| {
            Err(clash(cx, run.lane_at(other.address) as usize, access, &other))
        })
    }
}

/// The fault of an access to data of which the launch has read what it now writes, or the reverse.
#[cold]
fn clash(cx: &Cx<'_>, lane: usize, access: Access, other: &Other) -> Box<Fault> {
    let program = cx.launch.program;
    let other_by = other.by.map(|by| Accessor {
        block: by.block_index(cx),
        thread: by.thread_index(cx),
        ptx_line: program.line(by.pc),
        source: program.location(by.pc).cloned(),
    });
    let kind = TrapKind::ReadOnlyWritten {
        access,
        address: other.address,
        other: other_by.map(Box::new),
        region: cx.cursor.memory().nearest(other.address),
    };
    Fault::new(lane, kind)
}

fn contains((base, len): (u64, u64), (at, bytes): (u64, u64)) -> bool {
    at >= base && at + bytes <= base + len
}

/// An access to shared memory has to lie in one variable, or in the dynamic part.
fn in_shared(cx: &Cx<'_>, touched: &Touched, offset: u64) -> Verdict {
    let program = cx.launch.program;
    let range = (offset, touched.bytes);
    let dynamic = u64::from(program.shared_bytes);
    let holds = |base: u32, bytes: u32| contains((base.into(), bytes.into()), range);
    if offset >= dynamic
        || program.shared_variables.is_empty()
        || program.shared_variables.iter().any(|own| holds(own.offset, own.bytes))
    {
        return Ok(());
    }
    let all = program.shared_variables.iter();
    let nearest = all.min_by_key(|own| distance(own.offset.into(), own.bytes.into(), offset));
    let Some(own) = nearest else { return Ok(()) };
    red_zone(touched, (Space::Shared, offset), (&own.name, own.offset.into(), own.bytes.into()))
}

/// An access to the frame's own local memory has to lie in one variable.
fn in_local(frame: &Frame, touched: &Touched, at: u64) -> Verdict {
    let info = &frame.program.functions[frame.function as usize];
    let Some(offset) = at.checked_sub(frame.local_base) else { return Ok(()) };
    let range = (offset, touched.bytes);
    if offset >= info.local_bytes
        || info.locals.is_empty()
        || info.locals.iter().any(|own| contains((own.offset, own.bytes), range))
    {
        return Ok(());
    }
    let all = info.locals.iter();
    let nearest = all.min_by_key(|own| distance(own.offset, own.bytes, offset));
    let Some(own) = nearest else { return Ok(()) };
    let base = frame.local_base + own.offset;
    red_zone(touched, (Space::Local, at), (&own.name, base, own.bytes))
}

/// How far an offset is from a variable.
fn distance(base: u64, bytes: u64, offset: u64) -> u64 {
    if offset < base { base - offset } else { offset.saturating_sub(base + bytes) }
}

#[cold]
fn red_zone(
    touched: &Touched,
    (space, address): (Space, u64),
    (name, base, bytes): (&str, u64, u64),
) -> Verdict {
    let kind = if space == Space::Shared { RegionKind::Shared } else { RegionKind::Local };
    let kind = TrapKind::OutOfVariable {
        access: touched.access,
        space,
        address,
        bytes: touched.bytes,
        variable: name.to_owned(),
        nearest: Nearest { base, bytes, kind, address },
    };
    Err(Fault::new(touched.lane, kind))
}
