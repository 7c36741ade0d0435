//! Module-scope variables: their sizes, addresses and initial bytes.

use crate::fault::LoadError;
use crate::isa::Type;
use crate::machine::Constant;
use crate::memory::GlobalMemory;
use crate::ptx::ast::{Function, Init, Item, Linkage, Module, Number, Statement, Variable};
use std::collections::{HashMap, HashSet};

/// The largest alignment of a variable.
pub const MAX_ALIGN: u32 = 1024;
/// First address of code; no memory lies there.
const CODE_BASE: u64 = 1 << 51;
/// The most that the parameters of a function may take.
pub const MAX_PARAM_BYTES: u64 = 32764;
/// The most shared memory of a block, static and dynamic.
pub const DYNAMIC_SHARED_BYTES: u64 = 227 << 10;
/// The most constant memory that a module may declare.
const MAX_CONST_BYTES: u64 = 64 << 10;
/// The most that a variable may take.
const MAX_BYTES: u64 = 1 << 40;

/// A module-scope variable in device memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GlobalVariable {
    /// First byte.
    pub address: u64,
    /// Length in bytes.
    pub size_bytes: u64,
}

/// A kernel's parameter in the block of bytes that a launch gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Param {
    /// First byte.
    pub offset: usize,
    /// Length in bytes.
    pub size: usize,
    /// Alignment in bytes.
    pub align: usize,
}

/// How much a kernel may have, by the version of its PTX.
///
/// Assemblers and drivers of CUDA 12 give an entry 48 KiB of static shared memory; those of CUDA
/// 13, the first that read PTX 9.0, give it all that a block may have. PTX 8.1 raised the room for
/// parameters.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Static shared memory.
    pub shared_bytes: u64,
    /// Parameters.
    pub param_bytes: u64,
}

impl Limits {
    fn of(version: (u32, u32)) -> Self {
        Self {
            shared_bytes: if version < (9, 0) { 48 << 10 } else { DYNAMIC_SHARED_BYTES },
            param_bytes: if version < (8, 1) { 4352 } else { MAX_PARAM_BYTES },
        }
    }
}

/// What a function's body can refer to.
pub struct Linked<'a> {
    /// Paths that `.loc` refers to.
    pub files: HashMap<u32, String>,
    /// Global and constant variables.
    pub globals: HashMap<String, GlobalVariable>,
    /// Shared variables of the module.
    pub shared: HashMap<String, &'a Variable>,
    /// Functions with a body.
    pub functions: HashMap<String, &'a Function>,
    /// Their addresses.
    pub code: HashMap<String, u64>,
    /// Module-scope prototypes.
    pub prototypes: HashSet<String>,
    /// Functions whose addresses lie in initialised memory.
    pub stored: Vec<String>,
    /// Variables of constant memory.
    pub constant_variables: Vec<Constant>,
    /// Whether variables of shared and local memory get red zones.
    pub red_zones: bool,
    /// How much a kernel may have.
    pub limits: Limits,
}

impl<'a> Linked<'a> {
    /// Places the variables of a module. What it allocates is added to `allocations`.
    ///
    /// # Errors
    /// A variable has no known size, an initialiser refers to nothing, or memory is spent.
    pub fn new(
        module: &'a Module,
        memory: &GlobalMemory,
        allocations: &mut Vec<u64>,
    ) -> Result<Self, LoadError> {
        let mut linked = Self::names(module)?;
        check_constants(module)?;
        let own = variables(module).map(|variable| (variable.name.clone(), variable));
        let inner = inner_variables(module).map(|variable| (inner_name(variable), variable));
        let stored: Vec<_> = own.chain(inner).filter(|(_, variable)| is_stored(variable)).collect();
        for (key, variable) in &stored {
            let (size_bytes, _) = size(variable)?;
            let address = allocate(memory, size_bytes, variable)?;
            allocations.push(address);
            if variable.space == "const" {
                let (name, bytes) = (variable.name.clone(), size_bytes);
                linked.constant_variables.push(Constant { name, address, bytes });
            }
            linked.globals.insert(key.clone(), GlobalVariable { address, size_bytes });
        }
        for (key, variable) in &stored {
            linked.fill(key, variable, memory)?;
        }
        Ok(linked)
    }

    fn names(module: &'a Module) -> Result<Self, LoadError> {
        let mut linked = Self {
            files: HashMap::new(),
            globals: HashMap::new(),
            shared: HashMap::new(),
            functions: HashMap::new(),
            code: HashMap::new(),
            prototypes: HashSet::new(),
            stored: Vec::new(),
            constant_variables: Vec::new(),
            red_zones: false,
            limits: Limits::of(module.version),
        };
        for item in &module.items {
            linked.name(item)?;
        }
        for item in &module.items {
            linked.alias(item)?;
        }
        Ok(linked)
    }

