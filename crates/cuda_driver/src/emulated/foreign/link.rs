//! The linker: PTX texts go in, and one text comes out, which loads as an image does. NVIDIA's
//! comes out as machine code for its GPUs; a program that only hands the image on sees no
//! difference. NVIDIA's device runtime, an archive of machine code, stands for our own text of it.
#![allow(non_snake_case)]

use std::ffi::{CString, c_char, c_void};
use std::sync::Mutex;

use ::emulator::LoadError;
use ::emulator::device::block_marks;
use ::emulator::ptx::{self, ast};

use crate::abi::{CUlinkState, HostPtr, In, Out, PTX, text};
use crate::codes::{CUDA_ERROR_FILE_NOT_FOUND, CUDA_ERROR_INVALID_PTX, CUDA_ERROR_INVALID_SOURCE};
use crate::detail::{Answer, Failure};
use crate::emulated::current::current;
use crate::emulated::gpu::Gpu;
use crate::emulated::jit::Options;
use crate::emulated::module::{compile, decode};
use crate::emulated::registry::{Handle, Registry};
use crate::emulated::{invalid, lacking, lock};

/// The API's number of machine code; an image that the emulator linked may be said to be that.
const CUBIN: i32 = 0;
/// The API's number of an archive.
const LIBRARY: i32 = 4;
/// The highest number of a kind of input.
const LAST_KIND: i32 = 6;

/// What NVIDIA's device runtime, `libcudadevrt.a`, has for barriers of a whole grid. Its functions are weak: as with
/// any archive, a definition of the program's own is preferred.
const DEVICE_RUNTIME: &str = include_str!("device_runtime.ptx");

/// A link in the making. It owns the image that it hands out.
struct Link {
    context: Handle,
    gpu: &'static Gpu,
    options: Kept,
    inputs: Mutex<Vec<(String, ast::Module)>>,
    /// Comments of the inputs that the emulator's checks go by.
    marks: Mutex<String>,
    image: Mutex<Option<CString>>,
}

/// The options that the link was made with: their places stay the program's until the link goes,
/// as the API asks.
struct Kept(Options);

// SAFETY: the API has the program keep the places, and call for one link from one thread at a time.
unsafe impl Send for Kept {}
// SAFETY: as for `Send`.
unsafe impl Sync for Kept {}

static LINKS: Registry<Link> = Registry::new("linker");

/// Forgets a context's linkers.
pub(in crate::emulated) fn forget(context: Handle) -> Answer {
    LINKS.remove_where(|link| link.context == context);
    Ok(())
}

pub(crate) fn cuLinkCreate_v2(
    n_options: u32,
    options: In<i32>,
    values: Out<*mut c_void>,
    state: Out<CUlinkState>,
) -> Answer {
    let context = current()?;
    let options = Kept(Options::read(n_options, options, values)?);
    state.check()?;
    let (inputs, marks, image) = (Mutex::default(), Mutex::default(), Mutex::default());
    let link = Link { context: context.handle, gpu: context.gpu, options, inputs, marks, image };
    state.set(LINKS.add(link).as_ptr())
}

impl Link {
    /// Takes an input; what is wrong with it goes into its own log, or the link's.
    fn add(&self, kind: i32, bytes: &[u8], name: String, own: Option<Options>) -> Answer {
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

    /// Links what was added.
    fn complete(&self) -> Answer<CString> {
        let inputs = lock(&self.inputs).clone();
        if inputs.is_empty() {
            return Err(invalid("nothing was added to the linker"));
        }
        let linked = ptx::link(inputs)
            .map_err(|error| Failure::new(CUDA_ERROR_INVALID_SOURCE, error.to_string()))?;
        let text = linked.to_string() + &lock(&self.marks);
        compile(text.as_bytes(), self.gpu)?;
        CString::new(text).map_err(|error| failure(format!("the PTX is not text: {error}")))
    }
}

fn failure(text: String) -> Failure {
    Failure::new(CUDA_ERROR_INVALID_PTX, text)
}

/// The PTX of an input.
fn input_text(kind: i32, bytes: &[u8]) -> Answer<&str> {
    match kind {
        PTX | CUBIN => decode(until_nul(bytes)),
        LIBRARY if is_device_runtime(bytes) => Ok(DEVICE_RUNTIME),
        0..=LAST_KIND => Err(lacking(format!(
            "the emulator's linker takes PTX text, kind {PTX}, and of archives, kind \
             {LIBRARY}, NVIDIA's libcudadevrt.a; this is another input of kind {kind}"
        ))),
        _ => Err(invalid(format!("{kind} is no kind of input"))),
    }
}

/// The module that a text holds. What other inputs may define is open still.
fn read(text: &str, gpu: &Gpu) -> Answer<ast::Module> {
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

/// An input's own options, where it has some.
fn own_options(
    n_options: u32,
    options: In<i32>,
    values: Out<*mut c_void>,
) -> Answer<Option<Options>> {
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
) -> Answer {
    current()?;
    let link = LINKS.get(state)?;
    data.check()?;
    // SAFETY: the caller vouches for `len` bytes during the call.
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
) -> Answer {
    current()?;
    let link = LINKS.get(state)?;
    let path = text(path)?.to_string_lossy().into_owned();
    let bytes = std::fs::read(&path).map_err(|error| {
        Failure::new(CUDA_ERROR_FILE_NOT_FOUND, format!("cannot read `{path}`: {error}"))
    })?;
    link.add(kind, &bytes, path, own_options(n_options, options, values)?)
}

/// The image stays until the link is destroyed.
pub(crate) fn cuLinkComplete(
    state: CUlinkState,
    image: Out<*mut c_void>,
    len: Out<usize>,
) -> Answer {
    current()?;
    let link = LINKS.get(state)?;
    image.check()?;
    let text = link.options.0.logged(|| link.complete())?;
    let mut place = lock(&link.image);
    let text = place.insert(text);
    image.set(text.as_ptr().cast_mut().cast())?;
    len.set_if_wanted(text.as_bytes_with_nul().len());
    Ok(())
}

pub(crate) fn cuLinkDestroy(state: CUlinkState) -> Answer {
    current()?;
    LINKS.remove(state).map(drop)
}
