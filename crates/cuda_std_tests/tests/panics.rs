//! A panic in a kernel is an error with kernel, message, place, block and thread, and the device
//! works on.

use cuda_std_tests::{alone, device, done, download, poisoned, upload};
use ferrowarp::graph::GraphBuilder;
use ferrowarp::{DeviceBuffer, GpuError, GpuResult, KernelPanic, Linear, Stream};
use panics_kernels as kernels;

device!("panics");

static IMAGES: &[ferrowarp::module::Image] = ferrowarp::include_kernels!("panics.rs");

/// The panic that a wait reported.
#[track_caller]
fn panic_of(result: GpuResult<()>) -> KernelPanic {
    let error = result.expect_err("nothing panicked");
    error.panic().unwrap_or_else(|| panic!("not a panic: {error}")).clone()
}

/// A copy of `values` whose home is that stream.
fn upload_on(stream: &Stream, values: &[u32]) -> DeviceBuffer<u32> {
    DeviceBuffer::from_slice(stream, values).unwrap_or_else(|error| panic!("{error}"))
}

/// What `panics` says with that kind.
fn message(kind: u32) -> KernelPanic {
    let (x, y) = (upload(gpu(), &[7u32, 255, 2]), upload(gpu(), &[-1.25f32]));
    let config = Linear::new(1, 1);
    panic_of(
        kernels::panics::launch(gpu(), config, kind, &x, &y).and_then(|()| gpu().synchronize()),
    )
}

const KINDS: &str = "crates/cuda_std_tests/kernels/panics/src/kinds.rs";

#[test]
fn an_index_past_the_end_names_everything() {
    let _alone = alone(gpu());
    let (x, mut out) = (upload(gpu(), &[1u32; 5]), upload(gpu(), &[0u32; 8]));
    done(kernels::index_past_the_end::launch(gpu(), Linear::new(2, 4), &x, 7, &mut out));
    let error = gpu().synchronize().expect_err("index 7 of 5");
    let text = error.to_string();
    let GpuError::KernelPanic(panic) = error else { panic!("{text}") };
    assert_eq!(panic.kernel, "index_past_the_end");
    assert_eq!(panic.message, "index out of bounds: the len is 5 but the index is 7");
    assert_eq!(panic.file, KINDS);
    assert_eq!((panic.block, panic.thread), ([1, 0, 0], [1, 0, 0]));
    let line = include_str!("../kernels/panics/src/kinds.rs")
        .lines()
        .position(|line| line.contains("x[at as usize]"))
        .expect("the line is there");
    assert_eq!(panic.line, line as u32 + 1);
    assert!(panic.column > 1, "{panic}");
    for words in
        ["kernel `index_past_the_end` panicked at", KINDS, "block (1,0,0)", "thread (1,0,0)"]
    {
        assert!(text.contains(words), "{words} is not in: {text}");
    }
}

#[test]
fn the_device_works_on_after_a_panic() {
    let _alone = alone(gpu());
    let (x, mut out) = (upload(gpu(), &[3u32; 5]), upload(gpu(), &[0u32; 8]));
    for round in 0..20 {
        done(kernels::index_past_the_end::launch(
            gpu(),
            Linear::new(1, 8),
            &x,
            5 + round,
            &mut out,
        ));
        let error = out.to_vec().expect_err("a copy waits for the kernel");
        assert!(error.to_string().contains(&format!("the index is {}", 5 + round)), "{error}");
        done(kernels::index_past_the_end::launch(gpu(), Linear::new(1, 8), &x, 4, &mut out));
        assert_eq!(download(&out), [0, 0, 0, 0, 0, 3, 0, 0]);
    }
}

#[test]
fn a_range_past_the_end_names_its_bounds() {
    let _alone = alone(gpu());
    let (x, mut out) = (upload(gpu(), &[1u32; 5]), upload(gpu(), &[0u32; 8]));
    let launch = kernels::range_past_the_end::launch(gpu(), Linear::new(1, 8), &x, 2, 9, &mut out);
    let panic = panic_of(launch.and_then(|()| gpu().synchronize()));
    assert!(panic.message.starts_with("range end index 9 out of range"), "{panic}");
}

