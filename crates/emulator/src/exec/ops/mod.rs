//! What the instructions do, by family.
//!
//! A handler executes one operation for the lanes of a mask. Most are written with `lanes!`
//! (one value for each lane) or `tests!` (one bit for each lane); the functions that the table of
//! forms names select among them by the modifiers.

macro_rules! lanes {
    ($d:ty = |$a:ident: $ta:ty| $value:expr) => {{
        fn run(_: &mut Cx<'_>, frame: &mut Frame, op: &Op, mask: u32) -> Step {
            frame.map1::<$d, $ta>(op, mask, |$a| $value);
            Ok(Flow::Next)
        }
        run as Handler
    }};
    ($d:ty = |$a:ident: $ta:ty, $b:ident: $tb:ty| $value:expr) => {{
        fn run(_: &mut Cx<'_>, frame: &mut Frame, op: &Op, mask: u32) -> Step {
            frame.map2::<$d, $ta, $tb>(op, mask, |$a, $b| $value);
            Ok(Flow::Next)
        }
        run as Handler
    }};
    ($d:ty = |$a:ident: $ta:ty, $b:ident: $tb:ty, $c:ident: $tc:ty| $value:expr) => {{
        fn run(_: &mut Cx<'_>, frame: &mut Frame, op: &Op, mask: u32) -> Step {
            frame.map3::<$d, $ta, $tb, $tc>(op, mask, |$a, $b, $c| $value);
            Ok(Flow::Next)
        }
        run as Handler
    }};
    ($op:ident; $d:ty = |$a:ident: $ta:ty| $value:expr) => {{
        fn run(_: &mut Cx<'_>, frame: &mut Frame, $op: &Op, mask: u32) -> Step {
            frame.map1::<$d, $ta>($op, mask, |$a| $value);
            Ok(Flow::Next)
        }
        run as Handler
    }};
    ($op:ident; $d:ty = |$a:ident: $ta:ty, $b:ident: $tb:ty| $value:expr) => {{
        fn run(_: &mut Cx<'_>, frame: &mut Frame, $op: &Op, mask: u32) -> Step {
            frame.map2::<$d, $ta, $tb>($op, mask, |$a, $b| $value);
            Ok(Flow::Next)
        }
        run as Handler
    }};
    ($op:ident; $d:ty = |$a:ident: $ta:ty, $b:ident: $tb:ty, $c:ident: $tc:ty| $value:expr) => {{
        fn run(_: &mut Cx<'_>, frame: &mut Frame, $op: &Op, mask: u32) -> Step {
            frame.map3::<$d, $ta, $tb, $tc>($op, mask, |$a, $b, $c| $value);
            Ok(Flow::Next)
        }
        run as Handler
    }};
}

/// The handler for the integer type that the modifiers name.
macro_rules! by_int {
    ($ty:expr, |$a:ident $(, $b:ident $(, $c:ident)?)?| $value:expr) => {
        match $ty {
            Type::U16 => lanes!(u16 = |$a: u16 $(, $b: u16 $(, $c: u16)?)?| $value),
            Type::S16 => lanes!(i16 = |$a: i16 $(, $b: i16 $(, $c: i16)?)?| $value),
            Type::U32 => lanes!(u32 = |$a: u32 $(, $b: u32 $(, $c: u32)?)?| $value),
            Type::S32 => lanes!(i32 = |$a: i32 $(, $b: i32 $(, $c: i32)?)?| $value),
            Type::U64 => lanes!(u64 = |$a: u64 $(, $b: u64 $(, $c: u64)?)?| $value),
            Type::S64 => lanes!(i64 = |$a: i64 $(, $b: i64 $(, $c: i64)?)?| $value),
            _ => return None,
        }
    };
}

/// The handler for the width of the type that the modifiers name.
macro_rules! by_bits {
    ($ty:expr, |$a:ident $(, $b:ident $(, $c:ident)?)?| $value:expr) => {
        match $ty.bits() {
            16 => lanes!(u16 = |$a: u16 $(, $b: u16 $(, $c: u16)?)?| $value),
            32 => lanes!(u32 = |$a: u32 $(, $b: u32 $(, $c: u32)?)?| $value),
            64 => lanes!(u64 = |$a: u64 $(, $b: u64 $(, $c: u64)?)?| $value),
            _ => return None,
        }
    };
}

pub mod atomic;
pub mod barrier;
pub mod bulk;
pub mod cluster;
pub mod collective;
pub mod compare;
pub mod control;
pub mod convert;
pub mod copy;
pub mod float;
pub mod half;
pub mod int;
pub mod logic;
pub mod matrix;
pub mod mbarrier;
pub mod memory;
pub mod mode;
pub mod moves;
pub mod param;
pub mod special;
pub mod stack;
pub mod system;
pub mod tensor;
pub mod video;
pub mod wide;
