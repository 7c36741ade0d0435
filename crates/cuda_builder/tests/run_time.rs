//! Builds by a program while it runs: messages that are kept, builds that are cancelled.

mod common;

use std::fs;
use std::thread;
use std::time::Duration;

use common::Fixture;
use cuda_builder::{Cancel, CudaBuilderError};

#[test]
fn a_failed_build_returns_rustcs_own_text() {
    let fixture = Fixture::copy("plain", "kept_error");
    fixture.edit("src/lib.rs", "9090", "\"9090\"");
    let error = fixture.compile(|b| b.keep_messages(true)).unwrap_err();
    let CudaBuilderError::Rejected { messages } = &error else { panic!("{error}") };
    let says = |part: &str| assert!(messages.contains(part), "no `{part}` in\n{messages}");
    says("error[E0308]: `if` and `else` have incompatible types");
    says("--> src/lib.rs:45:");
    assert!(error.to_string().contains("E0308"));
}

#[test]
fn warnings_of_a_build_that_succeeds_are_kept() {
    let fixture = Fixture::copy("plain", "kept_warning");
    let lib = fixture.dir.join("src/lib.rs");
    let text = fs::read_to_string(&lib).unwrap();
    fs::write(&lib, format!("{text}\nfn nobody_calls_this() {{}}\n")).unwrap();
    let compiled = fixture.compile(|b| b.keep_messages(true)).unwrap();
    assert!(compiled.messages.contains("nobody_calls_this"), "{}", compiled.messages);
    assert!(compiled.modules[0].path.is_file());
}

#[test]
fn a_build_can_be_cancelled_while_it_runs() {
    let fixture = Fixture::copy("plain", "cancelled");
    let cancel = Cancel::default();
    let builder = fixture.builder().keep_messages(true).cancel(&cancel);
    let build = thread::spawn(move || builder.compile());
    // Whether cargo has begun or not, the build ends with the same error.
    thread::sleep(Duration::from_millis(30));
    cancel.cancel();
    let result = build.join().unwrap();
    assert!(matches!(result, Err(CudaBuilderError::Cancelled)), "{result:?}");
    let again = fixture.compile(|b| b.cancel(&cancel));
    assert!(matches!(again, Err(CudaBuilderError::Cancelled)));
    fixture.compile(|b| b.keep_messages(true)).unwrap();
}
