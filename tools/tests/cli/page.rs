//! Pages in a browser: the profiler's fits narrow and wide windows, in light and in dark; the benchmark's sorts.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use super::Place;

/// The browser whose name `FERROWARP_CHROMIUM` says.
fn chromium(profile: &Path) -> Command {
    let name = std::env::var_os("FERROWARP_CHROMIUM").unwrap_or_else(|| "chromium".into());
    let mut command = Command::new(name);
    command.args([
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-quic",
        "--no-first-run",
    ]);
    command.args([
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
    ]);
    command.arg(format!("--user-data-dir={}", profile.display()));
    command
}

/// The page in a frame of that width, since no window is narrower than 500 pixels, and behind it what the
/// frame's document measures.
fn framed(page: &str, width: u32) -> String {
    let page = page.replace('&', "&amp;").replace('"', "&quot;");
    format!(
        "<!doctype html><meta charset=\"utf-8\"><style>body{{margin:0;background:#888}}\
         iframe{{border:0;width:{width}px;height:3000px}}</style><iframe srcdoc=\"{page}\"></iframe>{MEASURE}"
    )
}

const MEASURE: &str = r#"<script>
onload = () => {
  const frame = document.querySelector("iframe"), page = frame.contentDocument, view = frame.contentWindow;
  const style = view.getComputedStyle(page.body);
  const width = page.documentElement.clientWidth;
  // What a table's own scroll bar reaches may be wider.
  const wide = [...page.body.querySelectorAll("*")]
    .filter(own => !own.closest(".wide") || own.matches(".wide"))
    .filter(own => own.getBoundingClientRect().right > width + 0.5)
    .map(own => own.outerHTML.slice(0, 80));
  const text = selector => [...page.querySelectorAll(selector)].map(own => own.textContent);
  document.title = JSON.stringify({
    width, scroll: page.documentElement.scrollWidth, wide,
    dark: view.matchMedia("(prefers-color-scheme: dark)").matches,
    paper: style.backgroundColor, ink: style.color,
    faint: view.getComputedStyle(page.querySelector(".faint")).color,
    missing: text(".missing"), code: text(".code td.text").join("\n"),
    pictures: page.querySelectorAll("svg").length,
  });
};
</script>"#;

/// What the page measures in a window of that width, and a picture of it.
fn look(dir: &Path, name: &str, page: &str, width: u32, is_dark: bool) -> Value {
    let scheme = if is_dark { "dark" } else { "light" };
    let file = dir.join(format!("{name}-{width}-{scheme}.html"));
    fs::write(&file, framed(page, width)).unwrap();
    let run = |what: &str| {
        let profile = tempfile::tempdir().unwrap();
        let mut command = chromium(profile.path());
        command.arg(format!("--window-size={},3000", width.max(500)));
        // Blink counts dark as 0 and light as 1.
        command.arg(format!("--blink-settings=preferredColorScheme={}", u8::from(!is_dark)));
        let ran = command.arg(what).arg(format!("file://{}", file.display())).output();
        let ran = ran.expect("Chromium runs; FERROWARP_CHROMIUM names another program");
        assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
        String::from_utf8_lossy(&ran.stdout).into_owned()
    };
    run(&format!("--screenshot={}", file.with_extension("png").display()));
    measured(&run("--dump-dom"))
}

/// The JSON that a script left in a document's title.
fn measured(document: &str) -> Value {
    let title = document.split_once("<title>").and_then(|(_, rest)| rest.split_once("</title>"));
    let title = title.unwrap_or_else(|| panic!("nothing was measured:\n{document}")).0;
    let title = title.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&");
    serde_json::from_str(&title).unwrap()
}

/// Red, green and blue of `rgb(1, 2, 3)`.
fn rgb(colour: &Value) -> [f64; 3] {
    let text = colour.as_str().unwrap().trim_start_matches("rgb(").trim_end_matches(')');
    let parts: Vec<f64> = text.split(", ").map(|part| part.parse().unwrap()).collect();
    parts.try_into().unwrap()
}

/// The contrast of two colours, from 1 to 21 (WCAG 2.1, 2018).
fn contrast(one: &Value, other: &Value) -> f64 {
    let linear = |part: f64| match part / 255.0 {
        part if part <= 0.04045 => part / 12.92,
        part => ((part + 0.055) / 1.055).powf(2.4),
    };
    let light = |colour: &Value| {
        let [r, g, b] = rgb(colour).map(linear);
        0.2126 * r + 0.7152 * g + 0.0722 * b + 0.05
    };
    let (one, other) = (light(one), light(other));
    (one / other).max(other / one)
}

/// The page of a kernel that uses global and shared memory, with the given options.
fn page(options: &[&str]) -> String {
    let place = Place::new();
    let args = ["profile", "transpose_tiled", "--size", "64", "--html", "page.html"];
    let mut command = place.command(&[&args[..], options].concat());
    command.env("FERROWARP_DEVICE", "emulator").assert().success();
    fs::read_to_string(place.path("page.html")).unwrap()
}

