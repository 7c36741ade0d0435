//! What is noted of the instruction at hand, for those who watch it run.

use super::Emitter;
use crate::isa::{Rule, Type};
use crate::machine::{Effect, Part, Piece, Register};

impl Emitter<'_> {
    /// Notes that the instruction at hand reads the registers that hold a value of a type.
    pub fn note_reads(&mut self, ty: Type, slot: u32) {
        (0..ty.rows()).for_each(|row| self.note_read(Register::of(ty, slot + row)));
    }

    /// Notes that the instruction at hand writes the registers that hold a value of a type.
    pub fn note_writes(&mut self, ty: Type, slot: u32) {
        (0..ty.rows()).for_each(|row| self.note_write(Register::of(ty, slot + row)));
    }

    /// Notes that the instruction at hand reads a register.
    pub fn note_read(&mut self, register: Register) {
        self.effect.reads.push(register);
    }

    /// Notes that the instruction at hand makes an address of a register.
    pub fn note_address(&mut self, register: Register) {
        self.effect.reads.push(register);
        self.effect.addresses.push(register);
    }

    /// Notes that the instruction at hand writes a register.
    pub fn note_write(&mut self, register: Register) {
        self.effect.writes.push(register);
    }

    /// Notes bits that the instruction at hand copies; unless it is a call, it does nothing else.
    pub fn note_piece(&mut self, piece: Piece) {
        if self.effect.rule != Rule::Calls {
            self.effect.rule = Rule::Pieces;
        }
        self.effect.pieces.push(piece);
    }

    /// Notes an element of the load or store at hand.
    pub fn note_part(&mut self, part: Part) {
        self.effect.parts.push(part);
    }

    /// What is known of the instruction at hand.
    pub fn effect(&self) -> &Effect {
        &self.effect
    }
}
