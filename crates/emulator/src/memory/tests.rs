use super::*;
use crate::fault::RegionKind;

const MIB: u64 = 1 << 20;
const TIB: u64 = 1 << 40;

fn memory() -> GlobalMemory {
    GlobalMemory::new(64 * MIB)
}

fn read(memory: &GlobalMemory, address: u64, bytes: usize) -> Vec<u8> {
    let mut out = vec![0xaa; bytes];
    memory.read(address, &mut out).unwrap();
    out
}

#[test]
fn allocations_are_aligned_and_apart() {
    let memory = memory();
    let mut bases: Vec<(u64, u64)> = [1, 256, 255, 4096, 5 * MIB, 7, 6 * MIB]
        .map(|bytes| (memory.alloc(bytes).unwrap(), bytes))
        .to_vec();
    bases.sort_unstable();
    assert!(bases.iter().all(|(base, _)| base.is_multiple_of(256)));
    assert!(bases.windows(2).all(|w| w[0].0 + w[0].1 + 256 <= w[1].0), "{bases:x?}");
}

#[test]
fn the_red_zone_belongs_to_nobody() {
    let memory = memory();
    for bytes in [1, 255, 256, 257, 5 * MIB] {
        let base = memory.alloc(bytes).unwrap();
        assert_eq!(memory.find(base), Some(Allocation { base, len: bytes }));
        assert_eq!(memory.find(base + bytes - 1), Some(Allocation { base, len: bytes }));
        for offset in [0, 1, 128, 255] {
            assert_eq!(memory.find(base + bytes + offset), None, "{bytes} + {offset}");
            assert_eq!(memory.find(base - 1 - offset), None, "{bytes}: -{offset}");
        }
    }
}

#[test]
fn an_access_over_an_end_is_out_of_bounds() {
    let memory = memory();
    let base = memory.alloc(100).unwrap();
    memory.check(base, 100).unwrap();
    memory.check(base + 96, 4).unwrap();
    memory.check(base + 100, 0).unwrap();
    memory.check(0, 0).unwrap();
    for (address, bytes) in [(base + 97, 4), (base + 100, 1), (base - 1, 2), (base, u64::MAX)] {
        let error = memory.check(address, bytes).unwrap_err();
        assert_eq!(error.nearest.unwrap().base, base, "{error}");
    }
    let error = memory.check(base + 100, 4).unwrap_err().to_string();
    assert!(
        error.ends_with(&format!("0 bytes past the end of the 100-byte allocation at {base:#x}"))
    );
    assert!(memory.check(8, 4).unwrap_err().to_string().ends_with("a null pointer"));
}

#[test]
fn nearest_is_the_closer_neighbour() {
    let memory = memory();
    let mut bases = [memory.alloc(256).unwrap(), memory.alloc(256).unwrap()];
    bases.sort_unstable();
    assert_eq!(memory.nearest(bases[0] + 256).unwrap().base, bases[0]);
    assert_eq!(memory.nearest(bases[1] - 1).unwrap().base, bases[1]);
    assert_eq!(memory.nearest(bases[1] - 1).unwrap().address, bases[1] - 1);
    assert_eq!(memory.nearest(0), None);
}

#[test]
fn the_limit_counts_live_bytes() {
    let memory = GlobalMemory::new(1024);
    assert_eq!(memory.info(), (1024, 1024));
    let first = memory.alloc(1).unwrap();
    assert_eq!(memory.info(), (768, 1024));
    let error = memory.alloc(769).unwrap_err();
    assert_eq!(error, AllocError { requested: 769, free: 768, total: 1024 });
    memory.alloc(768).unwrap();
    memory.alloc(1).unwrap_err();
    memory.free(first).unwrap();
    assert_eq!(memory.info(), (256, 1024));
    memory.alloc(u64::MAX).unwrap_err();
    assert_eq!(memory.info(), (256, 1024));
}

#[test]
fn nothing_cannot_be_allocated() {
    assert_eq!(memory().alloc(0).unwrap_err().requested, 0);
    memory().alloc_host(0).unwrap_err();
}

