//! What a soak does: each work takes some milliseconds, checks all that it computes, and leaves nothing behind.

mod arrays;
mod faults;
mod graphs;
mod memories;
mod reload;
mod rings;
mod streams;

use super::error::SoakError;
use super::poison;
use super::random::Random;
use super::site::Site;

/// A kind of work.
pub(super) struct Work {
    pub(super) name: &'static str,
    /// Whether nothing else may run on the device: persistent kernels let no other kernel be loaded, and a sample of the
    /// memory is to be one of an idle device.
    pub(super) is_alone: bool,
    /// How often it is picked, in comparison with the others.
    weight: usize,
    pub(super) run: fn(&Site, &mut Random) -> Result<(), SoakError>,
}

/// A sample of the memory.
pub(super) const SAMPLE: Work =
    Work { name: "samples", is_alone: true, weight: 0, run: |site, _| site.take_sample() };

const WORKS: [Work; 9] = [
    beside(40, "arrays", arrays::run),
    beside(20, "streams", streams::run),
    beside(10, "pipelines", streams::frames),
    beside(20, "memories", memories::run),
    beside(15, "graphs", graphs::run),
    beside(30, "faults", faults::run),
    alone(8, "rings", rings::run),
    alone(3, "reloads", reload::run),
    beside(1, "poison", poison::run),
];

const fn beside(
    weight: usize,
    name: &'static str,
    run: fn(&Site, &mut Random) -> Result<(), SoakError>,
) -> Work {
    Work { name, is_alone: false, weight, run }
}

const fn alone(
    weight: usize,
    name: &'static str,
    run: fn(&Site, &mut Random) -> Result<(), SoakError>,
) -> Work {
    Work { name, is_alone: true, weight, run }
}

/// The names of all works that can be picked.
pub fn names() -> impl Iterator<Item = &'static str> {
    WORKS.iter().map(|work| work.name)
}

/// A work, by weight; of these names alone, if there are any.
pub(super) fn pick(random: &mut Random, names: &[String]) -> &'static Work {
    let is_wanted = |work: &&Work| names.is_empty() || names.iter().any(|name| name == work.name);
    let wanted = || WORKS.iter().filter(is_wanted);
    let mut at = random.below(wanted().map(|work| work.weight).sum::<usize>().max(1));
    let is_it = |work: &&Work| match at.checked_sub(work.weight) {
        Some(rest) => {
            at = rest;
            false
        }
        None => true,
    };
    wanted().find(is_it).unwrap_or(&WORKS[0])
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn all_works_are_picked_by_weight() {
        let mut random = Random::of(1, 0);
        let mut picked = BTreeMap::new();
        (0..14_700).for_each(|_| *picked.entry(pick(&mut random, &[]).name).or_insert(0) += 1);
        assert_eq!(picked.len(), WORKS.len());
        for work in &WORKS {
            let share = picked[work.name] as f64 / work.weight as f64;
            assert!((50.0..200.0).contains(&share), "{}: {share}", work.name);
        }
        let names = ["rings".to_owned(), "poison".to_owned()];
        let picked = |_| pick(&mut random, &names).name;
        let picked: Vec<&str> = (0..200).map(picked).collect();
        assert!(picked.contains(&"rings") && picked.contains(&"poison"));
        assert!(picked.iter().all(|name| ["rings", "poison"].contains(name)));
    }
}
