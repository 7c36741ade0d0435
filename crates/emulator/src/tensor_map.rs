//! Tensor maps: what a tensor in device memory looks like, and which box of it a copy moves.
//!
//! A program makes one on the host (`cuTensorMapEncodeTiled`, `cuTensorMapEncodeIm2col`), and hands
//! it to kernels as 128 bytes that only the device understands. Here they are little-endian fields
//! at fixed places, written by [`TensorMap::encode`] and read by [`TensorMap::decode`].

/// Bytes of an encoded map.
pub const TENSOR_MAP_BYTES: usize = 128;
/// Alignment that an encoded map has in memory.
pub const TENSOR_MAP_ALIGN: u64 = 64;
/// Dimensions that a tensor may have.
pub const MAX_RANK: usize = 5;

const MAGIC: u32 = 0x4d54_5746;
const MAX_STRIDE: u64 = 1 << 40;
const MAX_BOX: u32 = 256;
const MAX_ELEMENT_STRIDE: u32 = 8;
const MAX_CHANNELS: u32 = 256;
const MAX_PIXELS: u32 = 1024;

macro_rules! codes {
    ($(#[$doc:meta])* $name:ident { $($(#[$own:meta])* $variant:ident = $code:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
        pub enum $name {
            $($(#[$own])* $variant = $code,)*
        }

        impl $name {
            /// The value that the driver's interface gives this number.
            pub fn from_code(code: u32) -> Option<Self> {
                match code {
                    $($code => Some(Self::$variant),)*
                    _ => None,
                }
            }

            /// Its number in the driver's interface.
            pub fn code(self) -> u32 {
                self as u32
            }
        }
    };
}

codes! {
    /// Type of a tensor's elements.
    ElementType {
        /// 8 bits, unsigned.
        #[default]
        U8 = 0,
        /// 16 bits, unsigned.
        U16 = 1,
        /// 32 bits, unsigned.
        U32 = 2,
        /// 32 bits, signed.
        S32 = 3,
        /// 64 bits, unsigned.
        U64 = 4,
        /// 64 bits, signed.
        S64 = 5,
        /// Half precision.
        F16 = 6,
        /// Single precision.
        F32 = 7,
        /// Double precision.
        F64 = 8,
        /// The upper half of single precision.
        Bf16 = 9,
        /// Single precision, subnormals flushed.
        F32Ftz = 10,
        /// Single precision with 10 bits of mantissa.
        Tf32 = 11,
        /// The same, subnormals flushed.
        Tf32Ftz = 12,
    }
}

impl ElementType {
    /// Bytes of an element.
    pub fn bytes(self) -> u32 {
        match self {
            Self::U8 => 1,
            Self::U16 | Self::F16 | Self::Bf16 => 2,
            Self::U64 | Self::S64 | Self::F64 => 8,
            _ => 4,
        }
    }

    /// Whether loads round numbers of single precision. (The type that flushes subnormals keeps them on an H100.)
    pub fn is_tf32(self) -> bool {
        matches!(self, Self::Tf32 | Self::Tf32Ftz)
    }

    /// A floating-point type.
    pub fn is_float(self) -> bool {
        !matches!(self, Self::U8 | Self::U16 | Self::U32 | Self::S32 | Self::U64 | Self::S64)
    }
}

codes! {
    /// How channels are kept in slices.
    Interleave {
        /// They are not.
        #[default]
        None = 0,
        /// In slices of 16 bytes.
        Bytes16 = 1,
        /// In slices of 32 bytes.
        Bytes32 = 2,
    }
}

codes! {
    /// How 16-byte chunks are exchanged in shared memory, against bank conflicts.
    Swizzle {
        /// They are not.
        #[default]
        None = 0,
        /// Within 32 bytes.
        Bytes32 = 1,
        /// Within 64 bytes.
        Bytes64 = 2,
        /// Within 128 bytes.
        Bytes128 = 3,
    }
}

impl Swizzle {
    /// Bytes of a row of shared memory that the pattern exchanges chunks in; `None` for no pattern.
    pub fn span_bytes(self) -> Option<u32> {
        match self {
            Self::None => None,
            Self::Bytes32 => Some(32),
            Self::Bytes64 => Some(64),
            Self::Bytes128 => Some(128),
        }
    }

    /// Where a byte of shared memory goes: bits 4 and up are changed by bits 7 and up.
    pub fn apply(self, address: u64) -> u64 {
        let bits = match self {
            Self::None => 0,
            Self::Bytes32 => 1,
            Self::Bytes64 => 3,
            Self::Bytes128 => 7,
        };
        address ^ (address >> 7 & bits) << 4
    }
}

codes! {
    /// A hint about the second-level cache, without effect here.
    L2Promotion {
        /// None.
        #[default]
        None = 0,
        /// 64 bytes.
        Bytes64 = 1,
        /// 128 bytes.
        Bytes128 = 2,
        /// 256 bytes.
        Bytes256 = 3,
    }
}

codes! {
    /// What elements outside the tensor are read as.
    OutOfBoundsFill {
        /// Zero.
        #[default]
        Zero = 0,
        /// A NaN.
        Nan = 1,
    }
}

/// How a convolution's window moves: which pixels are loaded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Im2col {
    /// First pixel in each spatial dimension, from the tensor's first.
    pub lower_corner: [i32; 3],
    /// Last pixel in each spatial dimension, from the tensor's last.
    pub upper_corner: [i32; 3],
    /// Channels of a pixel that are loaded.
    pub channels_per_pixel: u32,
    /// Pixels that are loaded.
    pub pixels_per_column: u32,
}

/// A tensor, and the box that copies of it move. Dimension 0 is the innermost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TensorMap {
    /// Type of the elements.
    pub element: ElementType,
    /// Dimensions, 1 to 5.
    pub rank: u32,
    /// First byte in device memory.
    pub address: u64,
    /// Elements in each dimension.
    pub dims: [u64; MAX_RANK],
    /// Bytes from one index to the next, from dimension 1 on.
    pub strides: [u64; MAX_RANK - 1],
    /// Extent of the box in each dimension, in elements of the tensor. Not used with [`Im2col`].
    pub box_dims: [u32; MAX_RANK],
    /// In each dimension, one of this many elements is moved.
    pub element_strides: [u32; MAX_RANK],
    /// Slices of channels.
    pub interleave: Interleave,
    /// Pattern in shared memory.
    pub swizzle: Swizzle,
    /// Cache hint.
    pub l2_promotion: L2Promotion,
    /// Elements outside.
    pub fill: OutOfBoundsFill,
    /// For maps of the mode `im2col`.
    pub im2col: Option<Im2col>,
}

/// A rule of tensor maps that is broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TensorMapError {
    /// Number of dimensions.
    #[error("a tensor map has 1 to 5 dimensions (3 to 5 with im2col or interleaving), not {rank}")]
    Rank {
        /// What was asked for.
        rank: u32,
    },
    /// First byte of the tensor.
    #[error("the tensor's address {address:#x} is not a multiple of {align}")]
    Address {
        /// Address.
        address: u64,
        /// What it has to be a multiple of.
        align: u64,
    },
    /// An extent.
    #[error("dimension {dim} of the tensor has {extent} elements; 1 to 2^32 are possible")]
    Extent {
        /// Dimension.
        dim: usize,
        /// Elements.
        extent: u64,
    },
    /// A stride.
    #[error("the stride {stride} of dimension {dim} is not a multiple of {align} below 2^40")]
    Stride {
        /// Dimension.
        dim: usize,
        /// Stride in bytes.
        stride: u64,
        /// What it has to be a multiple of.
        align: u64,
    },
    /// A box.
    #[error("the box has {extent} elements in dimension {dim}; 1 to 256 are possible")]
    Box {
        /// Dimension.
        dim: usize,
        /// Elements.
        extent: u32,
    },
    /// A stride between elements.
    #[error("an element stride of {stride} in dimension {dim}; 1 to 8 are possible")]
    ElementStride {
        /// Dimension.
        dim: usize,
        /// Stride.
        stride: u32,
    },
    /// The innermost extent of the box.
    #[error("the box's rows have {bytes} bytes; {rule}")]
    Row {
        /// Bytes.
        bytes: u32,
        /// What they have to be.
        rule: &'static str,
    },
    /// Fill.
    #[error("elements that are integers cannot be filled with NaN")]
    Fill,
    /// Corners, channels or pixels.
    #[error("the {what} of the im2col map is out of range")]
    Im2col {
        /// Which.
        what: &'static str,
    },
}

