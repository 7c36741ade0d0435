//! The user object functions of the API.
#![allow(non_snake_case)]

use std::sync::Mutex;

use crate::abi::{CUgraph, CUhostFn, CUobject, HostPtr, Out};
use crate::detail::DriverResult;
use crate::emulated::registry::Handle;
use crate::emulated::user_object::{OBJECTS, UserObject, UserObjectReferences};
use crate::emulated::{check_flags, graph, invalid_value};

/// The one flag, which is required: no call waits for the destructor.
const NO_DESTRUCTOR_SYNC: u32 = 1;

/// The caller's references move to the graph.
const MOVE: u32 = 1;

pub(crate) fn cuUserObjectCreate(
    object: Out<CUobject>,
    data: HostPtr,
    destroy: CUhostFn,
    count: u32,
    flags: u32,
) -> DriverResult {
    object.check()?;
    if destroy.is_none() || count == 0 || flags != NO_DESTRUCTOR_SYNC {
        return Err(invalid_value(
            "a user object needs a destructor, at least one reference, and flag 1",
        ));
    }
    let made = UserObject { data, destroy, count: Mutex::new(count) };
    object.set(OBJECTS.add(made).as_ptr())
}

pub(crate) fn cuUserObjectRetain(object: CUobject, count: u32) -> DriverResult {
    OBJECTS.get(object)?.retain(some(count)?)
}

pub(crate) fn cuUserObjectRelease(object: CUobject, count: u32) -> DriverResult {
    OBJECTS.get(object)?.release(object.into(), some(count)?)
}

fn some(count: u32) -> DriverResult<u32> {
    if count == 0 { Err(invalid_value("0 references")) } else { Ok(count) }
}

pub(crate) fn cuGraphRetainUserObject(
    graph: CUgraph,
    object: CUobject,
    count: u32,
    flags: u32,
) -> DriverResult {
    let graph = graph::from_handle(graph)?;
    check_flags(flags, MOVE)?;
    let (handle, found) = (object.into(), OBJECTS.get(object)?);
    if flags != MOVE {
        found.retain(some(count)?)?;
    }
    let references = UserObjectReferences { handle, object: found, count: some(count)? };
    graph.with_user_objects(|all| all.push(references));
    Ok(())
}

pub(crate) fn cuGraphReleaseUserObject(
    graph: CUgraph,
    object: CUobject,
    count: u32,
) -> DriverResult {
    let graph = graph::from_handle(graph)?;
    let (handle, mut left) = (Handle::from(object), some(count)?);
    let gone = graph.with_user_objects(|all| {
        let held: u32 =
            all.iter().filter(|references| references.handle == handle).map(|k| k.count).sum();
        if held < left {
            return Err(invalid_value("the graph has fewer references to the object"));
        }
        let mut gone = Vec::new();
        for references in all.iter_mut().filter(|references| references.handle == handle) {
            let taken = references.count.min(left);
            (references.count, left) = (references.count - taken, left - taken);
            gone.push(UserObjectReferences {
                handle,
                object: references.object.clone(),
                count: taken,
            });
        }
        all.retain(|references| references.count > 0);
        Ok(gone)
    })?;
    drop(gone);
    Ok(())
}
