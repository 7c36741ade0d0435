//! From the attribute and the function to the code of both sides.

use super::parsed::Kernel;
use super::{device, generic, host, without};
use proc_macro2::TokenStream;
use quote::quote;
use syn::ItemFn;

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
