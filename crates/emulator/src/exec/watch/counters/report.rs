//! What a launch counted, for those who read it.

use crate::fault::{Access, SourceLocation, Space};
use crate::isa::Class;
use std::collections::BTreeMap;

/// Everything that was counted of one launch.
#[derive(Clone, Debug, Default, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Counters {
    /// The sums over all instructions.
    pub totals: Counts,
    /// What the instructions were for.
    pub classes: Vec<ClassCounts>,
    /// Each instruction that was executed, in the order of the program. One of a library stands
    /// here once for each line of the user's that called for it.
    pub instructions: Vec<InstructionCounts>,
    /// How often a barrier of a block opened.
    pub barriers_opened: u64,
    /// How many blocks a multiprocessor can hold.
    pub occupancy: Occupancy,
}

/// One instruction of the text.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct InstructionCounts {
    /// Its line in the PTX.
    pub ptx_line: u32,
    /// The line of the user's that it comes from, if the text says.
    pub source: Option<SourceLocation>,
    /// Opcode and modifiers.
    pub spelling: String,
    /// What it is for.
    pub class: Class,
    /// What was counted.
    pub counts: Counts,
    /// Some of its requests: the first ones, and the one that took most.
    pub samples: Vec<Sample>,
}

/// What was counted of some instructions.
#[derive(Clone, Debug, Default, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Counts {
    /// Executions by a warp, also those in which the guard held in no lane.
    pub instructions: u64,
    /// Lanes that took part, over all executions.
    pub lanes: u64,
    /// Lanes that were there, also those that the guard turned off.
    pub active_lanes: u64,
    /// Branches.
    pub branches: u64,
    /// Branches after which the lanes of the warp went different ways.
    pub divergent_branches: u64,
    /// Arrivals of warps at barriers of their block.
    pub barriers: u64,
    /// Operations on 32-bit floats; a product with a sum is two.
    pub float32_operations: u64,
    /// Operations on 64-bit floats.
    pub float64_operations: u64,
    /// Operations on 16-bit floats.
    pub half_operations: u64,
    /// Multiplications and additions of products of matrices.
    pub tensor_operations: u64,
    /// What memory did, by space and kind of access.
    pub memory: Vec<MemoryCounts>,
}

/// What one space did for one kind of access.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct MemoryCounts {
    /// The space.
    pub space: Space,
    /// The kind of access.
    pub access: Access,
    /// Requests of warps.
    pub requests: u64,
    /// Lanes over all requests.
    pub lanes: u64,
    /// Bytes that lanes asked for.
    pub bytes: u64,
    /// Sectors of 32 bytes, of global and local memory.
    pub sectors: u64,
    /// The fewest sectors that could hold the bytes.
    pub ideal_sectors: u64,
    /// Lines of 128 bytes that were looked up, of global and local memory.
    pub lines: u64,
    /// Wavefronts: passes over the banks of shared memory, or one for each different word of
    /// constant memory.
    pub wavefronts: u64,
    /// The wavefronts that would be needed without bank conflicts.
    pub ideal_wavefronts: u64,
    /// Lanes of atomics that found another lane of their request at the same address.
    pub colliding_lanes: u64,
    /// The most lanes of one atomic at the same address.
    pub worst_conflict: u64,
    /// Bytes of copies that go on by themselves.
    pub bulk_bytes: u64,
}

/// One request, as a picture shows it.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Sample {
    /// Number of the block in the grid.
    pub block: u64,
    /// Number of the warp in the block.
    pub warp: u32,
    /// The space.
    pub space: Space,
    /// How.
    pub access: Access,
    /// Bytes of each lane.
    pub bytes: u64,
    /// First byte of each lane, `None` where it took no part: in shared and local memory an offset,
    /// in global memory the distance from the line of 128 bytes that holds the lowest.
    pub lanes: Vec<Option<u64>>,
    /// Sectors, or passes over the banks.
    pub cost: u64,
    /// The fewest that there could be.
    pub ideal: u64,
}

/// The instructions of a class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct ClassCounts {
    /// The class.
    pub class: Class,
    /// Executions by a warp.
    pub instructions: u64,
    /// Lanes over all executions.
    pub lanes: u64,
}

/// What was counted of a line.
#[derive(Clone, Debug, PartialEq)]
pub struct LineCounts<'a> {
    /// The line; `None` for what comes from no line that is known.
    pub source: Option<&'a SourceLocation>,
    /// The sums.
    pub counts: Counts,
    /// Its instructions.
    pub instructions: Vec<&'a InstructionCounts>,
}

/// How many blocks a multiprocessor can hold, and what limits them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Occupancy {
    /// Blocks, by the limits but that of the registers.
    pub blocks: u32,
    /// Warps of these blocks.
    pub warps: u32,
    /// Warps that a multiprocessor can hold.
    pub max_warps: u32,
    /// Blocks that its threads allow.
    pub by_threads: u32,
    /// Blocks that its shared memory allows.
    pub by_shared: u32,
    /// Blocks that its slots for blocks allow.
    pub by_slots: u32,
    /// Blocks that its registers allow, if the compiler gives a thread as many as the PTX names: it
    /// needs fewer, so the real limit is higher.
    pub by_ptx_registers: u32,
}

