//! Counters: what each instruction of a launch did, and what it cost in memory.
//!
//! [`Counting`] goes with a launch like a check that finds nothing. Its observers keep a table for each
//! CPU thread, and add it to the whole when the thread is through.

mod report;
mod request;
mod work;

pub use crate::isa::Class;
pub use report::{
    ClassCounts, Counters, Counts, InstructionCounts, LineCounts, MemoryCounts, Occupancy, Sample,
};
pub use request::{Banks, Crowd, Request, Sectors};
pub use work::Work;

use report::entry;

use crate::fault::{Access, Space};
use crate::machine::Cx;
use crate::machine::{CONSTANT, LANES, Op, Program, Row64};
use crate::machine::{Check, Observer, Place, Touch, TouchRange, Verdict};
use crate::machine::{Frame, lanes};
use crate::program::is_library;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, PoisonError};

/// The first requests of an instruction that are kept.
const FIRST_SAMPLES: usize = 3;

/// What is known of an operation before it runs.
struct Fact {
    class: Class,
    work: Work,
    /// The space, where the text names it.
    space: Option<Space>,
    /// Whether it is a branch, and whether it is one by a table.
    branch: Option<Branch>,
    /// Whether it adds one to shared memory and nobody reads what was there.
    counts_up: bool,
    /// Whether it comes from a library's line.
    library: bool,
    /// The operation that counts for its instruction.
    owner: u32,
}

/// A kind of branch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Branch {
    /// To one place.
    Jump,
    /// To an entry of a table.
    Table,
}

/// What was counted of an operation.
#[derive(Default)]
struct Cell {
    instructions: u64,
    lanes: u64,
    active_lanes: u64,
    divergent: u64,
    memory: Vec<MemoryCounts>,
    /// The first requests.
    first: Vec<Sample>,
    /// A later one that took more than they did.
    worst: Option<Sample>,
}

/// What was counted by a CPU thread, or by all.
#[derive(Default)]
struct Tally {
    cells: Vec<Cell>,
    /// Operations of a library's functions, by the user's call that led there.
    called: HashMap<(u32, u32), Cell>,
    barriers_opened: u64,
}

/// The counters of one launch.
pub struct Counting<'p> {
    program: &'p Program,
    facts: Vec<Fact>,
    whole: Mutex<Tally>,
}

impl<'p> Counting<'p> {
    /// Counters of a launch of a program.
    pub fn new(program: &'p Program) -> Self {
        let facts = (0..program.ops.len() as u32).map(|pc| Fact::new(program, pc)).collect();
        Self { program, facts, whole: Mutex::default() }
    }

    /// What was counted, once the launch is over.
    pub fn finish(self, occupancy: Occupancy) -> Counters {
        let whole = self.whole.into_inner().unwrap_or_else(PoisonError::into_inner);
        let mut out =
            Counters { barriers_opened: whole.barriers_opened, occupancy, ..Counters::default() };
        let own = whole.cells.into_iter().enumerate().map(|(pc, cell)| ((pc as u32, 0), cell));
        let called = whole.called.into_iter().map(|((call, pc), cell)| ((pc, call), cell));
        let mut cells: Vec<_> = own.chain(called).filter(|(_, cell)| cell.was_used()).collect();
        cells.sort_by_key(|(key, _)| *key);
        let mut classes: BTreeMap<Class, ClassCounts> = BTreeMap::new();
        for ((pc, call), cell) in cells {
            let fact = &self.facts[pc as usize];
            let place = if call > 0 { call - 1 } else { pc };
            let instruction = InstructionCounts {
                ptx_line: self.program.line(pc),
                source: self.program.location(place).cloned(),
                spelling: self.program.spelling(pc).to_owned(),
                class: fact.class,
                counts: cell.counts(fact),
                samples: cell.first.into_iter().chain(cell.worst).collect(),
            };
            let class = classes.entry(fact.class).or_insert(ClassCounts {
                class: fact.class,
                instructions: 0,
                lanes: 0,
            });
            class.instructions += instruction.counts.instructions;
            class.lanes += instruction.counts.lanes;
            out.totals.add(&instruction.counts);
            out.instructions.push(instruction);
        }
        out.classes = classes.into_values().collect();
        out
    }
}

