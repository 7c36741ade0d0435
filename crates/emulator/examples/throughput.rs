//! How many lane-instructions a second the emulator executes.
//!
//! `throughput [CPU threads] [checks]`, as in `throughput 1 race,sync`; one thread and no checks where nothing
//! is said.

use emulator::{Checks, Device, Launch, Profile};
use std::time::Instant;

/// A loop of integer and float arithmetic in registers.
const ALU: &str = r#"
.version 8.6
.target sm_90a
.address_size 64
.visible .entry alu(.param .u64 out, .param .u64 count)
{
    .reg .pred %p<2>;
    .reg .b32 %r<12>;
    .reg .b64 %rd<8>;
    ld.param.b64 %rd1, [out];
    ld.param.b32 %r9, [count];
    cvta.to.global.u64 %rd2, %rd1;
    mov.u32 %r1, %tid.x;
    mov.u32 %r2, %ctaid.x;
    mov.u32 %r3, %ntid.x;
    mad.lo.s32 %r4, %r2, %r3, %r1;
    mov.b32 %r5, %r4;
    mov.b32 %r6, 0f3F800000;
    mov.b32 %r7, 0;
$loop:
    mul.lo.s32 %r5, %r5, 1664525;
    add.s32 %r5, %r5, 1013904223;
    shr.u32 %r8, %r5, 13;
    xor.b32 %r5, %r5, %r8;
    fma.rn.f32 %r6, %r6, 0f3F7FFFFE, 0f3A83126F;
    add.rn.f32 %r6, %r6, 0f3C000000;
    add.s32 %r7, %r7, 1;
    setp.lt.u32 %p1, %r7, %r9;
    @%p1 bra $loop;
    xor.b32 %r5, %r5, %r6;
    mul.wide.u32 %rd3, %r4, 4;
    add.s64 %rd4, %rd2, %rd3;
    st.global.b32 [%rd4], %r5;
    ret;
}
"#;

/// A tree of sums in shared memory, as textbooks have it.
const TREE: &str = r#"
.version 8.6
.target sm_90a
.address_size 64
.shared .align 4 .b8 tile[1024];
.visible .entry tree(.param .u64 input, .param .u64 output)
{
    .reg .pred %p<4>;
    .reg .b32 %r<16>;
    .reg .b64 %rd<16>;
    ld.param.b64 %rd1, [input];
    ld.param.b64 %rd2, [output];
    cvta.to.global.u64 %rd3, %rd1;
    cvta.to.global.u64 %rd4, %rd2;
    mov.u32 %r1, %tid.x;
    mov.u32 %r2, %ctaid.x;
    mov.u32 %r3, %ntid.x;
    mad.lo.s32 %r4, %r2, %r3, %r1;
    mul.wide.u32 %rd5, %r4, 4;
    add.s64 %rd6, %rd3, %rd5;
    ld.global.b32 %r5, [%rd6];
    mov.b64 %rd7, tile;
    mul.wide.u32 %rd8, %r1, 4;
    add.s64 %rd9, %rd7, %rd8;
    st.shared.b32 [%rd9], %r5;
    bar.sync 0;
    shr.u32 %r6, %r3, 1;
$loop:
    setp.ge.u32 %p1, %r1, %r6;
    @%p1 bra $skip;
    mul.wide.u32 %rd10, %r6, 4;
    add.s64 %rd11, %rd9, %rd10;
    ld.shared.b32 %r7, [%rd11];
    ld.shared.b32 %r8, [%rd9];
    add.rn.f32 %r9, %r7, %r8;
    st.shared.b32 [%rd9], %r9;
$skip:
    bar.sync 0;
    shr.u32 %r6, %r6, 1;
    setp.ne.s32 %p2, %r6, 0;
    @%p2 bra $loop;
    setp.ne.s32 %p3, %r1, 0;
    @%p3 bra $end;
    ld.shared.b32 %r10, [tile];
    mul.wide.u32 %rd12, %r2, 4;
    add.s64 %rd13, %rd4, %rd12;
    st.global.b32 [%rd13], %r10;
$end:
    ret;
}
"#;

/// Each thread sums floats a grid apart, which a warp reads side by side.
const SUM: &str = r#"
.version 8.6
.target sm_90a
.address_size 64
.visible .entry sum(.param .u64 input, .param .u64 len, .param .u64 output)
{
    .reg .pred %p<3>;
    .reg .b32 %r<16>;
    .reg .b64 %rd<16>;
    ld.param.b64 %rd1, [input];
    ld.param.b64 %rd2, [len];
    ld.param.b64 %rd3, [output];
    cvta.to.global.u64 %rd4, %rd1;
    cvta.to.global.u64 %rd5, %rd3;
    mov.u32 %r1, %tid.x;
    mov.u32 %r2, %ctaid.x;
    mov.u32 %r3, %ntid.x;
    mov.u32 %r4, %nctaid.x;
    mad.lo.s32 %r5, %r2, %r3, %r1;
    mul.lo.s32 %r6, %r3, %r4;
    cvt.u64.u32 %rd6, %r5;
    cvt.u64.u32 %rd7, %r6;
    mov.b32 %r7, 0f00000000;
    setp.ge.u64 %p1, %rd6, %rd2;
    @%p1 bra $end;
    mov.b64 %rd8, %rd6;
$loop:
    shl.b64 %rd9, %rd8, 2;
    add.s64 %rd10, %rd4, %rd9;
    ld.global.b32 %r8, [%rd10];
    add.rn.f32 %r7, %r7, %r8;
    add.s64 %rd8, %rd8, %rd7;
    setp.lt.u64 %p2, %rd8, %rd2;
    @%p2 bra $loop;
$end:
    shl.b64 %rd11, %rd6, 2;
    add.s64 %rd12, %rd5, %rd11;
    st.global.b32 [%rd12], %r7;
    ret;
}
"#;

