//! The linker: links several PTX texts into one, which is loaded like any image. NVIDIA's linker
//! returns machine code, but a program that only passes the image on sees no difference. NVIDIA's
//! device runtime, an archive of machine code, is replaced by a PTX implementation of our own.
#![allow(non_snake_case)]

use std::ffi::{CString, c_char, c_void};
use std::sync::Mutex;

use ::emulator::LoadError;
use ::emulator::device::block_marks;
use ::emulator::ptx::{self, ast};

use crate::abi::{CUlinkState, HostPtr, In, Out, PTX, text};
use crate::codes::{CUDA_ERROR_FILE_NOT_FOUND, CUDA_ERROR_INVALID_PTX, CUDA_ERROR_INVALID_SOURCE};
use crate::detail::{DriverError, DriverResult};
use crate::emulated::current::current;
use crate::emulated::gpu::Gpu;
use crate::emulated::jit::Options;
use crate::emulated::module::{compile, decode};
use crate::emulated::registry::{Handle, Registry};
use crate::emulated::{invalid_value, lock, not_supported};

/// `CU_JIT_INPUT_CUBIN`: accepted for images that the emulator itself has linked.
const CUBIN: i32 = 0;
/// `CU_JIT_INPUT_LIBRARY`
const LIBRARY: i32 = 4;
/// The highest number of an input type.
const LAST_KIND: i32 = 6;

/// The functions of NVIDIA's device runtime, `libcudadevrt.a`, for grid-wide barriers. They are
/// weak: as with any archive, the program's own definitions take precedence.
const DEVICE_RUNTIME: &str = include_str!("device_runtime.ptx");

/// A link in progress. It owns the image that it returns.
struct Link {
    context: Handle,
    gpu: &'static Gpu,
    options: LinkOptions,
    inputs: Mutex<Vec<(String, ast::Module)>>,
    /// Comments of the inputs that the emulator's checks use.
    marks: Mutex<String>,
    image: Mutex<Option<CString>>,
}

/// The options with which the link was created. As the API requires, the program keeps their
/// buffers until the link is destroyed.
struct LinkOptions(Options);

// SAFETY: the API has the program keep the places, and call for one link from one thread at a time.
unsafe impl Send for LinkOptions {}
// SAFETY: as for `Send`.
unsafe impl Sync for LinkOptions {}

static LINKS: Registry<Link> = Registry::new("linker");

/// Removes a context's links.
pub(in crate::emulated) fn forget(context: Handle) -> DriverResult {
    LINKS.remove_where(|link| link.context == context);
    Ok(())
}

pub(crate) fn cuLinkCreate_v2(
    n_options: u32,
    options: In<i32>,
    values: Out<*mut c_void>,
    state: Out<CUlinkState>,
) -> DriverResult {
    let context = current()?;
    let options = LinkOptions(Options::read(n_options, options, values)?);
    state.check()?;
    let (inputs, marks, image) = (Mutex::default(), Mutex::default(), Mutex::default());
    let link = Link { context: context.handle, gpu: context.gpu, options, inputs, marks, image };
    state.set(LINKS.add(link).as_ptr())
}

impl Link {
    /// Adds an input. Errors go to the input's own log, if it has one, else to the link's.
    fn add(&self, kind: i32, bytes: &[u8], name: String, own: Option<Options>) -> DriverResult {
        let options = own.as_ref().unwrap_or(&self.options.0);
        let (tree, marks) = options.logged(|| {
            let text = input_text(kind, bytes)?;
            Ok((read(text, self.gpu)?, block_marks(text)))
        })?;
        let mut inputs = lock(&self.inputs);
        let name = if name.is_empty() { format!("input {}", inputs.len() + 1) } else { name };
        inputs.push((name, tree));
        lock(&self.marks).push_str(&marks);
        Ok(())
    }

    /// Links all inputs.
    fn complete(&self) -> DriverResult<CString> {
        let inputs = lock(&self.inputs).clone();
        if inputs.is_empty() {
            return Err(invalid_value("the linker has no inputs"));
        }
        let linked = ptx::link(inputs)
            .map_err(|error| DriverError::new(CUDA_ERROR_INVALID_SOURCE, error.to_string()))?;
        let text = linked.to_string() + &lock(&self.marks);
        compile(text.as_bytes(), self.gpu)?;
        CString::new(text).map_err(|error| failure(format!("the PTX is not text: {error}")))
    }
}

