//! Whether a launcher fits the kernel of a PTX text.

use cuda_driver::sys;
use cuda_std::launch::Kernel;
use cuda_std::signature::Parameter;

use crate::context::Context;
use crate::error::{GpuError, GpuResult, LaunchBound};

/// What the driver answers where a kernel has no such parameter.
const NO_PARAM: u32 = 1;
/// What begins the comment that says what a kernel's parameters are.
const MARK: &str = "// ferrowarp.signature ";
/// The codes of a driver that cannot list parameters: drivers can since CUDA 12.4.
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

/// Compares the types of a launcher's parameters, and the shape of its launches, with those that `#[kernel]` wrote into the text. A text from
/// elsewhere has none, nor has a launcher that was made by hand.
///
/// # Errors
/// [`ContractChanged`](GpuError::ContractChanged) and [`WrongTypes`](GpuError::WrongTypes).
pub(super) fn check_types(kernel: &'static Kernel, ptx: &str) -> GpuResult<()> {
    let Some(Signature { passed: found, hardware, types: written }) = signature(ptx, kernel.name)
    else {
        return Ok(());
    };
    check_hardware(kernel, hardware)?;
    let own = kernel.contract.signature;
    if own.is_empty() {
        return Ok(());
    }
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

/// Compares what a kernel takes from the hardware, and from its caller, with what every launch of its launcher has.
///
/// An `unsafe` kernel rests on promises that a safe launcher's caller never made.
/// A thread index of one or two dimensions is another one in each thread only of a grid that has no more. Without an
/// index, and with one of three dimensions, every grid will do. A block's token is for the extents that it names. A
/// dynamic array gets as many bytes as the launch says, which counted elements of another size. The other shared arrays
/// may change: no launch knows of them.
fn check_hardware(kernel: &'static Kernel, hardware: &str) -> GpuResult<()> {
    let contract = &kernel.contract;
    let Some(dims) = contract.index else { return Ok(()) };
    let changed =
        |expected, found| Err(GpuError::ContractChanged { kernel: kernel.name, expected, found });
    for word in hardware.split_whitespace() {
        let mut parts = word.split(':');
        let form = parts.next().unwrap_or_default();
        let numbers: Vec<u32> = parts.map_while(|number| number.parse().ok()).collect();
        match (form, &numbers[..]) {
            ("unsafe", []) if contract.is_safe => {
                return changed(LaunchBound::SafeLaunch, LaunchBound::UnsafeLaunch);
            }
            ("index", &[found @ 1..=2]) if dims == 0 || dims > found => {
                let expected = match dims {
                    0 | 3.. => LaunchBound::AnyDimensions,
                    _ => LaunchBound::Dimensions(dims),
                };
                return changed(expected, LaunchBound::Dimensions(found));
            }
            ("block", &[x, y, z]) if contract.block != Some((x, y, z)) => {
                let of_block = |(x, y, z)| LaunchBound::Block(x, y, z);
                let expected = contract.block.map_or(LaunchBound::AnyBlock, of_block);
                return changed(expected, LaunchBound::Block(x, y, z));
            }
            ("dynamic", &[found, ..]) if contract.dynamic_element_bytes != Some(found as usize) => {
                let own = contract.dynamic_element_bytes;
                let expected = own.map_or(LaunchBound::NoDynamicArray, LaunchBound::DynamicArray);
                return changed(expected, LaunchBound::DynamicArray(found as usize));
            }
            _ => {}
        }
    }
    Ok(())
}

/// What the comment of a kernel says.
#[derive(Debug, PartialEq, Eq)]
struct Signature<'a> {
    /// The forms of the parameters that a launch passes.
    passed: &'a str,
    /// What the kernel takes from the hardware.
    hardware: &'a str,
    /// The types that a launch passes, as they are written.
    types: &'a str,
}

/// `// ferrowarp.signature NAME slice:4:4:HASH … | index:1 … = &[f32], …`
fn signature<'a>(ptx: &'a str, kernel: &str) -> Option<Signature<'a>> {
    let mut comments = ptx.lines().filter_map(|line| line.trim_start().strip_prefix(MARK));
    let own = comments.find_map(|comment| comment.strip_prefix(kernel)?.strip_prefix(' '))?;
    let (forms, types) = own.split_once("= ").or_else(|| Some((own.strip_suffix('=')?, "")))?;
    let (passed, hardware) = forms.split_once('|').unwrap_or((forms, ""));
    Some(Signature { passed, hardware, types })
}

/// The driver's code for the question itself; on the way to it others can fail with the same codes.
fn refusal(error: &GpuError) -> Option<u32> {
    let driver = error.driver().filter(|own| own.operation() == "cuFuncGetParamInfo")?;
    Some(driver.code())
}

