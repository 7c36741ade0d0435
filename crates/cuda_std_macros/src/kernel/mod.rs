//! `#[kernel]`: parse the signature once, then write the device's entry and the host's launcher.

mod canonical;
mod contract;
mod device;
mod generic;
mod host;
mod instances;
mod param;
mod shared;
mod signature;
mod without;

use contract::Contract;
use instances::Instance;
use param::Param;
use proc_macro2::TokenStream;
use quote::quote;
use syn::{Attribute, Error, ItemFn, Result, ReturnType, Signature};

/// Expands the attribute; every error found becomes a `compile_error!` at its place, and the
/// function itself stays so that no other name goes missing.
pub fn expand(attributes: TokenStream, item: TokenStream) -> TokenStream {
    let function: ItemFn = match syn::parse2(item) {
        Ok(function) => function,
        Err(error) => return error.into_compile_error(),
    };
    match Kernel::parse(attributes, function) {
        Ok(mut kernel) => without::partial(&mut kernel).unwrap_or_else(|| both_sides(&kernel)),
        Err(error) => error.into_compile_error(),
    }
}

fn both_sides(kernel: &Kernel) -> TokenStream {
    let (device, host) = match kernel.instances.is_empty() {
        true => (device::entry(kernel), host::launcher(kernel)),
        false => (device::generic(kernel), generic::launcher(kernel)),
    };
    quote! { #device #host }
}

/// Writes the kernel's function alone; errors as in [`expand`].
pub fn body(attributes: TokenStream, item: TokenStream) -> TokenStream {
    let parsed = syn::parse2(item).and_then(|function| Kernel::parse(attributes, function));
    match parsed {
        Ok(Kernel { function, .. }) => quote! {
            #[inline(always)]
            #[allow(clippy::too_many_arguments)]
            #function
        },
        Err(error) => error.into_compile_error(),
    }
}

/// A checked kernel: what both sides are written from.
struct Kernel {
    function: ItemFn,
    params: Vec<Param>,
    contract: Contract,
    /// Of a generic kernel; another one has none.
    instances: Vec<Instance>,
}

impl Kernel {
    fn parse(attributes: TokenStream, mut function: ItemFn) -> Result<Self> {
        let mut errors = Errors::default();
        let (mut contract, listed) = Contract::parse(attributes, &mut errors);
        shared::number_arrays(function.sig.inputs.iter_mut());
        let Signature { ident, generics, .. } = &function.sig;
        let instances = instances::instances(&listed, ident, generics, &mut errors);
        check_signature(&function.sig, &mut errors);
        let is_unsafe = function.sig.unsafety.is_some();
        let inputs = function.sig.inputs.iter();
        let params: Vec<Param> =
            inputs.filter_map(|input| errors.take(Param::parse(input, is_unsafe))).collect();
        check_one_index(&params, &mut errors);
        shared::check(&params, &mut errors);
        contract.complete(&params, &mut errors);
        check_block_dims(&params, &contract, &mut errors);
        errors.into_result()?;
        Ok(Self { function, params, contract, instances })
    }

    /// The dimensions of the kernel's thread index, if it takes one.
    fn index_dims(&self) -> Option<usize> {
        self.params.iter().find_map(|param| param.kind.index_dims())
    }

    fn is_unsafe(&self) -> bool {
        self.function.sig.unsafety.is_some()
    }

    /// The attributes that say whether the kernel is there at all.
    fn conditions(&self) -> Vec<&Attribute> {
        self.function.attrs.iter().filter(|a| a.path().is_ident("cfg")).collect()
    }

    /// The attributes that belong on everything the macro writes.
    fn shared_attributes(&self) -> Vec<&Attribute> {
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

/// Collects errors, so that the compiler shows them all at once.
#[derive(Default)]
struct Errors(Option<Error>);

impl Errors {
    fn add(&mut self, error: Error) {
        match &mut self.0 {
            Some(all) => all.combine(error),
            none => *none = Some(error),
        }
    }

    fn take<T>(&mut self, result: Result<T>) -> Option<T> {
        result.map_err(|error| self.add(error)).ok()
    }

    fn into_result(self) -> Result<()> {
        self.0.map_or(Ok(()), Err)
    }
}
