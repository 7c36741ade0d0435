//! Types of elements.

use bytemuck::Pod;
use cuda_std::number::{E4m3, E5m2};
use cuda_std::{bf16, f16};
use dlpark::ffi::{DLDataType, DLDataTypeCode as Code};

/// A type of elements that DLPack has.
///
/// A type of yours may be one: an import compares `DTYPE` with the tensor's type.
pub trait Element: Pod + Send + Sync {
    /// The type in DLPack, with one lane and the size of `Self`.
    const DTYPE: DLDataType;
}

macro_rules! elements {
    ($($ty:ty: $dtype:ident,)*) => {$(
        impl Element for $ty {
            const DTYPE: DLDataType = DLDataType::$dtype;
        }
    )*};
}

elements! {
    i8: I8,
    i16: I16,
    i32: I32,
    i64: I64,
    u8: U8,
    u16: U16,
    u32: U32,
    u64: U64,
    f16: F16,
    bf16: BF16,
    f32: F32,
    f64: F64,
    E4m3: F8E4M3FN,
    E5m2: F8E5M2,
}

/// The type of `T`; does not compile for one whose elements have another size, or several lanes.
pub(super) const fn dtype_of<T: Element>() -> DLDataType {
    const {
        assert!(
            T::DTYPE.lanes == 1 && T::DTYPE.bits as usize == 8 * size_of::<T>(),
            "an element has one lane and the size of its type"
        );
    }
    T::DTYPE
}

/// A type by its name in array libraries.
pub(super) fn name(dtype: DLDataType) -> String {
    let bits = dtype.bits;
    let one = match dtype.code {
        Code::INT => format!("int{bits}"),
        Code::UINT => format!("uint{bits}"),
        Code::FLOAT => format!("float{bits}"),
        Code::BFLOAT => format!("bfloat{bits}"),
        Code::COMPLEX => format!("complex{bits}"),
        Code::BOOL => "bool".to_owned(),
        Code::FLOAT8_E4M3FN => "float8_e4m3fn".to_owned(),
        Code::FLOAT8_E5M2 => "float8_e5m2".to_owned(),
        other => format!("DLPack's type {} with {bits} bits", other.0),
    };
    match dtype.lanes {
        1 => one,
        lanes => format!("{one} in vectors of {lanes} lanes"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_have_the_names_that_array_libraries_use() {
        let names = [u8::DTYPE, i64::DTYPE, f16::DTYPE, bf16::DTYPE, E4m3::DTYPE, E5m2::DTYPE];
        let expected = ["uint8", "int64", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2"];
        assert_eq!(names.map(name), expected);
        let others = [DLDataType::BOOL, DLDataType::C64, DLDataType::F4E2M1FN];
        let expected = ["bool", "complex64", "DLPack's type 17 with 4 bits"];
        assert_eq!(others.map(name), expected);
        let vector = DLDataType::new(Code::FLOAT, 32, 4);
        assert_eq!(name(vector), "float32 in vectors of 4 lanes");
    }
}
