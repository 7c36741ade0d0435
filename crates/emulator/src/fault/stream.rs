//! The report of a race between operations of different streams.

use crate::fault::{Nearest, RacingAccess};
use std::fmt;

/// Who touched memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Actor {
    /// A thread of a kernel.
    Kernel(RacingAccess),
    /// A copy or a fill, or the host itself, in words: `copy of 4096 bytes from 0x1000 to 0x2000`.
    Transfer(String),
}

/// One of the two sides of a race between streams.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamAccess {
    /// Who.
    pub actor: Actor,
    /// In which stream, in words: `stream 65536`, `the null stream`, `the host`.
    pub stream: String,
    /// Whether it writes there.
    pub writes: bool,
}

impl fmt::Display for StreamAccess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.actor {
            Actor::Kernel(access) => {
                write!(f, "kernel `{}` on {}, {access}", access.kernel, self.stream)
            }
            Actor::Transfer(what) => write!(f, "{what}, on {}", self.stream),
        }
    }
}

/// Two operations that touch the same bytes, at least one of them writing, of which neither is over for
/// certain when the other begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamRace {
    /// The one that came first in this run.
    pub first: StreamAccess,
    /// The other. It was not carried out.
    pub second: StreamAccess,
    /// The first byte that both touch.
    pub address: u64,
    /// How many they share there without a gap.
    pub bytes: u64,
    /// The allocation that they lie in.
    pub allocation: Option<Nearest>,
}

impl StreamRace {
    /// What happened, and where.
    pub(crate) fn head(&self) -> String {
        let verb = |writes| if writes { "written" } else { "read" };
        let place = match &self.allocation {
            Some(allocation) => format!("{:#x}, {allocation}", self.address),
            None => format!("{:#x}", self.address),
        };
        format!(
            "race between streams: {} bytes at {place}, are {} by one operation and {} by another",
            self.bytes,
            verb(self.first.writes),
            verb(self.second.writes),
        )
    }

    /// The two sides, and what would mend it.
    pub(crate) fn cause(&self) -> String {
        format!(
            "the {} and the {}: no stream, event or wait of the host orders them",
            self.first, self.second
        )
    }
}

impl fmt::Display for StreamRace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.head(), self.cause())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fault::RegionKind;

    #[test]
    fn a_report_names_both_operations() {
        let side = |what: &str, stream: &str, writes| StreamAccess {
            actor: Actor::Transfer(what.to_owned()),
            stream: stream.to_owned(),
            writes,
        };
        let race = StreamRace {
            first: side("copy of 64 bytes from 0x10 to 0x1000", "stream 7", true),
            second: side("fill of 32 bytes at 0x1020", "the null stream", true),
            address: 0x1020,
            bytes: 32,
            allocation: Some(Nearest {
                base: 0x1000,
                bytes: 256,
                kind: RegionKind::Allocation,
                address: 0x1020,
            }),
        };
        assert_eq!(
            race.to_string(),
            "race between streams: 32 bytes at 0x1020, 32 bytes into the 256-byte allocation at \
             0x1000, are written by one operation and written by another: the copy of 64 bytes \
             from 0x10 to 0x1000, on stream 7 and the fill of 32 bytes at 0x1020, on the null \
             stream: no stream, event or wait of the host orders them"
        );
    }
}
