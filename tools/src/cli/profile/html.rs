//! A profile as one page, with nothing loaded from elsewhere.

use std::collections::BTreeMap;
use std::fmt::Write;

use cuda_driver::counters::{Counters, InstructionCounts, LineCounts};

use super::measure::{Launches, Profile};
use super::picture;
use super::source::Sources;
use super::text::{self, MEMORY_COLUMNS};

const STYLE: &str = include_str!("page.css");
/// Lines around a counted one that are shown.
const AROUND: u32 = 3;
/// More sectors than this, times the ideal, are pointed out.
const WASTE: f64 = 1.5;

/// Stands where the lines of a file cannot be shown.
const NOT_FOUND: &str = "<p class=\"missing\">This file was not found, so its lines are not shown. \
    <code>--source DIR</code> names the folder in which its path starts.</p>\n";

/// The page.
pub(super) fn page(profile: &Profile, sources: &mut Sources) -> String {
    let mut out = String::new();
    let _ = write!(
        out,
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width\"><title>{0}: profile</title>\
         <style>{STYLE}</style></head><body>\n<h1>{0}</h1>\n<p class=\"faint\">Demo {1} on {2}; ferrowarp \
         {3}. Instructions are those of the PTX; sectors and bank conflicts are counted as a GPU counts \
         them. Point at a number for what it means.</p>\n",
        escaped(&profile.name),
        escaped(profile.demo),
        escaped(&profile.device),
        env!("CARGO_PKG_VERSION")
    );
    for launches in &profile.launches {
        launch(&mut out, launches, sources);
    }
    out.push_str("</body></html>\n");
    out
}

fn launch(out: &mut String, launches: &Launches, sources: &mut Sources) {
    let counters = &launches.first.counters;
    let _ = writeln!(
        out,
        "<h2>{}</h2>\n<p>{}</p>",
        escaped(&launches.first.kernel),
        escaped(&text::headline(launches))
    );
    out.push_str("<dl>");
    for (name, value) in text::facts(&launches.first) {
        let _ = write!(out, "<dt>{name}</dt><dd>{}</dd>", escaped(&value));
    }
    out.push_str("</dl>\n");
    memory(out, counters);
    listings(out, counters, sources);
    pictures(out, counters);
}

fn memory(out: &mut String, counters: &Counters) {
    if counters.totals.memory.is_empty() {
        return;
    }
    out.push_str("<h3>Memory</h3>\n<div class=\"wide\"><table class=\"plain\"><tr>");
    MEMORY_COLUMNS.iter().for_each(|name| {
        let _ = write!(out, "<th>{name}</th>");
    });
    for own in &counters.totals.memory {
        out.push_str("</tr>\n<tr>");
        for cell in text::memory_row(own) {
            let _ = write!(out, "<td>{cell}</td>");
        }
    }
    out.push_str("</tr></table></div>\n");
}

// ---- the source

fn listings(out: &mut String, counters: &Counters, sources: &mut Sources) {
    let lines = counters.by_line();
    let most = lines.iter().map(|line| line.counts.instructions).max().unwrap_or(0).max(1);
    let mut files: BTreeMap<&str, BTreeMap<u32, &LineCounts<'_>>> = BTreeMap::new();
    for line in &lines {
        let (file, number) = line.source.map_or(("", 0), |own| (own.file.as_str(), own.line));
        files.entry(file).or_default().insert(number, line);
    }
    for (file, lines) in files {
        let name = if file.is_empty() { "Without a line of the source" } else { file };
        let _ = writeln!(out, "<h3>{}</h3>", escaped(name));
        if !file.is_empty() && sources.file(file).is_none() {
            out.push_str(NOT_FOUND);
        }
        listing(out, file, &lines, most, sources);
    }
}

