//! The types of a kernel's parameters, by which a launcher and a PTX text are compared.
//!
//! PTX knows sizes alone. So `#[kernel]` leaves a comment in it that has of each parameter its form, the
//! size and the alignment of its element and a number of the element's name, and gives the launcher
//! the same. What a kernel takes from the hardware stands there too: its thread index, whose dimensions a launcher
//! must respect, its block and its arrays in shared memory. Names count without the modules in which they are: a library may have a type
//! in one place for the GPU and in another one for the host. A type that keeps its name, size and alignment
//! and has other fields is not seen.

use core::any::type_name;
use core::fmt;
use core::mem::{align_of, size_of};

/// A parameter of a kernel as its launcher knows it. `#[kernel]` writes it.
#[derive(Clone, Copy)]
#[non_exhaustive]
pub struct Parameter {
    /// `slice`, `reference`, `pointer`, `pointer_mut`, `value`, or the name of a view: `DisjointSlice`.
    pub form: &'static str,
    /// The size of an element.
    pub size_bytes: usize,
    /// The alignment of an element.
    pub align_bytes: usize,
    element: fn() -> &'static str,
}

impl Parameter {
    /// Of this form, with elements of type `T`.
    #[must_use]
    pub const fn of<T>(form: &'static str) -> Self {
        let (size_bytes, align_bytes) = (size_of::<T>(), align_of::<T>());
        Self { form, size_bytes, align_bytes, element: type_name::<T> }
    }

    /// The number that stands for the element's name.
    #[must_use]
    pub fn name_hash(&self) -> u64 {
        hash((self.element)())
    }
}

impl PartialEq for Parameter {
    fn eq(&self, other: &Self) -> bool {
        let parts = |own: &Self| (own.form, own.size_bytes, own.align_bytes, (own.element)());
        parts(self) == parts(other)
    }
}

impl Eq for Parameter {}

impl fmt::Debug for Parameter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for Parameter {
    /// As it is written in a kernel: `&[f32]`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let element = (self.element)();
        match self.form {
            "slice" => write!(f, "&[{element}]"),
            "reference" => write!(f, "&{element}"),
            "pointer" => write!(f, "*const {element}"),
            "pointer_mut" => write!(f, "*mut {element}"),
            "value" => f.write_str(element),
            view => write!(f, "{view}<{element}>"),
        }
    }
}

/// Holds for a type and itself: what `#[kernel]` asks of a parameter's type and the one that it is named after.
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "a kernel's parameter is written as `{Self}`, and its type is `{T}`",
    label = "expected `{Self}`, found `{T}`",
    note = "`#[kernel]` recognises the types of its parameters by the last word of their path: \
            write the type itself, or give the alias another name"
)]
pub trait Is<T>: Sized {
    /// The value as it is.
    fn same(self) -> T;
}

#[diagnostic::do_not_recommend]
impl<T> Is<T> for T {
    #[inline(always)]
    fn same(self) -> T {
        self
    }
}

/// The number that stands for a type's name, as a constant of the kernel's text.
#[cfg(target_os = "cuda")]
#[doc(hidden)]
#[must_use]
pub const fn type_hash<T>() -> u64 {
    hash(type_name::<T>())
}

/// FNV-1a (Fowler, Noll and Vo) of a type's name without the modules in it: `a::b::Pair<c::D>` counts as
/// `Pair<D>`.
const fn hash(name: &str) -> u64 {
    const START: u64 = 0xcbf2_9ce4_8422_2325;
    const PRIME: u64 = 0x0000_0100_0000_01b3;
    let bytes = name.as_bytes();
    let (mut all, mut before_word, mut at) = (START, START, 0);
    while at < bytes.len() {
        let byte = bytes[at];
        if byte == b':' && at + 1 < bytes.len() && bytes[at + 1] == b':' {
            all = before_word;
            at += 2;
            continue;
        }
        all = (all ^ byte as u64).wrapping_mul(PRIME);
        if !byte.is_ascii_alphanumeric() && byte != b'_' {
            before_word = all;
        }
        at += 1;
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_do_not_count_and_all_else_does() {
        assert_eq!(hash("glam::f32::sse2::vec4::Vec4"), hash("Vec4"));
        assert_eq!(hash("[a::B; 4]"), hash("[c::d::B; 4]"));
        assert_eq!(hash("a::Pair<b::C, d::E>"), hash("Pair<C, E>"));
        let all =
            ["f32", "f64", "u32", "Vec4", "[f32; 4]", "[f32; 8]", "(f32, u32)", "(u32, f32)", ""];
        for (at, one) in all.iter().enumerate() {
            assert!(all[..at].iter().all(|other| hash(one) != hash(other)), "{one}");
        }
    }

    #[test]
    fn parameters_are_written_as_in_a_kernel() {
        let text = |form| Parameter::of::<f32>(form).to_string();
        let forms = ["slice", "reference", "pointer", "pointer_mut", "value", "DisjointSlice"];
        let expected = ["&[f32]", "&f32", "*const f32", "*mut f32", "f32", "DisjointSlice<f32>"];
        assert_eq!(forms.map(text), expected);
        assert_ne!(Parameter::of::<f32>("slice"), Parameter::of::<u32>("slice"));
        assert_ne!(Parameter::of::<f32>("slice"), Parameter::of::<f32>("value"));
    }
}
