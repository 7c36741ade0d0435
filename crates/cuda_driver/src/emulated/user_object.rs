//! Objects of the program that a graph keeps alive, by a count of references.

use std::sync::{Arc, Mutex};

use super::registry::{Handle, Registry};
use super::{invalid, lock};
use crate::abi::{CUhostFn, HostPtr};
use crate::detail::Answer;

/// An object of the program.
pub(super) struct UserObject {
    pub(super) data: HostPtr,
    pub(super) destroy: CUhostFn,
    pub(super) count: Mutex<u32>,
}

pub(super) static OBJECTS: Registry<UserObject> = Registry::new("user object");

/// References that a graph has.
pub(super) struct Kept {
    pub(super) handle: Handle,
    pub(super) object: Arc<UserObject>,
    pub(super) count: u32,
}

impl Drop for Kept {
    fn drop(&mut self) {
        // A count of nothing is never an error.
        let _ = self.object.release(self.handle, self.count);
    }
}

impl UserObject {
    pub(super) fn retain(&self, count: u32) -> Answer {
        let mut own = lock(&self.count);
        *own = own.checked_add(count).ok_or_else(|| invalid("too many references"))?;
        Ok(())
    }

    pub(super) fn release(&self, handle: Handle, count: u32) -> Answer {
        let mut own = lock(&self.count);
        *own = own.checked_sub(count).ok_or_else(|| invalid("more references than there are"))?;
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
