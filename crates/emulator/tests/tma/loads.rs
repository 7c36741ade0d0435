//! Boxes and columns on their way to shared memory.

use super::common::{Buffer, device};
use super::{TILE_BYTES, extents, kernel, launch, load, packed, random, tensor_bytes};
use emulator::{ElementType, Im2col, OutOfBoundsFill, Swizzle, TensorMap};

const OLD: u8 = 0xee;

/// Where byte `linear` of the tile lies with a swizzle: in lines of 128 bytes, chunk `c` of line
/// `l` is at chunk `c ^ (l mod 8)`, or with the lower bits alone.
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
    // All pixels of all images in the bounding box, in order, from the one that the copy begins
    // with.
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

/// One copy.
struct Case {
    map: TensorMap,
    at: [i32; 5],
    offsets: [u16; 3],
    base: u32,
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
