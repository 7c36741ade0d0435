//! Packs a kernel's arguments: copies them from the caller's pointers into the parameter buffer
//! that the kernel reads.

use ::emulator::Function;

use super::invalid_value;
use crate::abi::{HostPtr, In};
use crate::codes::{CUDA_ERROR_INVALID_VALUE, CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES};
use crate::detail::{DriverError, DriverResult};

/// Keys of the list `extra` of a launch: `CU_LAUNCH_PARAM_…`.
const END: usize = 0;
const BUFFER: usize = 1;
const BUFFER_BYTES: usize = 2;

/// The packed arguments of a launch.
pub(super) fn pack(
    function: &Function,
    params: In<HostPtr>,
    extra: In<HostPtr>,
) -> DriverResult<Vec<u8>> {
    match (params.is_null(), extra.is_null()) {
        (false, false) => {
            Err(invalid_value("arguments were given both as `params` and as `extra`"))
        }
        (true, false) => from_buffer(function, extra),
        (false, true) => one_by_one(function, params),
        (true, true) if function.params.is_empty() => Ok(Vec::new()),
        (true, true) => {
            let (name, count) = (&function.name, function.params.len());
            Err(invalid_value(format!(
                "kernel `{name}` takes {count} arguments and was given none"
            )))
        }
    }
}

fn one_by_one(function: &Function, params: In<HostPtr>) -> DriverResult<Vec<u8>> {
    let mut packed = vec![0; function.param_bytes];
    for (index, param) in function.params.iter().enumerate() {
        let from = params.at(index);
        from.check().map_err(|_| null_argument(function, index))?;
        let (offset, size) = (param.offset, param.size);
        // SAFETY: the caller of the launch gave a pointer for each of the kernel's parameters,
        // each to a value of that parameter's size.
        packed[offset..offset + size].copy_from_slice(unsafe { from.bytes(size) });
    }
    Ok(packed)
}

fn null_argument(function: &Function, index: usize) -> DriverError {
    let (name, count) = (&function.name, function.params.len());
    invalid_value(format!("argument {index} of the {count} of kernel `{name}` is a null pointer"))
}

fn from_buffer(function: &Function, extra: In<HostPtr>) -> DriverResult<Vec<u8>> {
    let (buffer, bytes) = read_list(extra)?;
    let needed = function.param_bytes;
    if bytes != needed {
        let name = &function.name;
        let text =
            format!("kernel `{name}` takes {needed} bytes of arguments and was given {bytes}");
        let code = match bytes > needed {
            true => CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES,
            false => CUDA_ERROR_INVALID_VALUE,
        };
        return Err(DriverError::new(code, text));
    }
    if needed > 0 {
        buffer.check()?;
    }
    // SAFETY: the caller of the launch guarantees a buffer of the size that it passed with it.
    Ok(if needed == 0 { Vec::new() } else { unsafe { buffer.bytes(needed) }.to_vec() })
}

fn read_list(extra: In<HostPtr>) -> DriverResult<(HostPtr, usize)> {
    let (mut buffer, mut bytes) = (HostPtr(std::ptr::null_mut()), 0);
    let mut at = 0;
    loop {
        match extra.at(at).0.addr() {
            END => return Ok((buffer, bytes)),
            BUFFER => buffer = extra.at(at + 1),
            BUFFER_BYTES => bytes = extra.at(at + 1).as_in::<usize>().get()?,
            odd => return Err(invalid_value(format!("{odd:#x} is not a key of the list `extra`"))),
        }
        at += 2;
    }
}
