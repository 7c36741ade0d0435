//! Where memory of other code is.

use std::ffi::c_void;
use std::ptr;

use cuda_driver::sys;

use crate::context::Context;
use crate::error::{GpuError, GpuResult};

/// Checks that the driver has memory in `context`, or in none of its device's, as a pool's is. `what` it is, for the error.
pub(crate) fn check_memory(
    context: &Context,
    what: &'static str,
    address: u64,
    bytes: usize,
) -> GpuResult<()> {
    use sys::pointer_attribute as A;
    if bytes == 0 {
        return Ok(());
    }
    let (mut owner, mut ordinal): (sys::CUcontext, _) = (ptr::null_mut(), 0i32);
    let read = |attribute, value: *mut c_void| {
        context.call_uncounted("cuPointerGetAttribute", || {
            // SAFETY: the value has room for the attribute; the address is not followed.
            unsafe { sys::cuPointerGetAttribute(value, attribute, address) }
        })
    };
    read(A::CONTEXT, (&raw mut owner).cast())?;
    read(A::DEVICE_ORDINAL, (&raw mut ordinal).cast())?;
    let (expected, found) = (context.info().ordinal, ordinal.cast_unsigned());
    if found != expected {
        return Err(GpuError::WrongDevice { what, expected, found });
    }
    if owner.is_null() || owner == context.raw() {
        return Ok(());
    }
    Err(GpuError::WrongContext { what, ordinal: found })
}
