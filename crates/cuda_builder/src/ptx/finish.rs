//! The passes in their order.

use std::path::Path;

use ptx_format::{functions, panic};

use super::error::PtxError;
use super::panic::{handler_traps, polls, table};
use super::parts::with_parts;
use super::{
    address_spaces, atomics, collectives, dynamic_alignment, ftz, inlined_at, isa_version,
    launch_bounds, param_alignment, source_files, weak_functions,
};

/// A finished PTX module.
#[derive(Debug)]
pub(crate) struct Finished {
    pub text: String,
    pub entries: Vec<String>,
    /// Functions with atomic operations of an unknown order.
    pub unknown_orders: Vec<String>,
}

/// What the text is to be.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Options<'a> {
    /// Whether f32 denormals become zero.
    pub flush_denormals: bool,
    /// Whether the text names source lines.
    pub lines: bool,
    /// The folder from which on source files are named.
    pub base: Option<&'a Path>,
    /// Whether kernels that stand in another text can panic.
    pub can_panic: bool,
}

/// Checks the compiler's PTX and adds what rustc cannot say.
pub(crate) fn finish(raw: &str, options: Options<'_>) -> Result<Finished, PtxError> {
    let atomics::Mended { text, unknown: unknown_orders } =
        atomics::apply(&inlined_at::drop(raw), options.base)?;
    let text = address_spaces::apply(&text, &functions::scan(&text))?;
    let text = weak_functions::drop_unused(&param_alignment::raise(dynamic_alignment::raise(text)));
    let functions = functions::scan(&text);
    collectives::check(&text, &functions)?;
    let entries = functions.iter().filter(|f| f.is_entry).map(|f| f.name.to_owned()).collect();
    let text = handler_traps::apply(&launch_bounds::apply(&text, &functions)?);
    let mut text = panic::drop_unneeded(table::apply(&text), false);
    if !options.can_panic {
        text = polls::drop_unneeded(text);
    }
    text = isa_version::raise(text);
    if options.flush_denormals {
        text = ftz::apply(&text);
    }
    text = match options.base {
        _ if !options.lines => source_files::without_lines(&text),
        Some(base) => source_files::relative(&text, base),
        None => text,
    };
    Ok(Finished { text: with_parts(&text), entries, unknown_orders })
}
