//! Libraries, which are loaded independently of contexts, and their kernels. Emulator only:
//! NVIDIA's driver dereferences stale handles of kernels.

mod common;

use std::ffi::{CStr, CString, c_char, c_void};
use std::ptr::{null, null_mut};

use common::{
    KERNELS, NULL, alloc, c_text, force_emulator, function, host, in_child, in_child_with, launch,
    load, read_u32,
};
use cuda_driver::*;

fn context() -> CUcontext {
    force_emulator();
    common::context()
}

fn library_of(ptx: &str) -> Result<CUlibrary, ResultCode> {
    library_with(ptx, &[], &mut [], &[])
}

/// With options of the compiler and their values, and options of the library.
fn library_with(
    ptx: &str,
    options: &[i32],
    values: &mut [*mut c_void],
    library_options: &[i32],
) -> Result<CUlibrary, ResultCode> {
    let image = CString::new(ptx).unwrap();
    let mut library = null_mut();
    let code = code!(cuLibraryLoadData(
        Out::from(&mut library),
        HostPtr(image.as_ptr().cast_mut().cast()),
        if options.is_empty() { In::NULL } else { In::from(options) },
        if values.is_empty() { Out::NULL } else { Out::from(values) },
        options.len() as u32,
        if library_options.is_empty() { In::NULL } else { In::from(library_options) },
        In::NULL,
        library_options.len() as u32,
    ));
    if code == 0 { Ok(library) } else { Err(code) }
}

fn module(library: CUlibrary) -> CUmodule {
    let mut module = null_mut();
    ok!(cuLibraryGetModule(Out::from(&mut module), library));
    module
}

fn library() -> CUlibrary {
    library_of(KERNELS).unwrap_or_else(|code| panic!("load: {code}: {:?}", take_detail()))
}

fn kernel(library: CUlibrary, name: &CStr) -> CUkernel {
    let mut kernel = null_mut();
    let name = In::from(name.to_bytes_with_nul()).cast();
    ok!(cuLibraryGetKernel(Out::from(&mut kernel), library, name));
    kernel
}

fn global(library: CUlibrary, name: &CStr) -> CUdeviceptr {
    let (mut address, mut bytes) = (0, 0);
    let name = In::from(name.to_bytes_with_nul()).cast();
    ok!(cuLibraryGetGlobal(Out::from(&mut address), Out::from(&mut bytes), library, name));
    assert_eq!(bytes, 4);
    address
}

#[test]
fn a_kernel_stands_where_a_function_is_asked_for() {
    context();
    let (library, cell) = (library(), alloc(4));
    let kernel = kernel(library, c"store");
    let value = 77_u32;
    assert_eq!(launch(kernel.cast(), NULL, &[host(&cell), host(&value)]), 0);
    assert_eq!(read_u32(cell), 77);
    let (mut blocks, mut attribute) = (0, 0);
    ok!(cuOccupancyMaxActiveBlocksPerMultiprocessor(Out::from(&mut blocks), kernel.cast(), 64, 0));
    assert!(blocks > 0);
    ok!(cuFuncGetAttribute(Out::from(&mut attribute), 0, kernel.cast()));
    let mut again = 0;
    ok!(cuKernelGetAttribute(Out::from(&mut again), 0, kernel, 0));
    assert!(attribute > 0 && attribute == again);
    // As a function of this context it runs as well.
    let mut function = null_mut();
    ok!(cuKernelGetFunction(Out::from(&mut function), kernel));
    let value = 78_u32;
    assert_eq!(launch(function, NULL, &[host(&cell), host(&value)]), 0);
    assert_eq!(read_u32(cell), 78);
}

#[test]
fn a_kernel_has_one_handle_a_name_and_a_library() {
    context();
    let library = library();
    let first = kernel(library, c"vecadd");
    assert_eq!(first, kernel(library, c"vecadd"));
    let mut name: *const c_char = null();
    ok!(cuKernelGetName(Out::from(&mut name), first));
    // SAFETY: the call gave a text that lives as long as the library.
    assert_eq!(unsafe { CStr::from_ptr(name) }, c"vecadd");
    let mut home = null_mut();
    ok!(cuKernelGetLibrary(Out::from(&mut home), first));
    assert_eq!(home, library);
    let mut none = null_mut();
    let unknown = In::from(c"nowhere".to_bytes_with_nul()).cast();
    let code = code!(cuLibraryGetKernel(Out::from(&mut none), library, unknown));
    assert_eq!(code, CUDA_ERROR_NOT_FOUND);
}