impl TensorMap {
    /// Checks the rules that the driver checks before it encodes a map.
    ///
    /// # Errors
    /// The first that is broken.
    pub fn validate(&self) -> Result<(), TensorMapError> {
        let least =
            if self.im2col.is_some() || self.interleave != Interleave::None { 3 } else { 1 };
        if !(least..=MAX_RANK as u32).contains(&self.rank) {
            return Err(TensorMapError::Rank { rank: self.rank });
        }
        let align = if self.interleave == Interleave::Bytes32 { 32 } else { 16 };
        if self.address == 0 || !self.address.is_multiple_of(align) {
            return Err(TensorMapError::Address { address: self.address, align });
        }
        self.validate_shape(align)?;
        match &self.im2col {
            None => self.validate_box()?,
            Some(im2col) => self.validate_im2col(im2col)?,
        }
        match self.fill == OutOfBoundsFill::Nan && !self.element.is_float() {
            true => Err(TensorMapError::Fill),
            false => Ok(()),
        }
    }

    fn validate_shape(&self, align: u64) -> Result<(), TensorMapError> {
        for dim in 0..self.rank as usize {
            let (extent, stride) = (self.dims[dim], self.element_strides[dim]);
            if !(1..=1 << 32).contains(&extent) {
                return Err(TensorMapError::Extent { dim, extent });
            }
            if !(1..=MAX_ELEMENT_STRIDE).contains(&stride) {
                return Err(TensorMapError::ElementStride { dim, stride });
            }
        }
        for (dim, stride) in (1..).zip(self.strides).take(self.rank as usize - 1) {
            if stride >= MAX_STRIDE || !stride.is_multiple_of(align) {
                return Err(TensorMapError::Stride { dim, stride, align });
            }
        }
        Ok(())
    }

