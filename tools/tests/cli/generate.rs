//! `ferrowarp generate`: what it learns, and what it refuses.

use std::fs;

use predicates::prelude::*;
use predicates::str::contains;

use super::Place;

/// The losses of the table.
fn losses(text: &str) -> Vec<f32> {
    let rows = text.lines().skip_while(|line| !line.contains("loss")).skip(1);
    let rows = rows.take_while(|line| !line.is_empty());
    rows.map(|line| line.split_whitespace().nth(1).unwrap().parse().unwrap()).collect()
}

/// Twenty characters in a fixed order: a text that is easy to learn.
#[test]
fn a_model_learns_a_text_and_continues_it() {
    let place = Place::new();
    fs::write(place.path("text.txt"), "abcdefghij klmnopqr\n".repeat(40)).unwrap();
    let args = ["generate", "--text", "text.txt", "--steps", "30", "--length", "20", "--seed", "3"];
    let more = ["--temperature", "0", "--prompt", "abcdefghij klmnopqr\nabc"];
    let run = place.run(&[&args[..], &more].concat()).success();
    let text = String::from_utf8_lossy(&run.get_output().stdout).into_owned();
    let losses = losses(&text);
    assert!(losses[0] > 2.5 && losses[losses.len() - 1] < 0.5, "{text}");
    assert!(text.contains("abcdefghij klmnopqr\nabcdefghij klmnopqr\nabc"), "{text}");
}

#[test]
fn a_seed_gives_the_same_losses_again() {
    let place = Place::new();
    fs::write(place.path("text.txt"), "Neither twice nor thrice. ".repeat(40)).unwrap();
    let args = ["generate", "--text", "text.txt", "--steps", "4", "--length", "0", "--seed", "3"];
    let [first, again] = [0; 2].map(|_| {
        let run = place.run(&args).success();
        losses(&String::from_utf8_lossy(&run.get_output().stdout))
    });
    assert!(first.len() == 4 && first == again, "{first:?} {again:?}");
}

#[test]
fn what_cannot_be_learnt_is_refused() {
    let place = Place::new();
    fs::write(place.path("short.txt"), "too short").unwrap();
    let short = ["generate", "--text", "short.txt"];
    place.run(&short).failure().code(1).stderr(contains("characters of ASCII at least"));
    place.run(&["generate", "--text", "none.txt"]).failure().code(1).stderr(contains("none.txt"));
    for wrong in [["--temperature", "-1"], ["--steps", "0"], ["--temperature", "NaN"]] {
        place.run(&[&["generate"][..], &wrong].concat()).failure().code(2);
    }
    let help = place.run(&["generate", "--help"]).success();
    help.stdout(contains("--temperature").and(contains("nats a character")));
}
