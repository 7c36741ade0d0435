//! Trees without their places, so that trees of differently laid out texts compare equal.

use emulator::ptx::ast::{Item, Module, Position, Prototype, Statement, Variable};

/// The module with every place set to line 0, column 0.
pub fn forget(mut module: Module) -> Module {
    module.items.iter_mut().for_each(item);
    module
}

fn item(item: &mut Item) {
    match item {
        Item::Variable(one) => variable(one),
        Item::Prototype(one) => prototype(one),
        Item::Function(function) => {
            function.position = Position::default();
            function.returns.iter_mut().for_each(variable);
            function.params.iter_mut().for_each(variable);
            function.body.iter_mut().flatten().for_each(statement);
        }
        _ => {}
    }
}

fn statement(one: &mut Statement) {
    match one {
        Statement::Instruction(instruction) => instruction.position = Position::default(),
        Statement::Variable(declared) => variable(declared),
        Statement::Block(inner) => inner.iter_mut().for_each(statement),
        Statement::Prototype(signature) => prototype(signature),
        _ => {}
    }
}

fn prototype(prototype: &mut Prototype) {
    prototype.returns.iter_mut().for_each(variable);
    prototype.params.iter_mut().for_each(variable);
}

fn variable(variable: &mut Variable) {
    variable.position = Position::default();
}
