//! What attention computes: sizes, and where the elements of each tensor are.

use bytemuck::{Pod, Zeroable};

/// Where the rows of a tensor `[batch, heads, rows, depth]` are: row `r` of head `h` of batch `b` begins at
/// `b * batch + h * head + r * row`, in elements. The elements of a row are neighbours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct RowStrides {
    /// From a batch to the next.
    pub batch: u64,
    /// From a head to the next.
    pub head: u64,
    /// From a row to the next.
    pub row: u64,
}

impl RowStrides {
    /// Where a row begins.
    #[inline(always)]
    #[must_use]
    pub const fn index(self, batch: u32, head: u32, row: u32) -> usize {
        (batch as u64 * self.batch + head as u64 * self.head + row as u64 * self.row) as usize
    }
}

/// In [`Problem::packed`]: queries, results and their gradients.
pub const PACKED_QUERIES: u32 = 1;
/// In [`Problem::packed`]: keys, values and their gradients.
pub const PACKED_KEYS: u32 = 2;

/// `o = softmax(scale · q·kᵀ) · v` for each head of each batch.
///
/// Heads of the queries share heads of keys and values: head `h` takes head `h / (heads / kv_heads)` of those. Kernels see `2^pack` such heads,
/// neighbours, as rows of one: row `r` is query `r / 2^pack` of head `r % 2^pack` of them, so that few queries fill a tile, and keys are read
/// once for all of these heads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Pod, Zeroable)]
#[repr(C)]
pub struct Problem {
    #[allow(missing_docs)]
    pub batches: u32,
    /// Heads of the queries: a multiple of `kv_heads`.
    pub heads: u32,
    /// Heads of keys and values.
    pub kv_heads: u32,
    /// The logarithm to base 2 of the heads that are rows of one: their number divides `heads / kv_heads`.
    pub pack: u32,
    /// Queries of each head; of packed ones those of all batches.
    pub queries: u32,
    /// Keys, and values, of each head; of packed ones those of all batches, of paged ones the most that a batch may have.
    pub keys: u32,
    /// Elements of a query, and of a key.
    pub depth: u32,
    /// Elements of a value, and of a row of the result.
    pub value_depth: u32,
    /// Factor of the scores: positive.
    pub scale: f32,
    /// The keys of a row are divided among this many blocks, each of which stores a partial result; 1 if not.
    pub splits: u32,
    /// Pages of a batch in the table of pages; 0 where keys and values lie as their strides say.
    pub pages: u32,
    /// The logarithm to base 2 of the keys of a page. The strides of a batch are those of a page.
    pub page: u32,
    /// How many pages there are.
    pub page_count: u32,
    /// Which tensors hold the rows of all batches one after the other, as one batch: [`PACKED_QUERIES`], [`PACKED_KEYS`], both, or 0.
    pub packed: u32,
    /// Where the queries are.
    pub q: RowStrides,
    /// Where the keys are.
    pub k: RowStrides,
    /// Where the values are.
    pub v: RowStrides,
    /// Where the results are.
    pub o: RowStrides,
}

impl Problem {
    /// The head of keys and values that a head of queries takes.
    #[inline(always)]
    #[must_use]
    pub fn kv_head(&self, head: u32) -> u32 {
        // (A division of which the compiler sees that it is not by 0 has no panic.)
        head / (self.heads / self.kv_heads.max(1)).max(1)
    }

    /// A head of a batch among those of all batches.
    #[inline(always)]
    #[must_use]
    pub const fn head_of_all(&self, batch: u32, head: u32) -> u32 {
        batch.wrapping_mul(self.heads).wrapping_add(head)
    }

    /// Heads that are tiled: each is `2^pack` of the caller's.
    #[inline(always)]
    #[must_use]
    pub const fn packed_heads(&self) -> u32 {
        self.heads >> self.pack
    }

    /// Whether the queries of all batches are rows of one.
    #[inline(always)]
    #[must_use]
    pub const fn has_packed_queries(&self) -> bool {
        self.packed & PACKED_QUERIES != 0
    }

    /// Whether the keys of all batches are rows of one.
    #[inline(always)]
    #[must_use]
    pub const fn has_packed_keys(&self) -> bool {
        self.packed & PACKED_KEYS != 0
    }

    /// Batches of the tensor of queries.
    #[inline(always)]
    #[must_use]
    pub const fn batches_of_queries(&self) -> u32 {
        if self.has_packed_queries() { 1 } else { self.batches }
    }

    /// Batches of the tensor of keys, where these are not in pages.
    #[inline(always)]
    #[must_use]
    pub const fn batches_of_keys(&self) -> u32 {
        if self.has_packed_keys() { 1 } else { self.batches }
    }

    /// The head of the queries, and the query, of a row of packed head `head`.
    #[inline(always)]
    #[must_use]
    pub const fn place_of_row(&self, head: u32, row: u32) -> (u32, u32) {
        ((head << self.pack) + (row & ((1 << self.pack) - 1)), row >> self.pack)
    }

    /// The place of a query among those of all heads and batches of its tensor.
    #[inline(always)]
    #[must_use]
    pub const fn index(&self, batch: u32, head: u32, query: u32) -> usize {
        (batch as usize * self.heads as usize + head as usize) * self.queries as usize
            + query as usize
    }

    /// Queries and keys of every batch, where these have no lengths of their own.
    #[inline(always)]
    #[must_use]
    pub const fn lengths(&self) -> Lengths {
        Lengths { queries: self.queries, keys: self.keys }
    }

    /// Queries of all heads and batches.
    #[inline(always)]
    #[must_use]
    pub const fn all_queries(&self) -> usize {
        self.batches_of_queries() as usize * self.heads as usize * self.queries as usize
    }
}

/// The numbers of queries and keys of a head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lengths {
    #[allow(missing_docs)]
    pub queries: u32,
    #[allow(missing_docs)]
    pub keys: u32,
}
