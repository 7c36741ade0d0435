//! `core::sync::atomic` and `Arc` in kernels: the order that the source asks for, and a thread's own variables.

use cuda_std::launch::Linear;
use cuda_std_tests::{done, download, poisoned, upload};
use orders_kernels::{ENDED, STEPS, give_back, lend, own_variable};

cuda_std_tests::device!("orders");

static IMAGES: &[ferrowarp::module::Image] = ferrowarp::include_kernels!("orders.rs");

#[test]
fn every_order_is_in_the_instruction() {
    let kernel = IMAGES[0].ptx().split_once(".entry each_order(").unwrap().1;
    let body = kernel.split_once("\n}\n").unwrap().0;
    let of_memory = |line: &&str| line.starts_with("atom.") || line.starts_with("fence.");
    let opcodes = body.lines().map(str::trim).filter(of_memory);
    let opcodes: Vec<_> = opcodes.filter_map(|line| line.split([' ', '\t', ';']).next()).collect();
    // The first form is the builder's, with compilers that drop the order. Rust 1.99 writes the second: the default spelt out, and
    // behind a `fence.sc`, which releases, an acquire alone.
    let expected = [
        ["atom.global.add.u32", "atom.relaxed.sys.global.add.u32"],
        ["atom.acquire.sys.global.or.b32"; 2],
        ["atom.release.sys.global.exch.b32"; 2],
        ["atom.acq_rel.sys.global.max.u32"; 2],
        ["fence.sc.sys"; 2],
        ["atom.acq_rel.sys.global.xor.b32", "atom.acquire.sys.global.xor.b32"],
    ];
    assert_eq!(opcodes.len(), expected.len(), "{opcodes:?}");
    for (opcode, forms) in opcodes.iter().zip(expected) {
        assert!(forms.contains(opcode), "{opcode} is none of {forms:?}");
    }
}

/// The last owner writes what the others have read, so it races with them unless each gives its owner back by a
/// release that the last one acquires.
#[test]
fn an_arc_is_shared_by_threads_of_several_blocks() {
    let (blocks, threads) = (5, 64);
    let count = (blocks * threads) as usize;
    let word = upload(gpu(), &[77u32]);
    let (owners, mut out) = (poisoned::<u64>(gpu(), count), poisoned::<u32>(gpu(), count));
    // SAFETY: one thread; the word outlives the owners.
    done(unsafe {
        lend::launch(gpu(), Linear::new(1, 1), word.as_device_ptr(), owners.as_device_ptr(), count)
    });
    // SAFETY: an owner for each thread, and this is their only use.
    done(unsafe { give_back::launch(gpu(), Linear::new(blocks, threads), &owners, &mut out) });
    assert_eq!(download(&out), vec![77; count]);
    assert_eq!(download(&word), [ENDED]);
}

/// In plain arithmetic.
fn steps(x: u32) -> [u32; STEPS] {
    let added = x.wrapping_add(5);
    let least = added.min(1000);
    let most = least.max(7);
    let even = most & !1;
    let with = even | 64;
    let flipped = with ^ 3;
    let exchanged = if flipped == 71 { 90 } else { flipped };
    [x, added, least, most, even, with, flipped, exchanged, 1]
}

#[test]
fn a_threads_own_variable_needs_no_atomic() {
    let x: Vec<u32> = (0..100).chain([u32::MAX - 4, u32::MAX, 995, 996]).collect();
    let (values, mut out) = (upload(gpu(), &x), poisoned::<[u32; STEPS]>(gpu(), x.len()));
    done(own_variable::launch(gpu(), Linear::new(4, 32), &values, &mut out));
    assert_eq!(download(&out), x.iter().map(|x| steps(*x)).collect::<Vec<_>>());
    assert!(
        IMAGES[0].ptx().contains("ld.local.b32 before, "),
        "the compiler wrote no `atom.local`"
    );
}
