//! Programs that link NVIDIA's device runtime for a barrier of the whole grid, as numba's do. What
//! the functions answer was asked of driver 580 on an H200, with the libcudadevrt.a of CUDA 13.0.

mod common;

use std::ffi::{CString, c_void};
use std::ptr::null_mut;

use common::*;
use cuda_driver::*;

const PTX: i32 = 1;
const LIBRARY: i32 = 4;

const HEAD: &str = "
.version 7.0
.target sm_70
.address_size 64
.extern .func (.param .b64 handle) cudaCGGetIntrinsicHandle(.param .b32 scope);
.extern .func (.param .b32 result) cudaCGSynchronize(.param .b64 handle, .param .b32 flags);
.extern .func (.param .b32 result) cudaCGSynchronizeGrid(.param .b64 handle, .param .b32 flags);
.extern .func (.param .b32 result) cudaCGGetSize(
    .param .b64 threads, .param .b64 grids, .param .b64 handle
);
.extern .func (.param .b32 result) cudaCGGetRank(
    .param .b64 thread, .param .b64 grid, .param .b64 handle
);
";

/// Twice, each block stores a number of its own, and all threads read that of the next block after
/// a barrier of the grid. Per thread 8 words: the sum of what it read, the answers of the three
/// barriers, then answer and two results each of size and rank, the first with no place for the
/// grids. `SCOPE` is that of the handle.
const MEET: &str = "
.visible .entry meet(.param .u64 meet_cells, .param .u64 meet_out)
{
    .reg .pred %first, %wraps;
    .reg .b32 %block, %blocks, %next, %thread, %x, %y, %sum, %answer, %value;
    .reg .b64 %handle, %own, %other, %cells, %out, %at;
    .param .b32 scope, flags, code;
    .param .b64 h, a, b;
    ld.param.u64 %cells, [meet_cells];
    ld.param.u64 %out, [meet_out];
    mov.u32 %block, %ctaid.y;
    mov.u32 %x, %nctaid.x;
    mov.u32 %y, %ctaid.x;
    mad.lo.u32 %block, %block, %x, %y;
    mov.u32 %blocks, %nctaid.y;
    mul.lo.u32 %blocks, %blocks, %x;
    add.u32 %next, %block, 1;
    setp.eq.u32 %wraps, %next, %blocks;
    selp.b32 %next, 0, %next, %wraps;
    mov.u32 %thread, %tid.y;
    mov.u32 %x, %ntid.x;
    mov.u32 %y, %tid.x;
    mad.lo.u32 %thread, %thread, %x, %y;
    setp.eq.u32 %first, %thread, 0;
    mad.wide.u32 %own, %block, 4, %cells;
    mad.wide.u32 %other, %next, 4, %cells;
    mov.u32 %y, %ntid.y;
    mul.lo.u32 %x, %x, %y;
    mad.lo.u32 %thread, %block, %x, %thread;
    mad.wide.u32 %out, %thread, 32, %out;

    mov.u32 %x, SCOPE;
    st.param.b32 [scope], %x;
    call.uni (h), cudaCGGetIntrinsicHandle, (scope);
    ld.param.b64 %handle, [h];

    mov.u32 %x, 0;
    add.u32 %value, %block, 1;
    @%first st.global.u32 [%own], %value;
    st.param.b64 [h], %handle;
    st.param.b32 [flags], %x;
    call.uni (code), cudaCGSynchronize, (h, flags);
    ld.param.b32 %answer, [code];
    ld.global.u32 %sum, [%other];

    st.param.b64 [h], %handle;
    st.param.b32 [flags], %x;
    call.uni (code), cudaCGSynchronizeGrid, (h, flags);
    ld.param.b32 %y, [code];
    add.u32 %answer, %answer, %y;
    mul.lo.u32 %value, %value, 100;
    @%first st.global.u32 [%own], %value;
    st.param.b64 [h], %handle;
    st.param.b32 [flags], %x;
    call.uni (code), cudaCGSynchronize, (h, flags);
    ld.param.b32 %y, [code];
    add.u32 %answer, %answer, %y;
    ld.global.u32 %value, [%other];
    add.u32 %sum, %sum, %value;
    st.global.u32 [%out], %sum;
    st.global.u32 [%out+4], %answer;

    add.u64 %at, %out, 12;
    st.param.b64 [a], %at;
    st.param.b64 [b], 0;
    st.param.b64 [h], %handle;
    call.uni (code), cudaCGGetSize, (a, b, h);
    add.u64 %at, %out, 16;
    st.param.b64 [b], %at;
    call.uni (code), cudaCGGetSize, (a, b, h);
    ld.param.b32 %answer, [code];
    st.global.u32 [%out+8], %answer;
    add.u64 %at, %out, 24;
    st.param.b64 [a], %at;
    add.u64 %at, %out, 28;
    st.param.b64 [b], %at;
    call.uni (code), cudaCGGetRank, (a, b, h);
    ld.param.b32 %answer, [code];
    st.global.u32 [%out+20], %answer;
    ret;
}
";

/// An archive as `ar` writes it, whose one member is not text.
fn archive(member: &str) -> Vec<u8> {
    let names = format!("{member}/\n");
    let header = |name: &str, len: usize| {
        format!("{name:<16}{:<12}{:<6}{:<6}{:<8}{len:<10}`\n", 0, 0, 0, 644)
    };
    let names_header = header("//", names.len());
    let mut bytes = format!("!<arch>\n{names_header}{names}{}", header("/0", 4)).into_bytes();
    bytes.extend([0x7f, 0, 0, 1]);
    bytes
}