#[test]
fn all_kernels_are_listed() {
    context();
    let library = library();
    let (mut count, mut in_module, mut module) = (0, 0, null_mut());
    ok!(cuLibraryGetKernelCount(Out::from(&mut count), library));
    let mut kernels = vec![null_mut(); count as usize + 1];
    ok!(cuLibraryEnumerateKernels(Out::from(&mut kernels[..]), count + 1, library));
    let entries = KERNELS.matches(".entry").count();
    assert_eq!(count as usize, entries);
    assert!(kernels[..entries].iter().all(|kernel| !kernel.is_null()));
    assert!(kernels[entries].is_null() && kernels.contains(&kernel(library, c"pause")));
    ok!(cuLibraryGetModule(Out::from(&mut module), library));
    ok!(cuModuleGetFunctionCount(Out::from(&mut in_module), module));
    assert_eq!(in_module, count);
    let mut two = [null_mut(); 3];
    ok!(cuModuleEnumerateFunctions(Out::from(&mut two[..]), 2, module));
    assert!(!two[0].is_null() && !two[1].is_null() && two[2].is_null());
}

#[test]
fn parameters_are_told_until_there_are_no_more() {
    context();
    let kernel = kernel(library(), c"mixed");
    let queried = |index| {
        let (mut offset, mut bytes) = (0, 0);
        let places = (Out::from(&mut offset), Out::from(&mut bytes));
        (code!(cuKernelGetParamInfo(kernel, index, places.0, places.1)), offset, bytes)
    };
    assert_eq!(queried(0), (0, 0, 1));
    assert_eq!(queried(1), (0, 2, 2));
    assert_eq!(queried(2), (0, 8, 8));
    assert_eq!(queried(3), (0, 16, 8));
    assert_eq!(queried(4), (0, 24, 4));
    assert_eq!(queried(5).0, CUDA_ERROR_INVALID_VALUE);
}

#[test]
fn each_context_has_its_own_variables() {
    in_child("each_context_has_its_own_variables", || {
        let primary = context();
        let library = library();
        let here = global(library, c"answer");
        ok!(cuMemsetD32_v2(here, 1, 1));
        let mut other = null_mut();
        ok!(cuCtxCreate_v4(Out::from(&mut other), In::NULL, 0, 0));
        let there = global(library, c"answer");
        assert_ne!(here, there);
        assert_eq!(read_u32(there), 42);
        // The same kernel runs in both.
        let (store, value) = (kernel(library, c"store"), 5_u32);
        assert_eq!(launch(store.cast(), NULL, &[host(&there), host(&value)]), 0);
        assert_eq!(read_u32(there), 5);
        ok!(cuCtxSetCurrent(primary));
        assert_eq!(read_u32(here), 1);
        assert_eq!(launch(store.cast(), NULL, &[host(&here), host(&value)]), 0);
        assert_eq!(read_u32(here), 5);
    });
}

#[test]
fn a_setting_holds_for_the_kernel_and_its_function() {
    context();
    let kernel = kernel(library(), c"store_shared");
    let mut function = null_mut();
    ok!(cuKernelGetFunction(Out::from(&mut function), kernel));
    const MAX_DYNAMIC_SHARED: i32 = 8;
    ok!(cuKernelSetAttribute(MAX_DYNAMIC_SHARED, 100_000, kernel, 0));
    let mut bytes = 0;
    ok!(cuFuncGetAttribute(Out::from(&mut bytes), MAX_DYNAMIC_SHARED, function));
    assert_eq!(bytes, 100_000);
    ok!(cuKernelSetCacheConfig(kernel, 1, 0));
    assert_eq!(code!(cuKernelSetCacheConfig(kernel, 9, 0)), CUDA_ERROR_INVALID_VALUE);
}

#[test]
fn after_unloading_nothing_of_it_is_left() {
    context();
    let library = library();
    let (kernel, mut function, mut module) = (kernel(library, c"nothing"), null_mut(), null_mut());
    ok!(cuKernelGetFunction(Out::from(&mut function), kernel));
    ok!(cuLibraryGetModule(Out::from(&mut module), library));
    ok!(cuLibraryUnload(library));
    let codes = [
        code!(cuLibraryUnload(library)),
        launch(kernel.cast(), NULL, &[]),
        launch(function, NULL, &[]),
        code!(cuModuleUnload(module)),
    ];
    assert_eq!(codes, [CUDA_ERROR_INVALID_HANDLE; 4]);
}

