//! The settings of a context: limits and cache preferences.

use super::invalid_value;
use crate::codes::CUDA_ERROR_UNSUPPORTED_LIMIT;
use crate::constants::limit;
use crate::detail::{DriverError, DriverResult};

/// The settings of a context. Of all these only the heap's limit changes what the emulator
/// computes.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Preferences {
    pub(super) cache: i32,
    pub(super) shared_mem: i32,
    pub(super) limits: Limits,
}

/// The limits of a context, with the defaults of NVIDIA's driver.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    stack_bytes: usize,
    printf_bytes: usize,
    heap_bytes: usize,
    pending_launches: usize,
    fetch_bytes: usize,
    persisting_bytes: usize,
    shared_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            stack_bytes: 1024,
            printf_bytes: 8_650_752,
            heap_bytes: 8 << 20,
            pending_launches: 2048,
            fetch_bytes: 64,
            persisting_bytes: 11_796_480,
            shared_bytes: 232_448,
        }
    }
}

/// The largest stack of a thread in NVIDIA's driver, and the multiple that it rounds up to.
pub(super) const MAX_STACK_BYTES: usize = 523_712;
pub(super) const STACK_UNIT: usize = 16;

impl Limits {
    /// The stack of a thread in bytes, for kernels whose stack usage is not known in advance.
    pub(super) fn stack_bytes(&self) -> u64 {
        self.stack_bytes as u64
    }

    pub(super) fn limit(&mut self, number: i32) -> DriverResult<&mut usize> {
        match number {
            limit::STACK_SIZE => Ok(&mut self.stack_bytes),
            limit::PRINTF_FIFO_SIZE => Ok(&mut self.printf_bytes),
            limit::MALLOC_HEAP_SIZE => Ok(&mut self.heap_bytes),
            4 => Ok(&mut self.pending_launches),
            5 => Ok(&mut self.fetch_bytes),
            6 => Ok(&mut self.persisting_bytes),
            7 => Ok(&mut self.shared_bytes),
            // The nesting depth of launches that kernels wait for.
            3 => Err(DriverError::new(
                CUDA_ERROR_UNSUPPORTED_LIMIT,
                "kernels on this device cannot wait for kernels that they launch",
            )),
            _ => Err(invalid_value(format!("{number} is not a context limit"))),
        }
    }
}

/// A preference between shared memory and first-level cache: none, shared, cache, equal.
pub(super) fn check_cache_config(config: i32) -> DriverResult {
    match config {
        0..=3 => Ok(()),
        _ => Err(invalid_value(format!("{config} is not a cache configuration; there are 0 to 3"))),
    }
}

/// The width of a shared-memory bank: the default, four bytes, eight bytes.
pub(super) fn check_shared_mem_config(config: i32) -> DriverResult {
    match config {
        0..=2 => Ok(()),
        _ => Err(invalid_value(format!(
            "{config} is not a shared-memory configuration; there are 0 to 2"
        ))),
    }
}
