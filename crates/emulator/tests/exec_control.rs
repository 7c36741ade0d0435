//! Branches, calls, divergence, barriers, warp collectives, waiting across blocks.

mod common;

use common::{Buffer, HEAD, device, launch};
use emulator::{Device, Profile};

/// A kernel whose thread `r0` writes `r1` to its word of the output.
fn kernel(module: &str, body: &str) -> String {
    format!(
        "{HEAD}{module}
        .visible .entry k(.param .u64 k_out) {{
            .reg .pred %p<8>; .reg .b32 %r<16>; .reg .b64 %rd<16>;
            ld.param.b64 %rd0, [k_out];
            mov.u32 %r0, %tid.x;
            mov.b32 %r1, 0;
            {body}
        STORE:
            mad.wide.u32 %rd0, %r0, 4, %rd0;
            st.global.b32 [%rd0], %r1;
            ret;
        }}"
    )
}

fn words_with(module: &str, body: &str, n: u32) -> Vec<u32> {
    let device = device();
    let out = Buffer::new(&device, 4 * n as usize);
    let text = kernel(module, body);
    launch(&device, &text, "k", [1, 1, 1], [n, 1, 1], &[out.address])
        .unwrap_or_else(|trap| panic!("{trap}"));
    out.u32s()
}

fn words(body: &str, n: u32) -> Vec<u32> {
    words_with("", body, n)
}

#[test]
fn lanes_take_their_own_branches_and_meet_again() {
    let body = "and.b32 %r2, %r0, 1; setp.eq.s32 %p1, %r2, 0;
        @%p1 bra EVEN; mov.b32 %r1, 100; bra.uni JOIN; EVEN: mov.b32 %r1, 200;
        JOIN: activemask.b32 %r3; popc.b32 %r3, %r3; add.s32 %r1, %r1, %r3;";
    let expected: Vec<u32> = (0..32).map(|i| if i % 2 == 0 { 232 } else { 132 }).collect();
    assert_eq!(words(body, 32), expected);
}

#[test]
fn loops_of_different_lengths_end() {
    let body = "mov.b32 %r2, 0; LOOP: setp.ge.u32 %p1, %r2, %r0; @%p1 bra STORE;
        add.s32 %r1, %r1, %r2; add.s32 %r2, %r2, 1; bra.uni LOOP;";
    assert_eq!(
        words(body, 70),
        (0..70u32).map(|i| i * i.saturating_sub(1) / 2).collect::<Vec<_>>()
    );
}

#[test]
fn a_list_of_branches_scatters() {
    let body = "rem.u32 %r2, %r0, 3; TABLE: .branchtargets A, B, C;
        brx.idx %r2, TABLE;
        A: mov.b32 %r1, 10; bra STORE; B: mov.b32 %r1, 20; bra STORE; C: mov.b32 %r1, 30;";
    assert_eq!(words(body, 40), (0..40).map(|i| 10 * (i % 3 + 1)).collect::<Vec<_>>());
}

const FUNCTIONS: &str = "
    .func (.param .b32 ret0) twice(.param .b32 twice_0) {
        .reg .b32 %r<4>;
        ld.param.b32 %r1, [twice_0]; add.s32 %r1, %r1, %r1; st.param.b32 [ret0], %r1; ret; }
    .func (.param .b32 ret0) factorial(.param .b32 factorial_0) {
        .reg .pred %p<2>; .reg .b32 %r<8>;
        ld.param.b32 %r1, [factorial_0];
        setp.gt.u32 %p1, %r1, 1; @%p1 bra MORE;
        st.param.b32 [ret0], 1; ret;
        MORE: sub.s32 %r2, %r1, 1;
        { .param .b32 p0; .param .b32 q0; st.param.b32 [p0], %r2;
          call.uni (q0), factorial, (p0); ld.param.b32 %r3, [q0]; }
        mul.lo.s32 %r4, %r3, %r1; st.param.b32 [ret0], %r4; ret; }
    .func (.param .align 8 .b8 ret0[16]) swap(.param .align 8 .b8 swap_0[16]) {
        .reg .b64 %rd<4>;
        ld.param.v2.b64 {%rd1, %rd2}, [swap_0]; st.param.v2.b64 [ret0], {%rd2, %rd1}; ret; }
    .global .align 8 .u64 vtable[2] = {twice, factorial};";

