//! Special registers.

use crate::machine::{Cx, Flow, Frame, Handler, LANES, Op, Step};

/// How a special register is read.
#[derive(Clone, Copy)]
pub struct Special {
    /// Whether it has 64 bits.
    pub wide: bool,
    /// What reads it into slot 0.
    pub run: Handler,
    /// Its immediate: a direction, or 0.
    pub imm: u64,
}

macro_rules! uniform {
    (|$cx:ident, $op:ident| $value:expr) => {{
        fn run($cx: &mut Cx<'_>, frame: &mut Frame, $op: &Op, mask: u32) -> Step {
            let value: u32 = $value;
            frame.write::<u32>($op.slots[0], &[value; LANES], mask);
            Ok(Flow::Next)
        }
        Special { wide: false, run, imm: 0 }
    }};
    (wide |$cx:ident| $value:expr) => {{
        fn run($cx: &mut Cx<'_>, frame: &mut Frame, op: &Op, mask: u32) -> Step {
            let value: u64 = $value;
            frame.write::<u64>(op.slots[0], &[value; LANES], mask);
            Ok(Flow::Next)
        }
        Special { wide: true, run, imm: 0 }
    }};
}

macro_rules! by_lane {
    (|$lane:ident| $value:expr) => {{
        fn run(_: &mut Cx<'_>, frame: &mut Frame, op: &Op, mask: u32) -> Step {
            let row = std::array::from_fn(|lane| {
                let $lane = lane as u32;
                $value
            });
            frame.write::<u32>(op.slots[0], &row, mask);
            Ok(Flow::Next)
        }
        Special { wide: false, run, imm: 0 }
    }};
}

fn tid(cx: &mut Cx<'_>, frame: &mut Frame, op: &Op, mask: u32) -> Step {
    match cx.warp.tid.get(op.imm as usize) {
        Some(row) => frame.write::<u32>(op.slots[0], row, mask),
        None => frame.write::<u32>(op.slots[0], &[0; LANES], mask),
    }
    Ok(Flow::Next)
}

/// The special register with that name.
pub fn find(name: &str) -> Option<Special> {
    if let Some((base, direction)) = name.rsplit_once('.') {
        let imm = ["x", "y", "z", "w"].iter().position(|own| *own == direction)? as u64;
        return directed(base).map(|special| Special { imm, ..special });
    }
    Some(match name {
        "%laneid" => by_lane!(|lane| lane),
        "%lanemask_eq" => by_lane!(|lane| 1 << lane),
        "%lanemask_lt" => by_lane!(|lane| (1 << lane) - 1),
        "%lanemask_le" => by_lane!(|lane| u32::MAX >> (31 - lane)),
        "%lanemask_ge" => by_lane!(|lane| u32::MAX << lane),
        "%lanemask_gt" => by_lane!(|lane| (u32::MAX << lane) << 1),
        "%warpid" => uniform!(|cx, _op| cx.warp.index),
        "%nwarpid" => uniform!(|_cx, _op| 64),
        "%smid" => uniform!(|cx, _op| block_number(cx) as u32 % cx.launch.multiprocessors.max(1)),
        "%nsmid" => uniform!(|cx, _op| cx.launch.multiprocessors),
        "%gridid" => uniform!(wide | cx | cx.launch.grid_id),
        "%clock" => uniform!(|cx, _op| cycles(cx) as u32),
        "%clock_hi" => uniform!(|cx, _op| (cycles(cx) >> 32) as u32),
        "%clock64" => uniform!(wide | cx | cycles(cx)),
        "%globaltimer" => uniform!(wide | cx | nanoseconds(cx)),
        "%globaltimer_lo" => uniform!(|cx, _op| nanoseconds(cx) as u32),
        "%globaltimer_hi" => uniform!(|cx, _op| (nanoseconds(cx) >> 32) as u32),
        "%cluster_ctarank" => uniform!(|cx, _op| cx.cluster.rank),
        "%cluster_nctarank" => uniform!(|cx, _op| cx.launch.clusters.size()),
        "%envreg1" => uniform!(|cx, _op| (cx.launch.workspace >> 32) as u32),
        "%envreg2" => uniform!(|cx, _op| cx.launch.workspace as u32),
        "%dynamic_smem_size" => uniform!(|cx, _op| cx.launch.dynamic_shared_bytes),
        "%total_smem_size" => uniform!(|cx, _op| cx.launch.declared_shared_bytes() as u32),
        // The emulator reserves no shared memory, so that of the kernel is all there is.
        "%aggr_smem_size" => uniform!(|cx, _op| cx.launch.declared_shared_bytes() as u32),
        "%current_graph_exec" => uniform!(wide | _cx | 0),
        _ if is_empty(name) => uniform!(|_cx, _op| 0),
        _ if is_wide_and_empty(name) => uniform!(wide | _cx | 0),
        _ => return None,
    })
}

