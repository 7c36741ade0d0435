//! Tensor copies: which bytes of a tensor go to which bytes of shared memory.

use crate::machine::copies::{Chunk, Source};
use crate::tensor_map::{Im2col, MAX_RANK, OutOfBoundsFill, TensorMap};

/// The unit that swizzles exchange, and of which a store writes whole ones.
const CHUNK: u64 = 16;

/// Where a copy begins.
#[derive(Clone, Copy, Debug)]
pub struct Start {
    /// Coordinates of the first element, innermost first.
    pub coords: [i32; MAX_RANK],
    /// For the mode `im2col`: how far the pixels that are read lie from those that are counted.
    pub offsets: [u32; 3],
}

/// The elements of a box that are next to each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// Address of the element with the innermost coordinate 0; `None` where all lie outside the
    /// tensor.
    pub origin: Option<u64>,
}

/// The rows of a box, in the order of shared memory.
pub fn rows(map: &TensorMap, start: &Start) -> Vec<Row> {
    match &map.im2col {
        None => tiled(map, start),
        Some(im2col) => columns(map, im2col, start),
    }
}

/// Elements of a row.
pub fn row_elements(map: &TensorMap) -> u32 {
    map.im2col.map_or(map.box_dims[0], |im2col| im2col.channels_per_pixel)
}

/// Bytes of a row.
fn row_bytes(map: &TensorMap) -> u64 {
    u64::from(row_elements(map) * map.element.bytes())
}

/// Bytes from one row to the next in shared memory: with a swizzle, what its pattern spans.
fn pitch(map: &TensorMap) -> u64 {
    map.swizzle.span_bytes().map_or(row_bytes(map), u64::from)
}

fn row_count(map: &TensorMap) -> u64 {
    match &map.im2col {
        None => (1..map.rank as usize).map(|dim| steps(map, dim)).product(),
        Some(im2col) => im2col.pixels_per_column.into(),
    }
}

/// Bytes of a box.
pub fn box_bytes(map: &TensorMap) -> u64 {
    row_count(map) * row_bytes(map)
}

/// Bytes that a box takes in shared memory.
pub fn shared_bytes(map: &TensorMap) -> u64 {
    (row_count(map) - 1) * pitch(map) + row_bytes(map)
}

/// Elements of a box along a dimension.
fn steps(map: &TensorMap, dim: usize) -> u64 {
    map.box_dims[dim].div_ceil(map.element_strides[dim].max(1)).into()
}

/// The row at coordinates, of which the innermost does not count.
fn row_at(map: &TensorMap, coords: &[i64; MAX_RANK]) -> Row {
    let inside = |dim: usize| (0..map.dims[dim] as i64).contains(&coords[dim]);
    let outer = 1..map.rank as usize;
    let origin = outer.clone().all(inside).then(|| {
        let offset: u64 = outer.map(|dim| coords[dim] as u64 * map.strides[dim - 1]).sum();
        map.address.wrapping_add(offset)
    });
    Row { origin }
}

fn tiled(map: &TensorMap, start: &Start) -> Vec<Row> {
    let counts: Vec<u64> = (1..map.rank as usize).map(|dim| steps(map, dim)).collect();
    (0..counts.iter().product())
        .map(|mut number: u64| {
            let mut coords = start.coords.map(i64::from);
            for (dim, count) in (1..).zip(&counts) {
                let step = number % count * u64::from(map.element_strides[dim]);
                coords[dim] += step as i64;
                number /= count;
            }
            row_at(map, &coords)
        })
        .collect()
}

/// Pixels one after the other: to the right in the bounding box, then in the next line of it, and
/// so on into the next image.
fn columns(map: &TensorMap, im2col: &Im2col, start: &Start) -> Vec<Row> {
    let last = map.rank as usize - 1;
    let mut at = start.coords.map(i64::from);
    let pixel = |at: &[i64; MAX_RANK]| {
        let mut coords = *at;
        (1..last).for_each(|dim| coords[dim] += i64::from(start.offsets[dim - 1]));
        row_at(map, &coords)
    };
    (0..im2col.pixels_per_column)
        .map(|_| {
            let row = pixel(&at);
            advance(map, im2col, &mut at, last);
            row
        })
        .collect()
}

fn advance(map: &TensorMap, im2col: &Im2col, at: &mut [i64; MAX_RANK], last: usize) {
    for (dim, own) in at.iter_mut().enumerate().take(last).skip(1) {
        *own += i64::from(map.element_strides[dim]);
        if *own < map.dims[dim] as i64 + i64::from(im2col.upper_corner[dim - 1]) {
            return;
        }
        *own = im2col.lower_corner[dim - 1].into();
    }
    at[last] += 1;
}