#[test]
fn calls_pass_parameters_and_recurse() {
    let body = "and.b32 %r2, %r0, 7;
        { .param .b32 p0; .param .b32 q0; st.param.b32 [p0], %r2; call.uni (q0), factorial, (p0); ld.param.b32 %r1, [q0]; }
        { .param .b32 p0; .param .b32 q0; st.param.b32 [p0], %r1; call.uni (q0), twice, (p0); ld.param.b32 %r1, [q0]; }";
    let factorial = |n: u32| (1..=n).product::<u32>();
    assert_eq!(
        words_with(FUNCTIONS, body, 32),
        (0..32).map(|i| 2 * factorial(i & 7)).collect::<Vec<_>>()
    );
}

#[test]
fn calls_through_stored_addresses_diverge() {
    let body = "and.b32 %r2, %r0, 1; mul.wide.u32 %rd1, %r2, 8; mov.b64 %rd2, vtable; add.s64 %rd2, %rd2, %rd1;
        ld.global.b64 %rd3, [%rd2];
        { .param .b32 p0; .param .b32 q0; st.param.b32 [p0], 5;
          PROTO: .callprototype (.param .b32 _) _ (.param .b32 _);
          call (q0), %rd3, (p0), PROTO; ld.param.b32 %r1, [q0]; }
        activemask.b32 %r3; popc.b32 %r3, %r3; add.s32 %r1, %r1, %r3;";
    let expected: Vec<u32> = (0..32).map(|i| 32 + if i % 2 == 0 { 10 } else { 120 }).collect();
    assert_eq!(words_with(FUNCTIONS, body, 32), expected);
}

#[test]
fn aggregates_pass_by_value() {
    let body = "cvt.u64.u32 %rd1, %r0;
        { .param .align 8 .b8 p0[16]; .param .align 8 .b8 q0[16]; st.param.b64 [p0], %rd1; st.param.b64 [p0+8], 7;
          call.uni (q0), swap, (p0); ld.param.b64 %rd2, [q0]; ld.param.b64 %rd3, [q0+8]; }
        mad.lo.s64 %rd4, %rd2, 100, %rd3; cvt.u32.u64 %r1, %rd4;";
    assert_eq!(words_with(FUNCTIONS, body, 32), (0..32).map(|i| 700 + i).collect::<Vec<_>>());
}

#[test]
fn shuffles_stay_in_their_segment() {
    let shuffle = |what: &str| words(&format!("shfl.sync.{what}, -1;"), 32);
    assert_eq!(
        shuffle("down.b32 %r1, %r0, 1, 31"),
        (0..32).map(|i| (i + 1).min(31)).collect::<Vec<_>>()
    );
    assert_eq!(
        shuffle("up.b32 %r1, %r0, 2, 0"),
        (0..32u32).map(|i| if i < 2 { i } else { i - 2 }).collect::<Vec<_>>()
    );
    assert_eq!(shuffle("bfly.b32 %r1, %r0, 3, 31"), (0..32).map(|i| i ^ 3).collect::<Vec<_>>());
    assert_eq!(shuffle("idx.b32 %r1, %r0, 5, 31"), [5; 32]);
    let segments: Vec<u32> = (0..32).map(|i| i / 8 * 8 + 3).collect();
    assert_eq!(shuffle("idx.b32 %r1, %r0, 3, 0x181f"), segments);
    let inside = words("shfl.sync.down.b32 %r2|%p1, %r0, 30, 31, -1; selp.b32 %r1, 1, 0, %p1;", 32);
    assert_eq!(inside.iter().sum::<u32>(), 2);
}

