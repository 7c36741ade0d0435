//! The report of a data race.

use crate::fault::{Access, Nearest, SourceLocation};
use crate::isa::Scope;
use std::fmt;

/// One of the two accesses of a race.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RacingAccess {
    /// Kernel.
    pub kernel: String,
    /// Block index: x, y, z.
    pub block: [u32; 3],
    /// Thread index in its block: x, y, z.
    pub thread: [u32; 3],
    /// Line in the PTX text.
    pub ptx_line: u32,
    /// Line in the source, where the PTX says it.
    pub source: Option<SourceLocation>,
    /// Load, store or atomic.
    pub access: Access,
    /// Scope of a strong access; `None` for a weak one.
    pub strength: Option<Scope>,
    /// The stream of the launch, where it has one: `stream 65536`.
    pub stream: Option<String>,
}

impl fmt::Display for RacingAccess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ([bx, by, bz], [tx, ty, tz]) = (self.block, self.thread);
        write!(f, "{} of block ({bx},{by},{bz}), thread ({tx},{ty},{tz}), at ", self.what())?;
        match &self.source {
            Some(source) => write!(f, "{source}"),
            None => write!(f, "PTX line {}", self.ptx_line),
        }
    }
}

impl RacingAccess {
    /// ` on stream 65536`
    pub(crate) fn on_stream(&self) -> String {
        self.stream.as_ref().map(|stream| format!(" on {stream}")).unwrap_or_default()
    }

    /// `store`, `strong load`, `atomic operation of block scope`
    pub(crate) fn what(&self) -> String {
        match (self.access, self.strength) {
            (access, None) => format!("{access}"),
            (Access::Atomic, Some(scope)) => format!("{} of {} scope", Access::Atomic, name(scope)),
            (access, Some(scope)) => format!("strong {access} of {} scope", name(scope)),
        }
    }
}

fn name(scope: Scope) -> &'static str {
    match scope {
        Scope::Block => "block",
        Scope::Cluster => "cluster",
        Scope::Device => "device",
        Scope::System => "system",
    }
}

/// Where a race happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RacePlace {
    /// Device memory.
    Global {
        /// Address of the first byte.
        address: u64,
        /// The allocation that it lies in.
        allocation: Option<Nearest>,
    },
    /// The shared memory of a block.
    Shared {
        /// The block's index.
        block: [u32; 3],
        /// Offset of the first byte.
        offset: u64,
        /// The variable that it belongs to, and its offset in it. `None` for dynamic shared memory.
        variable: Option<(String, u64)>,
    },
}

impl fmt::Display for RacePlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Global { address, allocation: Some(allocation) } => {
                write!(f, "{address:#x} of global memory, {allocation}")
            }
            Self::Global { address, allocation: None } => {
                write!(f, "{address:#x} of global memory")
            }
            Self::Shared { offset, variable: Some((name, inside)), .. } => {
                write!(f, "{offset:#x} of shared memory, byte {inside} of `{name}`")
            }
            Self::Shared { offset, variable: None, .. } => {
                write!(f, "{offset:#x} of shared memory")
            }
        }
    }
}

/// What the two accesses of a race have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kinship {
    /// They are lanes of one warp, and this is one instruction of both.
    Instruction,
    /// They are lanes of one warp.
    Warp,
    /// They are in one block.
    Block,
    /// The first is part of an asynchronous copy (`cp.async`) that its thread has not waited for.
    Copy,
    /// They are in different blocks of one launch.
    Grid,
    /// They are in different launches, neither of them over when the other began, as far as the
    /// host's streams, events and waits say.
    Device,
}

/// Two accesses of different threads to the same bytes, one of them a write, that nothing orders.
///
/// The second is where the kernel was stopped; its thread and place are those of the trap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Race {
    /// The access that happened first in this run.
    pub first: RacingAccess,
    /// The other.
    pub second: RacingAccess,
    /// Where.
    pub place: RacePlace,
    /// Bytes of the second access.
    pub bytes: u32,
    /// What lies there, before the second access.
    pub found: u64,
    /// What the second would write.
    pub written: Option<u64>,
    /// What the two have in common.
    pub kinship: Kinship,
}

impl fmt::Display for Race {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "data race: {} of {} bytes", self.second.what(), self.bytes)?;
        if let Some(written) = self.written {
            write!(f, " ({written:#x}, over {:#x})", self.found)?;
        } else {
            write!(f, " ({:#x})", self.found)?;
        }
        write!(f, " at {}", self.place)
    }
}

impl Race {
    /// What it races with, and what would fix it.
    pub fn cause(&self) -> String {
        let other = match self.kinship {
            Kinship::Device => {
                let first = &self.first;
                format!("kernel `{}`{}, {first}", first.kernel, first.on_stream())
            }
            _ => self.first.to_string(),
        };
        format!("nothing orders it and the {other}; {}", self.hint())
    }

    fn hint(&self) -> &'static str {
        let strengths = (self.first.strength, self.second.strength);
        let narrow = |scope: Option<Scope>| scope.is_some_and(|scope| scope < Scope::Device);
        match self.kinship {
            Kinship::Grid | Kinship::Device
                if strengths.0.is_some()
                    && strengths.1.is_some()
                    && narrow(strengths.0.min(strengths.1)) =>
            {
                "the scope of one of them is its block or cluster, but the other thread is in another"
            }
            Kinship::Instruction => "both lanes execute this one instruction, on the same bytes",
            Kinship::Warp => {
                "the lanes of a warp run independently of each other: a barrier of the warp \
                 (bar.warp.sync) orders them, a shuffle or vote does not"
            }
            Kinship::Block if strengths.0.is_some() != strengths.1.is_some() => {
                "an atomic operation of one thread does not order the plain access of another: no \
                 barrier lies between them"
            }
            Kinship::Copy => {
                "an asynchronous copy is under way until the thread that asked for it has waited for it \
                 (cp.async.wait_group, wait_all, or an mbarrier), and other threads see it after a barrier \
                 that follows the wait"
            }
            Kinship::Block => "no barrier that both threads take part in lies between them",
            Kinship::Grid if strengths.0.is_some() != strengths.1.is_some() => {
                "one of them is a plain access, and no release of the one block (a fence and then an \
                 atomic or strong store) was acquired by the other (an atomic or strong load and \
                 then a fence) at device scope"
            }
            Kinship::Grid => {
                "blocks run in any order: a release of the one block (a fence and then an atomic or \
                 strong store) that the other acquires (an atomic or strong load and then a fence), \
                 at device scope, would order them"
            }
            Kinship::Device => {
                "neither launch was over for certain when the other began: no stream, event or wait of \
                 the host orders them"
            }
        }
    }
}