#[test]
fn a_librarys_module_is_unloaded_with_it_alone() {
    in_child("a_librarys_module_is_unloaded_with_it_alone", || {
        context();
        let before = injection::live();
        let library = library();
        let module = module(library);
        assert_eq!(module, self::module(library), "a context has one");
        let store = function(module, "store");
        assert_eq!(code!(cuModuleUnload(module)), CUDA_ERROR_NOT_PERMITTED);
        let (cell, value) = (alloc(4), 6_u32);
        assert_eq!(launch(store.cast(), NULL, &[host(&cell), host(&value)]), 0);
        assert_eq!(read_u32(cell), 6);
        ok!(cuMemFree_v2(cell));
        ok!(cuLibraryUnload(library));
        assert_eq!(injection::live(), before);
    });
}

#[test]
fn a_module_has_the_librarys_variables() {
    context();
    let library = library();
    let (mut address, mut bytes, name) = (0, 0, c"answer".to_owned());
    let places = (Out::from(&mut address), Out::from(&mut bytes));
    ok!(cuModuleGetGlobal_v2(places.0, places.1, module(library), c_text(&name)));
    assert_eq!((address, bytes), (global(library, c"answer"), 4));
}

#[test]
fn a_module_belongs_to_a_context() {
    context();
    let library = library().expose_provenance();
    let without_context = std::thread::spawn(move || {
        let (mut module, library) = (null_mut(), std::ptr::with_exposed_provenance_mut(library));
        code!(cuLibraryGetModule(Out::from(&mut module), library))
    });
    assert_eq!(without_context.join().unwrap(), CUDA_ERROR_INVALID_CONTEXT);
}

#[test]
fn each_device_has_a_module_of_its_own() {
    let set = [("FERROWARP_EMULATOR_DEVICES", "2")];
    in_child_with("each_device_has_a_module_of_its_own", &set, || {
        let first = context();
        let mut second = null_mut();
        ok!(cuDevicePrimaryCtxRetain(Out::from(&mut second), 1));
        for current in [first, second] {
            ok!(cuCtxSetCurrent(current));
            let library = library();
            let mut answers = Vec::new();
            for used_in in [second, first, second] {
                ok!(cuCtxSetCurrent(used_in));
                let (cell, value) = (alloc(4), 9_u32);
                let store = function(module(library), "store");
                assert_eq!(launch(store.cast(), NULL, &[host(&cell), host(&value)]), 0);
                assert_eq!(read_u32(cell), 9);
                let answer = global(library, c"answer");
                assert_eq!(read_u32(answer), 42);
                answers.push(answer);
            }
            assert!(answers[0] == answers[2] && answers[0] != answers[1], "{answers:?}");
            ok!(cuLibraryUnload(library));
        }
        assert_eq!((injection::live().libraries, injection::live().modules), (0, 0));
    });
}

#[test]
fn threads_load_at_once() {
    context();
    let load_and_run = |value: u32| {
        context();
        let (library, cell) = (library(), alloc(4));
        let store = function(module(library), "store");
        assert_eq!(launch(store.cast(), NULL, &[host(&cell), host(&value)]), 0);
        assert_eq!(read_u32(cell), value);
        ok!(cuLibraryUnload(library));
    };
    std::thread::scope(|scope| {
        (0..8).for_each(|value| drop(scope.spawn(move || load_and_run(value))));
    });
}

#[test]
fn options_are_those_of_a_module_and_two_more() {
    context();
    // The buffer for errors and its size.
    let (mut log, options) = (vec![0xff_u8; 4096], [5, 6]);
    let mut values = [log.as_mut_ptr().cast(), 4096 as *mut c_void];
    let broken = KERNELS.replace("add.rn.f32 %f3, %f1, %f2;", "frobnicate.f32 %f3, %f1, %f2;");
    let code = library_with(&broken, &options, &mut values, &[]).unwrap_err();
    let text = CStr::from_bytes_until_nul(&log).unwrap().to_string_lossy().into_owned();
    assert!(code == CUDA_ERROR_INVALID_PTX && text.contains("frobnicate.f32"), "{code}: {text}");
    assert_eq!(values[1].addr(), text.len());
    ok!(cuLibraryUnload(library_with(KERNELS, &options, &mut values, &[]).unwrap()));
    assert_eq!((values[1].addr(), log[0]), (0, 0));
    // One code for all devices, and the caller keeps the image.
    ok!(cuLibraryUnload(library_with(KERNELS, &[], &mut [], &[0, 1]).unwrap()));
    assert_eq!(library_with(KERNELS, &[], &mut [], &[2]).unwrap_err(), CUDA_ERROR_INVALID_VALUE);
    assert_eq!(library_with(KERNELS, &[99], &mut [], &[]).unwrap_err(), CUDA_ERROR_INVALID_VALUE);
}

