//! What it costs that a kernel can panic.

use cuda_std_tests::{device, done, download, upload};
use ferrowarp::LaunchConfig;
use panics_light_kernels::{gather, gather_or_zero};

device!("panics_light");

static IMAGES: &[ferrowarp::module::Image] = include!(concat!(env!("OUT_DIR"), "/panics_light.rs"));

#[test]
fn no_formatting_code_is_left_where_the_host_can_format() {
    let ptx = IMAGES[0].ptx;
    assert!(!ptx.contains(".callprototype"), "a call through an address is left");
    let table = ptx.lines().find(|line| line.contains(" ferrowarp_known["));
    assert!(table.expect("the table").contains("imp"), "`usize` is formatted by the host");
}

#[test]
fn both_forms_copy_and_only_one_panics() {
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