#[test]
fn each_kind_of_panic_has_its_message() {
    let _alone = alone(gpu());
    let expected = [
        (0, "an explicit one"),
        (1, "7 and  -1.25 and 0x00ff"),
        (2, "assertion failed: x[0] == x[1]"),
        (3, "of the 2th kind"),
        (4, "assertion `left == right` failed\n  left: 7\n right: 255"),
        (5, "assertion `left != right` failed: with 'ß'\n  left: 7\n right: 7"),
        (6, "assertion `left == right` failed\n  left: 7\n right: 255"),
        (7, "assertion `left != right` failed: ours, with -1.25\n  left: 7\n right: 7"),
        (8, "called `Option::unwrap()` on a `None` value"),
        (9, "there is so much"),
        (10, "internal error: entered unreachable code: in 2 words"),
        (11, "Größe: \"naïve\" 字 true"),
        (13, "attempt to divide by zero"),
    ];
    for (kind, words) in expected {
        let panic = message(kind);
        assert_eq!(panic.message, words, "kind {kind}: {panic}");
        assert_eq!((panic.kernel.as_str(), panic.file.as_str()), ("panics", KINDS), "kind {kind}");
        assert_eq!((panic.block, panic.thread, panic.others), ([0; 3], [0; 3], 0), "kind {kind}");
    }
    let (x, y) = (upload(gpu(), &[1u32, 2, 3]), upload(gpu(), &[1.0f32]));
    done(kernels::panics::launch(gpu(), Linear::new(1, 1), 99, &x, &y));
    done(gpu().synchronize());
}

#[test]
fn a_panic_in_another_crate_names_its_file() {
    let _alone = alone(gpu());
    let panic = message(14);
    assert_eq!(panic.message, "index out of bounds: the len is 2 but the index is 2");
    assert_eq!(panic.file, "crates/cuda_std_tests/kernels/panics/helper/src/lib.rs");
    assert_eq!(panic.kernel, "panics");
}

#[test]
fn threads_that_are_left_pass_barriers() {
    let _alone = alone(gpu());
    for (who, whole_warp, left) in [(0, 0, 95), (40, 0, 95), (95, 0, 95), (0, 1, 64), (64, 1, 64)] {
        let mut out = poisoned::<u32>(gpu(), 192);
        let config = Linear::new(2, 96);
        done(kernels::before_a_barrier::launch(gpu(), config, who, whole_warp, &mut out));
        let panic = panic_of(gpu().synchronize());
        assert_eq!(panic.kernel, "before_a_barrier");
        assert!(panic.message.ends_with(" is out"), "{panic}");
        assert_eq!(panic.others, 2 * (96 - left) - 1, "{panic}");
        let out = download(&out);
        for (own, value) in out.iter().enumerate() {
            let own = own as u32 % 96;
            let is_out = if whole_warp != 0 { own / 32 == who / 32 } else { own == who };
            let expected = if is_out { 0xA5A5_A5A5 } else { left };
            assert_eq!(*value, expected, "thread {own}, {who} of {whole_warp}");
        }
    }
}

#[test]
fn lanes_that_are_left_pass_shuffles() {
    let _alone = alone(gpu());
    for who in [0, 13, 31] {
        let mut out = poisoned::<u32>(gpu(), 64);
        done(kernels::before_a_shuffle::launch(gpu(), Linear::new(1, 64), who, &mut out));
        let panic = panic_of(gpu().synchronize());
        assert_eq!(panic.message, format!("lane {who} is out"));
        assert_eq!(panic.others, 1);
        for (own, value) in download(&out).into_iter().enumerate() {
            let expected = if own as u32 % 32 == who { 0xA5A5_A5A5 } else { !(1 << who) };
            assert_eq!(value, expected, "lane {own}");
        }
    }
}

#[test]
fn who_waits_for_a_panicked_thread_leaves() {
    let _alone = alone(gpu());
    let (flag, x) = (upload(gpu(), &[0u32]), upload(gpu(), &[1u32; 3]));
    // SAFETY: the flag is valid.
    done(unsafe {
        kernels::waits_for_ever::launch(gpu(), Linear::new(2, 64), flag.as_device_ptr(), 3, &x)
    });
    let panic = panic_of(gpu().synchronize());
    assert_eq!(panic.message, "index out of bounds: the len is 3 but the index is 3");
}

