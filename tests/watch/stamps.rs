//! A module whose kernels show which version they are of.

use std::sync::mpsc::Receiver;
use std::time::Duration;

use cuda_std::launch::{
    Args, Contract, DeviceWrite, Kernel, Launch, LaunchConfig, Param, ParamKind,
};
use ferrowarp::reload::{ModuleVersion, ReloadEvent};
use ferrowarp::{AsStream, DeviceBuffer, Gpu, GpuError, GpuResult, HotModule};

const WORDS: &[Param] = &[
    Param { name: "p", kind: ParamKind::Pointer, size_bytes: 8 },
    Param { name: "len", kind: ParamKind::Length, size_bytes: 8 },
];

/// Sets each word to the number of its version.
pub static STAMP: Kernel = Kernel { name: "stamp", params: WORDS, contract: Contract::NONE };

/// A device with no kernels of its own.
pub fn bare() -> Gpu {
    Gpu::with_images(&[]).unwrap()
}

/// A module whose `stamp` writes `number`.
pub fn ptx(number: u32) -> String {
    format!(
        ".version 7.0\n.target sm_70\n.address_size 64\n\
.visible .entry stamp(.param .u64 p, .param .u64 len)\n\
{{\n\
    .reg .pred %p<2>;\n\
    .reg .b32 %r<6>;\n\
    .reg .b64 %rd<6>;\n\
    ld.param.u64 %rd1, [p];\n\
    ld.param.u64 %rd2, [len];\n\
    mov.u32 %r2, %ctaid.x;\n\
    mov.u32 %r3, %ntid.x;\n\
    mov.u32 %r4, %tid.x;\n\
    mad.lo.s32 %r5, %r2, %r3, %r4;\n\
    cvt.u64.u32 %rd3, %r5;\n\
    setp.ge.u64 %p1, %rd3, %rd2;\n\
    @%p1 bra $DONE;\n\
    shl.b64 %rd4, %rd3, 2;\n\
    add.s64 %rd5, %rd1, %rd4;\n\
    mov.u32 %r1, {number};\n\
    st.u32 [%rd5], %r1;\n\
$DONE:\n\
    ret;\n\
}}\n"
    )
}

/// Loads a text that a test has written.
pub fn load(hot: &HotModule, ptx: impl Into<String>) -> GpuResult<ModuleVersion> {
    // SAFETY: the tests' texts are kernels that stay inside the words which their launchers give, or are refused.
    unsafe { hot.load_ptx(ptx) }
}

/// Launches `stamp`.
pub fn stamp(
    on: &impl Launch<Error = GpuError>,
    words: &mut impl DeviceWrite<u32>,
) -> GpuResult<()> {
    let len = words.len();
    let mut args = Args::new();
    args.push_write(words);
    // SAFETY: the argument is that of `WORDS`, and `stamp` stays inside the words.
    unsafe { on.launch(&STAMP, LaunchConfig::for_num_elems(len).into(), &args) }
}

/// The number that `stamp` writes when it is launched on `on`.
pub fn stamped(gpu: &impl AsStream, on: &impl Launch<Error = GpuError>) -> u32 {
    let mut words = DeviceBuffer::zeroed(gpu, 300).unwrap();
    stamp(on, &mut words).unwrap();
    one(&words.to_vec().unwrap())
}

/// The number that all words are.
#[track_caller]
pub fn one(words: &[u32]) -> u32 {
    assert!(words.iter().all(|word| *word == words[0]), "two versions in one launch: {words:?}");
    words[0]
}

/// How long an event may take. A build waits for the lock of those of other tests, and for a processor.
const PATIENCE: Duration = Duration::from_secs(300);

/// The next event for which `pick` gives something. Fails where none comes in five minutes.
#[track_caller]
pub fn next<T>(
    events: &Receiver<ReloadEvent>,
    mut pick: impl FnMut(ReloadEvent) -> Option<T>,
) -> T {
    loop {
        let event = events.recv_timeout(PATIENCE).expect("an event");
        if let Some(picked) = pick(event) {
            return picked;
        }
    }
}

/// The number of the next version that is swapped in; other news of builds and loads is a failure.
#[track_caller]
pub fn swapped(events: &Receiver<ReloadEvent>) -> u64 {
    next(events, |event| match event {
        ReloadEvent::Swapped { version, .. } => Some(version.number),
        ReloadEvent::BuildFailed { error } => panic!("{error}"),
        ReloadEvent::LoadFailed { error } | ReloadEvent::Refused { error, .. } => {
            panic!("{error}")
        }
        _ => None,
    })
}
