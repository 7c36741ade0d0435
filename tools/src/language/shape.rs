//! How large a model is.

/// Elements of a row of a head.
pub(super) const HEAD: usize = 64;

/// The sizes of a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Blocks.
    pub layers: usize,
    /// Heads of attention, of 64 elements each.
    pub heads: usize,
    /// The most characters that it looks back on.
    pub context: usize,
    /// Characters that it knows, filled up to a multiple of eight, as the tensor cores' rows are.
    pub vocabulary: usize,
}

impl Shape {
    /// Elements that stand for a character between blocks.
    #[must_use]
    pub const fn width(&self) -> usize {
        self.heads * HEAD
    }

    /// Elements between the two layers of a block.
    pub(super) const fn hidden(&self) -> usize {
        4 * self.width()
    }
}
