//! Element types, by NumPy's names.

use bytemuck::Pod;
use cuda_std::{bf16, f16};
use dlpark::ffi::{DLDataType, DLDataTypeCode};
use pyo3::PyErr;
use pyo3::exceptions::PyTypeError;

/// A type of elements that is also a Rust type.
pub trait Element: Pod + Send + Sync {
    /// It, as arrays have it.
    const DTYPE: DType;
}

macro_rules! dtypes {
    ($($variant:ident $(as $ty:ty)?, $name:literal, $code:ident $bits:literal;)*) => {
        /// The type of an array's elements.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum DType {
            $(#[doc = $name] $variant,)*
        }

        impl DType {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$variant),*];

            /// The type of this name in NumPy (`bfloat16`: in `ml_dtypes`).
            pub fn from_name(name: &str) -> Option<Self> {
                match name {
                    $($name => Some(Self::$variant),)*
                    _ => None,
                }
            }

            /// Its name in NumPy.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                }
            }

            /// It in DLPack.
            pub fn dlpack(self) -> DLDataType {
                match self {
                    $(Self::$variant => DLDataType::scalar(DLDataTypeCode::$code, $bits),)*
                }
            }

            /// That of DLPack; `None` for types that no operation takes.
            pub fn of_dlpack(found: DLDataType) -> Option<Self> {
                Self::ALL.iter().copied().find(|own| own.dlpack().matches(found))
            }
        }

        $($(
            impl Element for $ty {
                const DTYPE: DType = DType::$variant;
            }
        )?)*
    };
}

dtypes! {
    Bool, "bool", BOOL 8;
    U8 as u8, "uint8", UINT 8;
    U16 as u16, "uint16", UINT 16;
    U32 as u32, "uint32", UINT 32;
    U64 as u64, "uint64", UINT 64;
    I8 as i8, "int8", INT 8;
    I16 as i16, "int16", INT 16;
    I32 as i32, "int32", INT 32;
    I64 as i64, "int64", INT 64;
    F16 as f16, "float16", FLOAT 16;
    Bf16 as bf16, "bfloat16", BFLOAT 16;
    F32 as f32, "float32", FLOAT 32;
    F64 as f64, "float64", FLOAT 64;
}

impl DType {
    /// The size of an element.
    pub fn bytes(self) -> usize {
        self.dlpack().element_size()
    }
}

/// The error for a type that an operation does not take.
pub fn unsupported(operation: &str, found: &str, supported: &[DType]) -> PyErr {
    let names: Vec<&str> = supported.iter().map(|dtype| dtype.name()).collect();
    PyTypeError::new_err(format!(
        "{operation} takes elements of {}, and these are {found}: convert the array first",
        names.join(", ")
    ))
}

/// Evaluates `$body` with `$T` as the Rust type of `$dtype`; for one that is not in the list, the value is the error that
/// names the list.
macro_rules! with_type {
    ($operation:expr, $dtype:expr, [$($ty:ident)*], $T:ident => $body:expr) => {{
        let dtype: $crate::dtype::DType = $dtype;
        $(if dtype == <$ty as $crate::dtype::Element>::DTYPE {
            #[allow(non_camel_case_types)]
            type $T = $ty;
            $body
        } else)* {
            let supported = [$(<$ty as $crate::dtype::Element>::DTYPE),*];
            Err($crate::dtype::unsupported($operation, dtype.name(), &supported))
        }
    }};
}

pub(crate) use with_type;