#[test]
#[cfg_attr(windows, ignore = "Windows commits memory as it is allocated, so a TiB must be there")]
fn a_huge_sparse_allocation_costs_only_what_is_touched() {
    let memory = GlobalMemory::new(4 * TIB);
    let base = memory.alloc(TIB).unwrap();
    memory.write(base + TIB - 3, b"end").unwrap();
    assert_eq!(read(&memory, base + TIB - 4, 4), b"\0end");
    memory.free(base).unwrap();
    assert_eq!(memory.info().0, 4 * TIB);
}

#[test]
fn more_than_the_address_space_is_an_error() {
    let memory = GlobalMemory::new(u64::MAX);
    memory.alloc(1 << 61).unwrap_err();
    memory.alloc(u64::MAX).unwrap_err();
    memory.alloc(16).unwrap();
}

#[test]
fn freed_memory_is_out_of_bounds_and_said_to_be_freed() {
    let memory = memory();
    for bytes in [64, 6 * MIB] {
        let base = memory.alloc(bytes).unwrap();
        memory.free(base).unwrap();
        let error = memory.check(base + 4, 4).unwrap_err();
        assert_eq!(error.nearest.unwrap().kind, RegionKind::Freed);
        let expected = format!("4 bytes into the {bytes}-byte freed allocation at {base:#x}");
        assert!(error.to_string().ends_with(&expected), "{error}");
    }
}

#[test]
fn a_freed_address_is_not_reused_at_once() {
    let memory = memory();
    let first = memory.alloc(64).unwrap();
    memory.free(first).unwrap();
    for _ in 0..1000 {
        let next = memory.alloc(64).unwrap();
        assert_ne!(next, first);
        memory.free(next).unwrap();
    }
}

#[test]
fn addresses_are_reused_in_the_end() {
    let memory = memory();
    let mut bases: Vec<u64> = (0..10_000)
        .map(|_| {
            let base = memory.alloc(64).unwrap();
            memory.free(base).unwrap();
            base
        })
        .collect();
    bases.sort_unstable();
    bases.dedup();
    assert!(bases.len() < 5000, "{}", bases.len());
}

#[test]
fn only_the_base_of_a_live_allocation_can_be_freed() {
    let memory = memory();
    let base = memory.alloc(512).unwrap();
    let address = base + 256;
    assert_eq!(memory.free(address), Err(FreeError::Interior { address, base }));
    assert_eq!(memory.free(0), Err(FreeError::Unknown { address: 0 }));
    let address = base + 512;
    assert_eq!(memory.free(address), Err(FreeError::Unknown { address }));
    memory.free(base).unwrap();
    assert_eq!(memory.free(base), Err(FreeError::AlreadyFreed { address: base }));
    assert_eq!(memory.info().0, 64 * MIB);
}

#[test]
fn host_and_device_memory_are_freed_each_by_its_own() {
    let memory = memory();
    let (host, device) = (memory.alloc_host(64).unwrap(), memory.alloc(64).unwrap());
    let found = RegionKind::Host;
    assert_eq!(memory.free(host), Err(FreeError::OtherKind { address: host, found }));
    assert!(matches!(memory.free_host(device), Err(FreeError::OtherKind { .. })));
    assert!(matches!(memory.unregister(host), Err(FreeError::OtherKind { .. })));
    assert_eq!(memory.info().0, 64 * MIB - 256, "host memory does not count");
    memory.free_host(host).unwrap();
    memory.free(device).unwrap();
}

#[test]
fn registered_host_memory_is_reachable_until_it_is_unregistered() {
    let memory = memory();
    let mut words = [0u64; 32];
    let address = words.as_mut_ptr().expose_provenance() as u64;
    // SAFETY: `words` outlives the registration; it is read only while nothing else runs.
    unsafe { memory.register(address, 256) }.unwrap();
    memory.fill32(address + 4, 7, 1).unwrap();
    memory.check(address + 252, 8).unwrap_err();
    assert!(matches!(memory.free(address), Err(FreeError::OtherKind { .. })));
    memory.unregister(address).unwrap();
    memory.check(address, 4).unwrap_err();
    assert_eq!(memory.unregister(address), Err(FreeError::Unknown { address }));
    assert_eq!(words[0], 7 << 32);
}