/// Which way a copy goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From the tensor to shared memory.
    Load,
    /// From shared memory to the tensor, by a store or a reduction. An H200 writes whole units of 16 bytes: where the rows of a
    /// tensor end inside of one, the rest of the unit is stored, or joined, with what the box has there.
    Store,
}

/// The bytes of a row of a box that are copied, counted from the row's first.
fn inside(map: &TensorMap, start: &Start, direction: Direction) -> std::ops::Range<u64> {
    let size = i64::from(map.element.bytes());
    let (first, row) = (i64::from(start.coords[0]) * size, row_bytes(map) as i64);
    let extent = map.dims[0] as i64 * size;
    let extent = match direction {
        Direction::Store if first < extent => (extent as u64).next_multiple_of(CHUNK) as i64,
        _ => extent,
    };
    let low = (-first).clamp(0, row);
    let high = (extent - first).clamp(low, row);
    low as u64..high as u64
}

/// A part of a box: bytes of shared memory, counted from the box's first, and where they lie in the
/// tensor.
pub struct BoxChunk {
    /// Offset in shared memory, exchanged by the swizzle.
    pub shared: u64,
    /// Address in device memory; `None` outside the tensor.
    pub global: Option<u64>,
    /// Bytes.
    pub bytes: u64,
}

/// All box_chunks of a box whose first byte lies at the offset `base` of shared memory.
pub fn box_chunks(
    map: &TensorMap,
    start: &Start,
    base: u64,
    direction: Direction,
) -> Vec<BoxChunk> {
    let size = u64::from(map.element.bytes());
    let (row_bytes, pitch) = (row_bytes(map), pitch(map));
    let valid = inside(map, start, direction);
    let mut out = Vec::new();
    for (row, index) in rows(map, start).iter().zip(0..) {
        let row_at = base + index * pitch;
        let first = row.origin.map(|origin| {
            origin.wrapping_add_signed(i64::from(start.coords[0]).wrapping_mul(size as i64))
        });
        let valid = if first.is_some() { valid.clone() } else { 0..0 };
        let mut at = 0;
        while at < row_bytes {
            let (end, is_inside) = stretch(at, row_bytes, &valid);
            let end = if map.swizzle.span_bytes().is_some() {
                end.min((row_at + at + 1).next_multiple_of(CHUNK) - row_at)
            } else {
                end
            };
            out.push(BoxChunk {
                shared: map.swizzle.apply(row_at + at),
                global: first.filter(|_| is_inside).map(|first| first.wrapping_add(at)),
                bytes: end - at,
            });
            at = end;
        }
    }
    out
}

/// How far a row goes on like at `at`, inside the tensor or outside.
fn stretch(at: u64, end: u64, valid: &std::ops::Range<u64>) -> (u64, bool) {
    match at {
        _ if at < valid.start => (valid.start, false),
        _ if at < valid.end => (valid.end, true),
        _ => (end, false),
    }
}

/// The bytes that stand for elements outside the tensor: zeros, or a NaN that an H200 writes.
fn fill(map: &TensorMap) -> u64 {
    match map.fill {
        OutOfBoundsFill::Zero => 0,
        OutOfBoundsFill::Nan => 0x7ff7_7ff7_7ff7_7ff7,
    }
}

/// The chunks of a copy to shared memory, whose byte 0 lies at `shared` in this process.
pub fn into_shared(map: &TensorMap, box_chunks: &[BoxChunk], shared: u64) -> Vec<Chunk> {
    let pattern = fill(map);
    let chunk = |part: &BoxChunk| Chunk {
        to: shared + part.shared,
        from: part.global.map_or(Source::Fill(pattern), Source::Memory),
        bytes: part.bytes as u32,
    };
    box_chunks.iter().map(chunk).collect()
}