#[test]
#[ignore = "needs Chromium: make page-test"]
fn the_page_fits_narrow_and_wide_windows_in_light_and_in_dark() {
    let dir = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("page");
    fs::create_dir_all(&dir).unwrap();
    let pages = [("found", page(&["--source", crate::ROOT])), ("missing", page(&[]))];
    for (name, page) in &pages {
        for width in [400, 1280] {
            let [light, dark] = [false, true].map(|is_dark| look(&dir, name, page, width, is_dark));
            for (seen, is_dark) in [(&light, false), (&dark, true)] {
                let what = format!("{name}, {width} pixels, dark {is_dark}: {seen}");
                assert_eq!(seen["dark"], is_dark, "{what}");
                assert!(seen["width"].as_u64().unwrap() > u64::from(width) - 20, "{what}");
                assert!(seen["scroll"].as_u64() <= seen["width"].as_u64(), "{what}");
                assert_eq!(seen["wide"], Value::Array(Vec::new()), "{what}");
                for ink in ["ink", "faint"] {
                    let contrast = contrast(&seen[ink], &seen["paper"]);
                    assert!(contrast >= 4.5, "{ink} on paper has {contrast}; {what}");
                }
                let missing = seen["missing"].as_array().unwrap();
                let code = seen["code"].as_str().unwrap();
                let told = |line: &Value| line.as_str().unwrap().contains("--source DIR");
                match *name {
                    "missing" => assert!(!missing.is_empty() && missing.iter().all(told), "{what}"),
                    _ => assert!(code.contains("transpose_tiled"), "{what}"),
                }
                assert!(seen["pictures"].as_u64() >= Some(2), "{what}");
            }
            assert_ne!(light["paper"], dark["paper"]);
            assert_ne!(light["ink"], dark["ink"]);
        }
    }
    println!("pictures of the pages are in {}", dir.display());
}

/// Clicks each column of the benchmark's page twice, and leaves the cells of its columns before and after.
const SORT: &str = r#"<script>
onload = () => {
  const column = i => [...document.querySelectorAll("tbody tr")]
    .map(row => row.cells[i].dataset.value ?? row.cells[i].textContent);
  const heads = [...document.querySelectorAll("th")];
  const seen = heads.map((head, i) => {
    head.querySelector("button").click();
    const rising = column(i), up = head.getAttribute("aria-sort");
    head.querySelector("button").click();
    return { name: head.textContent, rising, up, falling: column(i), down: head.getAttribute("aria-sort") };
  });
  const loaded = performance.getEntriesByType("resource").map(own => own.name);
  document.title = JSON.stringify({ seen, loaded, sorted: document.querySelectorAll("th[aria-sort]").length });
};
</script>"#;

#[test]
#[ignore = "needs Chromium: make page-test"]
fn the_benchmark_page_sorts_by_each_column_and_loads_nothing() {
    let place = Place::new();
    let filter = "copy/array/f32,copy/plain/f32,reduce/sum,out_of_core/sum/u32";
    let args = ["bench", "--no-peers", "--filter", filter, "--sizes", "64,4000,500"];
    let mut command = place.command(&[&args[..], &["--html", "bench.html"]].concat());
    command.env("FERROWARP_DEVICE", "emulator").assert().success();
    let dir = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("page");
    fs::create_dir_all(&dir).unwrap();
    let page = fs::read_to_string(place.path("bench.html")).unwrap();
    let file = dir.join("bench.html");
    fs::write(&file, page.clone() + SORT).unwrap();
    let run = |what: &str| {
        let profile = tempfile::tempdir().unwrap();
        let mut command = chromium(profile.path());
        command.args(["--window-size=1500,900", what]);
        let ran = command.arg(format!("file://{}", file.display())).output();
        let ran = ran.expect("Chromium runs; FERROWARP_CHROMIUM names another program");
        assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
        String::from_utf8_lossy(&ran.stdout).into_owned()
    };
    run(&format!("--screenshot={}", file.with_extension("png").display()));
    let found = measured(&run("--dump-dom"));
    assert_eq!((&found["loaded"], &found["sorted"]), (&Value::Array(Vec::new()), &1.into()));
    let columns = found["seen"].as_array().unwrap();
    assert!(columns.len() >= 10, "{found}");
    for column in columns {
        let cells = |key: &str| -> Vec<String> {
            let cells = column[key].as_array().unwrap().iter().map(|cell| cell.as_str().unwrap());
            cells.filter(|cell| !cell.is_empty()).map(str::to_owned).collect()
        };
        let (rising, falling) = (cells("rising"), cells("falling"));
        let number = |cell: &String| cell.parse::<f64>();
        if rising.iter().all(|cell| number(cell).is_ok()) {
            assert!(rising.is_sorted_by_key(|cell| number(cell).unwrap()), "{column}");
            assert!(
                falling.iter().rev().is_sorted_by_key(|cell| number(cell).unwrap()),
                "{column}"
            );
        } else {
            assert!(rising.is_sorted() && falling.iter().rev().is_sorted(), "{column}");
        }
        assert_eq!((&column["up"], &column["down"]), (&"ascending".into(), &"descending".into()));
    }
    // What is sorted differs: 64, 500 and 4000 by value, which would stand in another order as text.
    let sizes = columns.iter().find(|column| column["name"] == "size").unwrap();
    assert_eq!(sizes["rising"][0], "64");
    assert_ne!(sizes["rising"], sizes["falling"]);
}
