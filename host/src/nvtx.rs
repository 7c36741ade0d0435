//! Ranges for NVIDIA's profilers: with the feature `nvtx`, each launch is one, by the kernel's name; that of a
//! graph is `graph`.
//!
//! A profiler that wants to hear names a library in `NVTX_INJECTION64_PATH`. It is opened at the first
//! range, and fills a table with its functions; this is the protocol of NVTX 3, which is otherwise a
//! header of C. Where no tool listens, a range costs a look at one static.
//!
//! ```no_run
//! # fn load() {}
//! let _range = ferrowarp::nvtx::range("loading the weights");
//! load();
//! ```

use std::ffi::{CString, c_char, c_int, c_uint, c_void};
use std::marker::PhantomData;
use std::path::Path;
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, Ordering};

use libloading::Library;

/// The variable that names the listener's library.
const VARIABLE: &str = if cfg!(target_pointer_width = "64") {
    "NVTX_INJECTION64_PATH"
} else {
    "NVTX_INJECTION32_PATH"
};

/// A range of time on this thread, from its making to its drop. Ranges nest.
#[derive(Debug)]
#[must_use = "the range ends where it is dropped"]
pub struct Range {
    pop: Pop,
    /// It ends on the thread that began it.
    thread: PhantomData<*const ()>,
}

/// Who listens, once that was looked for.
static LISTENER: OnceLock<Option<Listener>> = OnceLock::new();

/// Begins a range, if a tool listens.
#[inline]
pub fn range(name: &str) -> Option<Range> {
    if matches!(LISTENER.get(), Some(None)) { None } else { range_with_listener(name) }
}

fn range_with_listener(name: &str) -> Option<Range> {
    let path = || std::env::var_os(VARIABLE).filter(|path| !path.is_empty());
    LISTENER.get_or_init(|| Listener::load(path()?.as_ref())).as_ref()?.range(name)
}

impl Drop for Range {
    fn drop(&mut self) {
        // SAFETY: the listener gave the function for this, and is never unloaded.
        unsafe { (self.pop)() };
    }
}

type Push = unsafe extern "C" fn(*const c_char) -> c_int;
type Pop = unsafe extern "C" fn() -> c_int;
type GetExportTable = extern "C" fn(u32) -> *const c_void;
type Initialize = unsafe extern "C" fn(GetExportTable) -> c_int;

/// The functions of who listens.
#[derive(Clone, Copy)]
struct Listener {
    push: Push,
    pop: Pop,
}

impl Listener {
    /// The library of that path, if it is one and wants to listen.
    fn load(path: &Path) -> Option<Self> {
        // SAFETY: the user has named the library to be loaded into his programs.
        let library = unsafe { Library::new(path) }.ok()?;
        // SAFETY: by that name NVTX knows a function of that type.
        let initialize =
            *unsafe { library.get::<Initialize>(b"InitializeInjectionNvtx2\0") }.ok()?;
        // Its functions are called until the end of the process.
        std::mem::forget(library);
        // SAFETY: the function is given what it is made for.
        let willing = unsafe { initialize(export_table) } != 0;
        if willing { Self::attached() } else { None }
    }

    /// What a listener has put into the table.
    fn attached() -> Option<Self> {
        let slot = |id: usize| {
            let function = SLOTS[CORE][id].load(Ordering::Acquire);
            (!function.is_null()).then_some(function)
        };
        let (push, pop) = (slot(RANGE_PUSH_A)?, slot(RANGE_POP)?);
        // SAFETY: at this place of the table is a function of this type.
        let push = unsafe { std::mem::transmute::<*mut c_void, Push>(push) };
        // SAFETY: as above.
        let pop = unsafe { std::mem::transmute::<*mut c_void, Pop>(pop) };
        Some(Self { push, pop })
    }

    fn range(&self, name: &str) -> Option<Range> {
        let name = CString::new(name.split('\0').next().unwrap_or_default()).ok()?;
        // SAFETY: the text ends with a NUL and lives until the call returns.
        unsafe { (self.push)(name.as_ptr()) };
        Some(Range { pop: self.pop, thread: PhantomData })
    }
}

