//! Handles. A handle is a number that is never used twice, so that one whose object is gone, or of
//! another kind, or made up, is found out instead of being followed.

use std::collections::BTreeMap;
use std::ffi::c_void;
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use crate::codes::CUDA_ERROR_INVALID_HANDLE;
use crate::detail::{Answer, Failure};

/// A handle, as the C interface's pointer types carry it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Handle(usize);

impl Handle {
    pub(super) fn fresh() -> Self {
        // Far from the first page and from small numbers, which the API gives meanings.
        static NEXT: AtomicUsize = AtomicUsize::new(0x10_0000);
        Self(NEXT.fetch_add(16, Ordering::Relaxed))
    }

    /// The pointer for the C interface: only a number, nothing lies there.
    pub(super) fn as_ptr(self) -> *mut c_void {
        ptr::without_provenance_mut(self.0)
    }
}

impl From<*mut c_void> for Handle {
    fn from(pointer: *mut c_void) -> Self {
        Self(pointer.addr())
    }
}

/// The live objects of one kind.
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
    pub(super) fn get(&self, handle: impl Into<Handle>) -> Answer<Arc<T>> {
        let handle = handle.into();
        self.find(handle).ok_or_else(|| self.unknown(handle))
    }

    pub(super) fn remove(&self, handle: impl Into<Handle>) -> Answer<Arc<T>> {
        let handle = handle.into();
        self.write().remove(&handle).ok_or_else(|| self.unknown(handle))
    }

    /// Forgets every object of which `gone` says so.
    pub(super) fn remove_where(&self, gone: impl Fn(&T) -> bool) {
        self.write().retain(|_, object| !gone(object));
    }

    /// How many there are of which `wanted` says so.
    pub(super) fn count(&self, wanted: impl Fn(&T) -> bool) -> usize {
        self.read().values().filter(|object| wanted(object)).count()
    }

    fn unknown(&self, handle: Handle) -> Failure {
        let text = format!("{:#x} is no live {}", handle.0, self.kind);
        Failure::new(CUDA_ERROR_INVALID_HANDLE, text)
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
        assert!(failure.text.ends_with("is no live number"), "{}", failure.text);
        assert!(registry.remove(first).is_err());
    }
}
