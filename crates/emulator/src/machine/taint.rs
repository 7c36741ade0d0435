//! Bits of registers that hold nothing that was ever written.

use super::effect::Register;
use super::slots::{LANES, Row64};
use crate::fault::Space;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// Where a value without meaning was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Origin {
    /// Operation that read it.
    pub pc: u32,
    /// Bytes of it that hold nothing.
    pub bytes: u32,
    /// Space that it was read from.
    pub space: Space,
    /// The first byte that holds nothing: an offset in shared and local memory.
    pub address: u64,
    /// For what a shuffle read in place of memory: a lane that its mask does not name or that has ended, and
    /// the lanes that took part.
    pub lane: Option<(u8, u32)>,
}

impl Default for Origin {
    fn default() -> Self {
        Self { pc: 0, bytes: 0, space: Space::Global, address: 0, lane: None }
    }
}

/// What is known of one register, for each lane.
#[derive(Clone, Debug)]
pub struct Taint {
    /// Bits that hold nothing.
    pub bits: Row64,
    /// Lanes whose value was computed from such bits, rather than copied.
    pub computed: u32,
    /// Where they were read.
    pub origin: [Origin; LANES],
}

impl Default for Taint {
    fn default() -> Self {
        Self { bits: [0; LANES], computed: 0, origin: [Origin::default(); LANES] }
    }
}

impl Taint {
    /// The lanes that have such bits.
    pub fn lanes(&self) -> u32 {
        (0..LANES).map(|lane| u32::from(self.bits[lane] != 0) << lane).sum()
    }
}

/// Registers are few and small numbers: one multiplication spreads them.
#[derive(Default)]
pub struct Spread(u64);

impl Hasher for Spread {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64(u64::from(*byte)));
    }

    fn write_u32(&mut self, value: u32) {
        self.write_u64(u64::from(value));
    }

    fn write_isize(&mut self, value: isize) {
        self.write_u64(value as u64);
    }

    fn write_u64(&mut self, value: u64) {
        self.0 = (self.0.rotate_left(5) ^ value).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}

/// The registers of a frame that have bits without meaning.
pub type Shadow = HashMap<Register, Box<Taint>, BuildHasherDefault<Spread>>;
