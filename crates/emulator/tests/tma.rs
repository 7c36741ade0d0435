//! Tensor copies against plain loops over elements, in both directions, with all patterns.

mod common;

use common::{Buffer, HEAD, device};
use emulator::fault::CopyFault;
use emulator::{
    Device, ElementType, Im2col, Launch, OutOfBoundsFill, Swizzle, TensorMap, TensorMapError, Trap,
    TrapKind,
};

const TILE_BYTES: usize = 16384;
const OLD: u8 = 0xee;

/// A kernel with a map, a tile of shared memory that is filled with 0xee, an mbarrier for one arrival, and
/// five coordinates. What is in the tile in the end is written to the output.
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

/// Where byte `linear` of the tile lies with a swizzle: in lines of 128 bytes, chunk `c` of line `l` is at
/// chunk `c ^ (l mod 8)`, or with the lower bits alone.
fn swizzled(swizzle: Swizzle, linear: u64) -> usize {
    let (line, chunk, byte) = (linear / 128, linear / 16 % 8, linear % 16);
    let chunk = match swizzle {
        Swizzle::None => chunk,
        Swizzle::Bytes32 => chunk ^ (line % 2),
        Swizzle::Bytes64 => chunk ^ (line % 4),
        Swizzle::Bytes128 => chunk ^ (line % 8),
    };
    (128 * line + 16 * chunk + byte) as usize
}

