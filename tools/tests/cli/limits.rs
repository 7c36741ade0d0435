//! What the machine has too little of: memory, room on the disk, and the time that a command takes to start.

use std::fs::File;
use std::process::Command as Process;

use assert_cmd::Command;
use predicates::str::contains;

use super::{Place, program, refused};

/// A file of zeros that takes no room on the disk.
fn sparse(place: &Place, name: &str, bytes: u64) {
    File::create(place.path(name)).unwrap().set_len(bytes).unwrap();
}

/// The program with that much address space. glibc's arenas would reserve 64 MiB of it for each thread, which is no memory.
fn with_address_space(place: &Place, kib: u32, args: &[&str]) -> Command {
    let mut command = Process::new("sh");
    command.current_dir(place.0.path()).args([
        "-c",
        &format!("ulimit -v {kib}; exec \"$@\""),
        "sh",
    ]);
    command.arg(program()).args(args).env("FERROWARP_DEVICE", "emulator");
    command.env("MALLOC_ARENA_MAX", "1");
    Command::from_std(command)
}

#[test]
fn a_file_larger_than_the_memory_is_refused() {
    let place = Place::new();
    for name in ["huge.u32", "huge.csv", "huge.png"] {
        sparse(&place, name, 1 << 42);
    }
    let line = |name: &str| format!("too little memory for {name}: 4 TiB are needed");
    place.refuses(&["sort", "huge.u32", "-o", "out"], &line("huge.u32"));
    place.refuses(&["sort", "huge.csv"], &line("huge.csv"));
    place.refuses(&["image", "sobel", "huge.png", "-o", "out.png"], &line("huge.png"));
    assert_eq!(place.files(), ["huge.csv", "huge.png", "huge.u32"]);
}

#[test]
fn memory_that_the_system_does_not_give_is_an_error_and_no_abort() {
    let place = Place::new();
    sparse(&place, "large.u8", 600 << 20);
    sparse(&place, "large.csv", 600 << 20);
    let run = |file| with_address_space(&place, 500_000, &["sort", file, "-o", "out"]).assert();
    refused(run("large.u8"), "too little memory for large.u8: 600 MiB are needed");
    refused(run("large.csv"), "too little memory for large.csv: 600 MiB are needed");
}

/// 64 MiB of floats where 100 MiB are left beside the program and its device.
#[test]
fn a_file_that_does_not_fit_into_memory_is_added() {
    let place = Place::new().with("one.f32", 1f32.to_le_bytes());
    let fits = |kib: &u32| {
        with_address_space(&place, *kib, &["reduce", "one.f32"]).output().unwrap().status.success()
    };
    let least = (1..).map(|step| step * 100_000).find(fits).unwrap();
    // A chunk on the host and one on the device take 32 MiB.
    let room = least + 100_000;
    sparse(&place, "large.f32", 600 << 20);
    let args = ["reduce", "large.f32"];
    let added = with_address_space(&place, room, &args).assert().success();
    added.stdout(contains("count   157286400\nsum     0\n"));
}

/// The most memory that the program had, in KiB.
#[expect(clippy::zombie_processes, reason = "`wait4` waits for the process, and says what it used")]
fn peak_memory_kib(place: &Place, args: &[&str]) -> i64 {
    let mut command = Process::new(program());
    command.current_dir(place.0.path()).args(args).env("FERROWARP_DEVICE", "emulator");
    let child = command.stdout(std::process::Stdio::null()).spawn().unwrap();
    let (mut status, mut usage) = (0, std::mem::MaybeUninit::<libc::rusage>::uninit());
    // SAFETY: the process is a child that nobody has waited for; both are writable.
    let waited = unsafe { libc::wait4(child.id() as i32, &mut status, 0, usage.as_mut_ptr()) };
    assert_eq!((waited, status), (child.id() as i32, 0), "{args:?}");
    // SAFETY: the call has succeeded, so it has written all of it.
    unsafe { usage.assume_init() }.ru_maxrss
}

