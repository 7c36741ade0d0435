//! Merges of sorted arrays, and the [merge path](path) on which they are cut into tiles of equal work.

pub mod path;
mod tiles;

pub use tiles::{
    BLOCK, SPLITS, merge_partners, merge_plain, merge_splits, merge_tile_pairs, merge_tiles,
    tile_len,
};