impl Check for &Counting<'_> {
    fn observer(&self) -> Box<dyn Observer + '_> {
        let mut tally = Tally::default();
        tally.cells.resize_with(self.facts.len(), Cell::default);
        Box::new(Counter { counting: self, tally })
    }
}

impl Fact {
    fn new(program: &Program, pc: u32) -> Self {
        let spelling = program.spelling(pc);
        Self {
            class: program.spelled(pc).class,
            work: Work::of(program.spelled(pc)),
            branch: match spelling.split('.').next() {
                Some("bra") => Some(Branch::Jump),
                Some("brx") => Some(Branch::Table),
                _ => None,
            },
            space: spelled_space(spelling),
            counts_up: counts_up(program, pc),
            library: program.location(pc).is_some_and(|own| is_library(&own.file)),
            owner: owner(program, pc),
        }
    }
}

/// The space that an instruction names; `None` where its addresses tell.
fn spelled_space(spelling: &str) -> Option<Space> {
    spelling.split('.').find_map(|word| match word {
        "global" => Some(Space::Global),
        "shared" | "shared::cta" => Some(Space::Shared),
        "local" => Some(Space::Local),
        "const" => Some(Space::Const),
        _ => None,
    })
}

/// Whether an instruction adds one to shared memory, and no instruction reads the register that receives
/// what was there.
fn counts_up(program: &Program, pc: u32) -> bool {
    let op = &program.ops[pc as usize];
    let words: Vec<&str> = program.spelling(pc).split('.').collect();
    let has = |wanted: &[&str]| words.iter().any(|word| wanted.contains(word));
    let adds = matches!(words[0], "atom" | "red")
        && op.weight > 0
        && has(&["add"])
        && has(&["shared", "shared::cta"])
        && has(&["u32", "s32"]);
    let constant = || program.constants32.get((op.slots[1] & !CONSTANT) as usize);
    let one = || op.slots[1] & CONSTANT != 0 && constant().is_some_and(|row| row[0] == 1);
    let unread = || {
        let own = program.effect(pc).map_or(&[][..], |effect| effect.writes.as_slice());
        !program.effects.iter().any(|other| other.reads.iter().any(|read| own.contains(read)))
    };
    adds && one() && unread()
}

/// The operation that counts for an instruction: itself, the nearest before it, or that behind it.
fn owner(program: &Program, pc: u32) -> u32 {
    let line = program.line(pc);
    let counts = |at: &u32| program.ops[*at as usize].weight > 0;
    let same = |at: &u32| program.line(*at) == line;
    let before = (0..=pc).rev().take_while(same).find(counts);
    let last = program.ops.len() as u32;
    before.or_else(|| (pc..last).take_while(same).find(counts)).unwrap_or(pc)
}

impl Cell {
    fn was_used(&self) -> bool {
        self.instructions > 0 || !self.memory.is_empty()
    }

    fn counts(&self, fact: &Fact) -> Counts {
        let per_lane = self.lanes * fact.work.per_lane;
        let of = |class: Class| if fact.class == class { per_lane } else { 0 };
        let executions_if = |is: bool| if is { self.instructions } else { 0 };
        Counts {
            instructions: self.instructions,
            lanes: self.lanes,
            active_lanes: self.active_lanes,
            branches: executions_if(fact.branch.is_some()),
            divergent_branches: self.divergent,
            barriers: executions_if(fact.class == Class::Barrier),
            float32_operations: of(Class::Float32),
            float64_operations: of(Class::Float64),
            half_operations: of(Class::Half),
            tensor_operations: self.instructions * fact.work.per_warp,
            memory: self.memory.clone(),
        }
    }

    fn add(&mut self, other: Self) {
        self.instructions += other.instructions;
        self.lanes += other.lanes;
        self.active_lanes += other.active_lanes;
        self.divergent += other.divergent;
        for own in &other.memory {
            entry(&mut self.memory, own.space, own.access).add(own);
        }
        self.first.extend(other.first);
        self.first.sort_by_key(|sample| sample.block);
        let rest = self.first.split_off(self.first.len().min(FIRST_SAMPLES));
        for sample in rest.into_iter().chain(other.worst) {
            self.keep(sample);
        }
    }

