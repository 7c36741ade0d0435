//! What can go wrong: errors while loading PTX, and traps while a kernel runs.

mod asynchronous;
mod load;
mod location;
mod memory;
mod race;
mod stream;
mod sync;
mod trap;

pub use asynchronous::{ClusterFault, CopyFault, MbarrierFault};
pub use load::LoadError;
pub use location::SourceLocation;
pub use memory::{Access, Accessor, Nearest, RegionKind, Space, Use};
pub(crate) use memory::{FIRST_PAGE, place};
pub use race::{Kinship, Race, RacePlace, RacingAccess};
pub use stream::{Actor, StreamAccess, StreamRace};
pub use sync::{BarrierFault, Waiting, Waits, WaitsOn};
pub use trap::{Trap, TrapKind};
