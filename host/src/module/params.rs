//! Whether a launcher fits the kernel of a PTX text.

use cuda_std::launch::Kernel;
use cuda_std::signature::Parameter;
use cust::sys;

use crate::context::Context;
use crate::error::{GpuError, GpuResult};

/// What the driver answers where a kernel has no such parameter.
const NO_PARAM: u32 = 1;
/// What begins the comment that says what a kernel's parameters are.
const MARK: &str = "// ferrowarp.signature ";
/// What is answered for a driver that cannot tell parameters: they can since CUDA 12.4.
const CANNOT_TELL: [u32; 2] = [500, 801];

/// Compares a launcher's parameters with those of the entry, as far as the driver tells them.
///
/// # Errors
/// [`WrongParameters`](GpuError::WrongParameters), and what the driver says.
pub(super) fn check(
    context: &Context,
    kernel: &'static Kernel,
    function: sys::CUfunction,
) -> GpuResult<()> {
    let wanted: Vec<usize> = kernel.params.iter().map(|param| param.size_bytes).collect();
    let mut found = Vec::new();
    for index in 0..=wanted.len() {
        match param_bytes(context, function, index) {
            Ok(bytes) => found.push(bytes),
            Err(error) => match refusal(&error) {
                Some(NO_PARAM) => break,
                Some(code) if CANNOT_TELL.contains(&code) => return Ok(()),
                _ => return Err(error),
            },
        }
    }
    if found == wanted {
        return Ok(());
    }
    Err(GpuError::WrongParameters { kernel: kernel.name, expected: found, found: wanted })
}

/// Compares the types of a launcher's parameters with those that `#[kernel]` wrote into the text. A text from
/// elsewhere has none, nor has a launcher that was made by hand.
///
/// # Errors
/// [`WrongTypes`](GpuError::WrongTypes).
pub(super) fn check_types(kernel: &'static Kernel, ptx: &str) -> GpuResult<()> {
    let own = kernel.contract.signature;
    let Some((found, written)) = signature(ptx, kernel.name).filter(|_| !own.is_empty()) else {
        return Ok(());
    };
    let forms = own.iter().map(|parameter| {
        let Parameter { form, size_bytes, align_bytes, .. } = parameter;
        format!("{form}:{size_bytes}:{align_bytes}:{}", parameter.name_hash())
    });
    if forms.eq(found.split_whitespace()) {
        return Ok(());
    }
    let expected: Vec<String> = own.iter().map(Parameter::to_string).collect();
    let (kernel, expected) = (kernel.name, expected.join(", "));
    Err(GpuError::WrongTypes { kernel, expected, found: written.to_owned() })
}

/// `// ferrowarp.signature NAME slice:4:4:HASH … = &[f32], …` → the forms, and the types as written.
fn signature<'a>(ptx: &'a str, kernel: &str) -> Option<(&'a str, &'a str)> {
    let mut comments = ptx.lines().filter_map(|line| line.trim_start().strip_prefix(MARK));
    let own = comments.find_map(|comment| comment.strip_prefix(kernel)?.strip_prefix(' '))?;
    own.split_once("= ").or_else(|| Some((own.strip_suffix('=')?, "")))
}

/// The driver's code for the question itself; on the way to it others can fail with the same codes.
fn refusal(error: &GpuError) -> Option<u32> {
    let driver = error.driver().filter(|own| own.operation() == "cuFuncGetParamInfo")?;
    Some(driver.code())
}

fn param_bytes(context: &Context, function: sys::CUfunction, index: usize) -> GpuResult<usize> {
    // cust's bindings do not know this one.
    unsafe extern "C" {
        fn cuFuncGetParamInfo(
            f: sys::CUfunction,
            index: usize,
            offset: *mut usize,
            bytes: *mut usize,
        ) -> sys::CUresult;
    }
    let (mut offset, mut bytes) = (0, 0);
    // SAFETY: the function's module is loaded, and both places are writable.
    let ask = || unsafe { cuFuncGetParamInfo(function, index, &mut offset, &mut bytes) };
    context.call("cuFuncGetParamInfo", ask)?;
    Ok(bytes)
}