fn param_bytes(context: &Context, function: sys::CUfunction, index: usize) -> GpuResult<usize> {
    let (mut offset, mut bytes) = (0, 0);
    // SAFETY: the function's module is loaded, and both places are writable.
    let ask = || unsafe { sys::cuFuncGetParamInfo(function, index, &mut offset, &mut bytes) };
    context.call("cuFuncGetParamInfo", ask)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use cuda_std::launch::Contract;

    fn launcher(index: u32, contract: Contract) -> &'static Kernel {
        let contract = contract.with_hardware(index, contract.dynamic_element_bytes);
        Box::leak(Box::new(Kernel { name: "k", params: &[], contract }))
    }

    fn check(kernel: &'static Kernel, hardware: &str) -> Result<(), String> {
        let ptx = format!("// ferrowarp.signature k_more | index:1 =\n{MARK}k | {hardware} =\n");
        check_types(kernel, &ptx).map_err(|error| error.to_string())
    }

    #[test]
    fn an_index_fits_launches_of_no_more_dimensions() {
        for (launched, compiled) in (0..4).flat_map(|a| (0..4).map(move |b| (a, b))) {
            let fits = matches!(compiled, 0 | 3) || (launched > 0 && launched <= compiled);
            let found = check(launcher(launched, Contract::NONE), &format!("index:{compiled}"));
            assert_eq!(found.is_ok(), fits, "{launched} {compiled}: {found:?}");
        }
        assert_eq!(
            check(launcher(0, Contract::NONE), "index:1").unwrap_err(),
            "`k` now is for grids of one dimension, and its launcher gives grids of any number of \
             dimensions: build the host again"
        );
        // A launcher that was made by hand is not compared.
        static HAND: Kernel = Kernel { name: "k", params: &[], contract: Contract::NONE };
        assert_eq!(check(&HAND, "index:1 block:32:1:1 dynamic:4:4:7"), Ok(()));
    }

    #[test]
    fn a_block_and_a_dynamic_array_are_those_of_the_launcher() {
        let fixed = Contract::NONE.with_block([64, 1, 1]);
        assert_eq!(check(launcher(0, fixed), "index:0 block:64:1:1"), Ok(()));
        let text = check(launcher(0, fixed), "index:0 block:32:2:1").unwrap_err();
        assert!(text.contains("blocks of 32 × 2 × 1 threads, and its launcher gives blocks of 64"));
        let text = check(launcher(0, Contract::NONE), "index:0 block:64:1:1").unwrap_err();
        assert!(text.contains("gives blocks of any shape"), "{text}");
        let words = Contract::NONE.with_hardware(0, Some(4));
        assert_eq!(check(launcher(0, words), "index:0 dynamic:4:4:99 shared:8:8:1"), Ok(()));
        assert_eq!(check(launcher(0, words), "index:0 shared:1024:8:1"), Ok(()));
        let text = check(launcher(0, words), "index:0 dynamic:8:8:99").unwrap_err();
        assert!(text.contains("with elements of 8 bytes, and its launcher gives a dynamic"));
        let text = check(launcher(0, fixed), "index:0 block:64:1:1 dynamic:8:8:99").unwrap_err();
        assert!(text.contains("its launcher gives no dynamic shared array"), "{text}");
    }

    #[test]
    fn a_safe_launcher_runs_no_unsafe_kernel() {
        let safe = Contract::NONE.with_safe_launch();
        assert_eq!(check(launcher(1, Contract::NONE), "unsafe index:1"), Ok(()));
        assert_eq!(check(launcher(1, safe), "index:1"), Ok(()));
        assert_eq!(
            check(launcher(1, safe), "unsafe index:1").unwrap_err(),
            "`k` now is for launches in `unsafe` code, and its launcher gives launches from safe code: \
             build the host again"
        );
    }

    #[test]
    fn a_signature_is_read_with_and_without_what_the_hardware_gives() {
        let of = |rest: &str| {
            let text = format!("{MARK}k{rest}");
            let Signature { passed, hardware, types } = signature(&text, "k").unwrap();
            [passed, hardware, types].map(|part| part.trim().to_owned())
        };
        assert_eq!(of(" slice:4:4:1 | index:1 = &[f32]"), ["slice:4:4:1", "index:1", "&[f32]"]);
        assert_eq!(of(" slice:4:4:1 = &[f32]"), ["slice:4:4:1", "", "&[f32]"]);
        assert_eq!(of(" | index:2 ="), ["", "index:2", ""]);
    }
}
