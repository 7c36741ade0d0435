//! The linker: symbols that one input declares and another defines.

mod common;

use std::ffi::{CString, c_void};
use std::ptr::null_mut;

use common::*;
use cuda_driver::*;

const HEAD: &str = ".version 7.0\n.target sm_70\n.address_size 64\n";

/// A kernel that stores what `value` of another text returns, plus a variable of the other text.
const CALLER: &str = "
.extern .func (.param .b32 result) value(.param .b32 input);
.extern .global .align 4 .u32 offset;
.visible .entry ask(.param .u64 ask_out)
{
    .reg .b32 %r<4>;
    .reg .b64 %rd<2>;
    ld.param.u64 %rd1, [ask_out];
    mov.u32 %r1, 20;
    {
        .param .b32 given;
        .param .b32 got;
        st.param.b32 [given], %r1;
        call.uni (got), value, (given);
        ld.param.b32 %r2, [got];
    }
    ld.global.u32 %r3, [offset];
    add.u32 %r2, %r2, %r3;
    st.global.u32 [%rd1], %r2;
    ret;
}
";

/// The function, which doubles, and the variable.
const DEFINER: &str = "
.visible .global .align 4 .u32 offset = 2;
.visible .func (.param .b32 result) value(.param .b32 input)
{
    .reg .b32 %r<3>;
    ld.param.b32 %r1, [input];
    shl.b32 %r2, %r1, 1;
    st.param.b32 [result], %r2;
    ret;
}
";

struct Link(CUlinkState);

impl Link {
    fn new() -> Self {
        context();
        let mut state = null_mut();
        ok!(cuLinkCreate_v2(0, In::NULL, Out::NULL, Out::from(&mut state)));
        Self(state)
    }

    fn add(&self, body: &str, name: &str) -> ResultCode {
        let text = CString::new(format!("{HEAD}{body}")).unwrap();
        let name = CString::new(name).unwrap();
        let bytes = text.as_bytes_with_nul();
        code!(cuLinkAddData_v2(
            self.0,
            1,
            host_slice(bytes),
            bytes.len(),
            c_text(&name),
            0,
            In::NULL,
            Out::NULL
        ))
    }

    fn complete(&self) -> Result<CUmodule, ResultCode> {
        let (mut image, mut len, mut module) = (null_mut::<c_void>(), 0, null_mut());
        match code!(cuLinkComplete(self.0, Out::from(&mut image), Out::from(&mut len))) {
            0 => {
                assert!(len > 0);
                ok!(cuModuleLoadData(Out::from(&mut module), HostPtr(image)));
                Ok(module)
            }
            code => Err(code),
        }
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        ok!(cuLinkDestroy(self.0));
    }
}

#[test]
fn a_function_and_a_variable_of_another_text_are_found() {
    for order in [[CALLER, DEFINER], [DEFINER, CALLER]] {
        let link = Link::new();
        for (at, body) in order.iter().enumerate() {
            assert_eq!(link.add(body, &format!("input{at}")), 0, "{:?}", take_detail());
        }
        let module = link.complete().unwrap_or_else(|code| panic!("{code}: {:?}", take_detail()));
        let out = alloc(4);
        assert_eq!(launch(function(module, "ask"), NULL, &[host(&out)]), 0);
        assert_eq!(read_u32(out), 42);
        ok!(cuModuleUnload(module));
    }
}

#[test]
fn a_weak_definition_gives_way_to_a_strong_one() {
    let weak = DEFINER
        .replace(".visible .func", ".weak .func")
        .replace("shl.b32 %r2, %r1, 1", "mov.u32 %r2, 7");
    let weak = weak.replace(".visible .global .align 4 .u32 offset = 2;", "");
    let link = Link::new();
    for (name, body) in [("weak", weak.as_str()), ("caller", CALLER), ("strong", DEFINER)] {
        assert_eq!(link.add(body, name), 0, "{name}: {:?}", take_detail());
    }
    let module = link.complete().unwrap_or_else(|code| panic!("{code}: {:?}", take_detail()));
    let out = alloc(4);
    assert_eq!(launch(function(module, "ask"), NULL, &[host(&out)]), 0);
    assert_eq!(read_u32(out), 42);
}

/// NVIDIA's linker may find it out when the input is added.
#[test]
fn two_definitions_of_a_name_do_not_link() {
    let link = Link::new();
    assert_eq!(link.add(DEFINER, "first"), 0);
    let code = match link.add(DEFINER, "second") {
        0 => link.complete().map(drop).unwrap_err(),
        code => code,
    };
    assert_eq!(code, CUDA_ERROR_INVALID_SOURCE);
    if on_emulator() {
        let text = take_detail().unwrap().text;
        assert!(text.contains("multiple definition of `offset` in `second`"), "{text}");
    }
}

#[test]
fn an_undefined_symbol_does_not_link() {
    let link = Link::new();
    assert_eq!(link.add(CALLER, "caller"), 0, "{:?}", take_detail());
    let code = link.complete().map(drop).unwrap_err();
    assert_eq!(code, CUDA_ERROR_INVALID_SOURCE);
    if on_emulator() {
        let text = take_detail().unwrap().text;
        assert!(text.contains("undefined reference to"), "{text}");
        assert!(text.contains("in `caller`"), "{text}");
    }
}

#[test]
fn a_log_of_the_link_says_what_is_wrong() {
    context();
    let mut log = [0_u8; 4096];
    let options = [5, 6];
    let mut values = [log.as_mut_ptr().cast::<c_void>(), 4096_usize as *mut c_void];
    let mut state = null_mut();
    ok!(cuLinkCreate_v2(
        2,
        In::from(&options[..]),
        Out::from(&mut values[..]),
        Out::from(&mut state)
    ));
    let text = CString::new(format!("{HEAD}.visible .entry k() {{ odd.u32 %r1; ret; }}")).unwrap();
    let bytes = text.as_bytes_with_nul();
    let code = code!(cuLinkAddData_v2(
        state,
        1,
        host_slice(bytes),
        bytes.len(),
        In::NULL,
        0,
        In::NULL,
        Out::NULL
    ));
    assert_eq!(code, CUDA_ERROR_INVALID_PTX);
    let end = log.iter().position(|&byte| byte == 0).unwrap();
    let words = String::from_utf8_lossy(&log[..end]);
    assert!(words.contains("odd"), "{words}");
    ok!(cuLinkDestroy(state));
}

#[test]
fn a_file_is_an_input_too() {
    let link = Link::new();
    let path = std::env::temp_dir().join(format!("definer-{}.ptx", std::process::id()));
    std::fs::write(&path, format!("{HEAD}{DEFINER}")).unwrap();
    let name = CString::new(path.to_str().unwrap()).unwrap();
    let add =
        |name: &CString| code!(cuLinkAddFile_v2(link.0, 1, c_text(name), 0, In::NULL, Out::NULL));
    assert_eq!(add(&name), 0, "{:?}", take_detail());
    std::fs::remove_file(&path).unwrap();
    assert_eq!(add(&name), CUDA_ERROR_FILE_NOT_FOUND);
    assert_eq!(link.add(CALLER, "caller"), 0);
    assert!(link.complete().is_ok());
}
