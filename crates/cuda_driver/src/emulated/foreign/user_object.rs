//! Objects of the program that a graph keeps alive, as the API sees them.
#![allow(non_snake_case)]

use std::sync::Mutex;

use crate::abi::{CUhostFn, CUobject, HostPtr, Out};
use crate::detail::Answer;
use crate::emulated::registry::Handle;
use crate::emulated::user_object::{Kept, OBJECTS, UserObject};
use crate::emulated::{check_flags, graph, invalid};

/// The one flag that there is, and that has to be set: nobody waits for the destructor.
const NO_DESTRUCTOR_SYNC: u32 = 1;

/// The graph takes over references rather than making new ones.
const MOVE: u32 = 1;

pub(crate) fn cuUserObjectCreate(
    object: Out<CUobject>,
    data: HostPtr,
    destroy: CUhostFn,
    count: u32,
    flags: u32,
) -> Answer {
    object.check()?;
    if destroy.is_none() || count == 0 || flags != NO_DESTRUCTOR_SYNC {
        return Err(invalid("an object has a destructor, a reference at least, and flag 1"));
    }
    let made = UserObject { data, destroy, count: Mutex::new(count) };
    object.set(OBJECTS.add(made).as_ptr())
}

pub(crate) fn cuUserObjectRetain(object: CUobject, count: u32) -> Answer {
    OBJECTS.get(object)?.retain(some(count)?)
}

pub(crate) fn cuUserObjectRelease(object: CUobject, count: u32) -> Answer {
    OBJECTS.get(object)?.release(object.into(), some(count)?)
}

fn some(count: u32) -> Answer<u32> {
    if count == 0 { Err(invalid("no references")) } else { Ok(count) }
}

pub(crate) fn cuGraphRetainUserObject(
    graph: CUobject,
    object: CUobject,
    count: u32,
    flags: u32,
) -> Answer {
    let graph = graph::named(graph)?;
    check_flags(flags, MOVE)?;
    let (handle, found) = (object.into(), OBJECTS.get(object)?);
    if flags != MOVE {
        found.retain(some(count)?)?;
    }
    let kept = Kept { handle, object: found, count: some(count)? };
    graph.with_kept(|all| all.push(kept));
    Ok(())
}

pub(crate) fn cuGraphReleaseUserObject(graph: CUobject, object: CUobject, count: u32) -> Answer {
    let graph = graph::named(graph)?;
    let (handle, mut left) = (Handle::from(object), some(count)?);
    let gone = graph.with_kept(|all| {
        let there: u32 = all.iter().filter(|kept| kept.handle == handle).map(|k| k.count).sum();
        if there < left {
            return Err(invalid("the graph has fewer references to the object"));
        }
        let mut gone = Vec::new();
        for kept in all.iter_mut().filter(|kept| kept.handle == handle) {
            let taken = kept.count.min(left);
            (kept.count, left) = (kept.count - taken, left - taken);
            gone.push(Kept { handle, object: kept.object.clone(), count: taken });
        }
        all.retain(|kept| kept.count > 0);
        Ok(gone)
    })?;
    drop(gone);
    Ok(())
}
