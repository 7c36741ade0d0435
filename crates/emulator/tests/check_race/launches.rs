//! Launches after and beside each other.

use super::{Buffer, HEAD, device};
use emulator::fault::{Kinship, Race};
use emulator::{Device, Launch, Schedule, Trap, TrapKind};

/// Two launches meet at word 0, so that they run at the same time; then each stores its number at a
/// place of its own.
fn text() -> String {
    format!(
        "{HEAD}.visible .entry store(.param .u64 k_out, .param .u64 k_place, .param .u64 k_value, .param .u64 k_others) {{
            .reg .pred %p<4>; .reg .b32 %r<8>; .reg .b64 %rd<8>;
            ld.param.b64 %rd0, [k_out]; ld.param.b64 %rd1, [k_place]; ld.param.b32 %r1, [k_value];
            ld.param.b32 %r2, [k_others];
            add.u64 %rd2, %rd0, %rd1;
            red.global.add.u32 [%rd0], 1;
            SPIN: ld.relaxed.gpu.global.b32 %r3, [%rd0]; setp.lt.u32 %p1, %r3, %r2; @%p1 bra SPIN;
            st.global.b32 [%rd2], %r1;
            ret; }}"
    )
}

fn store(device: &Device, text: &str, params: [u64; 4]) -> Result<(), Trap> {
    let module = device.load(text).unwrap();
    let function = module.function("store").unwrap();
    let bytes: Vec<u8> = params.iter().flat_map(|param| param.to_le_bytes()).collect();
    device.launch(&Launch { params: &bytes, ..Launch::new(&function) }).map(drop)
}

/// The races of two launches at once that store to these places.
fn at_once(places: [u64; 2]) -> Vec<Race> {
    let device = device(Schedule::Window, 1);
    let buffer = Buffer::of_u32(&device, &[0; 64]);
    let text = text();
    let run = |place, value| store(&device, &text, [buffer.address, place, value, 2]);
    let results = std::thread::scope(|scope| {
        let other = scope.spawn(|| run(places[0], 5));
        [run(places[1], 6), other.join().unwrap()]
    });
    let race = |result: Result<(), Trap>| match result {
        Ok(()) => None,
        Err(Trap { kind: TrapKind::Race(race), .. }) => Some(*race),
        Err(other) => panic!("{other}"),
    };
    results.into_iter().filter_map(race).collect()
}

#[test]
fn launches_that_run_at_the_same_time_race() {
    assert!(at_once([128, 132]).is_empty());
    let races = at_once([128, 128]);
    assert_eq!(races.len(), 1, "the first to store saw nothing: {races:?}");
    assert_eq!(races[0].kinship, Kinship::Device);
    let text = races[0].cause();
    assert!(text.contains("kernel `store`, store of block (0,0,0), thread (0,0,0)"), "{text}");
}

#[test]
fn a_launch_is_ordered_after_those_that_have_ended() {
    let device = device(Schedule::Window, 1);
    let buffer = Buffer::of_u32(&device, &[0; 64]);
    for value in 0..3 {
        store(&device, &text(), [buffer.address, 128, value, 1]).unwrap();
    }
    assert_eq!((buffer.u32s()[0], buffer.u32s()[32]), (3, 2));
}

/// A launch that ran beside one that is still running has ended before a third begins.
#[test]
fn a_launch_that_ended_beside_a_running_one_is_ordered_before_a_third() {
    let device = device(Schedule::Window, 1);
    let buffer = Buffer::of_u32(&device, &[0; 64]);
    let text = text();
    let run = |place, value, others| store(&device, &text, [buffer.address, place, value, others]);
    std::thread::scope(|scope| {
        // Runs until two others have counted.
        let long = scope.spawn(|| run(192, 9, 3));
        while buffer.u32s()[0] == 0 {
            std::thread::yield_now();
        }
        run(128, 7, 0).unwrap();
        run(128, 8, 0).unwrap();
        long.join().unwrap().unwrap();
    });
    assert_eq!((buffer.u32s()[32], buffer.u32s()[48]), (8, 9));
}
