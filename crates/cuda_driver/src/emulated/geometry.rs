//! Whether a launch's sizes fit the device and the function.

use ::emulator::{Function, Profile};

use super::invalid;
use crate::detail::{Answer, Failure};

const AXES: [char; 3] = ['x', 'y', 'z'];

/// The sizes of a launch.
#[derive(Debug, Clone, Copy)]
pub(super) struct Geometry {
    pub(super) grid: [u32; 3],
    pub(super) block: [u32; 3],
    pub(super) dynamic_shared_bytes: u32,
}

impl Geometry {
    /// Fails with the first size that does not fit.
    ///
    /// `shared_limit` is what the function may use beside its static shared memory.
    pub(super) fn check(
        &self,
        profile: &Profile,
        function: &Function,
        shared_limit: u32,
    ) -> Answer {
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

    fn check_threads(&self, profile: &Profile, function: &Function) -> Answer {
        let threads = self.threads();
        if threads > u64::from(profile.max_threads_per_block) {
            let max = profile.max_threads_per_block;
            return Err(invalid(format!("a block of {threads} threads; it may have {max}")));
        }
        if threads > u64::from(function.max_threads_per_block) {
            let (name, max) = (&function.name, function.max_threads_per_block);
            return Err(invalid(format!(
                "a block of {threads} threads; kernel `{name}` allows {max}"
            )));
        }
        Ok(())
    }
}

fn within(what: &str, sizes: [u32; 3], limits: [u32; 3]) -> Answer {
    for ((size, limit), axis) in sizes.into_iter().zip(limits).zip(AXES) {
        if size == 0 || size > limit {
            let range = format!("it may be 1 to {limit}");
            return Err(invalid(format!("{what} size {size} along {axis}; {range}")));
        }
    }
    Ok(())
}

fn shared_too_large(bytes: u32, limit: u32, profile: &Profile, function: &Function) -> Failure {
    let Function { name, static_shared_bytes, .. } = function;
    let optin = profile.shared_mem_per_block_optin.saturating_sub(*static_shared_bytes);
    let way_out = if bytes <= optin {
        "cuFuncSetAttribute(…, MAX_DYNAMIC_SHARED_SIZE_BYTES, …) raises the limit".to_owned()
    } else {
        format!("it could be raised to {optin} at most")
    };
    invalid(format!(
        "{bytes} bytes of dynamic shared memory; kernel `{name}`, which has {static_shared_bytes} \
         static ones, may use {limit}, and {way_out}"
    ))
}