/// True for a register that holds nothing here: one of the driver, a counter of a profiler, a place
/// in reserved shared memory.
fn is_empty(name: &str) -> bool {
    let numbered = |prefix: &str, count: u32| {
        let number = name.strip_prefix(prefix).and_then(|digits| digits.parse::<u32>().ok());
        number.is_some_and(|number| number < count)
    };
    let bound = name.strip_prefix("%reserved_smem_offset_");
    numbered("%envreg", 32)
        || numbered("%pm", 8)
        || bound.is_some_and(|bound| ["begin", "end", "cap", "0", "1"].contains(&bound))
}

/// The same of 64 bits: a profiler's counter.
fn is_wide_and_empty(name: &str) -> bool {
    name.strip_suffix("_64").is_some_and(|name| name.starts_with("%pm") && is_empty(name))
}

/// A special register with a direction.
fn directed(base: &str) -> Option<Special> {
    Some(match base {
        "%tid" => Special { wide: false, run: tid, imm: 0 },
        "%ntid" => uniform!(|cx, op| cx.launch.block.get(op.imm as usize).copied().unwrap_or(0)),
        "%ctaid" => uniform!(|cx, op| cx.block.index.get(op.imm as usize).copied().unwrap_or(0)),
        "%nctaid" => uniform!(|cx, op| cx.launch.grid.get(op.imm as usize).copied().unwrap_or(0)),
        "%clusterid" => uniform!(|cx, op| direction(cx.cluster.index, op)),
        "%nclusterid" => uniform!(|cx, op| direction(cx.launch.clusters.clusters, op)),
        "%cluster_ctaid" => uniform!(|cx, op| direction(index_in_cluster(cx), op)),
        "%cluster_nctaid" => uniform!(|cx, op| direction(cx.launch.clusters.blocks, op)),
        _ => return None,
    })
}

/// One of three numbers, by the immediate; 0 for a fourth.
fn direction(numbers: [u32; 3], op: &Op) -> u32 {
    numbers.get(op.imm as usize).copied().unwrap_or(0)
}

/// The index of the block at hand in its cluster.
fn index_in_cluster(cx: &Cx<'_>) -> [u32; 3] {
    crate::machine::cluster::index_of(cx.cluster.rank.into(), cx.launch.clusters.blocks)
}

/// A special register that is a predicate: what reads it into slot 0.
pub fn find_predicate(name: &str) -> Option<Handler> {
    fn is_explicit_cluster(cx: &mut Cx<'_>, frame: &mut Frame, op: &Op, mask: u32) -> Step {
        let value = u32::from(cx.launch.clusters.explicit).wrapping_neg();
        frame.set_predicate(op.slots[0], value, mask);
        Ok(Flow::Next)
    }
    (name == "%is_explicit_cluster").then_some(is_explicit_cluster as Handler)
}

/// True for names of special registers that the emulator lacks.
pub fn is_reserved(name: &str) -> bool {
    ["%envreg", "%pm", "%reserved_smem", "%current_graph_exec", "%aggr_smem_size"]
        .iter()
        .any(|prefix| name.starts_with(prefix))
}

fn block_number(cx: &Cx<'_>) -> u64 {
    let ([x, y, z], [width, height, _]) =
        (cx.block.index.map(u64::from), cx.launch.grid.map(u64::from));
    x + width * (y + height * z)
}

/// What counts cycles here.
fn cycles(cx: &mut Cx<'_>) -> u64 {
    cx.unsteady = true;
    cx.warp_instructions
}

/// Nanoseconds since 1970, as a GPU's timer counts them.
fn nanoseconds(cx: &mut Cx<'_>) -> u64 {
    cx.unsteady = true;
    let epoch = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    epoch.map_or(cx.launch.start.elapsed(), |since| since).as_nanos() as u64
}
