//! Integer arithmetic.

use crate::exec::frame::Frame;
use crate::exec::{Cx, Flow, Handler, Step};
use crate::isa::{Modifiers, Pick, Type};
use crate::program::Op;

/// `add`
pub fn add(modifiers: &Modifiers<'_>) -> Option<Pick> {
    Some(by_int!(modifiers.ty(0)?, |a, b| a.wrapping_add(b)).into())
}

/// `sub`
pub fn sub(modifiers: &Modifiers<'_>) -> Option<Pick> {
    Some(by_int!(modifiers.ty(0)?, |a, b| a.wrapping_sub(b)).into())
}

/// `mul.lo`
pub fn mul_lo(modifiers: &Modifiers<'_>) -> Option<Pick> {
    Some(by_int!(modifiers.ty(0)?, |a, b| a.wrapping_mul(b)).into())
}

/// `mad.lo`
pub fn mad_lo(modifiers: &Modifiers<'_>) -> Option<Pick> {
    Some(by_int!(modifiers.ty(0)?, |a, b, c| a.wrapping_mul(b).wrapping_add(c)).into())
}

/// `mul.wide`
pub fn mul_wide(modifiers: &Modifiers<'_>) -> Option<Pick> {
    Some(Pick::from(match modifiers.ty(0)? {
        Type::U16 => lanes!(u32 = |a: u16, b: u16| u32::from(a) * u32::from(b)),
        Type::S16 => lanes!(i32 = |a: i16, b: i16| i32::from(a) * i32::from(b)),
        Type::U32 => lanes!(u64 = |a: u32, b: u32| u64::from(a) * u64::from(b)),
        Type::S32 => lanes!(i64 = |a: i32, b: i32| i64::from(a) * i64::from(b)),
        _ => return None,
    }))
}

/// `mad.wide`
pub fn mad_wide(modifiers: &Modifiers<'_>) -> Option<Pick> {
    Some(Pick::from(match modifiers.ty(0)? {
        Type::U16 => lanes!(u32 = |a: u16, b: u16, c: u32| (u32::from(a) * u32::from(b)).wrapping_add(c)),
        Type::S16 => lanes!(i32 = |a: i16, b: i16, c: i32| (i32::from(a) * i32::from(b)).wrapping_add(c)),
        Type::U32 => lanes!(u64 = |a: u32, b: u32, c: u64| (u64::from(a) * u64::from(b)).wrapping_add(c)),
        Type::S32 => lanes!(i64 = |a: i32, b: i32, c: i64| (i64::from(a) * i64::from(b)).wrapping_add(c)),
        _ => return None,
    }))
}