#[test]
fn votes_matches_and_reductions() {
    let odd = "and.b32 %r2, %r0, 1; setp.ne.s32 %p1, %r2, 0;";
    assert_eq!(words(&format!("{odd} vote.sync.ballot.b32 %r1, %p1, -1;"), 32), [0xaaaa_aaaa; 32]);
    assert_eq!(
        words(&format!("{odd} vote.sync.any.pred %p2, %p1, -1; selp.b32 %r1, 1, 0, %p2;"), 32),
        [1; 32]
    );
    assert_eq!(
        words(&format!("{odd} vote.sync.all.pred %p2, %p1, -1; selp.b32 %r1, 1, 0, %p2;"), 32),
        [0; 32]
    );
    assert_eq!(
        words(&format!("{odd} vote.sync.uni.pred %p2, %p1, -1; selp.b32 %r1, 1, 0, %p2;"), 32),
        [0; 32]
    );
    let thirds = "rem.u32 %r2, %r0, 3;";
    let any = words(&format!("{thirds} match.any.sync.b32 %r1, %r2, -1;"), 32);
    assert_eq!(any[..3], [0x4924_9249, 0x9249_2492, 0x2492_4924]);
    let all = words("mov.b64 %rd5, 9; match.all.sync.b64 %r1|%p1, %rd5, -1;", 32);
    assert_eq!(all, [u32::MAX; 32]);
    assert_eq!(words("redux.sync.add.u32 %r1, %r0, -1;", 32), [496; 32]);
    assert_eq!(
        words("neg.s32 %r2, %r0; redux.sync.min.s32 %r1, %r2, -1;", 32),
        [-31i32 as u32; 32]
    );
    assert_eq!(words("redux.sync.xor.b32 %r1, %r0, -1;", 32), [0; 32]);
    let elected = words("elect.sync %r2|%p1, -1; selp.b32 %r1, 1, 0, %p1;", 32);
    assert_eq!((elected[0], elected.iter().sum::<u32>()), (1, 1));
}

#[test]
fn lanes_wait_for_the_lanes_of_a_mask() {
    // The two halves come to the shuffle at different times; those that left do not count.
    let body = "setp.ge.u32 %p1, %r0, 24; @%p1 bra STORE;
        setp.lt.u32 %p2, %r0, 12; @%p2 bra LATE; bra MEET;
        LATE: mov.b32 %r5, 0; SPIN: add.s32 %r5, %r5, 1; setp.lt.u32 %p3, %r5, 100; @%p3 bra SPIN;
        MEET: shfl.sync.bfly.b32 %r1, %r0, 1, 31, 0x00ffffff;";
    let expected: Vec<u32> = (0..32).map(|i| if i < 24 { i ^ 1 } else { 0 }).collect();
    assert_eq!(words(body, 32), expected);
}

#[test]
fn collectives_inside_functions_meet_by_mask() {
    let module = ".func (.param .b32 ret0) sum(.param .b32 sum_0) {
        .reg .b32 %r<4>;
        ld.param.b32 %r1, [sum_0]; redux.sync.add.u32 %r2, %r1, -1; st.param.b32 [ret0], %r2; ret; }";
    let call = "{ .param .b32 p0; .param .b32 q0; st.param.b32 [p0], %r0; call.uni (q0), sum, (p0); ld.param.b32 %r1, [q0]; }";
    let body = format!(
        "setp.lt.u32 %p1, %r0, 16; @%p1 bra LOW; {call} bra STORE; LOW: {call} add.s32 %r1, %r1, 1000;"
    );
    let expected: Vec<u32> = (0..32).map(|i| if i < 16 { 1496 } else { 496 }).collect();
    assert_eq!(words_with(module, &body, 32), expected);
}

#[test]
fn barriers_reduce_over_the_block() {
    let odd = "and.b32 %r2, %r0, 1; setp.ne.s32 %p1, %r2, 0;";
    assert_eq!(words(&format!("{odd} bar.red.popc.u32 %r1, 0, %p1;"), 100), [50; 100]);
    assert_eq!(
        words(&format!("{odd} bar.red.or.pred %p2, 0, %p1; selp.b32 %r1, 1, 0, %p2;"), 100),
        [1; 100]
    );
    assert_eq!(
        words(&format!("{odd} barrier.red.and.pred %p2, 0, %p1; selp.b32 %r1, 1, 0, %p2;"), 100),
        [0; 100]
    );
}

#[test]
fn named_barriers_join_producers_and_consumers() {
    // Warp 0 writes and arrives; warp 1 waits and reads. Warp 2 takes no part.
    let body = ".shared .align 4 .b8 x[4];
        shr.u32 %r2, %r0, 5; setp.eq.s32 %p1, %r2, 1; @%p1 bra CONSUMER; setp.eq.s32 %p2, %r2, 2; @%p2 bra STORE;
        st.shared.b32 [x], 42; bar.arrive 1, 64; bra STORE;
        CONSUMER: bar.sync 1, 64; ld.shared.b32 %r1, [x];";
    let expected: Vec<u32> = (0..96).map(|i| if i / 32 == 1 { 42 } else { 0 }).collect();
    assert_eq!(words(body, 96), expected);
}

