//! Libraries, which belong to no context, and their kernels. On the emulator: NVIDIA's driver
//! follows stale handles of kernels.

mod common;

use std::ffi::{CStr, CString, c_char};
use std::ptr::{null, null_mut};

use common::{
    KERNELS, NULL, alloc, force_emulator, function, host, in_child, launch, load, read_u32,
};
use cuda_driver::*;

fn context() -> CUcontext {
    force_emulator();
    common::context()
}

fn library_of(ptx: &str) -> Result<CUlibrary, CUresult> {
    let image = CString::new(ptx).unwrap();
    let mut library = null_mut();
    let code = code!(cuLibraryLoadData(
        Out::from(&mut library),
        HostPtr(image.as_ptr().cast_mut().cast()),
        In::NULL,
        Out::NULL,
        0,
        In::NULL,
        In::NULL,
        0,
    ));
    if code == 0 { Ok(library) } else { Err(code) }
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
    assert_eq!(launch(kernel, NULL, &[host(&cell), host(&value)]), 0);
    assert_eq!(read_u32(cell), 77);
    let (mut blocks, mut attribute) = (0, 0);
    ok!(cuOccupancyMaxActiveBlocksPerMultiprocessor(Out::from(&mut blocks), kernel, 64, 0));
    assert!(blocks > 0);
    ok!(cuFuncGetAttribute(Out::from(&mut attribute), 0, kernel));
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
    let told = |index| {
        let (mut offset, mut bytes) = (0, 0);
        let places = (Out::from(&mut offset), Out::from(&mut bytes));
        (code!(cuKernelGetParamInfo(kernel, index, places.0, places.1)), offset, bytes)
    };
    assert_eq!(told(0), (0, 0, 1));
    assert_eq!(told(1), (0, 2, 2));
    assert_eq!(told(2), (0, 8, 8));
    assert_eq!(told(3), (0, 16, 8));
    assert_eq!(told(4), (0, 24, 4));
    assert_eq!(told(5).0, CUDA_ERROR_INVALID_VALUE);
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
        assert_eq!(launch(store, NULL, &[host(&there), host(&value)]), 0);
        assert_eq!(read_u32(there), 5);
        ok!(cuCtxSetCurrent(primary));
        assert_eq!(read_u32(here), 1);
        assert_eq!(launch(store, NULL, &[host(&here), host(&value)]), 0);
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
        launch(kernel, NULL, &[]),
        launch(function, NULL, &[]),
        code!(cuModuleUnload(module)),
    ];
    assert_eq!(codes, [CUDA_ERROR_INVALID_HANDLE; 4]);
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
