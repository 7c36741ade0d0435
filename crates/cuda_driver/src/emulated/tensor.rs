//! Tensor maps, for bulk tensor copies (TMA). The encoding of the 128 bytes is the emulator's own.
#![allow(non_snake_case)]

use ::emulator::{
    ElementType, Im2col, Interleave, L2Promotion, OutOfBoundsFill, Swizzle, TensorMap,
};

use super::{invalid_value, not_supported};
use crate::abi::{HostPtr, In, Out};
use crate::detail::DriverResult;
use crate::structs::CUtensorMap;

/// The arguments that tiled and im2col maps share.
struct TensorMapArguments {
    element: u32,
    rank: u32,
    address: HostPtr,
    dims: In<u64>,
    strides: In<u64>,
    element_strides: In<u32>,
    /// Interleave, swizzle, cache promotion, fill.
    modes: [u32; 4],
}

impl TensorMapArguments {
    /// The map without its box dimensions.
    fn read(&self) -> DriverResult<TensorMap> {
        let rank = self.rank as usize;
        if !(1..=5).contains(&rank) {
            return Err(invalid_value(format!(
                "a tensor of {rank} dimensions; it may have 1 to 5"
            )));
        }
        self.dims.get()?;
        self.element_strides.get()?;
        if rank > 1 {
            self.strides.get()?;
        }
        let [interleave, swizzle, promotion, fill] = self.modes;
        let mut map = TensorMap {
            element: decode_mode(
                ElementType::from_code(self.element),
                "element type",
                self.element,
            )?,
            rank: self.rank,
            address: self.address.address(),
            interleave: decode_mode(Interleave::from_code(interleave), "interleave", interleave)?,
            swizzle: decode_mode(Swizzle::from_code(swizzle), "swizzle", swizzle)?,
            l2_promotion: decode_mode(L2Promotion::from_code(promotion), "promotion", promotion)?,
            fill: decode_mode(OutOfBoundsFill::from_code(fill), "fill", fill)?,
            ..TensorMap::default()
        };
        for dim in 0..rank {
            map.dims[dim] = self.dims.at(dim);
            map.element_strides[dim] = self.element_strides.at(dim);
        }
        for dim in 0..rank - 1 {
            map.strides[dim] = self.strides.at(dim);
        }
        Ok(map)
    }
}

fn decode_mode<T>(value: Option<T>, what: &str, code: u32) -> DriverResult<T> {
    value.ok_or_else(|| {
        invalid_value(format!("{code} is not a valid {what} of the emulator's tensor maps"))
    })
}

fn write(out: Out<CUtensorMap>, map: &TensorMap) -> DriverResult {
    out.check()?;
    map.validate().map_err(|error| invalid_value(error.to_string()))?;
    let bytes = map.encode();
    let (words, _) = bytes.as_chunks::<8>();
    let mut encoded = CUtensorMap { words: [0; 16] };
    encoded
        .words
        .iter_mut()
        .zip(words)
        .for_each(|(word, bytes)| *word = u64::from_ne_bytes(*bytes));
    out.set(encoded)
}

#[allow(clippy::too_many_arguments)]
pub(crate) fn cuTensorMapEncodeTiled(
    map: Out<CUtensorMap>,
    element: u32,
    rank: u32,
    address: HostPtr,
    dims: In<u64>,
    strides: In<u64>,
    box_dims: In<u32>,
    element_strides: In<u32>,
    interleave: u32,
    swizzle: u32,
    promotion: u32,
    fill: u32,
) -> DriverResult {
    let modes = [interleave, swizzle, promotion, fill];
    let arguments =
        TensorMapArguments { element, rank, address, dims, strides, element_strides, modes };
    let mut tensor = arguments.read()?;
    box_dims.get()?;
    for dim in 0..rank as usize {
        tensor.box_dims[dim] = box_dims.at(dim);
    }
    write(map, &tensor)
}

#[allow(clippy::too_many_arguments)]
pub(crate) fn cuTensorMapEncodeIm2col(
    map: Out<CUtensorMap>,
    element: u32,
    rank: u32,
    address: HostPtr,
    dims: In<u64>,
    strides: In<u64>,
    lower_corner: In<i32>,
    upper_corner: In<i32>,
    channels_per_pixel: u32,
    pixels_per_column: u32,
    element_strides: In<u32>,
    interleave: u32,
    swizzle: u32,
    promotion: u32,
    fill: u32,
) -> DriverResult {
    let modes = [interleave, swizzle, promotion, fill];
    let arguments =
        TensorMapArguments { element, rank, address, dims, strides, element_strides, modes };
    let mut tensor = arguments.read()?;
    lower_corner.get()?;
    upper_corner.get()?;
    let mut im2col = Im2col { channels_per_pixel, pixels_per_column, ..Im2col::default() };
    for dim in 0..(rank as usize).saturating_sub(2) {
        im2col.lower_corner[dim] = lower_corner.at(dim);
        im2col.upper_corner[dim] = upper_corner.at(dim);
    }
    tensor.im2col = Some(im2col);
    write(map, &tensor)
}

/// The mode im2col-w needs a newer device than the emulated one.
#[allow(clippy::too_many_arguments)]
pub(crate) fn cuTensorMapEncodeIm2colWide(
    _map: Out<CUtensorMap>,
    _element: u32,
    _rank: u32,
    _address: HostPtr,
    _dims: In<u64>,
    _strides: In<u64>,
    _lower_corner_width: i32,
    _upper_corner_width: i32,
    _channels_per_pixel: u32,
    _pixels_per_column: u32,
    _element_strides: In<u32>,
    _interleave: u32,
    _mode: u32,
    _swizzle: u32,
    _promotion: u32,
    _fill: u32,
) -> DriverResult {
    Err(not_supported("tensor maps of the mode im2col-w are for sm_100 and later"))
}

pub(crate) fn cuTensorMapReplaceAddress(map: Out<CUtensorMap>, address: HostPtr) -> DriverResult {
    map.check()?;
    let mut bytes = [0; 128];
    let words = map.get_at(0).words;
    let (chunks, _) = bytes.as_chunks_mut::<8>();
    chunks.iter_mut().zip(words).for_each(|(bytes, word)| *bytes = word.to_ne_bytes());
    let tensor =
        TensorMap::decode(&bytes).ok_or_else(|| invalid_value("the bytes are not a tensor map"))?;
    write(map, &TensorMap { address: address.address(), ..tensor })
}
