//! The stream attribute functions of the API.
#![allow(non_snake_case)]

use crate::abi::{CUstream, In, Out};
use crate::detail::DriverResult;
use crate::emulated::{lock, stream};
use crate::structs::AttributeValue;

pub(crate) fn cuStreamGetAttribute(
    stream: CUstream,
    id: i32,
    value: Out<AttributeValue>,
) -> DriverResult {
    let (_, stream) = stream::from_handle(stream)?;
    value.set(lock(&stream.attributes).get(id)?)
}

pub(crate) fn cuStreamSetAttribute(
    stream: CUstream,
    id: i32,
    value: In<AttributeValue>,
) -> DriverResult {
    let (_, stream) = stream::from_handle(stream)?;
    lock(&stream.attributes).set(id, &value.get()?)
}

pub(crate) fn cuStreamCopyAttributes(to: CUstream, from: CUstream) -> DriverResult {
    let ((_, to), (_, from)) = (stream::from_handle(to)?, stream::from_handle(from)?);
    let copy = lock(&from.attributes).clone();
    *lock(&to.attributes) = copy;
    Ok(())
}