    /// Keeps a request if it is among the first, or took more than the others.
    fn keep(&mut self, sample: Sample) {
        if self.first.len() < FIRST_SAMPLES {
            self.first.push(sample);
        } else if self.wants(sample.cost) {
            self.worst = Some(sample);
        }
    }

    /// Whether a request of that cost would be kept.
    fn wants(&self, cost: u64) -> bool {
        let mut kept = self.first.iter().chain(&self.worst);
        self.first.len() < FIRST_SAMPLES || kept.all(|own| own.cost < cost)
    }
}

impl Tally {
    /// The counters of an operation in a frame.
    fn cell(&mut self, fact: &Fact, frame: &Frame) -> &mut Cell {
        match fact.library && frame.called_at > 0 {
            true => self.called.entry((frame.called_at, fact.owner)).or_default(),
            false => &mut self.cells[fact.owner as usize],
        }
    }

    fn add(&mut self, other: Self) {
        if self.cells.len() < other.cells.len() {
            self.cells.resize_with(other.cells.len(), Cell::default);
        }
        self.cells.iter_mut().zip(other.cells).for_each(|(own, other)| own.add(other));
        for (key, cell) in other.called {
            self.called.entry(key).or_default().add(cell);
        }
        self.barriers_opened += other.barriers_opened;
    }
}

/// Counts for one CPU thread.
struct Counter<'c> {
    counting: &'c Counting<'c>,
    tally: Tally,
}

impl Drop for Counter<'_> {
    fn drop(&mut self) {
        let own = std::mem::take(&mut self.tally);
        self.counting.whole.lock().unwrap_or_else(PoisonError::into_inner).add(own);
    }
}

impl Counter<'_> {
    fn count(&mut self, cx: &Cx<'_>, frame: &Frame, op: &Op, mask: u32) {
        if op.weight == 0 {
            return;
        }
        let fact = &self.counting.facts[cx.pc as usize];
        let cell = self.tally.cell(fact, frame);
        cell.instructions += 1;
        cell.lanes += u64::from(mask.count_ones());
        cell.active_lanes += u64::from(cx.active.count_ones());
    }

    /// Notes whether the lanes that executed a branch part from the others, or from one another.
    fn branch(&mut self, cx: &Cx<'_>, frame: &Frame, mask: u32) {
        let fact = &self.counting.facts[cx.pc as usize];
        let Some(branch) = fact.branch else { return };
        let first = cx.targets[mask.trailing_zeros() as usize % LANES];
        let part = branch == Branch::Table && lanes(mask).any(|lane| cx.targets[lane] != first);
        self.tally.cell(fact, frame).divergent += u64::from(part || mask != cx.active);
    }

    /// A request whose addresses tell the space.
    fn by_place(&mut self, cx: &Cx<'_>, frame: &Frame, whole: &Request<'_>) {
        const SPACES: [Space; 4] = [Space::Global, Space::Shared, Space::Local, Space::Param];
        let (mut masks, mut rows): ([u32; 4], [Row64; 4]) = ([0; 4], [[0; LANES]; 4]);
        for lane in lanes(whole.mask) {
            let (space, at) = match cx.place(whole.at[lane]) {
                Place::Global => (0, whole.at[lane]),
                Place::Shared(_, at) => (1, at),
                Place::Local(_, at) => (2, at),
                Place::Param(at) => (3, at),
            };
            masks[space] |= 1 << lane;
            rows[space][lane] = at;
        }
        for (space, (mask, at)) in SPACES.into_iter().zip(masks.into_iter().zip(&rows)) {
            if mask != 0 {
                self.request(cx, frame, &Request { at, mask, ..*whole }, space);
            }
        }
    }

    /// One request of a warp to one space.
    fn request(&mut self, cx: &Cx<'_>, frame: &Frame, request: &Request<'_>, space: Space) {
        let fact = &self.counting.facts[cx.pc as usize];
        let cell = self.tally.cell(fact, frame);
        let memory = entry(&mut cell.memory, space, request.access);
        let lanes_in = u64::from(request.mask.count_ones());
        memory.requests += 1;
        memory.lanes += lanes_in;
        memory.bytes += lanes_in * request.bytes;
        if request.access == Access::Atomic {
            let crowd = request.crowd();
            memory.colliding_lanes += lanes_in - crowd.distinct;
            memory.largest_crowd = memory.largest_crowd.max(crowd.largest);
        }
        let (cost, ideal) = match space {
            Space::Shared => {
                let Banks { wavefronts, ideal } = request.banks();
                memory.wavefronts += wavefronts;
                memory.ideal_wavefronts += ideal;
                (wavefronts, ideal)
            }
            Space::Global | Space::Local => {
                let sectors = match space {
                    Space::Local => request.local_sectors(),
                    _ => request.sectors(),
                };
                memory.sectors += sectors.moved;
                memory.ideal_sectors += sectors.ideal;
                memory.lines += sectors.lines;
                (sectors.moved, sectors.ideal)
            }
            _ => {
                let distinct = request.crowd().distinct;
                memory.wavefronts += distinct;
                memory.ideal_wavefronts += 1;
                (distinct, 1)
            }
        };
        if cell.wants(cost) {
            cell.keep(sample(cx, request, space, (cost, ideal)));
        }
    }
}

