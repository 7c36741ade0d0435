//! User objects: reference-counted objects of the program that a graph keeps alive.

use std::sync::{Arc, Mutex};

use super::registry::{Handle, Registry};
use super::{invalid_value, lock};
use crate::abi::{CUhostFn, HostPtr};
use crate::detail::DriverResult;

/// A user object.
pub(super) struct UserObject {
    pub(super) data: HostPtr,
    pub(super) destroy: CUhostFn,
    pub(super) count: Mutex<u32>,
}

pub(super) static OBJECTS: Registry<UserObject> = Registry::new("user object");

/// The references of a graph to a user object.
pub(super) struct UserObjectReferences {
    pub(super) handle: Handle,
    pub(super) object: Arc<UserObject>,
    pub(super) count: u32,
}

impl Drop for UserObjectReferences {
    fn drop(&mut self) {
        // The graph has at least this many references, so releasing them cannot fail.
        let _ = self.object.release(self.handle, self.count);
    }
}

impl UserObject {
    pub(super) fn retain(&self, count: u32) -> DriverResult {
        let mut own = lock(&self.count);
        *own = own.checked_add(count).ok_or_else(|| invalid_value("too many references"))?;
        Ok(())
    }

    pub(super) fn release(&self, handle: Handle, count: u32) -> DriverResult {
        let mut own = lock(&self.count);
        *own = own
            .checked_sub(count)
            .ok_or_else(|| invalid_value("more references than the user object has"))?;
        if *own > 0 || count == 0 {
            return Ok(());
        }
        drop(own);
        let _ = OBJECTS.remove(handle);
        if let Some(destroy) = self.destroy {
            // SAFETY: the program handed both in for the one call when the last reference goes.
            unsafe { destroy(self.data.0) };
        }
        Ok(())
    }
}