#[test]
fn early_exits_do_not_hold_a_barrier() {
    let body = "setp.ge.u32 %p1, %r0, 40; @%p1 bra STORE; bar.sync 0; mov.b32 %r1, 7;";
    let expected: Vec<u32> = (0..64).map(|i| if i < 40 { 7 } else { 0 }).collect();
    assert_eq!(words(body, 64), expected);
}

#[test]
fn a_spin_lock_inside_a_warp_is_passed_on() {
    let body = ".shared .align 4 .b8 lock[4]; .shared .align 4 .b8 count[4];
        setp.eq.s32 %p1, %r0, 0; @%p1 st.shared.b32 [lock], 0; @%p1 st.shared.b32 [count], 0; bar.sync 0;
        TRY: atom.shared.cas.b32 %r2, [lock], 0, 1; setp.ne.s32 %p2, %r2, 0; @%p2 bra TRY;
        ld.volatile.shared.b32 %r3, [count]; add.s32 %r3, %r3, 1; st.volatile.shared.b32 [count], %r3;
        atom.shared.exch.b32 %r4, [lock], 0;
        bar.sync 0; ld.shared.b32 %r1, [count];";
    assert_eq!(words(body, 64), [64; 64]);
}

/// Each block waits for the one before, as a decoupled look-back does; tickets give the order.
const CHAIN: &str = "
    .visible .entry k(.param .u64 k_ticket, .param .u64 k_flags, .param .u64 k_backwards) {
        .reg .pred %p<4>; .reg .b32 %r<8>; .reg .b64 %rd<8>;
        ld.param.b64 %rd0, [k_ticket]; ld.param.b64 %rd1, [k_flags]; ld.param.b32 %r6, [k_backwards];
        atom.global.add.u32 %r0, [%rd0], 1;
        mov.u32 %r5, %nctaid.x; sub.s32 %r5, %r5, %r0; sub.s32 %r5, %r5, 1;
        setp.ne.s32 %p3, %r6, 0; @%p3 mov.b32 %r0, %r5;
        mad.wide.u32 %rd2, %r0, 4, %rd1;
        mov.b32 %r1, 0;
        setp.eq.s32 %p1, %r0, 0; @%p1 bra FIRST;
        WAIT: ld.acquire.gpu.global.b32 %r1, [%rd2+-4]; setp.eq.s32 %p2, %r1, 0; @%p2 bra WAIT;
        FIRST: add.s32 %r1, %r1, 1; st.release.gpu.global.b32 [%rd2], %r1;
        ret; }";

fn chain(workers: usize, backwards: u64, blocks: u32) -> Vec<u32> {
    let device = Device::new(Profile { worker_threads: workers, ..Profile::hopper() });
    let ticket = Buffer::of_u32(&device, &[0]);
    let flags = Buffer::of_u32(&device, &vec![0; blocks as usize]);
    let params = [ticket.address, flags.address, backwards];
    launch(&device, &format!("{HEAD}{CHAIN}"), "k", [blocks, 1, 1], [1, 1, 1], &params).unwrap();
    flags.u32s()
}

#[test]
fn blocks_may_wait_for_earlier_blocks_with_any_number_of_workers() {
    for workers in [1, 2, 4] {
        assert_eq!(chain(workers, 0, 300), (1..=300).collect::<Vec<_>>());
    }
}

#[test]
fn resident_blocks_may_wait_for_later_ones() {
    for workers in [1, 3] {
        assert_eq!(chain(workers, 1, 40), (1..=40).collect::<Vec<_>>());
    }
}

#[test]
fn warps_of_a_block_may_spin_on_each_other() {
    let body = ".shared .align 4 .b8 flag[4];
        setp.eq.s32 %p1, %r0, 0; @%p1 st.shared.b32 [flag], 0; bar.sync 0;
        setp.eq.s32 %p2, %r0, 95; @%p2 st.volatile.shared.b32 [flag], 9;
        WAIT: ld.volatile.shared.b32 %r1, [flag]; setp.eq.s32 %p3, %r1, 0; @%p3 bra WAIT;";
    assert_eq!(words(body, 96), [9; 96]);
}

#[test]
fn a_pause_lets_others_run() {
    assert_eq!(words("nanosleep.u32 100; mov.b32 %r1, 4;", 33), [4; 33]);
}
