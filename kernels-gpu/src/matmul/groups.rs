//! Groups of rows of A, each of which is multiplied by a matrix of its own: the layers of a mixture of experts.
//!
//! Where the groups begin is known on the device alone. So a small kernel first lists their tiles, which the blocks of the product take. A tile
//! has rows of one group: the last one of a group ends before the next group begins, and costs what a full one does.

use crate::prelude::*;
use bytemuck::{Pod, Zeroable};

/// Rows of a tile, at most: those of a tile of [`hopper`](super::hopper), and of [`warps`](super::warps).
pub const ROWS: usize = 128;

/// Threads of [`group_tiles`](fn@group_tiles).
const THREADS: usize = 256;

/// A tile's rows. The first one of a list has the number of the others in `group`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(C, align(16))]
pub struct GroupTile {
    /// The group.
    pub group: u32,
    /// The first row of D.
    pub row: u32,
    /// The row behind the last.
    pub end: u32,
    /// Nothing: it fills up the last 4 bytes.
    pub reserved: u32,
}

/// The most tiles that `rows` rows in `groups` groups have.
#[must_use]
pub const fn most_tiles(rows: usize, groups: usize) -> usize {
    rows.div_ceil(ROWS) + groups
}

/// Lists the tiles of groups of `rows` rows: group `i` is of the rows `offsets[i]..offsets[i + 1]`. `tiles: [1 + most_tiles]`. Launch
/// one block. Panics if a group ends before it begins, or after the last row; the list is empty then.
#[kernel]
pub fn group_tiles(
    mut block: Block<THREADS>,
    offsets: &[u32],
    rows: u32,
    mut tiles: DisjointSlice<GroupTile>,
) {
    /// What a wrong group adds to a sum of tiles.
    const WRONG: u64 = 1 << 48;
    let (groups, thread) = (offsets.len().saturating_sub(1), block.thread());
    let to = tiles.as_mut_ptr();
    let put = |place: usize, tile: GroupTile| {
        assert!(place < tiles.len(), "the groups have more tiles than the list");
        // SAFETY: inside; each tile is one thread's.
        unsafe { to.add(place).write(tile) };
    };
    if thread == 0 {
        put(0, GroupTile::default());
    }
    let mut running = 0;
    for first in (0..groups).step_by(THREADS) {
        let own = first + thread;
        let at = |i: usize| offsets.get(i).copied().unwrap_or(0);
        let (start, end) = if own < groups { (at(own), at(own + 1)) } else { (0, 0) };
        let is_right = start <= end && end <= rows;
        let own_tiles =
            if is_right { u64::from((end - start).div_ceil(ROWS as u32)) } else { WRONG };
        let ([before], total) = block.exclusive_scan([own_tiles], 0, u64::wrapping_add);
        // All threads of the block see it together.
        assert!(total < WRONG, "the offsets of groups ascend, up to the number of rows");
        for i in 0..own_tiles as u32 {
            let row = start + i * ROWS as u32;
            let end = end.min(row + ROWS as u32);
            let place = 1 + running + before as usize + i as usize;
            put(place, GroupTile { group: own as u32, row, end, reserved: 0 });
        }
        running += total as usize;
    }
    if thread == 0 {
        put(0, GroupTile { group: running as u32, ..GroupTile::default() });
    }
}