fn listing(
    out: &mut String,
    file: &str,
    lines: &BTreeMap<u32, &LineCounts<'_>>,
    most: u64,
    sources: &mut Sources,
) {
    out.push_str(
        "<div class=\"wide\"><table class=\"code\"><tr><th>line</th>\
         <th title=\"Executions by a warp\">instr</th>\
         <th title=\"Lanes that were at an instruction, on average; 32 is full\">lanes</th>\
         <th title=\"Sectors of 32 bytes that a request to global memory moved\">sectors</th>\
         <th title=\"Sectors that the bytes of a request need\">ideal</th>\
         <th title=\"Passes that conflicts of banks cost a request to shared memory\">conflicts</th>\
         <th title=\"Branches after which lanes went different ways, of all branches\">diverging</th>\
         <th class=\"text\">source</th></tr>\n",
    );
    let mut last = 0;
    for number in shown(file, lines, sources) {
        if last != 0 && number > last + 1 {
            out.push_str("<tr><td>⋮</td></tr>\n");
        }
        last = number;
        let code = sources.line(file, number).map(escaped).unwrap_or_default();
        match lines.get(&number) {
            Some(line) => counted(out, line, most, number, &code),
            None => {
                let _ = writeln!(
                    out,
                    "<tr><td>{number}</td><td></td><td></td><td></td><td></td><td></td><td></td>\
                     <td class=\"text\">{code}</td></tr>"
                );
            }
        }
    }
    out.push_str("</table></div>\n");
}

/// The lines to show: those that were counted, and the ones around them if the file is there.
fn shown(file: &str, lines: &BTreeMap<u32, &LineCounts<'_>>, sources: &mut Sources) -> Vec<u32> {
    let all = sources.file(file).map_or(0, |text| text.len() as u32);
    let mut out: Vec<u32> = lines
        .keys()
        .flat_map(|own| {
            let around = own.saturating_sub(AROUND).max(1)..=(own + AROUND).min(all);
            around.chain([*own])
        })
        .collect();
    out.sort_unstable();
    out.dedup();
    out
}

fn counted(out: &mut String, line: &LineCounts<'_>, most: u64, number: u32, code: &str) {
    let counts = &line.counts;
    let [sectors, ideal] = text::sectors(counts);
    let bad = |is: bool| if is { " class=\"bad\"" } else { "" };
    let number_of = |text: &str| text.parse::<f64>().unwrap_or(0.0);
    let wasteful = number_of(&sectors) > WASTE * number_of(&ideal);
    let conflicts = text::conflicts(counts);
    let _ = writeln!(
        out,
        "<tr class=\"hot\" style=\"--share:{:.3}\" title=\"{}\"><td>{number}</td><td>{}</td>\
         <td{}>{:.1}</td><td{}>{sectors}</td><td>{ideal}</td><td{}>{conflicts}</td><td>{}</td>\
         <td class=\"text\">{code}</td></tr>",
        counts.instructions as f64 / most as f64,
        escaped(&instructions(&line.instructions)),
        counts.instructions,
        bad(counts.lanes_per_instruction() < 24.0),
        counts.lanes_per_instruction(),
        bad(wasteful),
        bad(number_of(&conflicts) > 0.5),
        text::diverging(counts),
    );
}

/// The instructions of a line, for a tooltip.
fn instructions(own: &[&InstructionCounts]) -> String {
    const SHOWN: usize = 24;
    let line = |own: &&InstructionCounts| {
        format!(
            "{} × {} ({:.1} lanes), PTX line {}",
            own.counts.instructions,
            own.spelling,
            own.counts.lanes_per_instruction(),
            own.ptx_line
        )
    };
    let mut lines: Vec<String> = own.iter().take(SHOWN).map(line).collect();
    if own.len() > SHOWN {
        lines.push(format!("and {} more", own.len() - SHOWN));
    }
    lines.join("\n")
}

// ---- the pictures

fn pictures(out: &mut String, counters: &Counters) {
    let with: Vec<_> = counters.instructions.iter().filter(|own| !own.samples.is_empty()).collect();
    if with.is_empty() {
        return;
    }
    out.push_str(
        "<h3>Accesses</h3>\n<p class=\"faint\">The first request of each instruction, and the one that took \
         most if it took more. A bank with a number below it serves so many words one after the other.</p>\n",
    );
    for own in with {
        let place = match &own.source {
            Some(source) => format!("{}:{}, ", source.file, source.line),
            None => String::new(),
        };
        let _ = write!(
            out,
            "<figure><figcaption><code>{}</code> <span class=\"faint\">{}PTX line {}</span></figcaption>",
            escaped(&own.spelling),
            escaped(&place),
            own.ptx_line
        );
        let first = &own.samples[0];
        let worst = own.samples.iter().max_by_key(|sample| sample.cost);
        let worst = worst.filter(|worst| worst.cost > first.cost);
        for sample in std::iter::once(first).chain(worst) {
            let _ = write!(out, "<p>{}</p>{}", picture::summary(sample), picture::draw(sample));
        }
        out.push_str("</figure>\n");
    }
}

fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            c => out.push(c),
        }
    }
    out
}