impl Counters {
    /// The sums by line of the user's source, the first line first.
    pub fn by_line(&self) -> Vec<LineCounts<'_>> {
        let mut lines: BTreeMap<Option<(&str, u32)>, LineCounts<'_>> = BTreeMap::new();
        for own in &self.instructions {
            let source = own.source.as_ref();
            let key = source.map(|source| (source.file.as_str(), source.line));
            let line = lines.entry(key).or_insert_with(|| LineCounts {
                source,
                counts: Counts::default(),
                instructions: Vec::new(),
            });
            line.counts.add(&own.counts);
            line.instructions.push(own);
        }
        lines.into_values().collect()
    }

    /// The sums by line of the PTX.
    pub fn by_ptx_line(&self) -> BTreeMap<u32, Counts> {
        let mut lines: BTreeMap<u32, Counts> = BTreeMap::new();
        for own in &self.instructions {
            lines.entry(own.ptx_line).or_default().add(&own.counts);
        }
        lines
    }
}

impl Counts {
    /// Adds what others counted.
    pub fn add(&mut self, other: &Self) {
        self.instructions += other.instructions;
        self.lanes += other.lanes;
        self.active_lanes += other.active_lanes;
        self.branches += other.branches;
        self.divergent_branches += other.divergent_branches;
        self.barriers += other.barriers;
        self.float32_operations += other.float32_operations;
        self.float64_operations += other.float64_operations;
        self.half_operations += other.half_operations;
        self.tensor_operations += other.tensor_operations;
        for own in &other.memory {
            entry(&mut self.memory, own.space, own.access).add(own);
        }
    }

    /// What a space did for a kind of access.
    pub fn memory(&self, space: Space, access: Access) -> Option<&MemoryCounts> {
        self.memory.iter().find(|own| (own.space, own.access) == (space, access))
    }

    /// What a space did, all kinds of access together.
    pub fn of_space(&self, space: Space) -> MemoryCounts {
        let mut sum = MemoryCounts::new(space, Access::Load);
        self.memory.iter().filter(|own| own.space == space).for_each(|own| sum.add(own));
        sum
    }

    /// Lanes that were at an instruction, on average: 32 where no warp diverges.
    pub fn lanes_per_instruction(&self) -> f64 {
        ratio(self.active_lanes, self.instructions)
    }

    /// Those of them whose guard held.
    pub fn working_lanes_per_instruction(&self) -> f64 {
        ratio(self.lanes, self.instructions)
    }

    /// Floating-point operations of all kinds, those of products of matrices among them.
    pub fn operations(&self) -> u64 {
        self.float32_operations
            + self.float64_operations
            + self.half_operations
            + self.tensor_operations
    }

    /// Operations for each byte that global memory moves; `None` where it moves none.
    pub fn arithmetic_intensity(&self) -> Option<f64> {
        let moved = self.of_space(Space::Global).moved_bytes();
        (moved > 0).then(|| ratio(self.operations(), moved))
    }
}

impl MemoryCounts {
    fn new(space: Space, access: Access) -> Self {
        Self {
            space,
            access,
            requests: 0,
            lanes: 0,
            bytes: 0,
            sectors: 0,
            ideal_sectors: 0,
            lines: 0,
            wavefronts: 0,
            ideal_wavefronts: 0,
            colliding_lanes: 0,
            worst_conflict: 0,
            bulk_bytes: 0,
        }
    }

    pub(super) fn add(&mut self, other: &Self) {
        self.requests += other.requests;
        self.lanes += other.lanes;
        self.bytes += other.bytes;
        self.sectors += other.sectors;
        self.ideal_sectors += other.ideal_sectors;
        self.lines += other.lines;
        self.wavefronts += other.wavefronts;
        self.ideal_wavefronts += other.ideal_wavefronts;
        self.colliding_lanes += other.colliding_lanes;
        self.worst_conflict = self.worst_conflict.max(other.worst_conflict);
        self.bulk_bytes += other.bulk_bytes;
    }

    /// Sectors of a request, on average.
    pub fn sectors_per_request(&self) -> f64 {
        ratio(self.sectors, self.requests)
    }

    /// Sectors that a request needs, on average.
    pub fn ideal_sectors_per_request(&self) -> f64 {
        ratio(self.ideal_sectors, self.requests)
    }

    /// Passes over the banks that conflicts cost.
    pub fn conflicts(&self) -> u64 {
        self.wavefronts - self.ideal_wavefronts
    }

    /// Bytes that were moved: whole sectors, or all banks once for each pass.
    pub fn moved_bytes(&self) -> u64 {
        match self.space {
            Space::Global | Space::Local => 32 * self.sectors + self.bulk_bytes,
            Space::Shared => 128 * self.wavefronts + self.bulk_bytes,
            _ => self.bytes,
        }
    }
}

impl Occupancy {
    /// Warps that are held, of those that could be.
    pub fn fraction(&self) -> f64 {
        ratio(self.warps.into(), self.max_warps.into())
    }
}

/// The counts of a space and a kind of access, in a list that is ordered by both.
pub(super) fn entry(
    memory: &mut Vec<MemoryCounts>,
    space: Space,
    access: Access,
) -> &mut MemoryCounts {
    let key = |own: &MemoryCounts| (own.space as u8, own.access as u8);
    let own = (space as u8, access as u8);
    let at = memory.partition_point(|other| key(other) < own);
    if memory.get(at).is_none_or(|other| key(other) != own) {
        memory.insert(at, MemoryCounts::new(space, access));
    }
    &mut memory[at]
}

fn ratio(a: u64, b: u64) -> f64 {
    if b == 0 { 0.0 } else { a as f64 / b as f64 }
}
