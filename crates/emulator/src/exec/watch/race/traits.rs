//! What the operations of a program are to the race check.

use crate::isa::Semantics;
use crate::machine::{Program, Register};

/// Orders the lanes that execute it.
pub const WARP_SYNC: u8 = 1;
/// A fence.
pub const FENCE: u8 = 2;
/// A strong access, which may publish or acquire.
pub const STRONG: u8 = 4;
/// A store, whose values are in its slots.
pub const STORE: u8 = 8;
/// The weak load before a compare-and-swap loop.
pub const EXCUSED: u8 = 16;
/// An update that reads nothing for the program.
pub const REDUCTION: u8 = 32;
/// A read-modify-write, which carries on what its cell carries.
pub const UPDATE: u8 = 64;

/// The traits of each operation.
pub fn traits(program: &Program) -> Vec<u8> {
    let mut out: Vec<u8> = (0..program.ops.len() as u32).map(|pc| of(program, pc)).collect();
    for swap in 0..program.ops.len() as u32 {
        if out[swap as usize] & UPDATE != 0 && program.spelling(swap).contains(".cas") {
            for pc in first_loads(program, swap) {
                out[pc as usize] |= EXCUSED;
            }
        }
    }
    out
}

fn of(program: &Program, pc: u32) -> u8 {
    let op = &program.ops[pc as usize];
    if op.weight == 0 {
        return 0;
    }
    let spelling = program.spelling(pc);
    let strong = if op.order.semantics() == Semantics::Weak { 0 } else { STRONG };
    let opcode = spelling.split('.').next().unwrap_or_default();
    match opcode {
        "bar" | "barrier" if spelling.contains(".warp.") => WARP_SYNC,
        "fence" if spelling.contains(".proxy") => 0,
        "fence" | "membar" => FENCE,
        "ld" => strong,
        "st" => strong | STORE,
        "atom" => STRONG | UPDATE,
        "red" => STRONG | UPDATE | REDUCTION,
        _ => strong,
    }
}

/// The weak loads whose value reaches, by moves alone, the comparand of a compare-and-swap on the same
/// address.
fn first_loads(program: &Program, swap: u32) -> Vec<u32> {
    const BASE: usize = 5;
    const COMPARAND: usize = 1;
    let own = &program.ops[swap as usize];
    let body = body_of(program, swap);
    let mut values = vec![own.slots[COMPARAND]];
    let wide = program.effect(swap).is_some_and(|effect| {
        effect.reads.contains(&Register::Wide(own.slots[COMPARAND]))
            && !effect.reads.contains(&Register::Narrow(own.slots[COMPARAND]))
    });
    let register = |slot| if wide { Register::Wide(slot) } else { Register::Narrow(slot) };
    let mut index = 0;
    while let Some(slot) = values.get(index).copied() {
        for pc in body.clone().filter(|pc| program.spelling(*pc).starts_with("mov.")) {
            let Some(effect) = program.effect(pc) else { continue };
            if effect.writes != [register(slot)] {
                continue;
            }
            for read in &effect.reads {
                if let Register::Wide(from) | Register::Narrow(from) = read
                    && !values.contains(from)
                {
                    values.push(*from);
                }
            }
        }
        index += 1;
    }
    let begins = |pc: &u32| {
        let op = &program.ops[*pc as usize];
        program.spelling(*pc).starts_with("ld.")
            && (op.slots[BASE], op.imm) == (own.slots[BASE], own.imm)
            && program
                .effect(*pc)
                .is_some_and(|effect| values.iter().any(|slot| effect.writes == [register(*slot)]))
    };
    body.filter(begins).collect()
}

/// The operations of the function that one belongs to.
fn body_of(program: &Program, pc: u32) -> std::ops::Range<u32> {
    let entries = || program.functions.iter().map(|function| function.entry);
    let start = entries().filter(|entry| *entry <= pc).max().unwrap_or(0);
    let end = entries().filter(|entry| *entry > pc).min().unwrap_or(program.ops.len() as u32);
    start..end
}
