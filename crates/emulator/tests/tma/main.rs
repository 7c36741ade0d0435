//! Tensor copies against plain loops over elements, in both directions, with all patterns.

#[path = "../common/mod.rs"]
mod common;

mod loads;
mod maps;
mod pipelines;
mod stores;

use common::HEAD;
use emulator::{Device, ElementType, Launch, TensorMap, Trap};

const TILE_BYTES: usize = 16384;

/// A kernel with a map, a tile of shared memory that is filled with 0xee, an mbarrier for one
/// arrival, and five coordinates. What is in the tile in the end is written to the output.
pub fn kernel(body: &str) -> String {
    format!(
        "{HEAD}.visible .entry k(.param .align 64 .b8 k_map[128], .param .u64 k_out, .param .align 4 .b8 k_at[32]) {{
            .reg .pred %p<8>; .reg .b16 %h<4>; .reg .b32 %r<32>, %c<5>; .reg .b64 %rd<16>, map;
            .shared .align 1024 .b8 tile[{TILE_BYTES}]; .shared .align 8 .b64 bar;
            mov.b64 map, k_map; cvta.param.u64 map, map; ld.param.b64 %rd0, [k_out];
            ld.param.b32 %c0, [k_at]; ld.param.b32 %c1, [k_at+4]; ld.param.b32 %c2, [k_at+8];
            ld.param.b32 %c3, [k_at+12]; ld.param.b32 %c4, [k_at+16];
            mov.u32 %r0, %tid.x; mov.u32 %r1, tile; shl.b32 %r2, %r0, 2;
            FILL: add.s32 %r3, %r1, %r2; st.shared.u32 [%r3], 0xeeeeeeee; add.s32 %r2, %r2, 128;
            setp.lt.u32 %p1, %r2, {TILE_BYTES}; @%p1 bra FILL;
            setp.ne.s32 %p2, %r0, 0; @%p2 bra MADE; mbarrier.init.shared.b64 [bar], 1; fence.mbarrier_init.release.cluster;
            MADE: fence.proxy.async; bar.sync 0;
            {body}
            bar.sync 0; shl.b32 %r2, %r0, 2;
            STORE: add.s32 %r3, %r1, %r2; ld.shared.u32 %r4, [%r3]; cvt.u64.u32 %rd1, %r2; add.s64 %rd1, %rd0, %rd1;
            st.global.u32 [%rd1], %r4; add.s32 %r2, %r2, 128; setp.lt.u32 %p1, %r2, {TILE_BYTES}; @%p1 bra STORE;
            ret; }}"
    )
}

/// A load of a box to `tile + base`.
pub fn load(map: &TensorMap, base: u32, offsets: [u16; 3]) -> String {
    let (mode, offsets) = match (map.im2col, map.rank) {
        (None, _) => (".tile", String::new()),
        (Some(_), rank) => {
            let list: Vec<String> =
                offsets[..rank as usize - 2].iter().map(u16::to_string).collect();
            (".im2col", format!(", {{{}}}", list.join(", ")))
        }
    };
    format!(
        "@%p2 bra WAIT; mbarrier.arrive.expect_tx.shared.b64 _, [bar], {};
         cp.async.bulk.tensor.{}d.shared::cluster.global{mode}.mbarrier::complete_tx::bytes [tile+{base}], [map, {}], [bar]{offsets};
         WAIT: mbarrier.try_wait.parity.shared.b64 %p3, [bar], 0; @!%p3 bra WAIT;",
        bytes(map),
        map.rank,
        coords(map.rank)
    )
}

fn coords(rank: u32) -> String {
    let list: Vec<String> = (0..rank).map(|dim| format!("%c{dim}")).collect();
    format!("{{{}}}", list.join(", "))
}

/// The extents of a map's box in shared memory.
fn extents(map: &TensorMap) -> [u64; 5] {
    let own = |dim: usize| match dim {
        _ if dim >= map.rank as usize => 1,
        0 => map.box_dims[0].into(),
        _ => u64::from(map.box_dims[dim].div_ceil(map.element_strides[dim])),
    };
    std::array::from_fn(own)
}

fn bytes(map: &TensorMap) -> u64 {
    let size = u64::from(map.element.bytes());
    match map.im2col {
        None => extents(map).iter().product::<u64>() * size,
        Some(own) => u64::from(own.channels_per_pixel * own.pixels_per_column) * size,
    }
}

fn random(bytes: usize) -> Vec<u8> {
    let mut state = 12345u64;
    let mut next = || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as u8
    };
    (0..bytes).map(|_| next()).collect()
}

fn launch(
    device: &Device,
    text: &str,
    map: &TensorMap,
    at: [i32; 5],
    out: u64,
) -> Result<(), Box<Trap>> {
    let module = device.load(text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    let function = module.function("k").unwrap();
    let mut params = map.encode().to_vec();
    params.extend(out.to_le_bytes());
    params.extend(at.iter().flat_map(|own| own.to_le_bytes()));
    params.resize(function.param_bytes, 0);
    let launch = Launch { block: [32, 1, 1], params: &params, ..Launch::new(&function) };
    device.launch(&launch).map(drop).map_err(Box::new)
}

/// Bytes of the tensor that a map describes.
fn tensor_bytes(map: &TensorMap) -> usize {
    let last = map.rank as usize - 1;
    let outer = if last == 0 { u64::from(map.element.bytes()) } else { map.strides[last - 1] };
    (map.dims[last] * outer) as usize
}

/// A map of tightly packed elements.
fn packed(element: ElementType, dims: &[u64], box_dims: &[u32]) -> TensorMap {
    let mut map = TensorMap {
        element,
        rank: dims.len() as u32,
        dims: [1; 5],
        element_strides: [1; 5],
        ..TensorMap::default()
    };
    map.dims[..dims.len()].copy_from_slice(dims);
    map.box_dims[..box_dims.len()].copy_from_slice(box_dims);
    let mut stride = u64::from(element.bytes());
    for dim in 1..dims.len() {
        stride = (stride * dims[dim - 1]).next_multiple_of(16);
        map.strides[dim - 1] = stride;
    }
    map
}