#[test]
fn ranges_that_overlap_cannot_be_registered() {
    let memory = memory();
    let base = memory.alloc(4096).unwrap();
    for (address, bytes) in [(base, 1), (base - 8, 16), (base + 4095, 64), (base - 8, 8192)] {
        // SAFETY: the registration is refused.
        let result = unsafe { memory.register(address, bytes) };
        assert_eq!(result, Err(RegisterError::Overlap { address, bytes, other: base }));
    }
    for (address, bytes) in [(base, 0), (0, 64), (u64::MAX, 2)] {
        // SAFETY: the registration is refused.
        let result = unsafe { memory.register(address, bytes) };
        assert_eq!(result, Err(RegisterError::Range { address, bytes }));
    }
}

#[test]
fn reads_and_writes_of_any_alignment_and_length() {
    let memory = memory();
    let base = memory.alloc(128).unwrap();
    for start in 0..9 {
        for len in 0..40 {
            memory.fill8(base, 0xee, 128).unwrap();
            let bytes: Vec<u8> = (1..=len).collect();
            memory.write(base + start, &bytes).unwrap();
            let mut expected = vec![0xee; 128];
            expected[start as usize..][..bytes.len()].copy_from_slice(&bytes);
            assert_eq!(read(&memory, base, 128), expected);
            assert_eq!(read(&memory, base + start, bytes.len()), bytes);
        }
    }
}

#[test]
fn copies_of_any_alignment_behave_like_memmove() {
    let memory = memory();
    let base = memory.alloc(64).unwrap();
    let start: Vec<u8> = (0..64).collect();
    for from in 0..20usize {
        for to in 0..20usize {
            for len in [0, 1, 7, 8, 9, 31, 44] {
                memory.write(base, &start).unwrap();
                memory.copy(base + to as u64, base + from as u64, len as u64).unwrap();
                let mut expected = start.clone();
                expected.copy_within(from..from + len, to);
                assert_eq!(read(&memory, base, 64), expected, "{from} to {to}, {len} bytes");
            }
        }
    }
}

#[test]
fn fills_repeat_their_pattern_from_any_start() {
    let memory = memory();
    let base = memory.alloc(64).unwrap();
    for start in 0..9u64 {
        for count in 0..9u64 {
            let fills = |pattern: &[u8]| {
                let mut expected = vec![0; 64];
                let body = pattern.repeat(count as usize);
                expected[start as usize..][..body.len()].copy_from_slice(&body);
                expected
            };
            memory.fill8(base, 0, 64).unwrap();
            memory.fill16(base + start, 0x0201, count).unwrap();
            assert_eq!(read(&memory, base, 64), fills(&[1, 2]));
            memory.fill8(base, 0, 64).unwrap();
            memory.fill32(base + start, 0x0403_0201, count).unwrap();
            assert_eq!(read(&memory, base, 64), fills(&[1, 2, 3, 4]));
        }
    }
}

#[test]
fn a_refused_copy_or_fill_changes_nothing() {
    let memory = memory();
    let base = memory.alloc(64).unwrap();
    memory.fill8(base, 0, 64).unwrap();
    memory.write(base + 60, &[1; 5]).unwrap_err();
    memory.fill32(base, 1, 17).unwrap_err();
    memory.fill32(base, 1, u64::MAX).unwrap_err();
    memory.fill16(base, 1, 33).unwrap_err();
    memory.fill8(base, 1, 65).unwrap_err();
    memory.copy(base + 32, base, 33).unwrap_err();
    memory.copy(base, base + 32, 33).unwrap_err();
    memory.read(base + 32, &mut [0; 33]).unwrap_err();
    assert_eq!(read(&memory, base, 64), [0; 64]);
}

#[test]
fn a_cursor_sees_what_the_map_says() {
    let memory = memory();
    let bases: Vec<u64> = (0..10).map(|_| memory.alloc(100).unwrap()).collect();
    let mut cursor = memory.cursor();
    assert_eq!(cursor.span(0), None);
    for _ in 0..3 {
        for &base in &bases {
            assert_eq!(cursor.span(base), Some((base, base + 100)));
            assert_eq!(cursor.span(base + 99), Some((base, base + 100)));
            assert_eq!(cursor.span(base + 100), None);
            assert_eq!(cursor.span(base - 1), None);
        }
    }
}

