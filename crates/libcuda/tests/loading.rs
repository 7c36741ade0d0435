//! A program that opens `libcuda.so.1` and finds this library: each case in a process of its own.

mod common;

use std::env;
use std::ffi::{CString, c_char, c_int, c_uint, c_void};
use std::process::{Command, Output};
use std::ptr::{null, null_mut};

use libloading::Library;

const CHILD: &str = "LIBCUDA_TEST_CHILD";

/// Runs `body` in a process that finds the library first, with these variables and no others of
/// the front's; gives what the process wrote.
fn in_child(name: &str, set: &[(&str, &str)], body: impl FnOnce(&Library)) -> Option<Output> {
    if env::var(CHILD).as_deref() == Ok(name) {
        // SAFETY: the library has no initialiser but one that stores a flag.
        body(&unsafe { Library::new("libcuda.so.1") }.unwrap());
        return None;
    }
    let folder = common::folder();
    let mut child = Command::new(env::current_exe().unwrap());
    child.args(["--exact", name, "--nocapture"]).env(CHILD, name);
    for variable in ["FERROWARP_DEVICE", "FERROWARP_CUDA_LIBRARY", "FERROWARP_VERBOSE"] {
        child.env_remove(variable);
    }
    child.env("LD_LIBRARY_PATH", folder.path()).envs(set.iter().copied());
    let output = child.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{name} failed in its process:\n{text}\n{errors}");
    assert!(text.contains("1 passed"), "{name} did not run in its process:\n{text}");
    Some(output)
}

type Init = unsafe extern "C" fn(c_uint) -> c_int;
type Find = unsafe extern "C" fn(*const c_char, *mut *mut c_void, c_int, u64, *mut c_int) -> c_int;

fn init(library: &Library) -> c_int {
    // SAFETY: the driver API's function of this name, called with its only flag.
    unsafe { library.get::<Init>(b"cuInit").unwrap()(0) }
}

fn device_name(library: &Library) -> String {
    type Name = unsafe extern "C" fn(*mut c_char, c_int, c_int) -> c_int;
    let mut text = [0_u8; 64];
    // SAFETY: the driver API's function of this name; the place has the size that it is told.
    let code = unsafe {
        let name = library.get::<Name>(b"cuDeviceGetName").unwrap();
        name(text.as_mut_ptr().cast(), 64, 0)
    };
    assert_eq!(code, 0);
    String::from_utf8(text.split(|&byte| byte == 0).next().unwrap().to_vec()).unwrap()
}

/// The code, the address and the status of a search.
fn find(library: &Library, name: &str, version: c_int, flags: u64) -> (c_int, *mut c_void, c_int) {
    let name = CString::new(name).unwrap();
    let (mut address, mut status) = (null_mut(), -1);
    // SAFETY: the driver API's function of this name; text and places are live.
    let code = unsafe {
        let find = library.get::<Find>(b"cuGetProcAddress_v2").unwrap();
        find(name.as_ptr(), &mut address, version, flags, &mut status)
    };
    (code, address, status)
}

fn exported(library: &Library, name: &str) -> *mut c_void {
    // SAFETY: only the address is asked.
    unsafe { *library.get::<*mut c_void>(name.as_bytes()).unwrap() }
}

#[test]
fn without_a_wish_it_is_the_emulator_and_not_itself() {
    in_child("without_a_wish_it_is_the_emulator_and_not_itself", &[], |library| {
        assert_eq!(init(library), 0);
        assert_eq!(device_name(library), "Ferrowarp emulator");
    });
}

#[test]
fn asked_for_cuda_it_does_not_take_itself_for_the_driver() {
    let set = [("FERROWARP_DEVICE", "cuda"), ("FERROWARP_VERBOSE", "1")];
    let name = "asked_for_cuda_it_does_not_take_itself_for_the_driver";
    let Some(output) = in_child(name, &set, |library| assert_eq!(init(library), 100)) else {
        return;
    };
    let errors = String::from_utf8_lossy(&output.stderr);
    for words in ["ferrowarp: cuInit", "Ferrowarp's own library", "FERROWARP_CUDA_LIBRARY"] {
        assert!(errors.contains(words), "{errors}");
    }
}

