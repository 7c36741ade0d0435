//! What it costs that a kernel can panic, and the messages of kernels that have not all of the handler.

use cuda_std::panic::PIECES_BYTES;
use cuda_std_tests::{alone, device, done, download, upload};
use ferrowarp::{DeviceBuffer, GpuResult, LaunchConfig, Linear};
use panics_light_kernels::{LONG, gather, gather_or_zero, mixed, single, texts};

device!("panics_light");

static IMAGES: &[ferrowarp::module::Image] = ferrowarp::include_kernels!("panics_light.rs");

#[test]
fn no_formatting_code_is_left_where_the_host_can_format() {
    let ptx = IMAGES[0].ptx();
    assert!(!ptx.contains(".callprototype"), "a call through an address is left");
    let table = ptx.lines().find(|line| line.contains(" ferrowarp_known["));
    assert!(table.expect("the table").contains("imp"), "`usize` is formatted by the host");
}

#[test]
fn both_forms_copy_and_only_one_panics() {
    let _alone = alone(gpu());
    let x: Vec<f32> = (0..1000).map(|i| i as f32).collect();
    let (x, mut out) = (upload(gpu(), &x), upload(gpu(), &[0f32; 500]));
    let config = LaunchConfig::for_num_elems(500);
    done(gather::launch(gpu(), config, 500, &x, &mut out));
    assert_eq!(download(&out)[499], 999.0);
    done(gather_or_zero::launch(gpu(), config, 501, &x, &mut out));
    assert_eq!(download(&out)[498..], [999.0, 0.0]);
    done(gather::launch(gpu(), config, 501, &x, &mut out));
    let error = gpu().synchronize().expect_err("one past the end");
    let panic = error.panic().unwrap_or_else(|| panic!("not a panic: {error}"));
    assert_eq!(panic.message, "index out of bounds: the len is 1000 but the index is 1000");
    assert_eq!(
        (panic.kernel.as_str(), panic.block, panic.thread),
        ("gather", [1, 0, 0], [243, 0, 0])
    );
}

/// The message of a launch.
#[track_caller]
fn message(launched: GpuResult<()>) -> String {
    let error = launched.and_then(|()| gpu().synchronize()).expect_err("nothing panicked");
    error.panic().unwrap_or_else(|| panic!("not a panic: {error}")).message.clone()
}

#[test]
fn parts_have_no_more_of_the_handler_than_their_messages_need() {
    let ptx = IMAGES[0].ptx();
    let parts = cuda_builder::parts(ptx).expect("the text has parts");
    let needs = |kernel: &str, what: &str| {
        let has = |part: &&cuda_builder::Part| part.kernels.iter().any(|own| own == kernel);
        let text = parts.iter().find(has).expect("the kernel is there").text(ptx);
        text.contains(&format!(", 1; // ferrowarp.needs {what}\n"))
    };
    for (kernel, values, templates) in [
        ("texts", false, false),
        ("single", false, true),
        ("gather", false, true),
        ("mixed", true, true),
    ] {
        assert_eq!(needs(kernel, "values"), values, "{kernel}");
        assert_eq!(needs(kernel, "templates"), templates, "{kernel}");
    }
}

#[test]
fn texts_are_told() {
    let _alone = alone(gpu());
    let mut out = DeviceBuffer::<u32>::zeroed(gpu(), 1).unwrap();
    let mut of =
        |kind, divisor| message(texts::launch(gpu(), Linear::new(1, 1), kind, divisor, &mut out));
    for (kind, text) in ["", "seven b", "eight by", "Größe: naïve 字"].into_iter().enumerate() {
        assert_eq!(of(kind as u32, 2), text);
    }
    assert_eq!(of(9, 0), "attempt to divide by zero");
    // As much as a record has room for.
    let long: String = LONG.chars().take(PIECES_BYTES - 8).chain(['…']).collect();
    assert!(LONG.len() > PIECES_BYTES);
    assert_eq!(of(4, 2), long);
    done(texts::launch(gpu(), Linear::new(1, 1), 9, 2, &mut out));
    assert_eq!(download(&out), [42]);
}

#[test]
fn values_of_one_type_are_told() {
    let _alone = alone(gpu());
    let of = |kind, x: &[i64]| {
        message(single::launch(gpu(), Linear::new(1, 1), kind, &upload(gpu(), x)))
    };
    assert_eq!(of(0, &[-7]), "only -7");
    assert_eq!(of(0, &[i64::MIN]), format!("only {}", i64::MIN));
    assert_eq!(of(1, &[12345]), "  +12345|12345|");
    assert_eq!(of(0, &[]), "there is no value");
}

#[test]
fn values_of_several_types_are_told() {
    let _alone = alone(gpu());
    let of =
        |kind, x: &[f32]| message(mixed::launch(gpu(), Linear::new(1, 1), kind, &upload(gpu(), x)));
    assert_eq!(of(0, &[0.0; 3]), "index out of bounds: the len is 3 but the index is 3");
    assert_eq!(of(0, &[0.0, 0.0, 0.0, 1.5]), "1.5 of 0");
    assert_eq!(of(1, &[]), "nothing else");
    assert_eq!(of(2, &[0.125]), "0.12 and a text");
}

#[test]
#[ignore = "a measurement: prints how fast both forms copy"]
fn cost() {
    let n = 1 << 27;
    let (x, mut out) = (upload(gpu(), &vec![1f32; n]), upload(gpu(), &vec![0f32; n]));
    let config = LaunchConfig::for_num_elems(n);
    for round in 0..4 {
        let mut times = [f64::MAX; 2];
        for _ in 0..20 {
            let (_, with) = gpu().time(|| gather::launch(gpu(), config, 0, &x, &mut out)).unwrap();
            let (_, without) =
                gpu().time(|| gather_or_zero::launch(gpu(), config, 0, &x, &mut out)).unwrap();
            times = [times[0].min(with), times[1].min(without)];
        }
        let [with, without] = times.map(|ms| 8.0 * n as f64 / ms / 1e6);
        println!("round {round}: can panic {with:.0} GB/s, cannot {without:.0} GB/s");
    }
}
