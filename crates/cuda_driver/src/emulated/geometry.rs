//! The dimensions of a launch, and whether they fit the device and the kernel.

use ::emulator::{Function, Profile};

use super::invalid_value;
use crate::detail::{DriverError, DriverResult};

const AXES: [char; 3] = ['x', 'y', 'z'];

/// The grid and block dimensions and the dynamic shared memory of a launch.
#[derive(Debug, Clone, Copy)]
pub(super) struct Geometry {
    pub(super) grid: [u32; 3],
    pub(super) block: [u32; 3],
    pub(super) dynamic_shared_bytes: u32,
}

impl Geometry {
    /// Fails if a dimension does not fit; the error names the first such one.
    ///
    /// `shared_limit` is the kernel's limit of dynamic shared memory, in bytes.
    pub(super) fn check(
        &self,
        profile: &Profile,
        function: &Function,
        shared_limit: u32,
    ) -> DriverResult {
        within("grid", self.grid, profile.max_grid_dim)?;
        within("block", self.block, profile.max_block_dim)?;
        self.check_threads(profile, function)?;
        if self.dynamic_shared_bytes > shared_limit {
            return Err(shared_too_large(
                self.dynamic_shared_bytes,
                shared_limit,
                profile,
                function,
            ));
        }
        Ok(())
    }

    /// Threads of a block.
    pub(super) fn threads(&self) -> u64 {
        self.block.iter().map(|&size| u64::from(size)).product()
    }

    fn check_threads(&self, profile: &Profile, function: &Function) -> DriverResult {
        let threads = self.threads();
        if threads > u64::from(profile.max_threads_per_block) {
            let max = profile.max_threads_per_block;
            return Err(invalid_value(format!("a block of {threads} threads; it may have {max}")));
        }
        if threads > u64::from(function.max_threads_per_block) {
            let (name, max) = (&function.name, function.max_threads_per_block);
            return Err(invalid_value(format!(
                "a block of {threads} threads; kernel `{name}` allows {max}"
            )));
        }
        Ok(())
    }
}

fn within(what: &str, sizes: [u32; 3], limits: [u32; 3]) -> DriverResult {
    for ((size, limit), axis) in sizes.into_iter().zip(limits).zip(AXES) {
        if size == 0 || size > limit {
            let range = format!("it may be 1 to {limit}");
            return Err(invalid_value(format!("{what} size {size} along {axis}; {range}")));
        }
    }
    Ok(())
}

fn shared_too_large(bytes: u32, limit: u32, profile: &Profile, function: &Function) -> DriverError {
    let Function { name, static_shared_bytes, .. } = function;
    let optin = profile.shared_mem_per_block_optin.saturating_sub(*static_shared_bytes);
    let way_out = if bytes <= optin {
        "cuFuncSetAttribute(…, MAX_DYNAMIC_SHARED_SIZE_BYTES, …) raises the limit".to_owned()
    } else {
        format!("it could be raised to {optin} at most")
    };
    invalid_value(format!(
        "{bytes} bytes of dynamic shared memory; kernel `{name}`, which has {static_shared_bytes} \
         static ones, may use {limit}, and {way_out}"
    ))
}