/// On a GPU a wait that does not ask whether its producer has panicked never ends. The emulator ends it by
/// itself, so there the PTX is asked.
#[test]
fn who_waits_at_an_mbarrier_for_a_panicked_thread_leaves() {
    let _alone = alone(gpu());
    let x = upload(gpu(), &[1u32; 3]);
    for (how, blocks) in [(0, 1), (1, 3), (2, 2)] {
        let config = Linear::new(blocks, 96);
        done(kernels::waits_at_an_mbarrier::launch(gpu(), config, how, 3, &x));
        let panic = panic_of(gpu().synchronize());
        assert_eq!(panic.message, "index out of bounds: the len is 3 but the index is 3");
        assert_eq!((panic.thread, panic.others), ([0; 3], blocks - 1), "{how}: {panic}");
        done(kernels::waits_at_an_mbarrier::launch(gpu(), config, how, 0, &x));
        done(gpu().synchronize());
    }
    let ptx = IMAGES[0].ptx();
    let kernel = ptx.split(".entry waits_at_an_mbarrier(").nth(1).expect("the kernel");
    let kernel = kernel.split("\n}\n").next().expect("its body");
    let count = |words: &str| kernel.matches(words).count();
    // The first look of each wait is before its loop.
    assert_eq!((count("mbarrier.try_wait"), count("// ferrowarp.leave end")), (6, 3));
}

#[test]
fn memory_that_is_not_there_is_told() {
    let _alone = alone(gpu());
    let mut out = poisoned::<u32>(gpu(), 32);
    // More than the heap, and more than a layout can say.
    for (n, words) in [
        (1u64 << 40, "memory allocation of 8796093022208 bytes failed"),
        (1 << 62, "capacity overflow"),
    ] {
        done(kernels::allocates::launch(gpu(), Linear::new(1, 32), n, 0, &mut out));
        let panic = panic_of(gpu().synchronize());
        assert_eq!((panic.message.as_str(), panic.others), (words, 31), "{panic}");
        done(kernels::allocates::launch(gpu(), Linear::new(1, 32), n, 1, &mut out));
        assert_eq!(download(&out), [1; 32]);
    }
    done(kernels::allocates::launch(gpu(), Linear::new(1, 32), 2, 0, &mut out));
    assert_eq!(download(&out), (0..32).collect::<Vec<_>>());
}

#[test]
fn a_panic_in_one_block_leaves_the_others_alone() {
    let _alone = alone(gpu());
    let threads = 64 * 50;
    let mut out = poisoned::<u32>(gpu(), threads);
    done(kernels::one_block_of_many::launch(gpu(), Linear::new(50, 64), 31, 0, &mut out));
    let panic = panic_of(gpu().synchronize());
    assert_eq!((panic.block, panic.thread, panic.others), ([31, 0, 0], [0; 3], 0));
    let expected = |own: usize| if own == 31 * 64 { 0xA5A5_A5A5 } else { own as u32 };
    assert_eq!(download(&out), (0..threads).map(expected).collect::<Vec<_>>());
}

#[test]
fn each_stream_hears_of_its_own_panics() {
    let _alone = alone(gpu());
    let (a, b) = (gpu().create_stream().unwrap(), gpu().create_stream().unwrap());
    for rounds in [0, 2000] {
        let mut first = upload_on(&a, &[1u32; 256]);
        let mut second = upload_on(&b, &[1u32; 256]);
        let config = Linear::new(4, 64);
        done(kernels::one_block_of_many::launch(&a, config, 2, rounds, &mut first));
        done(kernels::another_block_of_many::launch(&b, config, 99, rounds, &mut second));
        done(b.synchronize());
        assert_eq!(panic_of(a.synchronize()).message, "block 2 is out");
        done(a.synchronize());
        assert_eq!(download(&second).len(), 256);
    }
}

#[test]
fn two_kernels_that_panic_at_once_are_both_heard() {
    let _alone = alone(gpu());
    let (a, b) = (gpu().create_stream().unwrap(), gpu().create_stream().unwrap());
    let (mut first, mut second) = (upload_on(&a, &[1u32; 256]), upload_on(&b, &[1u32; 256]));
    let config = Linear::new(4, 64);
    done(kernels::one_block_of_many::launch(&a, config, 2, 3000, &mut first));
    done(kernels::another_block_of_many::launch(&b, config, 3, 3000, &mut second));
    let panic = panic_of(b.synchronize());
    assert_eq!((panic.kernel.as_str(), panic.block), ("another_block_of_many", [3, 0, 0]));
    let panic = panic_of(a.synchronize());
    assert_eq!((panic.kernel.as_str(), panic.block), ("one_block_of_many", [2, 0, 0]));
    done(gpu().synchronize());
}