/// Modules of functions, by NVTX's numbers: none, core, CUDA, OpenCL, the CUDA runtime, core with
/// domains, synchronisation. A listener fills all that it finds, so each has its places.
const MODULES: usize = 7;
const FUNCTIONS: [c_uint; MODULES] = [0, 16, 9, 15, 7, 16, 7];
const MOST_FUNCTIONS: usize = 16;
const CORE: usize = 1;
const RANGE_PUSH_A: usize = 9;
const RANGE_POP: usize = 11;

type Slot = AtomicPtr<c_void>;
type Table = [*const Slot; MOST_FUNCTIONS + 1];

static SLOTS: [[Slot; MOST_FUNCTIONS]; MODULES] =
    [const { [const { Slot::new(ptr::null_mut()) }; MOST_FUNCTIONS] }; MODULES];

struct Tables([Table; MODULES]);

// SAFETY: addresses of statics of atomics.
unsafe impl Sync for Tables {}

/// For each function where its address is to be put; the first place and the last are null.
static TABLES: Tables = Tables(tables());

const fn tables() -> [Table; MODULES] {
    let mut tables = [[ptr::null::<Slot>(); MOST_FUNCTIONS + 1]; MODULES];
    let mut module = 1;
    while module < MODULES {
        let mut function = 1;
        while function < FUNCTIONS[module] as usize {
            tables[module][function] = &raw const SLOTS[module][function];
            function += 1;
        }
        module += 1;
    }
    tables
}

#[repr(C)]
struct Callbacks {
    struct_size: usize,
    get_module_function_table: extern "C" fn(c_uint, *mut *const *const Slot, *mut c_uint) -> c_int,
}

#[repr(C)]
struct VersionInfo {
    struct_size: usize,
    version: u32,
    reserved: u32,
    set_injection_version: extern "C" fn(u32),
}

/// What a listener asks for first: by which way it gets the tables, and for which NVTX.
extern "C" fn export_table(id: u32) -> *const c_void {
    static CALLBACKS: Callbacks = Callbacks {
        struct_size: size_of::<Callbacks>(),
        get_module_function_table: module_function_table,
    };
    static VERSION: VersionInfo = VersionInfo {
        struct_size: size_of::<VersionInfo>(),
        version: 3,
        reserved: 0,
        set_injection_version: ignore_version,
    };
    match id {
        1 => (&raw const CALLBACKS).cast(),
        3 => (&raw const VERSION).cast(),
        _ => ptr::null(),
    }
}

/// Listeners of all versions fill the same places.
extern "C" fn ignore_version(_: u32) {}