/// A matrix of 1024 columns is transposed through tiles of 32 by 32 in shared memory.
const TRANSPOSE: &str = r#"
.version 8.6
.target sm_90a
.address_size 64
.shared .align 4 .b8 tile[4224];
.visible .entry transpose(.param .u64 input, .param .u64 output)
{
    .reg .pred %p<2>;
    .reg .b32 %r<24>;
    .reg .b64 %rd<16>;
    ld.param.b64 %rd1, [input];
    ld.param.b64 %rd2, [output];
    mov.u32 %r1, %tid.x;
    and.b32 %r2, %r1, 31;
    shr.u32 %r3, %r1, 5;
    mov.u32 %r4, %ctaid.x;
    and.b32 %r5, %r4, 31;
    shr.u32 %r6, %r4, 5;
    mov.b64 %rd3, tile;
    mov.u32 %r7, %r3;
$load:
    mad.lo.u32 %r8, %r6, 32, %r7;
    mad.lo.u32 %r9, %r5, 32, %r2;
    mad.lo.u32 %r10, %r8, 1024, %r9;
    mad.wide.u32 %rd4, %r10, 4, %rd1;
    ld.global.b32 %r11, [%rd4];
    mad.lo.u32 %r12, %r7, 33, %r2;
    mad.wide.u32 %rd5, %r12, 4, %rd3;
    st.shared.b32 [%rd5], %r11;
    add.u32 %r7, %r7, 8;
    setp.lt.u32 %p1, %r7, 32;
    @%p1 bra $load;
    bar.sync 0;
    mov.u32 %r7, %r3;
$store:
    mad.lo.u32 %r12, %r2, 33, %r7;
    mad.wide.u32 %rd5, %r12, 4, %rd3;
    ld.shared.b32 %r11, [%rd5];
    mad.lo.u32 %r8, %r5, 32, %r7;
    mad.lo.u32 %r9, %r6, 32, %r2;
    mad.lo.u32 %r10, %r8, 1024, %r9;
    mad.wide.u32 %rd4, %r10, 4, %rd2;
    st.global.b32 [%rd4], %r11;
    add.u32 %r7, %r7, 8;
    setp.lt.u32 %p1, %r7, 32;
    @%p1 bra $store;
    ret;
}
"#;

fn measure(device: &Device, name: &str, text: &str, grid: u32, block: u32, params: &[u64]) {
    let module = device.load(text).expect("the text is right");
    let function = module.function(name).expect("the kernel is there");
    let bytes: Vec<u8> = params.iter().flat_map(|param| param.to_le_bytes()).collect();
    let launch = Launch {
        grid: [grid, 1, 1],
        block: [block, 1, 1],
        params: &bytes,
        ..Launch::new(&function)
    };
    let mut best = f64::INFINITY;
    let mut stats = emulator::Stats::default();
    for _ in 0..3 {
        let start = Instant::now();
        stats = device.launch(&launch).expect("the kernel is right");
        best = best.min(start.elapsed().as_secs_f64());
    }
    let rate = stats.lane_instructions as f64 / best;
    let threads = f64::from(grid * block) / best;
    println!(
        "{name:9} {:12} lane-instructions in {:.4} s: {rate:.3e} lane-instructions/s, {threads:.3e} threads/s",
        stats.lane_instructions, best
    );
}

fn main() {
    let workers = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(1);
    let checks = std::env::args().nth(2).map_or(Checks::NONE, |text| text.parse().expect("checks"));
    let device = Device::new(Profile { worker_threads: workers, checks, ..Profile::hopper() });
    let n = 1u64 << 22;
    let input = device.memory().alloc(4 * n).expect("16 MiB");
    let output = device.memory().alloc(4 * n).expect("16 MiB");
    device.memory().fill32(input, 1f32.to_bits(), n).expect("it is there");
    for counts in [false, true] {
        device.count(counts);
        println!("{}", if counts { "with counters" } else { "without counters" });
        measure(&device, "alu", ALU, 32, 256, &[output, 2000]);
        measure(&device, "tree", TREE, (n / 256) as u32, 256, &[input, output]);
        measure(&device, "sum", SUM, 64, 256, &[input, n, output]);
        measure(&device, "transpose", TRANSPOSE, 1024, 256, &[input, output]);
    }
}
