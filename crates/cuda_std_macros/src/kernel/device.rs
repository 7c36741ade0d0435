//! The device side: a PTX entry with scalar parameters that calls the user's body.

use super::Kernel;
use super::param::{Kind, Param};
use super::shared;
use proc_macro2::{Ident, TokenStream};
use quote::{format_ident, quote};

/// Writes the entry. The user's function becomes an inner function that is always inlined.
pub fn entry(kernel: &Kernel) -> TokenStream {
    let (name, vis) = (&kernel.function.sig.ident, &kernel.function.vis);
    let attributes = kernel.shared_attributes();
    let ptx: Vec<_> = kernel.params.iter().flat_map(Param::ptx).collect();
    let (names, types) = (ptx.iter().map(|p| &p.name), ptx.iter().map(|p| &p.ty));
    let arguments = kernel.params.iter().map(|param| rebuild(name, param));
    let mut body = kernel.function.clone();
    body.vis = syn::Visibility::Inherited;
    body.sig.ident = format_ident!("{}_body", name);
    let body_name = &body.sig.ident;
    let contract = kernel.contract.value();
    let bounds = kernel.contract.bounds(&name.to_string()).map(|bounds| {
        quote! {
            #[cfg(target_os = "cuda")]
            #(#attributes)*
            #bounds
        }
    });
    let assume = kernel.contract.fixes_block().then(|| {
        quote! {
            const CONTRACT: ::cuda_std::contract::Contract = #contract;
            // SAFETY: the launcher and `.reqntid` see to it.
            unsafe { ::cuda_std::contract::assume(CONTRACT) };
        }
    });
    quote! {
        #bounds

        #[cfg(target_os = "cuda")]
        #(#attributes)*
        #[unsafe(no_mangle)]
        #[allow(improper_ctypes_definitions, missing_docs, clippy::missing_safety_doc)]
        #vis unsafe extern "ptx-kernel" fn #name(#(#names: #types),*) {
            #[inline(always)]
            #body

            #assume
            // SAFETY: the launcher passes what the kernel's parameters describe.
            unsafe { #body_name(#(#arguments),*) }
        }
    }
}

/// The expression that makes the user's argument from the PTX parameters.
fn rebuild(kernel: &Ident, param: &Param) -> TokenStream {
    let (name, ty) = (&param.name, &param.ty);
    let part = |suffix: &str| format_ident!("{}_{}", name, suffix);
    let ptr = part("ptr");
    match &param.kind {
        Kind::Index(_) => quote!(<#ty>::from_hardware()),
        Kind::Block(_) => quote!(::cuda_std::block::Block::from_hardware()),
        Kind::Shared { dynamic } => shared::handle(kernel, param, dynamic.is_some()),
        Kind::Slice(_) => {
            let len = part("len");
            quote!(::core::slice::from_raw_parts(#ptr.as_ptr(), #len))
        }
        Kind::Reference(_) => quote!(&*#name),
        Kind::View { view, .. } => {
            let lengths = view.lengths.iter().map(|what| part(what));
            quote!(<#ty>::from_raw_parts(#ptr.as_ptr(), #(#lengths),*))
        }
        Kind::Pointer { .. } | Kind::Value => quote!(#name),
    }
}
