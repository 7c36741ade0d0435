//! What kernels print comes out when the host waits, and what `core` formats on the device.

use std::env;
use std::process::Command;

use cuda_std_tests::{device, done, upload};
use ferrowarp::Linear;
use prints_kernels as kernels;

device!("prints");

/// What the ignored test `name` of this executable prints from its kernels.
fn printed_by(name: &str) -> String {
    let output = Command::new(env::current_exe().expect("this executable"))
        .args(["--ignored", "--exact", "--nocapture", "--test-threads=1", name])
        .output()
        .expect("the executable starts again");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    text
}

#[test]
fn text_and_values_are_printed() {
    let text = printed_by("prints");
    let expected = "\nplain\n100% of 7 %d %s\n262 and   -1.250|\"naïve\"|0xff\nan expression\n";
    assert!(text.contains(expected), "{text}");
}

#[test]
#[ignore = "run in a process of its own by the test above"]
fn prints() {
    println!("the beginning");
    let (x, y) = (upload(gpu(), &[7u32, 255]), upload(gpu(), &[-1.25f32]));
    done(kernels::prints::launch(gpu(), Linear::new(1, 1), &x, &y));
    done(gpu().synchronize());
    println!("the end");
}

#[test]
fn lines_are_whole_and_printed_before_a_wait_ends() {
    let text = printed_by("prints_by_thread");
    let (printed, _) = text.split_once("the end").expect("the host's line comes last");
    for own in 0..128 {
        let line = format!("line {own} {own:0>200}");
        assert_eq!(printed.lines().filter(|own| **own == line).count(), 1, "{line} in {text}");
    }
}

#[test]
#[ignore = "run in a process of its own by the test above"]
fn prints_by_thread() {
    println!("the beginning");
    done(kernels::prints_by_thread::launch(gpu(), Linear::new(2, 64), 200));
    done(gpu().synchronize());
    println!("the end");
}

#[test]
fn a_message_with_an_own_type_is_formatted_and_a_long_one_is_cut() {
    for (times, at) in [(0, 0), (3, 1), (99, 5), (160, 7), (1000, 40)] {
        done(kernels::own_type::launch(gpu(), Linear::new(1, 64), times, at));
        let error = gpu().synchronize().expect_err("a panic");
        let panic = error.panic().unwrap_or_else(|| panic!("not a panic: {error}")).clone();
        let whole = format!("{} {at}", "0123456789".repeat(times as usize));
        match panic.message.strip_suffix('…') {
            None => assert_eq!(panic.message, whole),
            // The record holds the names of the kernel and of the file too.
            Some(begin) => assert!(begin.len() >= 1000 && whole.starts_with(begin), "{panic}"),
        }
        assert_eq!(panic.message.ends_with('…'), times == 1000);
        assert_eq!((panic.thread, panic.kernel.as_str()), ([at, 0, 0], "own_type"));
    }
}