/// The address of each element of a box, in the order of shared memory; `None` outside the tensor.
fn elements(map: &TensorMap, at: [i32; 5], offsets: [u16; 3]) -> Vec<Option<u64>> {
    let rank = map.rank as usize;
    let address = |coords: [i64; 5]| -> Option<u64> {
        let mut address = map.address;
        for (dim, own) in coords.into_iter().enumerate().take(rank) {
            if own < 0 || own >= map.dims[dim] as i64 {
                return None;
            }
            let stride = if dim == 0 { map.element.bytes().into() } else { map.strides[dim - 1] };
            address += own as u64 * stride;
        }
        Some(address)
    };
    let at = at.map(i64::from);
    let mut out = Vec::new();
    let Some(im2col) = map.im2col else {
        let own = extents(map);
        let step = |dim: usize, index: u64| {
            index as i64 * i64::from(if dim == 0 { 1 } else { map.element_strides[dim] })
        };
        for e in 0..own[4] {
            for d in 0..own[3] {
                for c in 0..own[2] {
                    for b in 0..own[1] {
                        for a in 0..own[0] {
                            let index = [a, b, c, d, e];
                            out.push(address(std::array::from_fn(|dim| {
                                at[dim] + step(dim, index[dim])
                            })));
                        }
                    }
                }
            }
        }
        return out;
    };
    // All pixels of all images in the bounding box, in order, from the one that the copy begins with.
    let spatial = rank - 2;
    let range = |dim: usize| -> Vec<i64> {
        if dim > spatial {
            return vec![0];
        }
        let (low, high) = (im2col.lower_corner[dim - 1], im2col.upper_corner[dim - 1]);
        (i64::from(low)..map.dims[dim] as i64 + i64::from(high))
            .step_by(map.element_strides[dim] as usize)
            .collect()
    };
    let mut pixels = Vec::new();
    for image in 0..map.dims[rank - 1] as i64 + 8 {
        for z in range(3) {
            for y in range(2) {
                for x in range(1) {
                    pixels.push([x, y, z, image]);
                }
            }
        }
    }
    let begin = [
        at[1],
        if spatial > 1 { at[2] } else { 0 },
        if spatial > 2 { at[3] } else { 0 },
        at[rank - 1],
    ];
    let first = pixels.iter().position(|pixel| *pixel == begin).unwrap();
    for pixel in &pixels[first..first + im2col.pixels_per_column as usize] {
        for channel in 0..i64::from(im2col.channels_per_pixel) {
            let mut coords = [0; 5];
            coords[0] = at[0] + channel;
            (0..spatial).for_each(|dim| coords[dim + 1] = pixel[dim] + i64::from(offsets[dim]));
            coords[rank - 1] = pixel[3];
            out.push(address(coords));
        }
    }
    out
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

/// One copy.
struct Case {
    map: TensorMap,
    at: [i32; 5],
    offsets: [u16; 3],
    base: u32,
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

impl Case {
    fn new(map: TensorMap, at: &[i32]) -> Self {
        let mut coords = [0; 5];
        coords[..at.len()].copy_from_slice(at);
        Self { map, at: coords, offsets: [0; 3], base: 0 }
    }

    /// Loads the box and compares the tile with a plain loop.
    #[track_caller]
    fn check(&self) {
        let device = device();
        let data = random(tensor_bytes(&self.map));
        let tensor = Buffer::of(&device, &data);
        let map = TensorMap { address: tensor.address, ..self.map };
        assert_eq!(map.validate(), Ok(()));
        let out = Buffer::new(&device, TILE_BYTES);
        let text = kernel(&load(&map, self.base, self.offsets));
        launch(&device, &text, &map, self.at, out.address).unwrap_or_else(|trap| panic!("{trap}"));
        let size = map.element.bytes() as usize;
        let fill: Vec<u8> = match map.fill {
            OutOfBoundsFill::Zero => vec![0; size],
            OutOfBoundsFill::Nan => [0xf7, 0x7f].repeat(4)[..size].to_vec(),
        };
        let row_elements =
            map.im2col.map_or(map.box_dims[0], |own| own.channels_per_pixel) as usize;
        // With a swizzle, rows are as far apart as its pattern spans.
        let pitch = map.swizzle.span_bytes().map_or((row_elements * size) as u64, u64::from);
        let mut expected = vec![OLD; TILE_BYTES];
        for (index, address) in elements(&map, self.at, self.offsets).into_iter().enumerate() {
            let own = match address {
                Some(address) => data[(address - map.address) as usize..][..size].to_vec(),
                None => fill.clone(),
            };
            let (row, column) = (index / row_elements, index % row_elements);
            let linear = u64::from(self.base) + row as u64 * pitch + (column * size) as u64;
            (0..size)
                .for_each(|byte| expected[swizzled(map.swizzle, linear + byte as u64)] = own[byte]);
        }
        let found = out.bytes();
        let wrong = found.iter().zip(&expected).position(|(a, b)| a != b);
        assert_eq!(wrong, None, "{:?} at {:?}", self.map, self.at);
    }
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

#[test]
fn boxes_of_one_to_five_dimensions() {
    use ElementType::{Bf16, F32, F64, U8};
    Case::new(packed(U8, &[300], &[64]), &[96]).check();
    Case::new(packed(F32, &[40, 30], &[8, 10]), &[4, 7]).check();
    Case::new(packed(F32, &[40, 30], &[8, 10]), &[36, 27]).check();
    Case::new(packed(Bf16, &[24, 9, 7], &[16, 4, 3]), &[8, 1, 3]).check();
    Case::new(packed(F64, &[8, 5, 4, 3], &[4, 2, 3, 2]), &[2, 2, 0, 1]).check();
    Case::new(packed(U8, &[32, 4, 3, 3, 5], &[16, 3, 2, 2, 3]), &[16, 1, 0, 1, 2]).check();
}

#[test]
fn what_lies_outside_is_filled() {
    let map = packed(ElementType::F32, &[21, 10], &[8, 6]);
    for at in
        [[-4, -2], [16, 7], [-4, 7], [100, 0], [0, -100], [i32::MIN, 0], [i32::MAX - 3, i32::MAX]]
    {
        Case::new(map, &at).check();
        Case::new(TensorMap { fill: OutOfBoundsFill::Nan, ..map }, &at).check();
    }
    for element in [ElementType::Bf16, ElementType::F16, ElementType::F64] {
        let map = packed(element, &[20, 10], &[16, 6]);
        Case::new(TensorMap { fill: OutOfBoundsFill::Nan, ..map }, &[8, 8]).check();
    }
}

#[test]
fn swizzles_follow_the_address() {
    for (swizzle, columns) in
        [(Swizzle::Bytes32, 16), (Swizzle::Bytes64, 32), (Swizzle::Bytes128, 64)]
    {
        for base in [0, 128, 384, 1024] {
            let map = TensorMap { swizzle, ..packed(ElementType::Bf16, &[80, 50], &[columns, 40]) };
            Case { base, ..Case::new(map, &[8, 5]) }.check();
            Case { base, ..Case::new(map, &[64, 20]) }.check();
            let narrow = TensorMap { box_dims: [columns / 2, 40, 0, 0, 0], ..map };
            Case { base, ..Case::new(narrow, &[0, 0]) }.check();
        }
    }
}

#[test]
fn strides_leave_elements_out() {
    let mut map = packed(ElementType::F32, &[16, 30, 9], &[8, 10, 5]);
    map.element_strides = [1, 3, 2, 1, 1];
    Case::new(map, &[4, 4, 1]).check();
    Case::new(map, &[4, -4, 5]).check();
}

#[test]
fn convolutions_load_columns() {
    let images = |rank: u32, lower: [i32; 3], upper: [i32; 3], pixels| {
        let dims: &[u64] = match rank {
            3 => &[16, 9, 4],
            4 => &[16, 9, 6, 4],
            _ => &[16, 5, 4, 3, 3],
        };
        TensorMap {
            im2col: Some(Im2col {
                lower_corner: lower,
                upper_corner: upper,
                channels_per_pixel: 8,
                pixels_per_column: pixels,
            }),
            ..packed(ElementType::F16, dims, &[])
        }
    };
    Case::new(images(3, [0; 3], [0; 3], 20), &[8, 2, 1]).check();
    let padded = images(4, [-1, -1, 0], [-1, -1, 0], 64);
    for offsets in [[0, 0, 0], [1, 0, 0], [2, 2, 0]] {
        Case { offsets, ..Case::new(padded, &[0, -1, -1, 0]) }.check();
        Case { offsets, ..Case::new(padded, &[8, 3, 2, 2]) }.check();
    }
    let mut strided = images(4, [-1, -1, 0], [-1, -1, 0], 30);
    strided.element_strides = [1, 2, 2, 1, 1];
    Case { offsets: [1, 2, 0], ..Case::new(strided, &[0, 1, -1, 1]) }.check();
    let volume = TensorMap { swizzle: Swizzle::Bytes32, ..images(5, [0, -1, 0], [-1, 0, -1], 70) };
    let volume = TensorMap {
        im2col: volume.im2col.map(|own| Im2col { channels_per_pixel: 16, ..own }),
        ..volume
    };
    Case { offsets: [1, 1, 1], ..Case::new(volume, &[0, 2, -1, 1, 0]) }.check();
}

/// Copies 0, 1, 2, … from the tile to the tensor, and returns the tensor as words.
fn stored(how: &str, dims: &[u64], box_dims: &[u32], at: &[i32], old: u32) -> Vec<u32> {
    try_stored(how, dims, box_dims, at, old).unwrap_or_else(|trap| panic!("{trap}"))
}

/// The same, or the fault.
fn try_stored(
    how: &str,
    dims: &[u64],
    box_dims: &[u32],
    at: &[i32],
    old: u32,
) -> Result<Vec<u32>, Box<Trap>> {
    let device = device();
    let map = packed(ElementType::U32, dims, box_dims);
    let count = tensor_bytes(&map) / 4;
    let tensor = Buffer::of_u32(&device, &vec![old; count]);
    let map = TensorMap { address: tensor.address, ..map };
    let body = format!(
        "mov.u32 %r5, %r0; NUMBER: shl.b32 %r6, %r5, 2; add.s32 %r6, %r6, %r1; st.shared.u32 [%r6], %r5;
         add.s32 %r5, %r5, 32; setp.lt.u32 %p3, %r5, 1024; @%p3 bra NUMBER; fence.proxy.async.shared::cta; bar.sync 0;
         @%p2 bra DONE; {how}.bulk_group [map, {}], [tile]; cp.async.bulk.commit_group; cp.async.bulk.wait_group 0; DONE:",
        coords(map.rank)
    );
    let out = Buffer::new(&device, TILE_BYTES);
    let mut coords = [0; 5];
    coords[..at.len()].copy_from_slice(at);
    launch(&device, &kernel(&body), &map, coords, out.address)?;
    Ok(tensor.u32s())
}

#[test]
fn a_stored_box_begins_inside_its_tensor() {
    let how = [
        "cp.async.bulk.tensor.2d.global.shared::cta.tile",
        "cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.tile",
    ];
    for (how, at) in how.into_iter().zip([[-4, 0], [0, -1]]) {
        let trap = try_stored(how, &[12, 6], &[8, 3], &at, 0).expect_err("a fault");
        let at = at[0].min(at[1]);
        assert_eq!(trap.kind, TrapKind::Copy(CopyFault::Before { at }));
    }
}

#[test]
fn boxes_are_stored_and_what_is_outside_is_not() {
    let store = "cp.async.bulk.tensor.2d.global.shared::cta.tile";
    let found = stored(store, &[10, 6], &[4, 3], &[8, 4], 99);
    let mut expected = vec![99; 72];
    (expected[4 * 12 + 8], expected[4 * 12 + 9]) = (0, 1);
    (expected[5 * 12 + 8], expected[5 * 12 + 9]) = (4, 5);
    assert_eq!(found, expected);
    let reduce = "cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.tile";
    let found = stored(reduce, &[10, 6], &[8, 3], &[4, 1], 100);
    let mut expected = vec![100; 72];
    for row in 0..3 {
        (0..6).for_each(|column| {
            expected[(row + 1) * 12 + column + 4] = 100 + (8 * row + column) as u32
        });
    }
    assert_eq!(found, expected);
    let largest = "cp.reduce.async.bulk.tensor.1d.global.shared::cta.max";
    assert_eq!(stored(largest, &[8], &[8], &[0], 5), [5, 5, 5, 5, 5, 5, 6, 7]);
}

#[test]
fn maps_can_be_changed_in_memory() {
    let device = device();
    let first = random(64 * 64);
    let (a, b) = (Buffer::of(&device, &vec![7; 64 * 64]), Buffer::of(&device, &first));
    let map = TensorMap { address: a.address, ..packed(ElementType::U8, &[64, 64], &[16, 8]) };
    let place = Buffer::new(&device, 128);
    let wanted = TensorMap {
        address: b.address,
        element: ElementType::Bf16,
        dims: [20, 30, 1, 1, 1],
        strides: [128, 0, 0, 0],
        box_dims: [16, 4, 0, 0, 0],
        element_strides: [1, 2, 1, 1, 1],
        swizzle: Swizzle::Bytes32,
        fill: OutOfBoundsFill::Nan,
        ..map
    };
    // The map is copied to shared memory, changed there, and copied to device memory.
    let body = format!(
        "shl.b32 %r5, %r0, 2; cvt.u64.u32 %rd5, %r5; add.s64 %rd6, map, %rd5; ld.u32 %r6, [%rd6]; add.s32 %r7, %r1, %r5;
         st.shared.u32 [%r7], %r6; bar.sync 0; mov.u64 %rd7, {}; mov.u64 %rd8, {}; @%p2 bra COPY;
         tensormap.replace.tile.global_address.shared::cta.b1024.b64 [tile], %rd7;
         tensormap.replace.tile.elemtype.shared::cta.b1024.b32 [tile], 10;
         tensormap.replace.tile.rank.shared::cta.b1024.b32 [tile], 1;
         tensormap.replace.tile.global_dim.shared::cta.b1024.b32 [tile], 0, 20;
         tensormap.replace.tile.global_dim.shared::cta.b1024.b32 [tile], 1, 30;
         tensormap.replace.tile.global_stride.shared::cta.b1024.b64 [tile], 0, 128;
         tensormap.replace.tile.box_dim.shared::cta.b1024.b32 [tile], 1, 4;
         tensormap.replace.tile.element_stride.shared::cta.b1024.b32 [tile], 1, 2;
         tensormap.replace.tile.swizzle_mode.shared::cta.b1024.b32 [tile], 1;
         tensormap.replace.tile.interleave_layout.shared::cta.b1024.b32 [tile], 0;
         tensormap.replace.tile.fill_mode.shared::cta.b1024.b32 [tile], 1;
         COPY: bar.warp.sync -1;
         tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%rd8], [tile], 128;
         fence.proxy.tensormap::generic.acquire.gpu [%rd8], 128; mov.u64 map, %rd8;",
        b.address, place.address
    );
    let out = Buffer::new(&device, TILE_BYTES);
    launch(&device, &kernel(&body), &map, [0; 5], out.address)
        .unwrap_or_else(|trap| panic!("{trap}"));
    let changed: [u8; 128] = place.bytes().try_into().unwrap();
    assert_eq!(TensorMap::decode(&changed), Some(wanted));
    let text = kernel(&format!("{body} {}", load(&wanted, 1024, [0; 3])));
    launch(&device, &text, &map, [8, 3, 0, 0, 0], out.address)
        .unwrap_or_else(|trap| panic!("{trap}"));
    // Row 3 of the tensor from element 8 on: 12 elements inside.
    let row = &out.bytes()[1024..1056];
    assert_eq!(row[..24], first[3 * 128 + 16..3 * 128 + 40]);
    assert_eq!(row[24..], [0xf7, 0x7f].repeat(4));
}

#[test]
fn what_does_not_fit_is_a_fault() {
    let device = device();
    let tensor = Buffer::of(&device, &random(64 * 64));
    let map = TensorMap { address: tensor.address, ..packed(ElementType::U8, &[64, 64], &[16, 8]) };
    let out = Buffer::new(&device, TILE_BYTES);
    let trap = |text: &str, map: &TensorMap, at: [i32; 5]| {
        launch(&device, text, map, at, out.address).expect_err("a fault").kind
    };
    let body = load(&map, 0, [0; 3]);
    let none = trap(
        &kernel(&format!("mov.u64 map, {}; {body}", tensor.address.next_multiple_of(64))),
        &map,
        [0; 5],
    );
    assert!(matches!(none, TrapKind::Copy(CopyFault::NoTensorMap { .. })), "{none}");
    let cube = TensorMap { rank: 3, strides: [64, 4096, 0, 0], box_dims: [16, 8, 1, 0, 0], ..map };
    let rank = trap(&kernel(&body), &cube, [0; 5]);
    assert_eq!(rank, TrapKind::Copy(CopyFault::Rank { map: 3, instruction: 2 }));
    let image = TensorMap {
        im2col: Some(Im2col { channels_per_pixel: 16, pixels_per_column: 8, ..Im2col::default() }),
        ..cube
    };
    let mode = trap(&kernel(&load(&cube, 0, [0; 3])), &image, [0; 5]);
    assert_eq!(mode, TrapKind::Copy(CopyFault::Mode { map: "im2col" }));
    let align = trap(&kernel(&load(&map, 64, [0; 3])), &map, [0; 5]);
    assert!(matches!(align, TrapKind::Copy(CopyFault::Align { align: 128, .. })), "{align}");
    let first = trap(&kernel(&body), &map, [8, 0, 0, 0, 0]);
    assert!(matches!(first, TrapKind::Copy(CopyFault::Align { align: 16, .. })), "{first}");
    let invalid = trap(&kernel(&body), &TensorMap { box_dims: [10, 8, 0, 0, 0], ..map }, [0; 5]);
    assert!(
        matches!(invalid, TrapKind::Copy(CopyFault::Map(TensorMapError::Row { .. }))),
        "{invalid}"
    );
    let tall = TensorMap { dims: [64, 100, 1, 1, 1], ..map };
    let outside = trap(&kernel(&body), &tall, [0, 60, 0, 0, 0]);
    assert!(matches!(outside, TrapKind::OutOfBounds { .. }), "{outside}");
    assert!(
        trap(&kernel(&load(&map, TILE_BYTES as u32, [0; 3])), &map, [0; 5])
            .to_string()
            .contains("out-of-bounds")
    );
    let reduce = kernel(
        "cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.bulk_group [map, {%c0, %c1}], [tile];",
    );
    let none = trap(&reduce, &map, [0; 5]);
    assert!(
        matches!(none, TrapKind::Copy(CopyFault::Reduction { operation: "add", .. })),
        "{none}"
    );
}

/// Four stages of tiles, one warp that loads and two that add up; full and empty mbarriers.
#[test]
fn a_pipeline_with_specialised_warps() {
    let device = device();
    let values: Vec<u32> = (0..64 * 40).map(|i| i * 7 + 1).collect();
    let tensor = Buffer::of_u32(&device, &values);
    let map =
        TensorMap { address: tensor.address, ..packed(ElementType::U32, &[64, 40], &[64, 1]) };
    let out = Buffer::new(&device, 4 * 64);
    let text = format!(
        "{HEAD}.visible .entry k(.param .align 64 .b8 k_map[128], .param .u64 k_out, .param .align 4 .b8 k_at[32]) {{
            .reg .pred %p<8>; .reg .b32 %r<32>; .reg .b64 %rd<8>, map;
            .shared .align 1024 .b8 tile[1024]; .shared .align 8 .b64 full[4]; .shared .align 8 .b64 empty[4];
            mov.b64 map, k_map; cvta.param.u64 map, map; ld.param.b64 %rd0, [k_out]; mov.u32 %r0, %tid.x;
            mov.u32 %r1, full; mov.u32 %r2, empty; mov.u32 %r3, tile;
            setp.ne.s32 %p1, %r0, 0; @%p1 bra MADE; mov.u32 %r4, 0;
            MAKE: mad.lo.s32 %r5, %r4, 8, %r1; mad.lo.s32 %r6, %r4, 8, %r2; mbarrier.init.shared.b64 [%r5], 1; mbarrier.init.shared.b64 [%r6], 2;
            add.s32 %r4, %r4, 1; setp.lt.u32 %p2, %r4, 4; @%p2 bra MAKE; fence.mbarrier_init.release.cluster;
            MADE: bar.sync 0; mov.u32 %r4, 0; mov.u32 %r10, 0; setp.ge.u32 %p3, %r0, 32; @%p3 bra CONSUME;
            elect.sync _|%p4, -1; @!%p4 bra OUT;
            PRODUCE: and.b32 %r7, %r4, 3; shr.u32 %r8, %r4, 2; and.b32 %r8, %r8, 1; xor.b32 %r8, %r8, 1;
            mad.lo.s32 %r5, %r7, 8, %r1; mad.lo.s32 %r6, %r7, 8, %r2; mad.lo.s32 %r9, %r7, 256, %r3;
            FREE: mbarrier.try_wait.parity.shared.b64 %p5, [%r6], %r8; @!%p5 bra FREE;
            mbarrier.arrive.expect_tx.shared.b64 _, [%r5], 256;
            cp.async.bulk.tensor.2d.shared::cta.global.mbarrier::complete_tx::bytes [%r9], [map, {{0, %r4}}], [%r5];
            add.s32 %r4, %r4, 1; setp.lt.u32 %p2, %r4, 40; @%p2 bra PRODUCE; bra OUT;
            CONSUME: sub.s32 %r11, %r0, 32;
            TAKE: and.b32 %r7, %r4, 3; shr.u32 %r8, %r4, 2; and.b32 %r8, %r8, 1;
            mad.lo.s32 %r5, %r7, 8, %r1; mad.lo.s32 %r6, %r7, 8, %r2; mad.lo.s32 %r9, %r7, 256, %r3;
            HAVE: mbarrier.try_wait.parity.shared.b64 %p5, [%r5], %r8; @!%p5 bra HAVE;
            mad.lo.s32 %r12, %r11, 4, %r9; ld.shared.u32 %r13, [%r12]; mad.lo.s32 %r10, %r10, 3, %r13;
            bar.warp.sync -1; elect.sync _|%p4, -1; @%p4 mbarrier.arrive.shared.b64 _, [%r6];
            add.s32 %r4, %r4, 1; setp.lt.u32 %p2, %r4, 40; @%p2 bra TAKE;
            mad.wide.u32 %rd1, %r11, 4, %rd0; st.global.u32 [%rd1], %r10;
            OUT: ret; }}"
    );
    let module = device.load(&text).unwrap();
    let function = module.function("k").unwrap();
    let mut params = map.encode().to_vec();
    params.extend(out.address.to_le_bytes());
    params.resize(function.param_bytes, 0);
    let launch = Launch { block: [96, 1, 1], params: &params, ..Launch::new(&function) };
    device.launch(&launch).unwrap_or_else(|trap| panic!("{trap}"));
    let column = |x: usize| {
        (0..40).fold(0u32, |sum, y| sum.wrapping_mul(3).wrapping_add(values[y * 64 + x]))
    };
    assert_eq!(out.u32s(), (0..64).map(column).collect::<Vec<_>>());
}

