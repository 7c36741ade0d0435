//! Asynchronous copies that are under way.

use super::{Cx, Fault};

/// Copies of one warp that are not done.
#[derive(Default)]
pub struct WarpCopies;

/// A bulk copy that is not done.
pub struct Bulk;

impl Cx<'_> {
    /// The block at hand ends.
    pub fn finish_copies(&mut self) -> Result<(), Box<Fault>> {
        Ok(())
    }
}
