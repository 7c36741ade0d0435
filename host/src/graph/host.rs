//! Functions of the host among the nodes.

use crate::lock::lock;
use std::any::Any;
use std::ffi::c_void;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// A function that the driver calls in each replay. It stays at one address.
pub(super) struct HostCall(Box<Call>);

struct Call {
    /// Clones share it, each with memory of its own.
    function: Arc<Mutex<dyn FnMut(u64) + Send>>,
    /// What the function is called with: where its memory is.
    address: AtomicU64,
    /// What the first panic said that nobody was told of.
    panic: Mutex<Option<String>>,
}

impl HostCall {
    pub(super) fn new(address: u64, function: impl FnMut(u64) + Send + 'static) -> Self {
        Self::shared(Arc::new(Mutex::new(function)), address)
    }

    fn shared(function: Arc<Mutex<dyn FnMut(u64) + Send>>, address: u64) -> Self {
        let address = AtomicU64::new(address);
        Self(Box::new(Call { function, address, panic: Mutex::default() }))
    }

    /// Calls the function with other memory from now on. No launch may be queued that calls it.
    pub(super) fn move_to(&self, address: u64) {
        self.0.address.store(address, Ordering::Release);
    }

    /// What the driver calls [`run`](Self::run) with. It is good as long as `self` lives.
    pub(super) fn data(&self) -> *mut c_void {
        (&raw const *self.0).cast_mut().cast()
    }

    /// The panic of an earlier call, once.
    pub(super) fn take_panic(&self) -> Option<String> {
        lock(&self.0.panic).take()
    }

    /// What the driver calls.
    ///
    /// # Safety
    /// `data` comes from [`data`](Self::data) of a value that lives.
    pub(super) unsafe extern "C" fn run(data: *mut c_void) {
        // SAFETY: the caller's promise; the value is only shared.
        let call = unsafe { &*data.cast::<Call>() };
        let address = call.address.load(Ordering::Acquire);
        let result = catch_unwind(AssertUnwindSafe(|| lock(&call.function)(address)));
        if let Err(panic) = result {
            lock(&call.panic).get_or_insert_with(|| message(&*panic));
        }
    }
}

impl Clone for HostCall {
    /// The same function at another address, for another graph.
    fn clone(&self) -> Self {
        Self::shared(self.0.function.clone(), self.0.address.load(Ordering::Acquire))
    }
}

impl fmt::Debug for HostCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HostCall({:p})", self.data())
    }
}

fn message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    text.unwrap_or_else(|| "a value that is not a text".to_owned())
}
