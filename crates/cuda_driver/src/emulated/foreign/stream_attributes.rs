//! The attributes of a stream, as the API sees them.
#![allow(non_snake_case)]

use crate::abi::{CUstream, In, Out};
use crate::detail::Answer;
use crate::emulated::{lock, stream};
use crate::structs::AttributeValue;

pub(crate) fn cuStreamGetAttribute(
    stream: CUstream,
    id: i32,
    value: Out<AttributeValue>,
) -> Answer {
    let (_, stream) = stream::named(stream)?;
    value.set(lock(&stream.attributes).get(id)?)
}

pub(crate) fn cuStreamSetAttribute(stream: CUstream, id: i32, value: In<AttributeValue>) -> Answer {
    let (_, stream) = stream::named(stream)?;
    lock(&stream.attributes).set(id, &value.get()?)
}

pub(crate) fn cuStreamCopyAttributes(to: CUstream, from: CUstream) -> Answer {
    let ((_, to), (_, from)) = (stream::named(to)?, stream::named(from)?);
    let copy = lock(&from.attributes).clone();
    *lock(&to.attributes) = copy;
    Ok(())
}
