//! Modules: loading with options and logs, names, variables, files, the linker.

mod common;

use std::ffi::{CStr, CString, c_void};
use std::ptr::null_mut;

use common::*;
use cuda_driver::*;

/// Loads with buffers for both logs; the code, the error log and the length reported for it.
fn load_logged(ptx: &str) -> (ResultCode, String, usize) {
    let (text, mut module) = (CString::new(ptx).unwrap(), null_mut());
    let (mut error, mut info) = (vec![0xff_u8; 8192], vec![0xff_u8; 8192]);
    let size = 8192 as *mut c_void;
    let options = [5, 6, 3, 4];
    let mut values = [error.as_mut_ptr().cast(), size, info.as_mut_ptr().cast(), size];
    let code = code!(cuModuleLoadDataEx(
        Out::from(&mut module),
        HostPtr(text.as_ptr().cast_mut().cast()),
        4,
        In::from(&options[..]),
        Out::from(&mut values[..]),
    ));
    let log = CStr::from_bytes_until_nul(&error).map(|log| log.to_string_lossy().into_owned());
    (code, log.unwrap_or_default(), values[1].addr())
}

#[test]
fn the_callers_log_buffer_gets_the_log() {
    context();
    let corrupt = KERNELS.replace("add.rn.f32 %f3, %f1, %f2;", "add.rn.f32 %f3, @;");
    let (code, log, len) = load_logged(&corrupt);
    assert_eq!(code, CUDA_ERROR_INVALID_PTX);
    assert!(log.contains("line"), "{log}");
    assert!(len >= log.len(), "{len} of {}", log.len());
}

#[test]
fn a_good_load_leaves_an_empty_error_log() {
    context();
    let (code, log, _) = load_logged(KERNELS);
    assert_eq!((code, log.as_str()), (0, ""));
}

#[test]
fn options_without_logs_still_give_a_detail() {
    context();
    let text = CString::new(".version 7.0\n.target sm_70\nthis is no PTX").unwrap();
    let (mut module, options, mut values) = (null_mut(), [7, 8], [4 as *mut c_void, null_mut()]);
    let code = code!(cuModuleLoadDataEx(
        Out::from(&mut module),
        HostPtr(text.as_ptr().cast_mut().cast()),
        2,
        In::from(&options[..]),
        Out::from(&mut values[..]),
    ));
    assert_eq!(code, CUDA_ERROR_INVALID_PTX);
    let detail = take_detail().unwrap();
    assert_eq!(detail.code, 218);
    assert!(detail.text.len() > 30, "{}", detail.text);
}

#[test]
fn what_is_not_ptx_at_all_is_200() {
    context();
    assert_eq!(try_load("this is no PTX").err(), Some(CUDA_ERROR_INVALID_IMAGE));
}

#[test]
fn an_unknown_instruction_is_named_with_its_line() {
    in_child("an_unknown_instruction_is_named_with_its_line", || {
        force_emulator();
        context();
        let line = KERNELS.lines().position(|line| line.contains("add.rn.f32")).unwrap() + 1;
        let planted = KERNELS.replace("add.rn.f32 %f3, %f1, %f2;", "frobnicate.f32 %f3, %f1, %f2;");
        assert_eq!(try_load(&planted).err(), Some(CUDA_ERROR_INVALID_PTX));
        let text = take_detail().unwrap().text;
        assert!(text.contains("frobnicate.f32"), "{text}");
        assert!(text.contains(&format!("line {line}")), "{text}");
    });
}

#[test]
fn machine_code_is_not_for_the_emulator() {
    in_child("machine_code_is_not_for_the_emulator", || {
        force_emulator();
        context();
        let mut module = null_mut();
        let image = [0x7f, b'E', b'L', b'F', 2, 0];
        let code = code!(cuModuleLoadData(Out::from(&mut module), host_slice(&image)));
        assert_eq!(code, CUDA_ERROR_NO_BINARY_FOR_GPU);
        assert!(take_detail().unwrap().text.contains("the emulator runs PTX"));
    });
}

#[test]
fn a_missing_kernel_is_500_and_the_others_are_named() {
    context();
    let (module, mut function) = (load(), null_mut());
    let name = CString::new("vecsub").unwrap();
    let code = code!(cuModuleGetFunction(Out::from(&mut function), module, c_text(&name)));
    assert_eq!(code, CUDA_ERROR_NOT_FOUND);
    if on_emulator() {
        let text = take_detail().unwrap().text;
        assert!(text.contains("no kernel `vecsub`") && text.contains("vecadd"), "{text}");
    }
}

#[test]
fn a_variable_has_an_address_and_a_value() {
    context();
    let (module, name) = (load(), CString::new("answer").unwrap());
    let (mut address, mut bytes) = (0, 0);
    ok!(cuModuleGetGlobal_v2(
        Out::from(&mut address),
        Out::from(&mut bytes),
        module,
        c_text(&name)
    ));
    assert_eq!((bytes, read_u32(address)), (4, 42));
    ok!(cuMemcpyHtoD_v2(address, host(&43_u32), 4));
    assert_eq!(read_u32(address), 43);
    let name = CString::new("question").unwrap();
    let code = code!(cuModuleGetGlobal_v2(
        Out::from(&mut address),
        Out::from(&mut bytes),
        module,
        c_text(&name)
    ));
    assert_eq!(code, CUDA_ERROR_NOT_FOUND);
}

#[test]
fn a_module_loads_from_a_file() {
    context();
    let path = std::env::temp_dir().join(format!("cuda_driver_test_{}.ptx", std::process::id()));
    std::fs::write(&path, KERNELS).unwrap();
    let (name, mut module) = (CString::new(path.to_str().unwrap()).unwrap(), null_mut());
    ok!(cuModuleLoad(Out::from(&mut module), c_text(&name)));
    std::fs::remove_file(&path).unwrap();
    function(module, "vecadd");
    let code = code!(cuModuleLoad(Out::from(&mut module), c_text(&name)));
    assert_eq!(code, CUDA_ERROR_FILE_NOT_FOUND);
}

#[test]
fn a_linked_text_loads_and_runs() {
    context();
    let (mut state, mut image, mut bytes, mut module) = (null_mut(), null_mut(), 0, null_mut());
    ok!(cuLinkCreate_v2(0, In::NULL, Out::NULL, Out::from(&mut state)));
    ok!(cuLinkAddData_v2(
        state,
        1,
        host_slice(KERNELS.as_bytes()),
        KERNELS.len(),
        c_text(&CString::new("kernels").unwrap()),
        0,
        In::NULL,
        Out::NULL,
    ));
    ok!(cuLinkComplete(state, Out::from(&mut image), Out::from(&mut bytes)));
    assert!(bytes > 0);
    ok!(cuModuleLoadData(Out::from(&mut module), HostPtr(image)));
    ok!(cuLinkDestroy(state));
    let cell = alloc(4);
    assert_eq!(launch(function(module, "store"), NULL, &[host(&cell), host(&3_u32)]), 0);
    assert_eq!(read_u32(cell), 3);
}
