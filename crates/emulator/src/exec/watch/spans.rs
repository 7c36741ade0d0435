//! The allocations that a thread's checks last looked at.

use crate::memory::{Allocation, GlobalMemory, Validity};
use std::sync::Arc;

/// Allocations remembered.
const WAYS: usize = 8;

/// An allocation, and its record of written bytes if one is kept.
#[derive(Clone)]
pub struct Span {
    /// Where it lies.
    pub range: Allocation,
    /// What was written of it.
    pub record: Option<Arc<Validity>>,
}

/// Remembers allocations until one is freed.
pub struct Spans<'m> {
    memory: &'m GlobalMemory,
    generation: u64,
    known: Vec<Span>,
    oldest: usize,
}

impl<'m> Spans<'m> {
    /// Nothing is remembered yet.
    pub fn new(memory: &'m GlobalMemory) -> Self {
        Self { memory, generation: 0, known: Vec::new(), oldest: 0 }
    }

    /// The memory that this looks into.
    pub fn memory(&self) -> &'m GlobalMemory {
        self.memory
    }

    /// The allocation that an address lies in.
    pub fn find(&mut self, address: u64) -> Option<&Span> {
        let generation = self.memory.generation();
        if generation != self.generation {
            self.known.clear();
            (self.generation, self.oldest) = (generation, 0);
        }
        let inside = |span: &Span| address.wrapping_sub(span.range.base) < span.range.len;
        let index = match self.known.iter().position(inside) {
            Some(index) => index,
            None => self.look_up(address)?,
        };
        self.known.get(index)
    }

    #[cold]
    fn look_up(&mut self, address: u64) -> Option<usize> {
        let span =
            Span { range: self.memory.find(address)?, record: self.memory.validity(address) };
        let index = self.oldest;
        match self.known.get_mut(index) {
            Some(own) => *own = span,
            None => self.known.push(span),
        }
        self.oldest = (index + 1) % WAYS;
        Some(index)
    }
}
