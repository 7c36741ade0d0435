//! The emulator's race check is silent about rings, and loud where one order is missing.

use std::env;
use std::process::Command;

use cuda_std::panic::SYMBOL;
use ferrowarp::module::{Image, best_image};
use ferrowarp::{Bridge, Gpu, GpuResult, Grid1, PersistentKernel, Ring};
use kernels_gpu::persistent::ring_relay;
use ptx_format::index;

use super::support::exchange;

/// What the relay says with one instruction of its PTX replaced by another, on the emulator with the
/// race check.
fn relayed(from: &str, to: &str) -> String {
    let output = Command::new(env::current_exe().unwrap())
        .args(["--ignored", "--exact", "--nocapture", "planted::relay"])
        .envs([("FERROWARP_DEVICE", "emulator"), ("FERROWARP_CHECK", "race")])
        .envs([("RING_FROM", from), ("RING_TO", to)])
        .output()
        .unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn the_orders_of_a_ring_are_all_needed() {
    let right = relayed("st.release.sys.b32", "st.release.sys.b32");
    assert!(right.contains("relayed 300"), "{right}");
    for (from, to) in
        [("st.release.sys.b32", "st.relaxed.sys.b32"), ("ld.acquire.sys.b32", "ld.relaxed.sys.b32")]
    {
        let wrong = relayed(from, to);
        assert!(wrong.contains("error: ") && wrong.contains("data race"), "{from}: {wrong}");
    }
}

#[test]
#[ignore = "run in a process of its own by the test above"]
fn relay() {
    let replace = |name| env::var(name).unwrap();
    let (from, to) = (replace("RING_FROM"), replace("RING_TO"));
    let image = best_image(ferrowarp::shipped::IMAGES, (9, 0)).unwrap();
    let parts = index::parts(image.ptx()).expect("shipped kernels have an index");
    let part = parts.iter().find(|part| part.kernels == ["ring_relay"]);
    let ptx = part.expect("the kernel is a part of its own").text(image.ptx());
    let start = ptx.find(".entry ring_relay").expect("the kernel is there");
    let body = &ptx[start..];
    assert!(body.contains(&from) && ptx.contains(SYMBOL), "no {from} in the kernel");
    let ptx = [&ptx[..start], &body.replace(&from, &to)].concat();
    // SAFETY: the shipped kernel with an order left out, for the emulator, which finds the race.
    let image = unsafe { Image::from_ptx(image.arch(), ptx.leak()) };
    let gpu = Gpu::with_images(&[image]).unwrap();
    match relay_all(&gpu) {
        Ok(count) => println!("relayed {count}"),
        Err(error) => println!("error: {error}"),
    }
}

fn relay_all(gpu: &Gpu) -> GpuResult<usize> {
    let (sender, requests) = Ring::to_device(gpu, 32, Bridge::Mapped)?;
    let between = Ring::on_device(gpu, 4)?;
    let (replies, receiver) = Ring::to_host(gpu, 32)?;
    let kernel = PersistentKernel::start(gpu, |launcher| {
        ring_relay::launch(launcher, Grid1::new(2), &requests, &between, &between, &replies)
    })?;
    let count = exchange(&sender, &receiver, 300, |i| i)?.len();
    kernel.shut_down().map(|()| count)
}