    fn validate_box(&self) -> Result<(), TensorMapError> {
        let boxes = self.box_dims.iter().take(self.rank as usize).enumerate();
        for (dim, &extent) in boxes {
            if !(1..=MAX_BOX).contains(&extent) {
                return Err(TensorMapError::Box { dim, extent });
            }
        }
        self.validate_row(self.box_dims[0] * self.element.bytes())
    }

    fn validate_row(&self, bytes: u32) -> Result<(), TensorMapError> {
        let wrong = |rule| Err(TensorMapError::Row { bytes, rule });
        if self.interleave != Interleave::None {
            return Ok(());
        }
        if !bytes.is_multiple_of(16) {
            return wrong("they have to be a multiple of 16");
        }
        match self.swizzle.span_bytes() {
            Some(span) if bytes > span => wrong("the swizzle spans fewer"),
            _ => Ok(()),
        }
    }

    fn validate_im2col(&self, im2col: &Im2col) -> Result<(), TensorMapError> {
        let wrong = |what| Err(TensorMapError::Im2col { what });
        let limit = match self.rank {
            3 => 1 << 15,
            4 => 1 << 7,
            _ => 1 << 4,
        };
        let corners = im2col.lower_corner.iter().chain(&im2col.upper_corner);
        if corners.into_iter().any(|corner| !(-limit..limit).contains(corner)) {
            return wrong("corner");
        }
        if !(1..=MAX_CHANNELS).contains(&im2col.channels_per_pixel) {
            return wrong("number of channels");
        }
        if !(1..=MAX_PIXELS).contains(&im2col.pixels_per_column) {
            return wrong("number of pixels");
        }
        self.validate_row(im2col.channels_per_pixel * self.element.bytes())
    }

