//! Places in shared, local and parameter memory.

use super::{Base, Emitter};
use crate::fault::LoadError;
use crate::machine::{LocalVariable, MAX_LOCAL_BYTES, SharedVariable, Span};
use crate::program::layout::{self, DYNAMIC_SHARED_BYTES, MAX_PARAM_BYTES};
use crate::program::scope::Symbol;
use crate::ptx::ast;

/// The least distance between variables where there are red zones.
const RED_ZONE: u32 = 32;
/// Red zones move a variable of shared memory by multiples of this.
const SHARED_UNIT: u32 = 128;

impl Emitter<'_> {
    /// Gives a shared variable its place in the kernel's shared memory.
    pub fn place_shared(
        &mut self,
        key: &str,
        variable: &ast::Variable,
    ) -> Result<Symbol, LoadError> {
        let (bytes, align) = layout::size(variable)?;
        if variable.linkage == ast::Linkage::Extern {
            self.dynamic_align = self.dynamic_align.max(align);
            return Ok(Symbol::Place(Base::SharedDynamic, 0));
        }
        if let Some(offset) = self.shared.get(key) {
            return Ok(Symbol::Place(Base::Shared(*offset), bytes));
        }
        let plain = self.shared_plain_end.next_multiple_of(u64::from(align));
        let offset = self.beyond_red_zone(plain, align);
        self.shared_plain_end = plain.saturating_add(bytes);
        self.shared_end = offset.saturating_add(bytes);
        // What does not fit is refused once all of it is counted.
        let offset = offset as u32;
        self.shared.insert(key.to_owned(), offset);
        let name = variable.name.clone();
        self.program.shared_variables.push(SharedVariable {
            name,
            offset,
            bytes: u32::try_from(bytes).unwrap_or(u32::MAX),
        });
        Ok(Symbol::Place(Base::Shared(offset), bytes))
    }

    /// Where what would lie at `plain` comes to lie: the same without red zones, else behind one,
    /// and aligned as luckily.
    pub(super) fn beyond_red_zone(&self, plain: u64, align: u32) -> u64 {
        if !self.linked.red_zones || self.shared_end == 0 {
            return plain;
        }
        let unit = u64::from(align.max(SHARED_UNIT));
        let low = self.shared_end.saturating_add(u64::from(RED_ZONE));
        low + (plain % unit + unit - low % unit) % unit
    }

    /// Fails if the kernel has more static shared memory than a GPU gives it.
    pub(super) fn check_shared(&self) -> Result<(), LoadError> {
        let (bytes, limit) = (self.shared_plain_end, self.linked.limits.shared_bytes);
        if bytes <= limit {
            return Ok(());
        }
        let (name, own) = (&self.program.name, &self.program.shared_variables);
        let line = self.linked.functions.get(name).map_or(1, |own| own.position.line);
        let largest = own.iter().max_by_key(|own| own.bytes);
        let largest = largest.map_or(String::new(), |own| {
            format!(" (the largest is `{}`, of {} bytes)", own.name, own.bytes)
        });
        let what = format!(
            "kernel `{name}` has {bytes} bytes of static shared memory{largest}; {limit} is the limit. \
             More, up to {DYNAMIC_SHARED_BYTES} bytes of a block, has to be dynamic shared memory"
        );
        Err(LoadError::Invalid { what, line })
    }

    /// Gives a local variable its place in the frame.
    pub fn place_local(&mut self, name: &str, bytes: u64, align: u32) -> Result<Base, LoadError> {
        let align = u64::from(align);
        let offset = self.info.local_bytes.next_multiple_of(align);
        let zone = if self.linked.red_zones { u64::from(RED_ZONE) } else { 0 };
        self.info.local_bytes = offset + bytes + zone;
        let declared = self.info.declared_local_bytes.next_multiple_of(align) + bytes;
        self.info.declared_local_bytes = declared;
        let name = name.to_owned();
        self.info.locals.push(LocalVariable { name, offset, bytes });
        if declared <= MAX_LOCAL_BYTES {
            return Ok(Base::Local(offset));
        }
        let function = &self.info.name;
        Err(self.invalid(format!(
            "function `{function}` has {declared} bytes of local memory; a thread may have {MAX_LOCAL_BYTES}"
        )))
    }

    /// Rows of parameter memory, until the scope ends.
    pub fn place_param(&mut self, bytes: u64, align: u32) -> Result<Span, LoadError> {
        if bytes > MAX_PARAM_BYTES {
            return Err(self.invalid(format!(
                "a parameter of {bytes} bytes; a function may have {MAX_PARAM_BYTES}"
            )));
        }
        let row = self.param_row.next_multiple_of(align.div_ceil(4).max(1));
        let rows = bytes.div_ceil(4) as u32;
        self.param_row = row + rows;
        self.info.param_rows = self.info.param_rows.max(self.param_row);
        Ok(Span { row, rows })
    }

    /// The first free row of parameter memory, for [`Emitter::reset_params`].
    pub fn param_mark(&self) -> u32 {
        self.param_row
    }

    /// Frees the rows of parameter memory from `mark` on.
    pub fn reset_params(&mut self, mark: u32) {
        self.param_row = mark;
    }
}
