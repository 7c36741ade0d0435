//! What kernels ask of the system: printing, and memory from the device's heap.

pub mod format;
mod heap;

pub use heap::Heap;

use std::io::Write;
use std::sync::{Arc, PoisonError, RwLock};

/// Takes the text of one `printf` of one thread.
pub type Printer = dyn Fn(&[u8]) + Send + Sync;

/// The services of a device.
pub struct System {
    printer: RwLock<Arc<Printer>>,
    /// Memory that kernels allocate.
    pub heap: Heap,
}

impl Default for System {
    fn default() -> Self {
        Self { printer: RwLock::new(Arc::new(to_stdout)), heap: Heap::default() }
    }
}

impl System {
    /// Sends what kernels print to `printer` from now on.
    pub fn print_to(&self, printer: Arc<Printer>) {
        *self.printer.write().unwrap_or_else(PoisonError::into_inner) = printer;
    }

    /// Prints the text of one thread, in one piece.
    pub fn print(&self, text: &[u8]) {
        let printer = Arc::clone(&self.printer.read().unwrap_or_else(PoisonError::into_inner));
        printer(text);
    }
}

/// A closed output loses the text, as it does on a GPU.
fn to_stdout(text: &[u8]) {
    let mut out = std::io::stdout().lock();
    let _ = out.write_all(text).and_then(|()| out.flush());
}