    /// The 128 bytes that kernels get.
    pub fn encode(&self) -> [u8; TENSOR_MAP_BYTES] {
        let mut out = Fields([0; TENSOR_MAP_BYTES]);
        out.put(0, self.address);
        out.put(28, MAGIC);
        for dim in 0..MAX_RANK {
            out.put(8 + 4 * dim, (self.dims[dim].max(1) - 1) as u32);
            out.put(64 + 2 * dim, self.box_dims[dim] as u16);
            out.put(74 + dim, self.element_strides[dim] as u8);
        }
        self.strides.iter().enumerate().for_each(|(dim, stride)| out.put(32 + 8 * dim, *stride));
        out.put(79, self.element.code() as u8);
        let im2col = self.im2col.unwrap_or_default();
        for dim in 0..3 {
            out.put(80 + 2 * dim, im2col.lower_corner[dim] as i16 as u16);
            out.put(86 + 2 * dim, im2col.upper_corner[dim] as i16 as u16);
        }
        out.put(92, im2col.channels_per_pixel as u16);
        out.put(94, im2col.pixels_per_column as u16);
        let codes = [
            self.rank,
            u32::from(self.im2col.is_some()),
            self.interleave.code(),
            self.swizzle.code(),
            self.l2_promotion.code(),
            self.fill.code(),
        ];
        codes.into_iter().enumerate().for_each(|(index, code)| out.put(96 + index, code as u8));
        out.0
    }

    /// The map that 128 bytes hold; `None` where they hold none.
    pub fn decode(bytes: &[u8; TENSOR_MAP_BYTES]) -> Option<Self> {
        let read = Fields(*bytes);
        if read.get::<u32>(28) != MAGIC {
            return None;
        }
        let byte = |at| u32::from(read.get::<u8>(at));
        let corner = |at| i32::from(read.get::<u16>(at) as i16);
        let im2col = Im2col {
            lower_corner: [corner(80), corner(82), corner(84)],
            upper_corner: [corner(86), corner(88), corner(90)],
            channels_per_pixel: read.get::<u16>(92).into(),
            pixels_per_column: read.get::<u16>(94).into(),
        };
        Some(Self {
            element: ElementType::from_code(byte(79))?,
            rank: Some(byte(96)).filter(|rank| (1..=MAX_RANK as u32).contains(rank))?,
            address: read.get(0),
            dims: std::array::from_fn(|dim| u64::from(read.get::<u32>(8 + 4 * dim)) + 1),
            strides: std::array::from_fn(|dim| read.get(32 + 8 * dim)),
            box_dims: std::array::from_fn(|dim| read.get::<u16>(64 + 2 * dim).into()),
            element_strides: std::array::from_fn(|dim| read.get::<u8>(74 + dim).into()),
            interleave: Interleave::from_code(byte(98))?,
            swizzle: Swizzle::from_code(byte(99))?,
            l2_promotion: L2Promotion::from_code(byte(100))?,
            fill: OutOfBoundsFill::from_code(byte(101))?,
            im2col: (byte(97) == 1).then_some(im2col),
        })
    }
}

/// Numbers at places of a map's bytes.
struct Fields([u8; TENSOR_MAP_BYTES]);

/// A little-endian number.
trait Field: Sized {
    fn write(self, to: &mut [u8]);
    fn read(from: &[u8]) -> Self;
}

macro_rules! field {
    ($($ty:ty)*) => {$(
        impl Field for $ty {
            fn write(self, to: &mut [u8]) {
                to[..size_of::<Self>()].copy_from_slice(&self.to_le_bytes());
            }
            fn read(from: &[u8]) -> Self {
                from[..size_of::<Self>()].iter().rev().fold(0, |value, byte| {
                    value.wrapping_shl(8) | Self::from(*byte)
                })
            }
        }
    )*};
}

field! { u16 u32 u64 }

impl Field for u8 {
    fn write(self, to: &mut [u8]) {
        to[0] = self;
    }
    fn read(from: &[u8]) -> Self {
        from[0]
    }
}