#[test]
fn code_is_loaded_late_unless_the_environment_says_otherwise() {
    const NAME: &str = "code_is_loaded_late_unless_the_environment_says_otherwise";
    for (said, number) in [("LAZY", 2), ("", 2), ("EAGER", 1)] {
        in_child_with(NAME, &[("CUDA_MODULE_LOADING", said), ("LOADING_MODE", said)], || {
            // Its child runs one of the cases alone, that of its environment.
            if std::env::var("LOADING_MODE").as_deref() != Ok(said) {
                return;
            }
            context();
            let mut mode = 0;
            ok!(cuModuleGetLoadingMode(Out::from(&mut mode)));
            assert_eq!(mode, number, "{said}");
        });
    }
}

#[test]
fn what_does_not_compile_is_refused_at_the_load() {
    context();
    assert_eq!(library_of("").unwrap_err(), CUDA_ERROR_INVALID_IMAGE);
    let corrupt = KERNELS.replace("st.global.f32", "st.glob.f32");
    assert_eq!(library_of(&corrupt).unwrap_err(), CUDA_ERROR_INVALID_PTX);
    assert_eq!(library_of("\x7fELF and so on").unwrap_err(), CUDA_ERROR_NO_BINARY_FOR_GPU);
}

#[test]
fn a_library_is_read_from_a_file() {
    context();
    let mut library = null_mut();
    // The tests also run where the sources are not.
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("kernels.ptx");
    std::fs::write(&file, include_str!("common/kernels.ptx")).unwrap();
    let path = format!("{}\0", file.display());
    let mut load = |path: &str| {
        let path = In::from(path.as_bytes()).cast();
        let none = (In::NULL, Out::NULL, 0, In::NULL, In::NULL, 0);
        let place = Out::from(&mut library);
        code!(cuLibraryLoadFromFile(place, path, none.0, none.1, none.2, none.3, none.4, none.5))
    };
    assert_eq!(load("/nowhere/kernels.ptx\0"), CUDA_ERROR_FILE_NOT_FOUND);
    assert_eq!(load(&path), 0);
    kernel(library, c"pause");
}

#[test]
fn a_function_tells_its_name_and_is_loaded() {
    context();
    let function = function(load(), "stop");
    let (mut name, mut state): (*const c_char, _) = (null(), 0);
    ok!(cuFuncGetName(Out::from(&mut name), function));
    // SAFETY: the call gave a text that lives as long as the module.
    assert_eq!(unsafe { CStr::from_ptr(name) }, c"stop");
    ok!(cuFuncLoad(function));
    ok!(cuFuncIsLoaded(Out::from(&mut state), function));
    assert_eq!(state, 1);
}

#[test]
fn contexts_are_made_in_the_newer_ways_too() {
    in_child("contexts_are_made_in_the_newer_ways_too", || {
        force_emulator();
        ok!(cuInit(0));
        let mut context = null_mut();
        let nothing = In::<u8>::NULL.cast();
        ok!(cuCtxCreate_v3(Out::from(&mut context), nothing, 0, 0, 0));
        ok!(cuCtxDestroy_v2(context));
        let plain = ContextParams { affinities: nothing, n_affinities: 0, graphics: nothing };
        ok!(cuCtxCreate_v4(Out::from(&mut context), In::from(&plain), 0, 0));
        ok!(cuCtxDestroy_v2(context));
    });
}

#[test]
fn places_of_managed_memory_have_a_kind() {
    context();
    let mut block = 0;
    ok!(cuMemAllocManaged(Out::from(&mut block), 4096, 1));
    let place = |kind, id| MemLocation { kind, id };
    ok!(cuMemAdvise_v2(block, 4096, 3, place(1, 0)));
    ok!(cuMemAdvise_v2(block, 4096, 3, place(2, 0)));
    ok!(cuMemPrefetchAsync_v2(block, 4096, place(1, 0), 0, NULL));
    ok!(cuMemPrefetchAsync_v2(block, 4096, place(2, 0), 0, NULL));
    let code = code!(cuMemPrefetchAsync_v2(block, 4096, place(9, 0), 0, NULL));
    assert_eq!(code, CUDA_ERROR_INVALID_VALUE);
    assert_ne!(code!(cuMemPrefetchAsync_v2(block, 4096, place(1, 77), 0, NULL)), 0);
    ok!(cuMemFree_v2(block));
}