extern "C" fn module_function_table(
    module: c_uint,
    table: *mut *const *const Slot,
    size: *mut c_uint,
) -> c_int {
    let Some(places) = TABLES.0.get(module as usize).filter(|_| module > 0) else { return 0 };
    // SAFETY: by the protocol each is null or the listener's own place for the answer.
    unsafe {
        table.as_mut().into_iter().for_each(|table| *table = places.as_ptr());
        size.as_mut().into_iter().for_each(|size| *size = FUNCTIONS[module as usize]);
    }
    1
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;
    use std::process::Command;

    use kernels_gpu::elementwise::saxpy;

    use super::*;
    use crate::graph::GraphBuilder;
    use crate::{DeviceBuffer, Gpu, GpuResult, LaunchConfig};

    /// A listener that notes what it hears, and gives it out.
    const LISTENER: &str = r#"
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::sync::Mutex;

static HEARD: Mutex<String> = Mutex::new(String::new());

extern "C" fn push(name: *const c_char) -> c_int {
    let name = unsafe { CStr::from_ptr(name) }.to_str().unwrap();
    HEARD.lock().unwrap().push_str(&format!("({name}"));
    0
}

extern "C" fn pop() -> c_int {
    HEARD.lock().unwrap().push(')');
    0
}

extern "C" fn other() {}

#[unsafe(no_mangle)]
pub extern "C" fn heard(out: *mut u8, room: usize) -> usize {
    let heard = HEARD.lock().unwrap();
    let bytes = &heard.as_bytes()[..heard.len().min(room)];
    unsafe { out.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
    bytes.len()
}

#[repr(C)]
struct Callbacks {
    struct_size: usize,
    get: extern "C" fn(c_uint, *mut *mut *mut *const c_void, *mut c_uint) -> c_int,
}

#[unsafe(no_mangle)]
pub extern "C" fn InitializeInjectionNvtx2(tables: extern "C" fn(u32) -> *const c_void) -> c_int {
    let callbacks = unsafe { &*tables(1).cast::<Callbacks>() };
    assert_eq!(callbacks.struct_size, 16);
    assert!(tables(2).is_null() && !tables(3).is_null());
    // Whoever listens may fill every place that there is.
    for module in 1..7 {
        let (mut table, mut size) = (std::ptr::null_mut(), 0);
        assert_eq!((callbacks.get)(module, &mut table, &mut size), 1);
        for id in 1..size as usize {
            unsafe { **table.add(id) = other as *const c_void };
        }
        if module == 1 {
            unsafe { **table.add(9) = push as *const c_void };
            unsafe { **table.add(11) = pop as *const c_void };
        }
    }
    assert_eq!((callbacks.get)(7, &mut std::ptr::null_mut(), &mut 0), 0);
    1
}
"#;

    /// The listener's library, in a folder that lives as long.
    fn listener() -> (tempfile::TempDir, PathBuf) {
        let place = tempfile::tempdir().unwrap();
        let (source, library) =
            (place.path().join("listener.rs"), place.path().join("listener.so"));
        std::fs::write(&source, LISTENER).unwrap();
        let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
        let mut build = Command::new(rustc);
        build.args(["--edition=2024", "--crate-type=cdylib", "-o"]).args([&library, &source]);
        assert!(build.status().expect("this test needs rustc").success());
        (place, library)
    }

    /// What a listener that is loaded has heard.
    fn heard(library: &Path) -> String {
        // SAFETY: it is loaded already.
        let library = unsafe { Library::new(library) }.unwrap();
        // SAFETY: the function above.
        let heard = unsafe { library.get::<extern "C" fn(*mut u8, usize) -> usize>(b"heard") };
        let mut text = [0; 256];
        let len = heard.unwrap()(text.as_mut_ptr(), text.len());
        String::from_utf8(text[..len].to_vec()).unwrap()
    }

    #[test]
    fn who_is_injected_hears_ranges() {
        let (_place, library) = listener();
        let listener = Listener::load(&library).expect("it wants to listen");
        {
            let _outer = listener.range("outer");
            drop(listener.range("inner\0cut"));
        }
        assert_eq!(heard(&library), "(outer(inner))");
    }

    #[test]
    fn who_is_injected_hears_launches_within_ranges() {
        let (_place, library) = listener();
        let output = Command::new(std::env::current_exe().unwrap())
            .args(["--ignored", "--exact", "--nocapture", "nvtx::tests::launches"])
            .env(VARIABLE, &library)
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        let expected = "(phase(saxpy)(saxpy))(saxpy)(saxpy)(graph)";
        assert!(output.status.success() && text.contains(&format!("heard {expected}\n")), "{text}");
    }

    #[test]
    #[ignore = "the process has its listener from the environment"]
    fn launches() -> GpuResult<()> {
        let gpu = Gpu::new()?;
        let x = DeviceBuffer::from_slice(&gpu, &[1.0f32; 100])?;
        let mut y = DeviceBuffer::zeroed(&gpu, 100)?;
        let all = LaunchConfig::for_num_elems(100);
        {
            let _phase = range("phase");
            saxpy::launch(&gpu, all, 1.0, &x, &mut y)?;
            saxpy::launch(&gpu, all, 1.0, &x, &mut y)?;
        }
        gpu.batch((&x, &mut y), |batch, (x, y)| {
            (0..2).try_for_each(|_| saxpy::launch(batch, all, 1.0, *x, *y))
        })?;
        let builder = GraphBuilder::new(&gpu);
        saxpy::launch(&builder, all, 1.0, &x, &mut y)?;
        let mut graph = builder.build((x, y))?;
        graph.launch(&gpu)?;
        assert_eq!(graph.wait()?.1.to_vec()?, [5.0; 100]);
        println!("heard {}", heard(std::env::var_os(VARIABLE).unwrap().as_ref()));
        Ok(())
    }

    #[test]
    fn what_is_no_listener_is_passed_over() {
        assert!(Listener::load(Path::new("/nowhere/listener.so")).is_none());
    }
}