impl Fields {
    fn put(&mut self, at: usize, value: impl Field) {
        value.write(&mut self.0[at..]);
    }

    fn get<T: Field>(&self, at: usize) -> T {
        T::read(&self.0[at..])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matrix() -> TensorMap {
        TensorMap {
            element: ElementType::Bf16,
            rank: 2,
            address: 0x7f00_1234_5600,
            dims: [1 << 32, 300, 1, 1, 1],
            strides: [640, 0, 0, 0],
            box_dims: [64, 128, 0, 0, 0],
            element_strides: [1, 2, 1, 1, 1],
            swizzle: Swizzle::Bytes128,
            l2_promotion: L2Promotion::Bytes256,
            fill: OutOfBoundsFill::Nan,
            ..TensorMap::default()
        }
    }

    fn image() -> TensorMap {
        TensorMap {
            rank: 4,
            im2col: Some(Im2col {
                lower_corner: [-1, -128, 0],
                upper_corner: [127, 0, 0],
                channels_per_pixel: 64,
                pixels_per_column: 1024,
            }),
            strides: [640, 6400, 64000, 0],
            dims: [320, 10, 10, 3, 1],
            element_strides: [1; 5],
            swizzle: Swizzle::None,
            ..matrix()
        }
    }

    #[test]
    fn what_is_encoded_is_decoded() {
        for map in [matrix(), image()] {
            assert_eq!(TensorMap::decode(&map.encode()), Some(map));
            assert_eq!(map.validate(), Ok(()));
        }
        assert_eq!(TensorMap::decode(&[0; 128]), None);
    }

    #[test]
    fn each_rule_is_checked() {
        let wrong = |change: fn(&mut TensorMap)| {
            let mut map = matrix();
            change(&mut map);
            map.validate().unwrap_err()
        };
        assert_eq!(wrong(|map| map.rank = 6), TensorMapError::Rank { rank: 6 });
        assert_eq!(wrong(|map| map.address = 8), TensorMapError::Address { address: 8, align: 16 });
        assert_eq!(wrong(|map| map.dims[1] = 0), TensorMapError::Extent { dim: 1, extent: 0 });
        let stride = TensorMapError::Stride { dim: 1, stride: 24, align: 16 };
        assert_eq!(wrong(|map| map.strides[0] = 24), stride);
        assert_eq!(wrong(|map| map.box_dims[1] = 257), TensorMapError::Box { dim: 1, extent: 257 });
        let stride = TensorMapError::ElementStride { dim: 1, stride: 9 };
        assert_eq!(wrong(|map| map.element_strides[1] = 9), stride);
        assert!(matches!(wrong(|map| map.box_dims[0] = 12), TensorMapError::Row { bytes: 24, .. }));
        assert!(matches!(
            wrong(|map| map.box_dims[0] = 72),
            TensorMapError::Row { bytes: 144, .. }
        ));
        assert_eq!(
            wrong(|map| (map.element, map.box_dims[0]) = (ElementType::U16, 8)),
            TensorMapError::Fill
        );
        let mut map = image();
        map.im2col = Some(Im2col { lower_corner: [-129, 0, 0], ..map.im2col.unwrap() });
        assert_eq!(map.validate(), Err(TensorMapError::Im2col { what: "corner" }));
    }

    #[test]
    fn swizzles_exchange_chunks_by_the_row() {
        for (swizzle, rows_per_step, chunks) in
            [(Swizzle::Bytes32, 4, 2), (Swizzle::Bytes64, 2, 4), (Swizzle::Bytes128, 1, 8)]
        {
            let span = u64::from(swizzle.span_bytes().unwrap());
            for row in 0..16 {
                for chunk in 0..span / 16 {
                    let expected = row * span + 16 * (chunk ^ (row / rows_per_step % chunks));
                    assert_eq!(swizzle.apply(row * span + 16 * chunk), expected, "{swizzle:?}");
                }
            }
        }
        assert_eq!(Swizzle::None.apply(0x3f8), 0x3f8);
    }
}
