//! The race check: each planted race is found, and the same kernel made right is not reported.

#![allow(clippy::result_large_err)]

#[path = "../common/mod.rs"]
mod common;

mod blocks;
mod classics;
mod clusters;
mod copies;
mod lanes;
mod launches;
mod reports;
mod shared;

use common::{Buffer, HEAD};
use emulator::fault::Race;
use emulator::{Checks, Device, Launch, Profile, Schedule, Trap, TrapKind};
use std::sync::Arc;

/// A device that checks for races.
pub fn device(schedule: Schedule, workers: usize) -> Arc<Device> {
    let checks = Checks { race: true, ..Checks::NONE };
    let fuel = Some(20_000_000);
    Device::new(Profile { worker_threads: workers, schedule, checks, fuel, ..Profile::hopper() })
}

/// Schedules that all tests run under.
pub const SCHEDULES: [Schedule; 4] =
    [Schedule::Window, Schedule::Reversed, Schedule::Random(1), Schedule::Random(2)];

/// A kernel around a body, which finds
/// - `%r0` its thread, `%r1` its block, `%r2` the threads of a block, `%r3` its number in the grid,
///   `%r4` the blocks;
/// - `%rd0` the buffer, `%rd1` its own word there; `%rd2` its own word of the shared array `tile`.
pub fn kernel(body: &str) -> String {
    format!(
        "{HEAD}.shared .align 16 .b8 tile[8192];
        .shared .align 4 .b32 word;
        .visible .entry k(.param .u64 k_out) {{
            .reg .pred %p<16>; .reg .b16 %h<8>; .reg .b32 %r<64>; .reg .b64 %rd<32>;
            ld.param.b64 %rd0, [k_out];
            mov.u32 %r0, %tid.x; mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x; mov.u32 %r4, %nctaid.x;
            mad.lo.u32 %r3, %r1, %r2, %r0;
            mad.wide.u32 %rd1, %r3, 4, %rd0;
            mov.b64 %rd2, tile;
            mad.wide.u32 %rd2, %r0, 4, %rd2;
            {body}
            END: ret; }}"
    )
}

/// What one run of a kernel left in a buffer of zeros.
pub fn run(
    device: &Device,
    text: &str,
    (grid, block): (u32, u32),
    words: usize,
) -> Result<Vec<u32>, Trap> {
    let module = device.load(text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    let function = module.function("k").unwrap();
    let out = Buffer::of_u32(device, &vec![0; words]);
    device.launch(&Launch {
        function: &function,
        grid: [grid, 1, 1],
        block: [block, 1, 1],
        params: &out.address.to_le_bytes(),
        ..Launch::new(&function)
    })?;
    Ok(out.u32s())
}

/// A body with a hole, and its shape.
pub struct Pattern {
    /// Text with holes `{0}`, `{1}` …
    pub body: &'static str,
    /// Blocks, and threads of each.
    pub shape: (u32, u32),
    /// Words of the buffer.
    pub words: usize,
}

impl Pattern {
    /// The text with the holes `{0}`, `{1}` … filled.
    fn fill(&self, parts: &[&str]) -> String {
        let filled = parts.iter().enumerate().fold(self.body.to_owned(), |body, (index, part)| {
            let hole = format!("{{{index}}}");
            assert!(body.contains(&hole), "no hole {hole}");
            body.replace(&hole, part)
        });
        kernel(&filled)
    }

    /// Runs silently under all schedules, and comes to the same result.
    #[track_caller]
    pub fn silent(&self, parts: &[&str]) -> Vec<u32> {
        let text = self.fill(parts);
        let mut results = Vec::new();
        for schedule in SCHEDULES {
            for workers in [1, 2] {
                match run(&device(schedule, workers), &text, self.shape, self.words) {
                    Ok(result) => results.push(result),
                    Err(trap) => panic!("{schedule}, {workers} workers: {trap}\n{text}"),
                }
            }
        }
        results.swap_remove(0)
    }

    /// Is reported under all schedules; the report under the first.
    #[track_caller]
    pub fn racy(&self, parts: &[&str]) -> Race {
        let text = self.fill(parts);
        let mut races = Vec::new();
        for schedule in SCHEDULES {
            match run(&device(schedule, 1), &text, self.shape, self.words) {
                Err(Trap { kind: TrapKind::Race(race), .. }) => races.push(*race),
                other => panic!("{schedule}: {other:?}\n{text}"),
            }
        }
        races.swap_remove(0)
    }
}