/// The chunks of a copy from there.
pub fn from_shared(box_chunks: &[BoxChunk], shared: u64) -> Vec<Chunk> {
    let chunk = |part: &BoxChunk| {
        let from = Source::Memory(shared + part.shared);
        part.global.map(|to| Chunk { to, from, bytes: part.bytes as u32 })
    };
    box_chunks.iter().filter_map(chunk).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tensor_map::{ElementType, Swizzle};

    fn matrix(dims: [u64; 2], box_dims: [u32; 2]) -> TensorMap {
        TensorMap {
            element: ElementType::U16,
            rank: 2,
            address: 0x1000,
            dims: [dims[0], dims[1], 1, 1, 1],
            strides: [64, 0, 0, 0],
            box_dims: [box_dims[0], box_dims[1], 0, 0, 0],
            element_strides: [1; 5],
            ..TensorMap::default()
        }
    }

    fn at(x: i32, y: i32) -> Start {
        Start { coords: [x, y, 0, 0, 0], offsets: [0; 3] }
    }

    fn list(map: &TensorMap, start: Start) -> Vec<(u64, Option<u64>, u64)> {
        let box_chunks = box_chunks(map, &start, 0, Direction::Load);
        box_chunks.iter().map(|part| (part.shared, part.global, part.bytes)).collect()
    }

    #[test]
    fn a_box_in_the_middle_is_rows() {
        let found = list(&matrix([32, 8], [8, 2]), at(3, 2));
        assert_eq!(found, [(0, Some(0x1000 + 128 + 6), 16), (16, Some(0x1000 + 192 + 6), 16)]);
    }

    #[test]
    fn what_is_outside_has_no_address() {
        let map = matrix([30, 3], [8, 2]);
        let found = list(&map, at(26, 2));
        assert_eq!(found, [(0, Some(0x1000 + 128 + 52), 8), (8, None, 8), (16, None, 16)]);
        let found = list(&map, at(-2, -1));
        assert_eq!(found, [(0, None, 16), (16, None, 4), (20, Some(0x1000), 12)]);
        assert_eq!(list(&map, at(-100, 0))[0], (0, None, 16));
        assert_eq!(list(&map, at(i32::MAX, 0))[0], (0, None, 16));
        assert_eq!(box_bytes(&map), 32);
    }

    #[test]
    fn a_store_writes_whole_units_past_the_end_of_a_row() {
        let written = |map: &TensorMap, start, direction| -> u64 {
            let parts = box_chunks(map, &start, 0, direction);
            parts.iter().filter(|part| part.global.is_some()).map(|part| part.bytes).sum()
        };
        // Rows of 58 bytes; the box has columns 24 to 31 of the last row, which are bytes 48 to 63.
        let map = matrix([29, 3], [8, 2]);
        assert_eq!(written(&map, at(24, 2), Direction::Load), 10);
        assert_eq!(written(&map, at(24, 2), Direction::Store), 16);
        // A box that ends before the unit does, and one that begins after the rows.
        assert_eq!(written(&map, at(22, 2), Direction::Store), 16);
        assert_eq!(written(&map, at(29, 2), Direction::Store), 0);
        // Rows of whole units.
        assert_eq!(written(&matrix([24, 3], [16, 2]), at(16, 2), Direction::Store), 16);
    }

    #[test]
    fn strides_leave_out_rows() {
        let mut map = matrix([32, 9], [8, 5]);
        map.element_strides[1] = 2;
        let origins: Vec<_> = list(&map, at(0, 3)).iter().map(|part| part.1).collect();
        assert_eq!(origins, [Some(0x1000 + 192), Some(0x1000 + 320), Some(0x1000 + 448)]);
        assert_eq!(box_bytes(&map), 48);
    }

    #[test]
    fn swizzled_rows_are_cut_into_chunks() {
        let map = TensorMap { swizzle: Swizzle::Bytes32, ..matrix([32, 64], [16, 8]) };
        let box_chunks = box_chunks(&map, &at(0, 0), 0, Direction::Load);
        assert_eq!(box_chunks.len(), 16);
        assert_eq!((box_chunks[0].shared, box_chunks[1].shared), (0, 16));
        // Bytes 128 to 255 have their chunks exchanged.
        assert_eq!((box_chunks[8].shared, box_chunks[9].shared), (144, 128));
    }

    #[test]
    fn pixels_go_through_the_bounding_box() {
        let im2col = Im2col {
            lower_corner: [-1, 0, 0],
            upper_corner: [-1, 0, 0],
            channels_per_pixel: 8,
            pixels_per_column: 5,
        };
        // One dimension of 4 pixels, 2 images: base pixels -1 to 2 of each.
        let map = TensorMap {
            rank: 3,
            dims: [8, 4, 2, 1, 1],
            strides: [16, 64, 0, 0],
            im2col: Some(im2col),
            ..matrix([0, 0], [0, 0])
        };
        let start = Start { coords: [0, 1, 0, 0, 0], offsets: [1, 0, 0] };
        let origins: Vec<_> = rows(&map, &start).iter().map(|row| row.origin).collect();
        let pixel = |w: u64, n: u64| Some(0x1000 + 16 * w + 64 * n);
        assert_eq!(origins, [pixel(2, 0), pixel(3, 0), pixel(0, 1), pixel(1, 1), pixel(2, 1)]);
    }
}