fn sample(cx: &Cx<'_>, request: &Request<'_>, space: Space, (cost, ideal): (u64, u64)) -> Sample {
    let Request { at, mask, bytes, access, .. } = *request;
    let base = match space {
        Space::Shared | Space::Local => 0,
        _ => lanes(mask).map(|lane| at[lane]).min().unwrap_or(0) / 128 * 128,
    };
    let place = |lane: usize| (mask >> lane & 1 != 0).then(|| at[lane] - base);
    Sample {
        block: cx.block.number,
        warp: cx.warp.index,
        space,
        access,
        bytes,
        lanes: (0..LANES).map(place).collect(),
        cost,
        ideal,
    }
}

impl Observer for Counter<'_> {
    fn step(&mut self, cx: &Cx<'_>, frame: &mut Frame, op: &Op, mask: u32) -> Verdict {
        // A barrier is executed where warps arrive at it, not where they leave it.
        if self.counting.facts[cx.pc as usize].class == Class::Barrier {
            self.count(cx, frame, op, mask);
        }
        Ok(())
    }

    fn skips(&mut self, cx: &Cx<'_>, frame: &Frame, op: &Op) {
        self.count(cx, frame, op, 0);
    }

    fn done(&mut self, cx: &Cx<'_>, frame: &mut Frame, op: &Op, mask: u32) {
        let class = self.counting.facts[cx.pc as usize].class;
        if class != Class::Barrier {
            self.count(cx, frame, op, mask);
        }
        self.branch(cx, frame, mask);
    }

    fn touch(&mut self, cx: &Cx<'_>, frame: &mut Frame, touch: &Touch<'_>) -> Verdict {
        let bytes = u64::from(touch.bytes) * u64::from(touch.elements);
        let fact = &self.counting.facts[cx.pc as usize];
        let (mask, access, counts_up) = (touch.mask, touch.access, fact.counts_up);
        let whole = Request { at: touch.at, mask, bytes, access, counts_up };
        match fact.space {
            Some(space @ (Space::Global | Space::Const)) => self.request(cx, frame, &whole, space),
            _ => self.by_place(cx, frame, &whole),
        }
        Ok(())
    }

    fn touch_range(&mut self, cx: &Cx<'_>, touch: &TouchRange) -> Verdict {
        let fact = &self.counting.facts[cx.pc as usize];
        let space = match cx.place(touch.at) {
            Place::Global => Space::Global,
            Place::Shared(..) => Space::Shared,
            Place::Local(..) => Space::Local,
            Place::Param(_) => Space::Param,
        };
        let cell = &mut self.tally.cells[fact.owner as usize];
        entry(&mut cell.memory, space, touch.access).bulk_bytes += touch.bytes;
        Ok(())
    }

    fn opens(&mut self, _: &Cx<'_>, _: u32, _: &[u32]) {
        self.tally.barriers_opened += 1;
    }
}