fn failure(text: String) -> DriverError {
    DriverError::new(CUDA_ERROR_INVALID_PTX, text)
}

/// The PTX of an input.
fn input_text(kind: i32, bytes: &[u8]) -> DriverResult<&str> {
    match kind {
        PTX | CUBIN => decode(until_nul(bytes)),
        LIBRARY if is_device_runtime(bytes) => Ok(DEVICE_RUNTIME),
        0..=LAST_KIND => Err(not_supported(format!(
            "the emulator's linker takes PTX text, kind {PTX}, and of archives, kind \
             {LIBRARY}, NVIDIA's libcudadevrt.a; this is another input of kind {kind}"
        ))),
        _ => Err(invalid_value(format!("{kind} is not a link input type"))),
    }
}

/// Parses a PTX text. Symbols that other inputs may define can be unresolved.
fn read(text: &str, gpu: &Gpu) -> DriverResult<ast::Module> {
    match gpu.device.load(text) {
        Ok(_) => {}
        Err(error) if matches!(error.root(), LoadError::Unresolved { .. }) => {}
        Err(error) => return Err(error.into()),
    }
    Ok(ptx::parse(text).map_err(LoadError::from)?)
}

fn until_nul(bytes: &[u8]) -> &[u8] {
    let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
    &bytes[..end]
}

/// Whether an archive is `libcudadevrt.a`, by the name of its one member.
fn is_device_runtime(archive: &[u8]) -> bool {
    const MEMBER: &[u8] = b"cuda_device_runtime.o/";
    archive.starts_with(b"!<arch>\n")
        && archive.windows(MEMBER.len()).any(|window| window == MEMBER)
}

/// An input's own options, if it has some.
fn own_options(
    n_options: u32,
    options: In<i32>,
    values: Out<*mut c_void>,
) -> DriverResult<Option<Options>> {
    (n_options > 0).then(|| Options::read(n_options, options, values)).transpose()
}

#[allow(clippy::too_many_arguments)]
pub(crate) fn cuLinkAddData_v2(
    state: CUlinkState,
    kind: i32,
    data: HostPtr,
    len: usize,
    name: In<c_char>,
    n_options: u32,
    options: In<i32>,
    values: Out<*mut c_void>,
) -> DriverResult {
    current()?;
    let link = LINKS.get(state)?;
    data.check()?;
    // SAFETY: the caller guarantees that `len` bytes are valid during the call.
    let bytes = unsafe { data.bytes(len) };
    let name = match name.is_null() {
        true => String::new(),
        false => text(name)?.to_string_lossy().into_owned(),
    };
    link.add(kind, bytes, name, own_options(n_options, options, values)?)
}

pub(crate) fn cuLinkAddFile_v2(
    state: CUlinkState,
    kind: i32,
    path: In<c_char>,
    n_options: u32,
    options: In<i32>,
    values: Out<*mut c_void>,
) -> DriverResult {
    current()?;
    let link = LINKS.get(state)?;
    let path = text(path)?.to_string_lossy().into_owned();
    let bytes = std::fs::read(&path).map_err(|error| {
        DriverError::new(CUDA_ERROR_FILE_NOT_FOUND, format!("cannot read `{path}`: {error}"))
    })?;
    link.add(kind, &bytes, path, own_options(n_options, options, values)?)
}

/// The image is valid until the link is destroyed.
pub(crate) fn cuLinkComplete(
    state: CUlinkState,
    image: Out<*mut c_void>,
    len: Out<usize>,
) -> DriverResult {
    current()?;
    let link = LINKS.get(state)?;
    image.check()?;
    let text = link.options.0.logged(|| link.complete())?;
    let mut stored = lock(&link.image);
    let text = stored.insert(text);
    image.set(text.as_ptr().cast_mut().cast())?;
    len.set_if_wanted(text.as_bytes_with_nul().len());
    Ok(())
}

pub(crate) fn cuLinkDestroy(state: CUlinkState) -> DriverResult {
    current()?;
    LINKS.remove(state).map(drop)
}