#[test]
fn a_cursor_forgets_what_was_freed() {
    let memory = memory();
    let (first, second) = (memory.alloc(100).unwrap(), memory.alloc(100).unwrap());
    let mut cursor = memory.cursor();
    assert!(cursor.span(first).is_some() && cursor.span(second).is_some());
    memory.free(first).unwrap();
    assert_eq!(cursor.span(first), None);
    assert!(cursor.span(second).is_some());
    let mut word = [0u64; 1];
    let address = word.as_mut_ptr().expose_provenance() as u64;
    // SAFETY: `word` outlives the registration and nothing touches it.
    unsafe { memory.register(address, 8) }.unwrap();
    assert_eq!(cursor.span(address), Some((address, address + 8)));
    memory.unregister(address).unwrap();
    assert_eq!(cursor.span(address), None);
}

#[test]
fn many_threads_allocate_look_up_and_free() {
    let memory = GlobalMemory::new(TIB);
    let work = |seed: u64| {
        let mut cursor = memory.cursor();
        for round in 0..2000u64 {
            let bytes = 1 + (seed * 7919 + round * 104_729) % 10_000;
            let base = memory.alloc(bytes).unwrap();
            let value = (seed * 31 + round) as u8;
            memory.fill8(base, value, bytes).unwrap();
            assert_eq!(cursor.span(base), Some((base, base + bytes)));
            let mut last = [0];
            memory.read(base + bytes - 1, &mut last).unwrap();
            assert_eq!(last, [value], "another thread wrote here");
            memory.free(base).unwrap();
            assert_eq!(cursor.span(base), None);
        }
    };
    std::thread::scope(|scope| {
        (0..4).for_each(|seed| drop(scope.spawn(move || work(seed))));
    });
    assert_eq!(memory.info(), (TIB, TIB));
}

#[test]
fn atomics_of_many_threads_lose_nothing() {
    let memory = memory();
    let base = memory.alloc(64).unwrap();
    memory.fill8(base, 0, 64).unwrap();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for i in 0..1000u32 {
                    // SAFETY: aligned words inside a live allocation, touched by atomics only.
                    unsafe {
                        atomic::add_u32(base, 1);
                        atomic::add_f32(base + 4, 1f32.to_bits());
                        atomic::add_f64(base + 8, 1f64.to_bits());
                        atomic::max_u32(base + 16, i);
                        atomic::inc_u32(base + 20, 9);
                        atomic::add_u64(base + 24, 1 << 32);
                    }
                }
            });
        }
    });
    let bytes = read(&memory, base, 32);
    let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
    let long = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
    assert_eq!((word(0), f32::from_bits(word(4)), f64::from_bits(long(8))), (4000, 4000., 4000.));
    assert_eq!((word(16), word(20), long(24)), (999, 0, 4000 << 32));
}

#[test]
fn inc_dec_and_cas_follow_ptx() {
    let memory = memory();
    let at = memory.alloc(4).unwrap();
    let after = |start: u32, op: &dyn Fn() -> u32| {
        memory.fill32(at, start, 1).unwrap();
        assert_eq!(op(), start, "the old value is returned");
        u32::from_le_bytes(read(&memory, at, 4).try_into().unwrap())
    };
    // SAFETY: `at` is an aligned word inside a live allocation.
    let inc = |start, limit| after(start, &|| unsafe { atomic::inc_u32(at, limit) });
    // SAFETY: as above.
    let dec = |start, limit| after(start, &|| unsafe { atomic::dec_u32(at, limit) });
    // SAFETY: as above.
    let cas = |start, old, new| after(start, &|| unsafe { atomic::cas_u32(at, old, new) });
    assert_eq!([inc(0, 2), inc(1, 2), inc(2, 2), inc(3, 2), inc(0, 0)], [1, 2, 0, 0, 0]);
    assert_eq!(
        [dec(0, 2), dec(1, 2), dec(2, 2), dec(3, 2), dec(9, 2), dec(0, 0)],
        [2, 0, 1, 2, 2, 0]
    );
    assert_eq!([inc(u32::MAX, u32::MAX), dec(0, u32::MAX)], [0, u32::MAX]);
    assert_eq!([cas(5, 5, 9), cas(5, 6, 9)], [9, 5]);
}

