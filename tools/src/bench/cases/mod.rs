//! The cases, a file for each family of operations.

mod attention;
mod attention_variants;
mod copy;
mod histogram;
mod map;
mod matmul;
mod memory;
mod out_of_core;
mod particles;
mod random;
mod reduce;
mod rows;
mod scan;
mod search;
mod select;
mod sort;
mod spmv;
mod startup;
mod stencil;
mod transpose;

pub use matmul::{Elements, Tunable, tunable};

use super::case::{Case, Scale};

/// All cases at a scale, in the order of the table.
#[must_use]
pub fn all(scale: &Scale) -> Vec<Case> {
    [
        attention::cases,
        copy::cases,
        histogram::cases,
        map::cases,
        matmul::cases,
        memory::cases,
        out_of_core::cases,
        particles::cases,
        random::cases,
        reduce::cases,
        rows::cases,
        scan::cases,
        search::cases,
        select::cases,
        sort::cases,
        spmv::cases,
        startup::cases,
        stencil::cases,
        transpose::cases,
    ]
    .into_iter()
    .flat_map(|cases| cases(scale))
    .collect()
}