/// Two blocks load half a tile each, for both.
#[test]
fn a_multicast_of_boxes() {
    let device = device();
    let values: Vec<u32> = (0..32 * 4).collect();
    let tensor = Buffer::of_u32(&device, &values);
    let map = TensorMap { address: tensor.address, ..packed(ElementType::U32, &[32, 4], &[32, 2]) };
    let out = Buffer::new(&device, 2 * 512);
    let text = format!(
        "{HEAD}.visible .entry k(.param .align 64 .b8 k_map[128], .param .u64 k_out, .param .align 4 .b8 k_at[32]) .reqnctapercluster 2, 1, 1 {{
            .reg .pred %p<8>; .reg .b16 %h<2>; .reg .b32 %r<16>; .reg .b64 %rd<8>, map;
            .shared .align 1024 .b8 tile[512]; .shared .align 8 .b64 bar;
            mov.b64 map, k_map; cvta.param.u64 map, map; ld.param.b64 %rd0, [k_out]; mov.u32 %r0, %tid.x; mov.u32 %r1, %cluster_ctarank;
            setp.ne.s32 %p1, %r0, 0; @%p1 bra MADE; mbarrier.init.shared.b64 [bar], 1; mbarrier.arrive.expect_tx.shared.b64 _, [bar], 512;
            MADE: barrier.cluster.arrive.release; barrier.cluster.wait.acquire; @%p1 bra WAIT;
            mov.u32 %r2, tile; mad.lo.s32 %r2, %r1, 256, %r2; shl.b32 %r3, %r1, 1; mov.b16 %h0, 3;
            cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%r2], [map, {{0, %r3}}], [bar], %h0;
            WAIT: mbarrier.try_wait.parity.shared.b64 %p2, [bar], 0; @!%p2 bra WAIT;
            mov.u32 %r4, tile; mad.lo.s32 %r4, %r0, 4, %r4; ld.shared.u32 %r5, [%r4]; mad.lo.s32 %r6, %r1, 128, %r0;
            mad.wide.u32 %rd1, %r6, 4, %rd0; st.global.u32 [%rd1], %r5;
            barrier.cluster.arrive; barrier.cluster.wait; ret; }}"
    );
    let module = device.load(&text).unwrap();
    let function = module.function("k").unwrap();
    let mut params = map.encode().to_vec();
    params.extend(out.address.to_le_bytes());
    params.resize(function.param_bytes, 0);
    let (grid, block) = ([2, 1, 1], [128, 1, 1]);
    let launch = Launch { grid, block, params: &params, ..Launch::new(&function) };
    device.launch(&launch).unwrap_or_else(|trap| panic!("{trap}"));
    assert_eq!(out.u32s(), [values.as_slice(), &values].concat());
}
