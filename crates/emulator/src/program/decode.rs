//! From the tree of a function to its operations.

use super::emitter::{Emitter, ParamHome};
use super::layout::{self, Linked};
use super::scope::{Base, Symbol};
use crate::exec::ops::control;
use crate::fault::LoadError;
use crate::isa::{self, Type};
use crate::machine::{Passed, Program, Span};
use crate::ptx::ast::{Function, Statement, Variable};

/// The program of the function `name` and of all that it can reach.
///
/// # Errors
/// The first thing in their bodies that cannot be executed.
pub fn decode(linked: &Linked<'_>, name: &str) -> Result<Program, LoadError> {
    let mut emitter = Emitter::new(linked);
    emitter.program.name = name.to_owned();
    emitter.program.constant_variables = linked.constant_variables.clone();
    emitter.function(name)?;
    for stored in &linked.stored {
        emitter.function(stored)?;
    }
    let mut next = 0;
    while let Some(name) = emitter.wanted.get(next).cloned() {
        function(&mut emitter, &name, linked.functions[&name])
            .map_err(|error| emitter.placed(error))?;
        next += 1;
    }
    emitter.finish()
}

fn function(emitter: &mut Emitter<'_>, name: &str, function: &Function) -> Result<(), LoadError> {
    let home = if function.entry { ParamHome::Kernel } else { ParamHome::Frame };
    emitter.line = function.position.line;
    emitter.enter_function(name, home);
    declare_params(emitter, function)?;
    for statement in function.body.iter().flatten() {
        self::statement(emitter, statement)?;
    }
    emitter.begin(emitter.line, None)?;
    return_from(emitter)?;
    emitter.leave_function()
}

/// A body may end without `ret`.
fn return_from(emitter: &mut Emitter<'_>) -> Result<(), LoadError> {
    control::give_back(emitter);
    emitter.push_before(control::ret, &[], 0);
    emitter.end();
    Ok(())
}

fn declare_params(emitter: &mut Emitter<'_>, function: &Function) -> Result<(), LoadError> {
    if function.entry {
        let (params, _) = layout::param_layout(function, emitter.linked.limits.param_bytes)?;
        for (variable, param) in function.params.iter().zip(params) {
            let place = Symbol::Place(Base::KernelParam(param.offset as u32), param.size as u64);
            emitter.scope().declare(&variable.name, place);
        }
        return Ok(());
    }
    let returns = frame_params(emitter, &function.returns, |emitter, passed| {
        emitter.returned.push(passed);
    })?;
    let params = frame_params(emitter, &function.params, control::take_over)?;
    emitter.end();
    let info = emitter.info();
    (info.returns, info.params) = (returns, params);
    Ok(())
}

/// Gives parameters their places. `pass` is told those that are registers.
fn frame_params(
    emitter: &mut Emitter<'_>,
    variables: &[Variable],
    pass: fn(&mut Emitter<'_>, Passed),
) -> Result<Vec<Span>, LoadError> {
    let mut spans = Vec::new();
    for variable in variables {
        let span = match variable.space.as_str() {
            "reg" => register_param(emitter, variable, pass)?,
            _ => frame_param(emitter, variable)?,
        };
        spans.push(span);
    }
    Ok(spans)
}

fn register_param(
    emitter: &mut Emitter<'_>,
    variable: &Variable,
    pass: fn(&mut Emitter<'_>, Passed),
) -> Result<Span, LoadError> {
    let ty = layout::element(variable)?;
    if ty == Type::Pred {
        return Err(emitter.invalid("a predicate cannot be passed"));
    }
    let first = emitter.registers(ty, variable.vector);
    emitter.has_vectors |= variable.vector > 1;
    let registers = Symbol::of_registers(ty, first, variable.vector);
    emitter.scope().declare(&variable.name, registers);
    let mut spans = Vec::new();
    for slot in (0..variable.vector).map(|index| first + index * ty.rows()) {
        let span = emitter.place_param(ty.bytes().into(), ty.bytes())?;
        pass(emitter, Passed { ty, slot, span });
        spans.push(span);
    }
    Ok(Span::around(&spans))
}

fn frame_param(emitter: &mut Emitter<'_>, variable: &Variable) -> Result<Span, LoadError> {
    let (bytes, align) = layout::size(variable)?;
    let span = emitter.place_param(bytes, align)?;
    let place = Symbol::Place(Base::FrameParam(span.row * 4), bytes);
    emitter.scope().declare(&variable.name, place);
    Ok(span)
}

fn statement(emitter: &mut Emitter<'_>, statement: &Statement) -> Result<(), LoadError> {
    match statement {
        Statement::Label(name) => emitter.define_label(name),
        Statement::Variable(variable) => declare(emitter, variable),
        Statement::Block(statements) => {
            emitter.enter_scope();
            let result = statements.iter().try_for_each(|inner| self::statement(emitter, inner));
            emitter.leave_scope();
            result
        }
        Statement::Instruction(instruction) => isa::lower(emitter, instruction),
        Statement::Loc { .. } => {
            emitter.note_place(statement);
            Ok(())
        }
        Statement::BranchTargets { label, targets } | Statement::CallTargets { label, targets } => {
            emitter.scope().declare_list(label, targets);
            Ok(())
        }
        Statement::Prototype(prototype) => {
            emitter.scope().declare_prototype(&prototype.label);
            Ok(())
        }
        Statement::Pragma(_) => Ok(()),
    }
}

fn declare(emitter: &mut Emitter<'_>, variable: &Variable) -> Result<(), LoadError> {
    emitter.line = variable.position.line;
    let symbol = match variable.space.as_str() {
        "reg" => return declare_register(emitter, variable),
        "param" => return frame_param(emitter, variable).map(|_| ()),
        "local" => {
            let (bytes, align) = layout::size(variable)?;
            Symbol::Place(emitter.place_local(&variable.name, bytes, align)?, bytes)
        }
        "shared" => emitter.place_shared(&layout::inner_name(variable), variable)?,
        "global" | "const" => {
            let place = emitter.linked.globals.get(&layout::inner_name(variable)).copied();
            let place = place.ok_or_else(|| emitter.unresolved(&variable.name))?;
            Symbol::Place(Base::Global(place.address), place.size_bytes)
        }
        space => return Err(emitter.invalid(format!("a `.{space}` variable inside a function"))),
    };
    emitter.scope().declare(&variable.name, symbol);
    Ok(())
}

fn declare_register(emitter: &mut Emitter<'_>, variable: &Variable) -> Result<(), LoadError> {
    let ty = layout::element(variable)?;
    let count = variable.range.unwrap_or(1);
    let info = emitter.info();
    let so_far = info.rows32 + info.rows64 + info.predicates;
    if count > MAX_REGISTERS || so_far > MAX_REGISTERS {
        return Err(emitter.invalid(format!("{} registers are too many", so_far.max(count))));
    }
    let first = emitter.registers(ty, count * variable.vector);
    emitter.has_vectors |= variable.vector > 1;
    match variable.range {
        Some(count) => emitter.scope().declare_range(variable, count, ty, first),
        None => {
            let registers = Symbol::of_registers(ty, first, variable.vector);
            emitter.scope().declare(&variable.name, registers);
        }
    }
    Ok(())
}

/// The most registers that a function may have, and that one declaration may ask for.
const MAX_REGISTERS: u32 = 1 << 17;