    fn name(&mut self, item: &'a Item) -> Result<(), LoadError> {
        match item {
            Item::File { index, path } => {
                self.files.insert(*index, path.clone());
            }
            Item::Variable(variable) if variable.space == "shared" => {
                self.shared.insert(variable.name.clone(), variable);
            }
            Item::Function(function) if function.body.is_some() => {
                self.define(&function.name, function)?
            }
            Item::Prototype(prototype) => {
                self.prototypes.insert(prototype.label.to_string());
            }
            _ => {}
        }
        Ok(())
    }

    fn define(&mut self, name: &str, function: &'a Function) -> Result<(), LoadError> {
        let address = CODE_BASE + 16 * self.code.len() as u64;
        self.code.insert(name.to_owned(), address);
        match self.functions.insert(name.to_owned(), function) {
            None => Ok(()),
            Some(_) => {
                Err(invalid(format!("function `{name}` is defined twice"), function.position.line))
            }
        }
    }

    fn alias(&mut self, item: &Item) -> Result<(), LoadError> {
        let Item::Alias(name, target) = item else { return Ok(()) };
        let function = self.functions.get(target).copied();
        let function =
            function.ok_or_else(|| LoadError::Unresolved { symbol: target.clone(), line: 0 })?;
        self.define(name, function)
    }

    /// Writes a variable's initial bytes; without an initialiser they are zero.
    fn fill(
        &mut self,
        key: &str,
        variable: &Variable,
        memory: &GlobalMemory,
    ) -> Result<(), LoadError> {
        let place = self.globals[key];
        let line = variable.position.line;
        let failed = |error: crate::memory::OutOfBounds| invalid(error.to_string(), line);
        memory.fill8(place.address, 0, place.size_bytes).map_err(failed)?;
        let Some(init) = &variable.init else { return Ok(()) };
        let ty = element(variable)?;
        let given = count(init).saturating_mul(u64::from(ty.bytes()));
        let mut bytes = vec![0; given.min(place.size_bytes) as usize];
        self.write_init(init, ty, variable, &mut bytes, &mut 0)?;
        memory.write(place.address, &bytes).map_err(failed)
    }

    fn write_init(
        &mut self,
        init: &Init,
        ty: Type,
        variable: &Variable,
        out: &mut [u8],
        at: &mut usize,
    ) -> Result<(), LoadError> {
        let line = variable.position.line;
        let value = match init {
            Init::List(list) => {
                for init in list {
                    self.write_init(init, ty, variable, out, at)?;
                }
                return Ok(());
            }
            Init::Number(number) => number_bits(*number, ty)
                .ok_or_else(|| invalid("an initialiser of another type", line))?,
            Init::Address { symbol, offset, mask, .. } => {
                let address = self.address(symbol, line)?.wrapping_add_signed(*offset);
                match mask {
                    None => address,
                    Some(0) => return Err(invalid("an empty byte mask", line)),
                    Some(mask) => (address & mask) >> (mask.trailing_zeros() & !7),
                }
            }
        };
        let width = ty.bytes() as usize;
        let too_many = || invalid(format!("too many initial values for `{}`", variable.name), line);
        let target = out.get_mut(*at..*at + width).ok_or_else(too_many)?;
        target.copy_from_slice(&value.to_le_bytes()[..width]);
        *at += width;
        Ok(())
    }

    fn address(&mut self, symbol: &str, line: u32) -> Result<u64, LoadError> {
        if let Some(place) = self.globals.get(symbol) {
            return Ok(place.address);
        }
        let address = self.code.get(symbol).copied();
        if address.is_some() {
            self.stored.push(symbol.to_owned());
        }
        address.ok_or_else(|| LoadError::Unresolved { symbol: symbol.to_owned(), line })
    }
}

fn variables(module: &Module) -> impl Iterator<Item = &Variable> {
    module.items.iter().filter_map(|item| match item {
        Item::Variable(variable) => Some(variable),
        _ => None,
    })
}

/// The variables that functions declare in their bodies.
fn inner_variables(module: &Module) -> impl Iterator<Item = &Variable> {
    let mut blocks: Vec<&[Statement]> = Vec::new();
    for item in &module.items {
        if let Item::Function(Function { body: Some(body), .. }) = item {
            blocks.push(body);
        }
    }
    let mut found = Vec::new();
    while let Some(block) = blocks.pop() {
        for statement in block {
            match statement {
                Statement::Block(inner) => blocks.push(inner),
                Statement::Variable(variable) => found.push(variable.as_ref()),
                _ => {}
            }
        }
    }
    found.into_iter()
}

/// A name for what a function declares that no other declaration has.
pub fn inner_name(variable: &Variable) -> String {
    format!("{}#{}:{}", variable.name, variable.position.line, variable.position.column)
}