#[test]
fn a_named_driver_is_opened() {
    let set = [("FERROWARP_DEVICE", "cuda"), ("FERROWARP_CUDA_LIBRARY", "/nowhere/libcuda.so.1")];
    let set = [set[0], set[1], ("FERROWARP_VERBOSE", "1")];
    let child = in_child("a_named_driver_is_opened", &set, |library| {
        assert_eq!(init(library), 100);
    });
    if let Some(output) = child {
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(errors.contains("/nowhere/libcuda.so.1"), "{errors}");
    }
}

#[test]
fn without_the_variable_nothing_is_written() {
    let child = in_child("without_the_variable_nothing_is_written", &[], |library| {
        // SAFETY: the driver API's function of this name; it refuses the flag.
        assert_eq!(unsafe { library.get::<Init>(b"cuInit").unwrap()(7) }, 1);
    });
    if let Some(output) = child {
        assert!(!String::from_utf8_lossy(&output.stderr).contains("ferrowarp"));
    }
}

#[test]
fn functions_are_found_by_base_name_and_version_before_init() {
    let name = "functions_are_found_by_base_name_and_version_before_init";
    in_child(name, &[], |library| {
        let alloc = exported(library, "cuMemAlloc_v2");
        assert_eq!(find(library, "cuMemAlloc", 12000, 0), (0, alloc, 0));
        assert_eq!(find(library, "cuMemAlloc", 12000, 1), (0, alloc, 0));
        let launch = exported(library, "cuLaunchKernel_ptsz");
        assert_eq!(find(library, "cuLaunchKernel", 12000, 2), (0, launch, 0));
        assert_eq!(find(library, "cuNothing", 12000, 0), (0, null_mut(), 1));
        assert_eq!(find(library, "cuMemAllocAsync", 11000, 0), (0, null_mut(), 2));
        // A flag that is none, and a version beyond the driver's: no status then.
        assert_eq!(find(library, "cuInit", 12000, 3), (1, null_mut(), -1));
        assert_eq!(find(library, "cuInit", 99000, 0), (1, null_mut(), -1));
    });
}

#[test]
fn the_search_of_cuda_11_fails_for_what_is_not_there() {
    type Find11 = unsafe extern "C" fn(*const c_char, *mut *mut c_void, c_int, u64) -> c_int;
    in_child("the_search_of_cuda_11_fails_for_what_is_not_there", &[], |library| {
        // SAFETY: the driver API's function of this name.
        let search = unsafe { library.get::<Find11>(b"cuGetProcAddress") }.unwrap();
        let mut address = null_mut();
        let mut find = |name: &CString| {
            // SAFETY: text and place are live.
            (unsafe { search(name.as_ptr(), &mut address, 12000, 0) }, address)
        };
        assert_eq!(find(&c"cuInit".to_owned()), (0, exported(library, "cuInit")));
        assert_eq!(find(&c"cuNothing".to_owned()), (500, null_mut()));
        // SAFETY: null pointers are refused.
        assert_eq!(unsafe { search(null(), &mut address, 12000, 0) }, 1);
        // SAFETY: as before.
        assert_eq!(unsafe { search(c"cuInit".as_ptr(), null_mut(), 12000, 0) }, 1);
    });
}

#[test]
fn undocumented_functions_are_refused() {
    type Table = unsafe extern "C" fn(*mut *const c_void, *const u8) -> c_int;
    in_child("undocumented_functions_are_refused", &[], |library| {
        let mut table = std::ptr::dangling();
        // SAFETY: the driver API's function of this name; the place and the 16 bytes are live.
        let code = unsafe {
            library.get::<Table>(b"cuGetExportTable").unwrap()(&mut table, [7; 16].as_ptr())
        };
        assert_eq!((code, table), (801, null()));
    });
}

#[test]
fn the_version_is_known_before_init() {
    type Version = unsafe extern "C" fn(*mut c_int) -> c_int;
    in_child("the_version_is_known_before_init", &[], |library| {
        let mut version = 0;
        // SAFETY: the driver API's function of this name; the place is live.
        let code = unsafe { library.get::<Version>(b"cuDriverGetVersion").unwrap()(&mut version) };
        assert_eq!((code, version), (0, 13000));
    });
}
