//! Functions that the system provides: `vprintf`, `malloc`, `free`, `__assertfail`.

use crate::exec::address::read;
use crate::fault::{LoadError, TrapKind};
use crate::machine::{Cx, Fault, Flow, Frame, Handler, Op, Span, Step, lanes};
use crate::program::Emitter;
use crate::system::format::{self, Arguments};

/// A function of the system.
struct Service {
    name: &'static str,
    run: Handler,
    /// Bytes of what it returns; 0 for nothing.
    returns: u32,
    /// Bytes of its arguments.
    args: &'static [u32],
}

const SERVICES: [Service; 4] = [
    Service { name: "vprintf", run: vprintf, returns: 4, args: &[8, 8] },
    Service { name: "malloc", run: malloc, returns: 8, args: &[8] },
    Service { name: "free", run: free, returns: 0, args: &[8] },
    Service { name: "__assertfail", run: assert_fail, returns: 0, args: &[8, 8, 4, 8, 8] },
];

/// A call of a function of the system, if `name` is one. Slots: the rows of what it returns and of
/// its arguments in the caller's parameter memory.
///
/// # Errors
/// It does not take these arguments.
pub fn call(
    emitter: &mut Emitter<'_>,
    name: &str,
    returns: &[Span],
    args: &[Span],
) -> Result<bool, LoadError> {
    let Some(service) = SERVICES.iter().find(|service| service.name == name) else {
        return Ok(false);
    };
    let rows = |bytes: &u32| bytes.div_ceil(4);
    let fits = args.iter().map(|span| span.rows).eq(service.args.iter().map(rows))
        && returns.iter().all(|span| span.rows == rows(&service.returns));
    if !fits {
        return Err(emitter.invalid(format!("`{name}` does not have these parameters")));
    }
    let mut slots = vec![returns.first().map_or(NOWHERE, |span| span.row)];
    slots.extend(args.iter().map(|span| span.row));
    emitter.push(service.run, &slots, 0);
    Ok(true)
}

/// The row of a result that the caller drops.
const NOWHERE: u32 = u32::MAX;

fn argument(frame: &Frame, row: u32, lane: usize) -> u64 {
    let row = row as usize;
    u64::from(frame.params[row][lane]) | u64::from(frame.params[row + 1][lane]) << 32
}

fn give(frame: &mut Frame, row: u32, lane: usize, value: u64, bytes: u32) {
    if row != NOWHERE {
        frame.params[row as usize][lane] = value as u32;
        if bytes == 8 {
            frame.params[row as usize + 1][lane] = (value >> 32) as u32;
        }
    }
}

/// What a thread's `printf` takes: each argument at a multiple of its size.
struct List<'a, 'm> {
    cx: &'a mut Cx<'m>,
    frame: &'a Frame,
    lane: usize,
    next: u64,
}

impl Arguments for List<'_, '_> {
    type Error = Box<Fault>;

    fn next(&mut self, bytes: u32) -> Result<u64, Box<Fault>> {
        let at = self.next.next_multiple_of(u64::from(bytes));
        self.next = at + u64::from(bytes);
        read(self.cx, self.frame, self.lane, at, bytes)
    }

    fn byte(&mut self, address: u64) -> Result<u8, Box<Fault>> {
        read(self.cx, self.frame, self.lane, address, 1).map(|byte| byte as u8)
    }
}

/// The bytes of a string that ends in a zero.
fn string(
    cx: &mut Cx<'_>,
    frame: &Frame,
    lane: usize,
    address: u64,
) -> Result<Vec<u8>, Box<Fault>> {
    let mut out = Vec::new();
    loop {
        match read(cx, frame, lane, address.wrapping_add(out.len() as u64), 1)? {
            0 => return Ok(out),
            byte => out.push(byte as u8),
        }
    }
}

/// Prints, thread after thread. Returns the number of arguments, or -1 for a format that is null.
fn vprintf(cx: &mut Cx<'_>, frame: &mut Frame, op: &Op, mask: u32) -> Step {
    cx.unsteady = true;
    for lane in lanes(mask) {
        let (text, list) = (argument(frame, op.slots[1], lane), argument(frame, op.slots[2], lane));
        let mut count = u64::MAX;
        if text != 0 {
            let text = string(cx, frame, lane, text)?;
            let mut list = List { cx: &mut *cx, frame, lane, next: list };
            let (out, taken) = format::format(&text, &mut list)?;
            cx.launch.system.print(&out);
            count = u64::from(taken);
        }
        give(frame, op.slots[0], lane, count, 4);
    }
    Ok(Flow::Next)
}

fn malloc(cx: &mut Cx<'_>, frame: &mut Frame, op: &Op, mask: u32) -> Step {
    cx.unsteady = true;
    for lane in lanes(mask) {
        let bytes = argument(frame, op.slots[1], lane);
        let address = cx.launch.system.heap.malloc(cx.cursor.memory(), bytes);
        give(frame, op.slots[0], lane, address, 8);
    }
    Ok(Flow::Next)
}

fn free(cx: &mut Cx<'_>, frame: &mut Frame, op: &Op, mask: u32) -> Step {
    cx.unsteady = true;
    for lane in lanes(mask) {
        let address = argument(frame, op.slots[1], lane);
        let freed = cx.launch.system.heap.free(cx.cursor.memory(), address);
        freed.map_err(|why| Fault::new(lane, TrapKind::InvalidFree { address, why }))?;
    }
    Ok(Flow::Next)
}

/// Arguments: the condition, the file, the line, the function, the size of a character.
fn assert_fail(cx: &mut Cx<'_>, frame: &mut Frame, op: &Op, mask: u32) -> Step {
    let lane = mask.trailing_zeros() as usize;
    let mut text = |slot: usize, frame: &Frame| match argument(frame, op.slots[slot], lane) {
        0 => Ok(String::new()),
        address => string(cx, frame, lane, address)
            .map(|bytes| String::from_utf8_lossy(&bytes).into_owned()),
    };
    let (condition, file, function) = (text(1, frame)?, text(2, frame)?, text(4, frame)?);
    let line = frame.params[op.slots[3] as usize][lane];
    let place = match function.as_str() {
        "" => format!("{file}:{line}"),
        function => format!("{file}:{line}, in `{function}`"),
    };
    Err(Fault::new(lane, TrapKind::Assertion { condition, place }))
}