#[test]
fn whoever_uses_the_result_hears_of_the_panic() {
    let _alone = alone(gpu());
    let (a, b) = (gpu().create_stream().unwrap(), gpu().create_stream().unwrap());
    let mut out = upload_on(&a, &[1u32; 256]);
    done(kernels::one_block_of_many::launch(&b, Linear::new(4, 64), 1, 0, &mut out));
    let error = out.to_vec().expect_err("its home waits for the other stream");
    assert!(error.panic().is_some_and(|panic| panic.message == "block 1 is out"), "{error}");
    assert!(b.synchronize().is_err(), "and so does the stream itself");

    done(kernels::one_block_of_many::launch(&a, Linear::new(4, 64), 3, 0, &mut out));
    let mark = a.record_event().unwrap();
    assert_eq!(panic_of(mark.synchronize()).message, "block 3 is out");
}

#[test]
fn a_panic_in_a_replay_is_the_error_of_the_next_wait() {
    let _alone = alone(gpu());
    let (x, mut out) = (upload(gpu(), &[3u32; 5]), upload(gpu(), &[0u32; 8]));
    let builder = GraphBuilder::new(gpu());
    let node = builder.node("gather");
    done(kernels::index_past_the_end::launch(&node, Linear::new(1, 8), &x, 4, &mut out));
    let mut graph = builder.build((x, out)).unwrap_or_else(|error| panic!("{error}"));
    let at = graph.parameter::<u32>(&node, "at").unwrap_or_else(|error| panic!("{error}"));
    let stream = gpu().create_stream().unwrap();
    for round in 0..5 {
        done(graph.set(at, 5 + round));
        done(graph.launch(&stream));
        let panic = panic_of(graph.wait().map(drop));
        assert_eq!(panic.kernel, "index_past_the_end");
        assert!(panic.message.ends_with(&format!("the index is {}", 5 + round)), "{panic}");
        // Whoever uses the result hears of it too.
        done(graph.launch(&stream));
        assert!(graph.buffers().1.to_vec().is_err());
        done(graph.set(at, 4));
        assert!(stream.synchronize().is_err());
        done(graph.launch(gpu()));
        let (_, out) = graph.wait().unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(out.to_vec().expect("nothing panicked")[5], 3);
    }
}

#[test]
fn a_panic_in_a_child_graph_is_the_error_of_its_parents_wait() {
    let _alone = alone(gpu());
    let (x, mut out) = (upload(gpu(), &[3u32; 5]), upload(gpu(), &[0u32; 8]));
    let inner = GraphBuilder::new(gpu());
    let node = inner.node("gather");
    done(kernels::index_past_the_end::launch(&node, Linear::new(1, 8), &x, 6, &mut out));
    let mut child = inner.build((x, out)).unwrap_or_else(|error| panic!("{error}"));
    let outer = GraphBuilder::new(gpu());
    done(outer.node("child").graph(&mut child));
    let at = child.parameter::<u32>(&node, "at").unwrap_or_else(|error| panic!("{error}"));
    done(child.set(at, 4));
    done(outer.node("healthy").graph(&mut child));
    let buffers = child.into_buffers();
    let mut graph = outer.build(buffers).unwrap_or_else(|error| panic!("{error}"));
    let stream = gpu().create_stream().unwrap();
    for _ in 0..3 {
        done(graph.launch(&stream));
        let panic = panic_of(graph.wait().map(drop));
        assert_eq!((panic.kernel.as_str(), panic.thread), ("index_past_the_end", [5, 0, 0]));
        assert_eq!(panic.message, "index out of bounds: the len is 5 but the index is 6");
    }
    let text = format!("{}", panic_of(graph.launch(&stream).and_then(|()| stream.synchronize())));
    assert!(text.contains(KINDS), "{text}");
    // The device's own wait hears of it too.
    assert!(gpu().synchronize().is_err());
}

#[test]
fn more_panics_than_records_are_not_silent() {
    let _alone = alone(gpu());
    let streams: Vec<_> = (0..12).map(|_| gpu().create_stream().unwrap()).collect();
    let mut buffers: Vec<_> = streams.iter().map(|own| upload_on(own, &[0u32; 64])).collect();
    for (stream, out) in streams.iter().zip(&mut buffers) {
        done(kernels::one_block_of_many::launch(stream, Linear::new(1, 64), 0, 0, out));
    }
    for stream in &streams {
        assert_eq!(panic_of(stream.synchronize()).kernel, "one_block_of_many");
    }
    done(gpu().synchronize());
}
