//! `ld` and `st` of parameters at places known when the text is decoded.

use crate::machine::{Cx, Flow, Frame, Handler, LANES, Lane, Op, Step, lanes};
use std::sync::atomic::Ordering::Relaxed;

/// A load of `bytes` from the kernel's parameters, at the immediate.
pub fn load_kernel(bytes: u32) -> Handler {
    fn run<T: Lane<Bits: From<u8>>, const BYTES: u32>(
        cx: &mut Cx<'_>,
        frame: &mut Frame,
        op: &Op,
        mask: u32,
    ) -> Step
    where
        T::Bits: TryFrom<u64>,
    {
        let word = cx.launch.params[op.imm as usize / 8].load(Relaxed);
        let shifted = word >> (op.imm % 8 * 8);
        let kept = if BYTES == 8 { shifted } else { shifted & ((1 << (8 * BYTES)) - 1) };
        let bits = T::Bits::try_from(kept).unwrap_or_default();
        frame.write::<T>(op.slots[0], &[bits; LANES], mask);
        Ok(Flow::Next)
    }
    match bytes {
        1 => run::<u32, 1>,
        2 => run::<u32, 2>,
        4 => run::<u32, 4>,
        _ => run::<u64, 8>,
    }
}

/// A load of `bytes` from the frame's parameter memory, at the immediate.
pub fn load_frame(bytes: u32) -> Handler {
    fn narrow<const BYTES: u32>(_: &mut Cx<'_>, frame: &mut Frame, op: &Op, mask: u32) -> Step {
        let row = &frame.params[op.imm as usize / 4];
        let shift = op.imm % 4 * 8;
        let kept = u32::MAX >> (32 - 8 * BYTES);
        let out = std::array::from_fn(|lane| row[lane] >> shift & kept);
        frame.write::<u32>(op.slots[0], &out, mask);
        Ok(Flow::Next)
    }
    fn wide(_: &mut Cx<'_>, frame: &mut Frame, op: &Op, mask: u32) -> Step {
        let row = op.imm as usize / 4;
        let (low, high) = (&frame.params[row], &frame.params[row + 1]);
        let out = std::array::from_fn(|lane| u64::from(low[lane]) | u64::from(high[lane]) << 32);
        frame.write::<u64>(op.slots[0], &out, mask);
        Ok(Flow::Next)
    }
    match bytes {
        1 => narrow::<1>,
        2 => narrow::<2>,
        4 => narrow::<4>,
        _ => wide,
    }
}

/// A store of `bytes` to the frame's parameter memory, at the immediate.
pub fn store_frame(bytes: u32) -> Handler {
    fn narrow<const BYTES: u32>(_: &mut Cx<'_>, frame: &mut Frame, op: &Op, mask: u32) -> Step {
        let values = *frame.row32(op.slots[0]);
        let row = &mut frame.params[op.imm as usize / 4];
        let shift = op.imm % 4 * 8;
        let kept = (u32::MAX >> (32 - 8 * BYTES)) << shift;
        lanes(mask).for_each(|lane| row[lane] = row[lane] & !kept | values[lane] << shift & kept);
        Ok(Flow::Next)
    }
    fn wide(_: &mut Cx<'_>, frame: &mut Frame, op: &Op, mask: u32) -> Step {
        let values = *frame.row64(op.slots[0]);
        let row = op.imm as usize / 4;
        for lane in lanes(mask) {
            frame.params[row][lane] = values[lane] as u32;
            frame.params[row + 1][lane] = (values[lane] >> 32) as u32;
        }
        Ok(Flow::Next)
    }
    match bytes {
        1 => narrow::<1>,
        2 => narrow::<2>,
        4 => narrow::<4>,
        _ => wide,
    }
}
