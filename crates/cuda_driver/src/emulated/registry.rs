//! Handles. A handle is a number that is never reused, so that a handle of a destroyed object, of
//! another type, or out of thin air is detected instead of dereferenced.

use std::collections::BTreeMap;
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use crate::codes::CUDA_ERROR_INVALID_HANDLE;
use crate::detail::{DriverError, DriverResult};

/// A handle, as the C interface's pointer types carry it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Handle(usize);

impl Handle {
    pub(super) fn fresh() -> Self {
        // Not a small number, since the API gives meanings to some.
        static NEXT: AtomicUsize = AtomicUsize::new(0x10_0000);
        Self(NEXT.fetch_add(16, Ordering::Relaxed))
    }

    /// The handle as a pointer of the C interface. It points to nothing.
    pub(super) fn as_ptr<T>(self) -> *mut T {
        ptr::without_provenance_mut(self.0)
    }

    /// The handle as a number, for the parts of the interface that carry it so.
    pub(super) fn number(self) -> u64 {
        self.0 as u64
    }
}

impl<T> From<*mut T> for Handle {
    fn from(pointer: *mut T) -> Self {
        Self(pointer.addr())
    }
}

/// The live objects of one type.
pub(super) struct Registry<T> {
    kind: &'static str,
    live: RwLock<BTreeMap<Handle, Arc<T>>>,
}

impl<T> Registry<T> {
    pub(super) const fn new(kind: &'static str) -> Self {
        Self { kind, live: RwLock::new(BTreeMap::new()) }
    }

    pub(super) fn add(&self, object: T) -> Handle {
        let handle = Handle::fresh();
        self.put(handle, Arc::new(object));
        handle
    }

    pub(super) fn put(&self, handle: Handle, object: Arc<T>) {
        self.write().insert(handle, object);
    }

    pub(super) fn find(&self, handle: Handle) -> Option<Arc<T>> {
        self.read().get(&handle).cloned()
    }

    /// The object, or `CUDA_ERROR_INVALID_HANDLE`.
    pub(super) fn get(&self, handle: impl Into<Handle>) -> DriverResult<Arc<T>> {
        let handle = handle.into();
        self.find(handle).ok_or_else(|| self.unknown(handle))
    }

    pub(super) fn remove(&self, handle: impl Into<Handle>) -> DriverResult<Arc<T>> {
        let handle = handle.into();
        self.write().remove(&handle).ok_or_else(|| self.unknown(handle))
    }

    /// Removes every object for which `gone` returns true.
    pub(super) fn remove_where(&self, gone: impl Fn(&T) -> bool) {
        self.write().retain(|_, object| !gone(object));
    }

    /// The number of objects for which `wanted` returns true.
    pub(super) fn count(&self, predicate: impl Fn(&T) -> bool) -> usize {
        self.read().values().filter(|object| predicate(object)).count()
    }

    fn unknown(&self, handle: Handle) -> DriverError {
        let text = format!("{:#x} is not a live {}", handle.0, self.kind);
        DriverError::new(CUDA_ERROR_INVALID_HANDLE, text)
    }

    fn read(&self) -> RwLockReadGuard<'_, BTreeMap<Handle, Arc<T>>> {
        self.live.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, BTreeMap<Handle, Arc<T>>> {
        self.live.write().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_removed_handle_is_never_valid_again() {
        let registry = Registry::new("number");
        let first = registry.add(1);
        assert_eq!(*registry.get(first).unwrap(), 1);
        registry.remove(first).unwrap();
        let second = registry.add(2);
        assert_ne!(first, second);
        let failure = registry.get(first).unwrap_err();
        assert_eq!(failure.code, CUDA_ERROR_INVALID_HANDLE);
        assert!(failure.text.ends_with("is not a live number"), "{}", failure.text);
        assert!(registry.remove(first).is_err());
    }
}