struct Link(CUlinkState);

impl Link {
    fn new() -> Self {
        force_emulator();
        context();
        let mut state = null_mut();
        ok!(cuLinkCreate_v2(0, In::NULL, Out::NULL, Out::from(&mut state)));
        Self(state)
    }

    fn add(&self, kind: i32, bytes: &[u8]) -> ResultCode {
        let (len, null) = (bytes.len(), In::NULL);
        code!(cuLinkAddData_v2(self.0, kind, host_slice(bytes), len, null, 0, In::NULL, Out::NULL))
    }

    /// The kernel `meet` of what was added.
    fn meet(&self) -> CUfunction {
        let (mut image, mut len, mut module) = (null_mut::<c_void>(), 0, null_mut());
        ok!(cuLinkComplete(self.0, Out::from(&mut image), Out::from(&mut len)));
        ok!(cuModuleLoadData(Out::from(&mut module), HostPtr(image)));
        ok!(cuLinkDestroy(self.0));
        function(module, "meet")
    }
}

fn with_runtime(body: &str) -> CUfunction {
    let link = Link::new();
    assert_eq!(link.add(LIBRARY, &archive("cuda_device_runtime.o")), 0, "{:?}", take_detail());
    assert_eq!(link.add(PTX, format!("{HEAD}{body}\0").as_bytes()), 0, "{:?}", take_detail());
    link.meet()
}

const GRID: [u32; 3] = [3, 2, 1];
const BLOCK: [u32; 3] = [4, 2, 1];
const BLOCKS: u32 = 6;
const THREADS: u32 = 8 * BLOCKS;

/// What each thread stored.
fn results(meet: CUfunction, cooperative: bool) -> Vec<[u32; 8]> {
    let (cells, out) = (alloc(4 * BLOCKS as usize), alloc(32 * THREADS as usize));
    let params = [host(&cells), host(&out)];
    let ([x, y, z], [bx, by, bz]) = (GRID, BLOCK);
    let params = In::from(&params[..]);
    match cooperative {
        true => ok!(cuLaunchCooperativeKernel(meet, x, y, z, bx, by, bz, 0, NULL, params)),
        false => ok!(cuLaunchKernel(meet, x, y, z, bx, by, bz, 0, NULL, params, In::NULL)),
    }
    let mut back = vec![[0_u32; 8]; THREADS as usize];
    ok!(cuMemcpyDtoH_v2(host_slice_mut(&mut back), out, 32 * THREADS as usize));
    back
}

#[test]
fn the_threads_of_a_cooperative_grid_wait_for_each_other() {
    let meet = with_runtime(&MEET.replace("SCOPE", "1"));
    for (thread, got) in (0..).zip(results(meet, true)) {
        let next = (thread / 8 + 1) % BLOCKS + 1;
        assert_eq!(got, [101 * next, 0, 0, THREADS, 1, 0, thread, 1], "thread {thread}");
    }
}

/// Without the barriers of [`MEET`], so that nothing races where they answer at once.
fn apart(scope: &str) -> String {
    let body = MEET.replace("SCOPE", scope).replace("%next, 4, %cells", "%block, 4, %cells");
    body.replace("@%first st.global", "st.global")
        .replace("[%own], %value", "[%out], %value")
        .replace("[%other]", "[%out]")
}

#[test]
fn another_launch_and_another_scope_have_no_handle() {
    for (scope, cooperative) in [("1", false), ("0", true), ("2", true)] {
        let meet = with_runtime(&apart(scope));
        for (thread, got) in (0..).zip(results(meet, cooperative)) {
            let own = 101 * (thread / 8 + 1);
            assert_eq!(got, [own, 3 * 999, 999, 0, 0, 999, 0, 0], "scope {scope}, {cooperative}");
        }
    }
}

#[test]
fn a_definition_of_the_programs_own_is_preferred() {
    let own = "
.visible .func (.param .b32 result) cudaCGSynchronize(.param .b64 handle, .param .b32 flags)
{
    .reg .b32 %r;
    mov.u32 %r, 7;
    st.param.b32 [result], %r;
    ret;
}
";
    let meet = with_runtime(&format!("{own}{}", apart("1")));
    let answers = results(meet, true).into_iter().map(|got| got[1]);
    // `cudaCGSynchronizeGrid` is a barrier by `cudaCGSynchronize`.
    assert_eq!(answers.collect::<Vec<_>>(), [21; THREADS as usize]);
}

#[test]
fn the_file_of_the_runtime_is_an_input_and_no_other_archive_is() {
    let link = Link::new();
    let folder = tempfile::tempdir().unwrap();
    let add = |kind, member| {
        let path = folder.path().join("archive.a");
        std::fs::write(&path, archive(member)).unwrap();
        let path = CString::new(path.to_str().unwrap()).unwrap();
        code!(cuLinkAddFile_v2(link.0, kind, c_text(&path), 0, In::NULL, Out::NULL))
    };
    assert_eq!(add(LIBRARY, "cuda_device_runtime.o"), 0, "{:?}", take_detail());
    assert_eq!(add(LIBRARY, "other.o"), CUDA_ERROR_NOT_SUPPORTED);
    let text = take_detail().map(|detail| detail.text).unwrap_or_default();
    assert!(text.contains("libcudadevrt.a"), "{text}");
    // An object file is not an archive.
    assert_eq!(add(3, "cuda_device_runtime.o"), CUDA_ERROR_NOT_SUPPORTED);
    ok!(cuLinkDestroy(link.0));
}
