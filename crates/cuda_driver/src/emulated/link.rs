//! The linker: PTX texts go in, and one text comes out, which loads as an image does. NVIDIA's
//! comes out as machine code for its GPUs; a program that only hands the image on sees no
//! difference.
#![allow(non_snake_case)]

use std::ffi::{CString, c_char, c_void};
use std::sync::Mutex;

use ::emulator::LoadError;
use ::emulator::ptx::{self, ast};

use super::current::current;
use super::gpu::Gpu;
use super::jit::Options;
use super::module::{compile, decode};
use super::registry::{Handle, Registry};
use super::{invalid, lacking, lock};
use crate::abi::{CUlinkState, HostPtr, In, Out, text};
use crate::codes::{CUDA_ERROR_FILE_NOT_FOUND, CUDA_ERROR_INVALID_PTX, CUDA_ERROR_INVALID_SOURCE};
use crate::detail::{Answer, Failure};
use crate::real::module::PTX;

/// The API's number of machine code; an image that the emulator linked may be said to be that.
const CUBIN: i32 = 0;
/// The highest number of a kind of input.
const LAST_KIND: i32 = 6;

/// A link in the making. It owns the image that it hands out.
struct Link {
    context: Handle,
    gpu: &'static Gpu,
    options: Kept,
    inputs: Mutex<Vec<(String, ast::Module)>>,
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
pub(super) fn forget(context: Handle) {
    LINKS.remove_where(|link| link.context == context);
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
    let (inputs, image) = (Mutex::default(), Mutex::default());
    let link = Link { context: context.handle, gpu: context.gpu, options, inputs, image };
    state.set(LINKS.add(link).as_ptr())
}

impl Link {
    /// Takes an input; what is wrong with it goes into its own log, or the link's.
    fn add(&self, kind: i32, bytes: &[u8], name: String, own: Option<Options>) -> Answer {
        let options = own.as_ref().unwrap_or(&self.options.0);
        let tree = options.logged(|| read(kind, bytes, self.gpu))?;
        let mut inputs = lock(&self.inputs);
        let name = if name.is_empty() { format!("input {}", inputs.len() + 1) } else { name };
        inputs.push((name, tree));
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
        let text = linked.to_string();
        compile(text.as_bytes(), self.gpu)?;
        CString::new(text).map_err(|error| failure(format!("the PTX is not text: {error}")))
    }
}

fn failure(text: String) -> Failure {
    Failure::new(CUDA_ERROR_INVALID_PTX, text)
}

/// The module that an input holds. What other inputs may define is open still.
fn read(kind: i32, bytes: &[u8], gpu: &Gpu) -> Answer<ast::Module> {
    match kind {
        PTX | CUBIN => {}
        0..=LAST_KIND => {
            let text = format!("the emulator's linker takes PTX text, kind {PTX}, not kind {kind}");
            return Err(lacking(text));
        }
        _ => return Err(invalid(format!("{kind} is no kind of input"))),
    }
    let text = decode(bytes)?;
    match gpu.device.load(text) {
        Ok(_) | Err(LoadError::Unresolved { .. }) => {}
        Err(error) => return Err(error.into()),
    }
    Ok(ptx::parse(text).map_err(LoadError::from)?)
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
    let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(len);
    let name = match name.is_null() {
        true => String::new(),
        false => text(name)?.to_string_lossy().into_owned(),
    };
    link.add(kind, &bytes[..end], name, own_options(n_options, options, values)?)
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
    let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
    link.add(kind, &bytes[..end], path, own_options(n_options, options, values)?)
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