/// With all shipped kernels the emulator holds 265 MB, and needs seconds to load them; the few of a command take 60.
#[test]
fn a_command_loads_no_more_kernels_than_it_runs() {
    let place = Place::new().with("n.csv", "3\n1\n2\n").with("n.u32", [0; 12]);
    super::step(1, 1).save(place.path("one.png")).unwrap();
    let picture = |filter| ["image", filter, "one.png", "-o", "out.png"];
    let pictures = ["blur", "sobel", "equalize", "grayscale"].map(picture);
    let tables = [&["sort", "n.csv"][..], &["reduce", "n.csv"], &["sort", "n.u32", "-o", "out"]];
    for args in pictures.iter().map(|args| &args[..]).chain(tables) {
        let kib = peak_memory_kib(&place, args);
        assert!(kib < 150_000, "{args:?}: {kib} KiB of memory");
    }
}

/// A file system of a megabyte; nothing where this user may mount none.
fn on_a_small_disk(place: &Place, args: &[&str]) -> Option<Command> {
    let mounts = "mkdir small && mount -t tmpfs -o size=1m tmpfs small";
    let unshare = |script: &str| {
        let mut command = Process::new("unshare");
        command.current_dir(place.0.path()).args([
            "--map-root-user",
            "--mount",
            "sh",
            "-c",
            script,
            "sh",
        ]);
        command
    };
    let _ = std::fs::remove_dir(place.path("small"));
    let can = unshare(mounts).output().is_ok_and(|ran| ran.status.success());
    let _ = std::fs::remove_dir(place.path("small"));
    can.then(|| {
        let mut command =
            unshare(&format!("{mounts} && {{ \"$@\"; code=$?; ls -A small; exit $code; }}"));
        command.arg(program()).args(args).env("FERROWARP_DEVICE", "emulator");
        Command::from_std(command)
    })
}

#[test]
fn a_full_disk_is_named_and_keeps_nothing() {
    let place = Place::new();
    // Noise, which no encoder makes smaller.
    let noise =
        |x: u32, y: u32| (x.wrapping_mul(2_654_435_761) ^ y.wrapping_mul(2_246_822_519)) >> 13;
    let noise = image::GrayImage::from_fn(1500, 1500, |x, y| image::Luma([noise(x, y) as u8]));
    noise.save(place.path("noise.png")).unwrap();
    std::os::unix::fs::symlink("/dev/full", place.path("full.png")).unwrap();
    let line = "cannot write full.png: the disk is full\n";
    place.refuses(&["image", "grayscale", "noise.png", "-o", "full.png"], line);
    let frames = ["--width", "640", "--height", "640", "--frames", "300", "--steps", "1"];
    let commands = [
        vec!["image", "grayscale", "noise.png", "-o", "small/out.png"],
        [&["heat", "-o", "small/film.gif"][..], &frames].concat(),
        [&["heat", "-o", "small/film.png"][..], &frames].concat(),
        [&["heat", "-o", "small/film"][..], &frames].concat(),
    ];
    for args in commands {
        let Some(mut command) = on_a_small_disk(&place, &args) else {
            eprintln!("not run on a full disk: this user may mount no file system");
            return;
        };
        // Standard output has the names of what is left on the disk.
        refused(command.assert(), ": the disk is full");
    }
}

#[test]
fn a_picture_that_claims_to_be_huge_is_refused_at_once() {
    let place = Place::new();
    let claims = |side: u32| {
        let mut bytes = Vec::new();
        let mut encoder = png::Encoder::new(&mut bytes, side, side);
        encoder.set_color(png::ColorType::Grayscale);
        let mut writer = encoder.write_header().unwrap();
        // A stream of zlib that holds nothing.
        let nothing = [0x78, 0x9c, 0x03, 0, 0, 0, 0, 1];
        writer.write_chunk(png::chunk::IDAT, &nothing).unwrap();
        drop(writer);
        bytes
    };
    let refuses = |side: u32, line: &str| {
        std::fs::write(place.path("bomb.png"), claims(side)).unwrap();
        place.refuses(&["image", "sobel", "bomb.png", "-o", "out.png"], line);
        assert!(!place.path("out.png").exists());
    };
    let line = "bomb.png has 40000 × 40000 pixels, more than 512 MiB when it is decoded, which is the limit";
    refuses(40_000, line);
    refuses(1 << 30, "more than 512 MiB when it is decoded, which is the limit");
}