#[test]
fn signed_and_unsigned_extremes_differ() {
    let memory = memory();
    let at = memory.alloc(8).unwrap();
    memory.fill32(at, u32::MAX, 2).unwrap();
    // SAFETY: `at` is aligned and inside a live allocation.
    unsafe {
        assert_eq!(atomic::max_i32(at, 1), -1);
        assert_eq!(access::load_u32(at), 1);
        assert_eq!(atomic::max_i64(at, i64::MIN), -(1 << 32) + 1);
        access::store_u64(at, u64::MAX);
        assert_eq!(atomic::max_u64(at, 1), u64::MAX);
        assert_eq!(atomic::min_u64(at, 1), u64::MAX);
        assert_eq!(atomic::min_i64(at, -1), 1);
        assert_eq!(access::load_u64(at), u64::MAX);
    }
}

#[test]
fn float_additions_flush_only_when_told() {
    let memory = memory();
    let at = memory.alloc(4).unwrap();
    let tiny = 1u32;
    // SAFETY: `at` is an aligned word inside a live allocation.
    unsafe {
        access::store_u32(at, tiny);
        atomic::add_f32(at, tiny);
        assert_eq!(access::load_u32(at), 2);
        atomic::add_f32_ftz(at, 0x8000_0000 | tiny);
        assert_eq!(access::load_u32(at), 0);
        atomic::add_f32(at, f32::NAN.to_bits() | 0x8000_1234);
        assert_eq!(access::load_u32(at), 0x7fff_ffff);
    }
}

#[test]
fn halves_are_added_alone_and_in_pairs() {
    let memory = memory();
    let at = memory.alloc(4).unwrap();
    // SAFETY: `at` is an aligned word inside a live allocation.
    unsafe {
        access::store_u32(at, 0x3c00_4000);
        assert_eq!(atomic::add_f16x2(at, 0x3c00_3c00), 0x3c00_4000);
        assert_eq!(access::load_u32(at), 0x4000_4200);
        assert_eq!(atomic::add_f16(at + 2, 0xc000), 0x4000);
        assert_eq!(access::load_u32(at), 0x0000_4200);
        access::store_u32(at, 0x3f80_4000);
        atomic::add_bf16x2(at, 0x3f80_bf80);
        atomic::add_bf16(at, 0x3f80);
        assert_eq!(access::load_u32(at), 0x4000_4000);
        atomic::add_f16(at, 0x7e01);
        assert_eq!(access::load_u32(at), 0x4000_7fff);
    }
}

#[test]
fn kernels_see_their_own_device_the_host_and_open_peers() {
    let [first, second] = &GlobalMemory::several(1 << 20, 2)[..] else { panic!("two memories") };
    let (own, other) = (first.alloc(256).unwrap(), second.alloc(512).unwrap());
    let (host, shared) = (second.alloc_host(64).unwrap(), second.alloc_shared(256).unwrap());
    let sees = |memory: &GlobalMemory, address| memory.cursor().span(address).is_some();
    assert!(sees(first, own) && sees(first, host) && sees(first, shared));
    assert!(!sees(first, other) && !sees(second, own));
    assert_eq!(first.nearest(other).unwrap().kind, RegionKind::Peer);
    // The host sees everything, and each device pays for its own.
    assert!(first.check(other, 512).is_ok());
    assert_eq!((first.info().0, second.info().0), ((1 << 20) - 256, (1 << 20) - 768));

    let mut cursor = first.cursor();
    first.reach(second, true);
    assert!(cursor.span(other).is_some() && !sees(second, own));
    first.reach(second, false);
    assert!(cursor.span(other).is_none());
    first.give(other, first, true);
    assert!(cursor.span(other).is_some());
    first.free(other).unwrap();
    assert_eq!(second.info().0, (1 << 20) - 256);
}
