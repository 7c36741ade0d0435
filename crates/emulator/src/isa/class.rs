//! What an instruction is for: the classes by which the counters sum.

use super::Modifiers;

/// What an instruction is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "snake_case"))]
pub enum Class {
    /// Arithmetic of integers.
    Integer,
    /// Bits and shifts.
    Logic,
    /// Arithmetic of 32-bit floats.
    Float32,
    /// Arithmetic of 64-bit floats.
    Float64,
    /// Arithmetic of 16-bit floats, and of pairs of them.
    Half,
    /// Conversions.
    Conversion,
    /// Comparisons and selections.
    Comparison,
    /// Moves and addresses.
    Move,
    /// Loads from memory.
    Load,
    /// Stores to memory.
    Store,
    /// Loads and stores of parameters.
    Parameter,
    /// Read-modify-writes of memory.
    Atomic,
    /// Copies that go on by themselves, and hints to caches.
    Copy,
    /// What lanes of a warp do together.
    Warp,
    /// Barriers.
    Barrier,
    /// Fences.
    Fence,
    /// Branches, calls and ends.
    Control,
    /// Products of matrices, and what feeds them.
    Tensor,
    /// Anything else.
    Other,
}

impl Class {
    /// The name, for people.
    pub fn name(self) -> &'static str {
        match self {
            Self::Integer => "integer",
            Self::Logic => "logic",
            Self::Float32 => "float32",
            Self::Float64 => "float64",
            Self::Half => "half",
            Self::Conversion => "conversion",
            Self::Comparison => "comparison",
            Self::Move => "move",
            Self::Load => "load",
            Self::Store => "store",
            Self::Parameter => "parameter",
            Self::Atomic => "atomic",
            Self::Copy => "copy",
            Self::Warp => "warp",
            Self::Barrier => "barrier",
            Self::Fence => "fence",
            Self::Control => "control",
            Self::Tensor => "tensor",
            Self::Other => "other",
        }
    }
}

/// The class of a load: parameters have their own.
pub fn load(modifiers: &Modifiers<'_>) -> Class {
    if is_of_parameters(modifiers) { Class::Parameter } else { Class::Load }
}

/// The class of a store: parameters have their own.
pub fn store(modifiers: &Modifiers<'_>) -> Class {
    if is_of_parameters(modifiers) { Class::Parameter } else { Class::Store }
}

fn is_of_parameters(modifiers: &Modifiers<'_>) -> bool {
    modifiers.one_of(&["param", "param::entry", "param::func"]).is_some()
}

/// The class of floating-point arithmetic, by the last type among the modifiers.
pub fn by_type(modifiers: &Modifiers<'_>) -> Class {
    match modifiers.one_of(&["f64"]) {
        Some(_) => Class::Float64,
        None => Class::Float32,
    }
}
