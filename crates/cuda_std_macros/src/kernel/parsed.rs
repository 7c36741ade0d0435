//! A kernel's signature and attributes, read and checked.

use super::contract::Contract;
use super::errors::Errors;
use super::instances::{self, Instance};
use super::param::{Param, ParamKind};
use super::{canonical, shared};
use crate::statics;
use proc_macro2::TokenStream;
use syn::{Attribute, Error, ItemFn, Result, ReturnType, Signature};

/// A checked kernel: what both sides are written from.
pub struct Kernel {
    pub function: ItemFn,
    pub params: Vec<Param>,
    pub contract: Contract,
    /// Of a generic kernel; another one has none.
    pub instances: Vec<Instance>,
}

impl Kernel {
    pub fn parse(attributes: TokenStream, mut function: ItemFn) -> Result<Self> {
        let mut errors = Errors::default();
        let (mut contract, listed) = Contract::parse(attributes, &mut errors);
        shared::number_arrays(function.sig.inputs.iter_mut());
        statics::mark(&mut function.block)?;
        let Signature { ident, generics, .. } = &function.sig;
        let instances = instances::instances(&listed, ident, generics, &mut errors);
        check_signature(&function.sig, &mut errors);
        let is_unsafe = function.sig.unsafety.is_some();
        let inputs = function.sig.inputs.iter();
        let params: Vec<Param> =
            inputs.filter_map(|input| errors.take(Param::parse(input, is_unsafe))).collect();
        check_one_index(&params, &mut errors);
        shared::check(&params, &mut errors);
        check_grid_constant(&params, is_unsafe, &mut errors);
        contract.complete(&params, &mut errors);
        check_block_dims(&params, &contract, &mut errors);
        errors.into_result()?;
        Ok(Self { function, params, contract, instances })
    }

    /// The dimensions of the kernel's thread index, if it takes one.
    pub fn index_dims(&self) -> Option<usize> {
        self.params.iter().find_map(|param| param.kind.index_dims())
    }

    pub fn is_unsafe(&self) -> bool {
        self.function.sig.unsafety.is_some()
    }

    /// As [`canonical::check`], of its parameters.
    pub fn check_types(&self, callee: &TokenStream) -> TokenStream {
        canonical::check(&self.params, self.is_unsafe(), callee)
    }

    /// The attributes that say whether the kernel is there at all.
    pub fn conditions(&self) -> Vec<&Attribute> {
        self.function.attrs.iter().filter(|a| a.path().is_ident("cfg")).collect()
    }

    /// The attributes that belong on everything the macro writes.
    pub fn shared_attributes(&self) -> Vec<&Attribute> {
        let shared = |a: &&Attribute| a.path().is_ident("cfg") || a.path().is_ident("allow");
        self.function.attrs.iter().filter(shared).collect()
    }
}

fn check_signature(signature: &Signature, errors: &mut Errors) {
    if let ReturnType::Type(_, ty) = &signature.output {
        errors.add(Error::new_spanned(
            ty,
            "a kernel returns nothing: it runs in many threads at once\n\
             help: write the result to a `DisjointSlice<T>` parameter",
        ));
    }
    if let Some(keyword) = &signature.asyncness {
        errors.add(Error::new_spanned(keyword, "a kernel cannot be `async`"));
    }
    if let Some(keyword) = &signature.constness {
        errors.add(Error::new_spanned(keyword, "a kernel cannot be `const`"));
    }
    if let Some(abi) = &signature.abi {
        errors.add(Error::new_spanned(abi, "`#[kernel]` chooses the ABI itself: leave this out"));
    }
    if let Some(variadic) = &signature.variadic {
        errors.add(Error::new_spanned(variadic, "a kernel cannot be variadic"));
    }
}

fn check_one_index(params: &[Param], errors: &mut Errors) {
    for extra in params.iter().filter(|p| p.kind.index_dims().is_some()).skip(1) {
        errors.add(Error::new_spanned(
            &extra.ty,
            "a kernel has at most one thread index: a second one would name the same thread\n\
             help: remove this parameter; a `ThreadIndex` can be copied",
        ));
    }
}

/// Its address is found by the number of the parameter, which a value without a size before it would change.
fn check_grid_constant(params: &[Param], is_unsafe: bool, errors: &mut Errors) {
    let mut passed = params.iter().filter(|param| !param.ptx().is_empty()).skip(1);
    let is_constant = |param: &Param| matches!(param.kind, ParamKind::GridConstant(_));
    if let Some(late) = passed.find(|param| is_constant(param)) {
        errors.add(Error::new_spanned(
            &late.ty,
            "a `GridConstant` is the first parameter that the launch passes\n\
             help: move it to the front; several values are one struct or array",
        ));
    }
    if let (Some(param), false) = (params.iter().find(|param| is_constant(param)), is_unsafe) {
        errors.add(Error::new_spanned(
            &param.ty,
            "a `GridConstant` needs an unsafe kernel: what its bits mean is not checked\n\
             help: write `#[kernel] pub unsafe fn`",
        ));
    }
}

/// A block may have fewer dimensions than the index; the others are 1.
fn check_block_dims(params: &[Param], contract: &Contract, errors: &mut Errors) {
    let index = params.iter().find_map(|param| param.kind.index_dims());
    let (Some(index), Some((block, span))) = (index, contract.block_dims()) else {
        return;
    };
    if block > index {
        let message = format!(
            "the block has {block} dimensions and the thread index {index}: \
             two threads of a block would share one index\n\
             help: take a `ThreadIndex{block}`, or give the block as {index} number(s)"
        );
        errors.add(Error::new(span, message));
    }
}
