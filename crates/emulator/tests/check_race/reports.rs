//! What a report says.

use super::{SCHEDULES, device, kernel, run};
use emulator::fault::{Access, Kinship, RacePlace};
use emulator::{Schedule, TrapKind};

fn with_lines(body: &str) -> String {
    kernel(body).replacen(".shared", ".file 1 \"src/kernel.rs\"\n.shared", 1)
}

#[test]
fn a_report_names_both_accesses_with_their_lines_and_values() {
    let text = with_lines(
        ".loc 1 12 5
        st.shared.b32 [%rd2+16], %r0;
        .loc 1 13 5
        xor.b32 %r6, %r0, 32; mov.b64 %rd3, tile; mad.wide.u32 %rd3, %r6, 4, %rd3;
        .loc 1 14 9
        ld.shared.b32 %r7, [%rd3+16]; st.global.b32 [%rd1], %r7;",
    );
    let trap = run(&device(Schedule::Window, 1), &text, (3, 64), 192).unwrap_err();
    let said = trap.to_string();
    let TrapKind::Race(race) = trap.kind else { panic!("{said}") };
    assert_eq!((race.first.access, race.second.access), (Access::Load, Access::Store));
    assert_eq!((race.first.thread, race.second.thread), ([0, 0, 0], [32, 0, 0]));
    assert_eq!(race.first.source.as_ref().map(|own| own.line), Some(14));
    assert_eq!(race.second.source.as_ref().map(|own| own.line), Some(12));
    assert_eq!((race.found, race.written, race.kinship), (0, Some(32), Kinship::Block));
    let variable = Some(("tile".to_owned(), 144));
    assert_eq!(race.place, RacePlace::Shared { block: [0; 3], offset: 144, variable });
    assert_eq!(
        said,
        "data race: store of 4 bytes (0x20, over 0x0) at 0x90 of shared memory, byte 144 of `tile` in \
         kernel `k`, block (0,0,0), thread (32,0,0), at src/kernel.rs:12: nothing orders it and the load \
         of block (0,0,0), thread (0,0,0), at src/kernel.rs:14; no barrier that both threads take part in \
         lies between them"
    );
}

#[test]
fn a_report_of_global_memory_names_the_allocation() {
    let text = kernel("st.global.b32 [%rd0+8], %r3;");
    for schedule in SCHEDULES {
        let trap = run(&device(schedule, 1), &text, (2, 1), 16).unwrap_err();
        let said = trap.to_string();
        assert!(said.contains("8 bytes into the 64-byte allocation at 0x"), "{said}");
        assert!(said.contains("blocks run in any order"), "{said}");
    }
}

#[test]
fn a_race_of_vectors_names_the_element() {
    let text =
        kernel("mad.wide.u32 %rd3, %r0, 8, %rd0; st.global.v4.b32 [%rd0], {%r0, 1, 2, %r0};");
    let trap = run(&device(Schedule::Window, 1), &text, (1, 64), 16).unwrap_err();
    let TrapKind::Race(race) = trap.kind else { panic!("{trap}") };
    assert_eq!((race.bytes, race.written), (4, Some(1)));
}

#[test]
fn a_race_of_a_vector_with_a_scalar_names_the_element_that_both_touch() {
    // Of thread 1's vector, the third element was thread 0's.
    let text = kernel(
        "mad.wide.u32 %rd3, %r0, 16, %rd0;
        mov.u32 %r5, 5; st.global.b32 [%rd3+24], %r5; st.global.v4.b32 [%rd3], {%r0, 6, 7, %r0};",
    );
    let trap = run(&device(Schedule::Window, 1), &text, (1, 2), 16).unwrap_err();
    let said = trap.to_string();
    let TrapKind::Race(race) = trap.kind else { panic!("{said}") };
    assert_eq!((race.bytes, race.written, race.found), (4, Some(7), 5), "{said}");
    assert!(said.contains("24 bytes into the 64-byte allocation"), "{said}");
}

#[test]
fn without_the_check_nothing_is_reported() {
    let text = kernel("st.global.b32 [%rd0+8], %r3;");
    let device = emulator::Device::new(emulator::Profile::hopper());
    assert!(run(&device, &text, (2, 64), 16).is_ok());
}
