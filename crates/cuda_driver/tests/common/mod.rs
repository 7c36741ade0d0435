//! Test support: a context, driver calls with Rust's types, and child processes.
#![allow(dead_code, reason = "each test file uses some of it")]

use std::env;
use std::ffi::{CString, c_void};
use std::process::Command;
use std::ptr::null_mut;
use std::sync::Once;
use std::sync::mpsc::{Receiver, Sender, channel};

use cuda_driver::*;

/// The kernels that the tests launch.
pub const KERNELS: &str = include_str!("kernels.ptx");

/// Runs a driver call and gives its code.
#[macro_export]
macro_rules! code {
    ($name:ident($($arg:expr),* $(,)?)) => {{
        #[allow(clippy::macro_metavars_in_unsafe, reason = "the arguments are plain values")]
        // SAFETY: the test passes live places and the driver's own handles, or arguments that
        // the driver must refuse without following them.
        unsafe {
            cuda_driver::$name($($arg),*)
        }
    }};
}

/// Runs a driver call that must succeed.
#[macro_export]
macro_rules! ok {
    ($name:ident($($arg:expr),* $(,)?)) => {{
        let code = $crate::code!($name($($arg),*));
        assert_eq!(code, 0, "{}: {:?}", stringify!($name), cuda_driver::take_detail());
    }};
}

/// Makes this process use the emulator, whatever the machine has.
pub fn force_emulator() {
    static FORCE: Once = Once::new();
    FORCE.call_once(|| {
        // SAFETY: only the driver front reads this variable, and it does so in `cuInit`, which
        // every test calls after this.
        unsafe { env::set_var("FERROWARP_DEVICE", "emulator") };
    });
}

/// Whether the emulator is the backend; after `cuInit`.
pub fn on_emulator() -> bool {
    backend() == Some(Backend::Emulator)
}

/// The primary context, current on this thread.
pub fn context() -> CUcontext {
    ok!(cuInit(0));
    let mut context = null_mut();
    ok!(cuDevicePrimaryCtxRetain(Out::from(&mut context), 0));
    ok!(cuCtxSetCurrent(context));
    context
}

/// A place for arguments of the C interface.
pub fn host<T>(value: &T) -> HostPtr {
    HostPtr(std::ptr::from_ref(value).cast_mut().cast())
}

pub fn host_slice<T>(values: &[T]) -> HostPtr {
    HostPtr(values.as_ptr().cast_mut().cast())
}

pub fn host_slice_mut<T>(values: &mut [T]) -> HostPtr {
    HostPtr(values.as_mut_ptr().cast())
}

/// Loads PTX; the code where that fails.
pub fn try_load(ptx: &str) -> Result<CUmodule, ResultCode> {
    let text = CString::new(ptx).expect("no NUL in PTX");
    let mut module = null_mut();
    let image = HostPtr(text.as_ptr().cast_mut().cast());
    match code!(cuModuleLoadData(Out::from(&mut module), image)) {
        0 => Ok(module),
        code => Err(code),
    }
}

pub fn load() -> CUmodule {
    try_load(KERNELS).unwrap_or_else(|code| panic!("load: {code}: {:?}", take_detail()))
}

pub fn function(module: CUmodule, name: &str) -> CUfunction {
    let name = CString::new(name).expect("no NUL in a name");
    let mut function = null_mut();
    ok!(cuModuleGetFunction(Out::from(&mut function), module, c_text(&name)));
    function
}

/// A C text as an argument.
pub fn c_text(text: &CString) -> In<std::ffi::c_char> {
    In::from(text.as_bytes_with_nul()).cast()
}

pub fn alloc(bytes: usize) -> CUdeviceptr {
    let mut address = 0;
    ok!(cuMemAlloc_v2(Out::from(&mut address), bytes));
    address
}

pub fn stream(flags: u32) -> CUstream {
    let mut stream = null_mut();
    ok!(cuStreamCreate(Out::from(&mut stream), flags));
    stream
}

pub fn event() -> CUevent {
    let mut event = null_mut();
    ok!(cuEventCreate(Out::from(&mut event), 0));
    event
}

pub fn read_u32(address: CUdeviceptr) -> u32 {
    let mut value = [0_u32];
    ok!(cuMemcpyDtoH_v2(host_slice_mut(&mut value), address, 4));
    value[0]
}

/// Launches with one block of one thread; the arguments are pointers to their values.
pub fn launch(function: CUfunction, stream: CUstream, params: &[HostPtr]) -> ResultCode {
    launch_sized(function, [1; 3], [1; 3], 0, stream, params)
}

pub fn launch_sized(
    function: CUfunction,
    [grid_x, grid_y, grid_z]: [u32; 3],
    [block_x, block_y, block_z]: [u32; 3],
    shared_mem_bytes: u32,
    stream: CUstream,
    params: &[HostPtr],
) -> ResultCode {
    let params = if params.is_empty() { In::NULL } else { In::from(params) };
    code!(cuLaunchKernel(
        function,
        grid_x,
        grid_y,
        grid_z,
        block_x,
        block_y,
        block_z,
        shared_mem_bytes,
        stream,
        params,
        In::NULL,
    ))
}

/// Blocks a stream or a graph node by a host callback that waits until the gate is opened.
pub struct Gate(Sender<()>);

unsafe extern "C" fn wait_at_gate(data: *mut c_void) {
    // SAFETY: `Gate::function` made this box for this one call.
    let gate = unsafe { Box::from_raw(data.cast::<Receiver<()>>()) };
    let _ = gate.recv();
}

impl Gate {
    /// A gate, and the host callback that waits at it, to be called once.
    pub fn function() -> (Self, HostNodeParams) {
        let (sender, receiver) = channel::<()>();
        let data = HostPtr(Box::into_raw(Box::new(receiver)).cast());
        (Self(sender), HostNodeParams { function: Some(wait_at_gate), data })
    }

    pub fn close(stream: CUstream) -> Self {
        let (gate, HostNodeParams { function, data }) = Self::function();
        ok!(cuLaunchHostFunc(stream, function, data));
        gate
    }

    pub fn open(self) {
        drop(self.0);
    }
}

/// The null stream.
pub const NULL: CUstream = null_mut();

const ROW: &str = "CUDA_DRIVER_TEST_ROW";

/// Runs `body` in a process of its own: this test again, alone. `set` are variables for it. Returns
/// what that process wrote to its standard error; nothing in the process itself.
pub fn in_child_with(name: &str, set: &[(&str, &str)], body: impl FnOnce()) -> Option<String> {
    if env::var(ROW).as_deref() == Ok(name) {
        body();
        return None;
    }
    let output = Command::new(env::current_exe().expect("this executable"))
        .args(["--exact", name, "--nocapture", "--test-threads=1"])
        .env(ROW, name)
        .envs(set.iter().copied())
        .output()
        .expect("the child starts");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{name} failed in its process:\n{text}\n{errors}");
    assert!(text.contains("1 passed"), "{name} did not run in its process:\n{text}");
    Some(errors.into_owned())
}

/// For [`in_child_with`]: an emulated device with more memory than a small machine has. Pages that
/// are never accessed take no memory.
pub const LARGE: &[(&str, &str)] = &[("FERROWARP_EMULATOR_MEMORY", "16G")];

/// Runs `body` in a process of its own, so that a context which it loses is lost to no other test.
pub fn in_child(name: &str, body: impl FnOnce()) {
    in_child_with(name, &[], body);
}
