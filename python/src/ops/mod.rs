//! The operations, a file for each family as in `ferrowarp::ops`.

mod attention;
mod histogram;
mod matmul;
mod random;
mod reduce;
mod rows;
mod scan;
mod select;
mod sort;
pub mod sparse;
mod stencil;
mod transpose;

use pyo3::prelude::*;

/// Adds the functions to the module.
pub fn add(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(attention::attention, module)?)?;
    module.add_function(wrap_pyfunction!(attention::attention_with_lse, module)?)?;
    module.add_function(wrap_pyfunction!(attention::attention_backward, module)?)?;
    module.add_function(wrap_pyfunction!(histogram::histogram, module)?)?;
    module.add_function(wrap_pyfunction!(matmul::matmul, module)?)?;
    module.add_function(wrap_pyfunction!(random::uniform, module)?)?;
    module.add_function(wrap_pyfunction!(random::normal, module)?)?;
    module.add_function(wrap_pyfunction!(random::integers, module)?)?;
    module.add_function(wrap_pyfunction!(reduce::segmented_reduce, module)?)?;
    module.add_function(wrap_pyfunction!(rows::softmax, module)?)?;
    module.add_function(wrap_pyfunction!(rows::softmax_backward, module)?)?;
    module.add_function(wrap_pyfunction!(rows::layer_norm, module)?)?;
    module.add_function(wrap_pyfunction!(rows::rms_norm, module)?)?;
    module.add_function(wrap_pyfunction!(rows::norm_backward, module)?)?;
    module.add_function(wrap_pyfunction!(scan::scan, module)?)?;
    module.add_function(wrap_pyfunction!(select::select, module)?)?;
    module.add_function(wrap_pyfunction!(select::partition, module)?)?;
    module.add_function(wrap_pyfunction!(select::unique, module)?)?;
    module.add_function(wrap_pyfunction!(select::run_lengths, module)?)?;
    module.add_function(wrap_pyfunction!(sort::sort, module)?)?;
    module.add_function(wrap_pyfunction!(sort::argsort, module)?)?;
    module.add_function(wrap_pyfunction!(sort::segmented_sort, module)?)?;
    module.add_function(wrap_pyfunction!(sort::segmented_argsort, module)?)?;
    module.add_function(wrap_pyfunction!(sort::top_k, module)?)?;
    module.add_function(wrap_pyfunction!(sparse::spmv, module)?)?;
    module.add_function(wrap_pyfunction!(stencil::stencil, module)?)?;
    module.add_function(wrap_pyfunction!(transpose::transpose, module)?)?;
    module.add_function(wrap_pyfunction!(transpose::permute, module)?)?;
    Ok(())
}
