//! What a GPU has no room for, and what its assembler refuses, is refused by name.

mod common;

use common::{HEAD, device, launch};
use emulator::{Launch, LoadError, TrapKind};

fn refused(text: &str) -> String {
    match device().load(text) {
        Ok(_) => panic!("loaded: {text}"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn static_shared_memory_has_a_limit() {
    let kernel = |version: &str, bytes: u64| {
        format!(
            ".version {version}\n.target sm_90a\n.address_size 64\n.shared .b8 other[16];
            .visible .entry k() {{ .reg .b32 r; .shared .b8 tile[{bytes}]; mov.u32 r, tile; mov.u32 r, other; ret; }}"
        )
    };
    device().load(&kernel("8.6", 49152 - 16)).unwrap();
    let text = refused(&kernel("8.6", 49153 - 16));
    let parts = [
        "kernel `k`",
        "49153 bytes of static shared memory",
        "`tile`, of 49137 bytes",
        "49152 is the limit",
    ];
    assert!(parts.iter().all(|part| text.contains(part)), "{text}");
    // Drivers that read PTX 9.0 give an entry what a block may have.
    device().load(&kernel("9.0", 232_448 - 16)).unwrap();
    let text = refused(&kernel("9.0", 400_000));
    assert!(text.contains("400016 bytes") && text.contains("232448 is the limit"), "{text}");
    assert!(refused(&kernel("8.6", u64::from(u32::MAX))).contains("4294967311 bytes"));
}

#[test]
fn constants_parameters_and_local_memory_have_limits() {
    let constants = |bytes: u32| format!("{HEAD}.const .b8 more[8];\n.const .b8 table[{bytes}];");
    device().load(&constants(65536 - 8)).unwrap();
    let text = refused(&constants(65536 - 7));
    let parts = ["65537 bytes of constant memory", "`table`, of 65529 bytes", "65536 is the limit"];
    assert!(parts.iter().all(|part| text.contains(part)), "{text}");

    let params = |version: &str, bytes: u32| {
        format!(
            ".version {version}\n.target sm_80\n.address_size 64\n.visible .entry k(.param .b8 a[{bytes}]) {{ ret; }}"
        )
    };
    device().load(&params("8.0", 4352)).unwrap();
    device().load(&params("8.1", 32764)).unwrap();
    for (version, bytes, limit) in [("8.0", 4353, "4352"), ("8.1", 32765, "32764")] {
        let text = refused(&params(version, bytes));
        let parts = [
            "kernel `k`",
            &format!("{bytes} bytes of parameters"),
            &format!("{limit} is the limit"),
        ];
        assert!(parts.iter().all(|part| text.contains(part)), "{text}");
    }

    let text = refused(&format!("{HEAD}.visible .entry k() {{ .local .b8 room[600000]; ret; }}"));
    assert!(
        text.contains("`k` has 600000 bytes of local memory; a thread may have 524288"),
        "{text}"
    );
}

#[test]
fn an_atomic_on_local_memory_is_refused_with_its_place() {
    let kernel = |body: &str| {
        format!(
            "{HEAD}.file 1 \"src/lib.rs\"\n.visible .entry k() {{ .reg .b64 %rd<4>; .local .align 8 .b8 own[8];
            .loc 1 12 5\n{body}\nret; }}"
        )
    };
    let body = "atom.relaxed.sys.local.cas.b64 %rd1, [own], %rd2, %rd3;";
    match device().load(&kernel(body)).map(|_| ()).unwrap_err() {
        LoadError::Placed { error, place } => {
            assert!(matches!(*error, LoadError::Unsupported { line: 7, .. }), "{error}");
            assert_eq!((place.file.as_str(), place.line), ("src/lib.rs", 12));
        }
        other => panic!("{other}"),
    }
    let text = refused(&kernel(body));
    for part in ["PTX line 7", "`atom.relaxed.sys.local.cas.b64`", "`.local`", "from src/lib.rs:12"]
    {
        assert!(text.contains(part), "{text}");
    }
    assert!(refused(&kernel("red.local.add.u32 [own], 1;")).contains("`.local`"));
    let missing = device().load(&kernel("call missing, ();")).map(|_| ()).unwrap_err();
    assert!(matches!(missing.root(), LoadError::Unresolved { .. }), "{missing}");
    // Any other error has its place too.
    assert!(
        refused(&kernel("frob.u32 %rd1;"))
            .ends_with("unknown instruction `frob.u32`, from src/lib.rs:12")
    );
}

/// `down` calls itself, with 56 bytes and an address to return to, until its parameter is 0.
const RECURSION: &str =
    ".func down(.param .b32 n) { .local .align 4 .b8 room[56]; .reg .b32 a; .reg .pred p;
    ld.param.b32 a, [n]; setp.eq.u32 p, a, 0; @p ret; sub.u32 a, a, 1;
    { .param .b32 less; st.param.b32 [less], a; call down, (less); } ret; }
    .visible .entry k(.param .b32 n) { .reg .b32 a; ld.param.b32 a, [n];
    { .param .b32 all; st.param.b32 [all], a; call down, (all); } ret; }";

#[test]
fn the_stack_limit_holds_where_the_text_does_not_say_the_need() {
    let device = device();
    let module = device.load(&format!("{HEAD}{RECURSION}")).unwrap();
    let function = module.function("k").unwrap();
    let run = |levels: u32, stack_bytes: u64| {
        let params = levels.to_le_bytes();
        let launch = Launch { params: &params, stack_bytes, ..Launch::new(&function) };
        device.launch(&launch).map_err(Box::new)
    };
    run(15, 1024).unwrap();
    match run(16, 1024).unwrap_err() {
        trap if trap.kind == TrapKind::StackOverflow { bytes: 1088, limit: 1024 } => {
            let text = trap.to_string();
            assert!(text.contains("needs 1088 bytes of stack, and each thread has 1024"), "{text}");
            assert!(text.contains("CU_LIMIT_STACK_SIZE"), "{text}");
        }
        other => panic!("{other}"),
    }
    run(16, 1088).unwrap();
    // Far more levels than 1024 where the limit allows them.
    run(4000, 512 << 10).unwrap();
    let trap = run(8192, 1 << 40).unwrap_err();
    assert_eq!(trap.kind, TrapKind::StackOverflow { bytes: 524_352, limit: 524_288 });
    assert!(trap.to_string().contains("no thread can have more than 524288"), "{trap}");
}

#[test]
fn a_known_need_is_given_whatever_the_limit() {
    let known = ".func leaf() { .local .b8 room[4000]; ret; }
        .visible .entry k() { .local .b8 own[4000]; call leaf, (); ret; }";
    let addresses = ".func leaf() { .local .b8 room[4000]; ret; }
        .visible .entry k() { .reg .b64 f; mov.u64 f, leaf; P: .callprototype _ (); call f, (), P; ret; }";
    let alloca = ".visible .entry k() { .reg .b64 f; alloca.u64 f, 4000; ret; }";
    let device = device();
    for (text, is_given) in [(known, true), (addresses, false), (alloca, false)] {
        let module = device.load(&format!("{HEAD}{text}")).unwrap();
        let function = module.function("k").unwrap();
        let of = |stack_bytes| {
            let launch = Launch { stack_bytes, ..Launch::new(&function) };
            device.launch(&launch).map_err(Box::new)
        };
        assert_eq!(of(1024).is_ok(), is_given, "{text}");
        of(4096).unwrap();
    }
    launch(&device, &format!("{HEAD}{addresses}"), "k", [1; 3], [1; 3], &[]).unwrap();
}