/// Fails if the module has more constant memory than a GPU gives it.
fn check_constants(module: &Module) -> Result<(), LoadError> {
    let (mut end, mut largest) = (0u64, None);
    let all = variables(module).chain(inner_variables(module));
    for variable in all.filter(|own| is_stored(own) && own.space == "const") {
        let (bytes, align) = size(variable)?;
        end = end.next_multiple_of(u64::from(align)).saturating_add(bytes);
        largest = largest.max(Some((bytes, variable.name.as_str(), variable.position.line)));
    }
    match largest {
        Some((bytes, name, line)) if end > MAX_CONST_BYTES => Err(invalid(
            format!(
                "the module has {end} bytes of constant memory (the largest is `{name}`, of {bytes} \
                 bytes); {MAX_CONST_BYTES} is the limit. A table that does not fit goes to `.global`"
            ),
            line,
        )),
        _ => Ok(()),
    }
}

/// A variable that this module gives memory to.
fn is_stored(variable: &Variable) -> bool {
    matches!(variable.space.as_str(), "global" | "const") && variable.linkage != Linkage::Extern
}

fn allocate(memory: &GlobalMemory, bytes: u64, variable: &Variable) -> Result<u64, LoadError> {
    let error = |what: String| invalid(what, variable.position.line);
    memory
        .alloc(bytes.max(1))
        .map_err(|full| error(format!("variable `{}`: {full}", variable.name)))
}

fn invalid(what: impl Into<String>, line: u32) -> LoadError {
    LoadError::Invalid { what: what.into(), line }
}

/// The type of a variable's elements.
pub fn element(variable: &Variable) -> Result<Type, LoadError> {
    let unknown = || match variable.ty.as_str() {
        "texref" | "samplerref" | "surfref" => {
            invalid("textures and surfaces are not emulated", variable.position.line)
        }
        ty => invalid(format!("`.{ty}` is not a type"), variable.position.line),
    };
    Type::parse(&variable.ty).filter(|ty| !ty.is_only_of_matrices()).ok_or_else(unknown)
}

/// Size and alignment of a variable in bytes.
pub fn size(variable: &Variable) -> Result<(u64, u32), LoadError> {
    let unit = u64::from(element(variable)?.bytes()) * u64::from(variable.vector.max(1));
    let mut bytes = unit;
    for dim in &variable.dims {
        let len = dim.unwrap_or_else(|| open_len(variable, unit));
        bytes = bytes.checked_mul(len).filter(|bytes| *bytes <= MAX_BYTES).ok_or_else(|| {
            invalid(format!("variable `{}` is too large", variable.name), variable.position.line)
        })?;
    }
    let align = variable.align.unwrap_or(unit.min(16) as u32).max(1);
    match align.is_power_of_two() && align <= MAX_ALIGN {
        true => Ok((bytes, align)),
        false => Err(invalid(format!("an alignment of {align}"), variable.position.line)),
    }
}

/// Length of a dimension written `[]`: what the initialiser gives.
fn open_len(variable: &Variable, unit: u64) -> u64 {
    let Some(init) = &variable.init else { return 0 };
    let ty_bytes = element(variable).map_or(1, Type::bytes);
    (count(init) * u64::from(ty_bytes)).div_ceil(unit.max(1))
}

fn count(init: &Init) -> u64 {
    match init {
        Init::List(list) => list.iter().map(count).sum(),
        _ => 1,
    }
}

/// The bits of a literal as a value of `ty`; `None` if it cannot be one.
pub fn number_bits(number: Number, ty: Type) -> Option<u64> {
    match (number, ty) {
        (Number::Int { value, .. }, _) if !ty.is_float() => Some(value as u64),
        (Number::F32(bits), Type::F32 | Type::B32) => Some(u64::from(bits)),
        (Number::F64(bits), Type::F64 | Type::B64) => Some(bits),
        (Number::F64(bits), Type::F32) => Some(u64::from((f64::from_bits(bits) as f32).to_bits())),
        (Number::F32(bits), Type::F64) => Some(f64::from(f32::from_bits(bits)).to_bits()),
        (Number::Int { value, .. }, Type::F16 | Type::Bf16 | Type::F16x2 | Type::Bf16x2) => {
            Some(value as u64)
        }
        _ => None,
    }
}

/// Offsets of a kernel's parameters in the block that a launch gives, and its size.
///
/// # Errors
/// A parameter has no known size, or they do not fit into `limit` bytes together.
pub fn param_layout(kernel: &Function, limit: u64) -> Result<(Vec<Param>, usize), LoadError> {
    let mut end = 0usize;
    let mut out = Vec::new();
    for param in &kernel.params {
        let (size, align) = size(param)?;
        let (size, align) = (size as usize, align as usize);
        let offset = end.next_multiple_of(align);
        out.push(Param { offset, size, align });
        end = offset + size;
    }
    if end as u64 <= limit {
        return Ok((out, end));
    }
    let what = format!(
        "kernel `{}` has {end} bytes of parameters; {limit} is the limit. Larger ones are passed as a \
         pointer to device memory",
        kernel.name
    );
    Err(invalid(what, kernel.position.line))
}
