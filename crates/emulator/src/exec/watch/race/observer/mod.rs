//! The observer of the race check: follows the blocks that run on one CPU thread.

mod accesses;
mod barriers;
mod publishing;
mod race_observer;
mod warp_view;

pub use race_observer::RaceObserver;
use race_observer::{BARRIERS, Read};
