//! The device side: a PTX entry with scalar parameters that calls the user's body.

use super::param::{Param, ParamKind};
use super::parsed::Kernel;
use super::{canonical, shared, signature};
use proc_macro2::{Ident, TokenStream};
use quote::{format_ident, quote};

/// Writes the entry. The user's function becomes an inner function that is always inlined.
pub fn entry(kernel: &Kernel) -> TokenStream {
    let name = &kernel.function.sig.ident;
    let attributes = kernel.shared_attributes();
    let mut body = kernel.function.clone();
    body.vis = syn::Visibility::Inherited;
    body.sig.ident = format_ident!("{}_body", name);
    let body_name = &body.sig.ident;
    let conditions = kernel.conditions();
    let bounds = kernel.contract.bounds(&name.to_string()).map(|bounds| {
        quote! {
            #[cfg(target_os = "cuda")]
            #(#conditions)*
            #bounds
        }
    });
    let callee = quote!(#body_name);
    let check = kernel.check_types(&callee);
    let items = quote! {
        #[inline(always)]
        #body

        #check
    };
    let entry = function(kernel, name, &callee, &items);
    let assertions = shared::assertions(&kernel.params, &quote!(#(#conditions)*));
    let signature = signature::comments(kernel, name, None);
    quote! {
        #bounds

        #[cfg(target_os = "cuda")]
        #(#conditions)*
        #signature

        #assertions

        #[cfg(target_os = "cuda")]
        #(#attributes)*
        #entry
    }
}

/// Writes the user's function, always inlined, and an entry for each instance, in which the generic
/// parameters are aliases of the instance's arguments.
pub fn generic(kernel: &Kernel) -> TokenStream {
    let (user, generics) = (&kernel.function, &kernel.function.sig.generics);
    let attributes = kernel.shared_attributes();
    let entries = kernel.instances.iter().map(|instance| {
        let (module, name, arguments) = (instance.module(), &instance.name, &instance.arguments);
        let (aliases, user) = (instance.aliases(generics), &user.sig.ident);
        let bounds = kernel.contract.bounds(&name.to_string());
        let callee = quote!(super::#user::<#(#arguments),*>);
        let entry = function(kernel, name, &callee, &kernel.check_types(&callee));
        let assertions = shared::assertions(&kernel.params, &TokenStream::new());
        let signature = signature::comments(kernel, name, Some(instance));
        quote! {
            #[cfg(target_os = "cuda")]
            #(#attributes)*
            #[allow(unused_imports, dead_code, non_snake_case, missing_docs, unused_braces)]
            mod #module {
                use super::*;
                #aliases
                #bounds
                #signature
                #assertions
                #entry
            }
        }
    });
    quote! {
        #[cfg(target_os = "cuda")]
        #[inline(always)]
        #[allow(clippy::too_many_arguments)]
        #user

        #(#entries)*
    }
}

/// Writes the user's function, and under the kernel's name an ordinary function that nothing calls: the
/// compiler checks the body, and generates no code for it.
pub fn left_out(kernel: &Kernel) -> TokenStream {
    let (name, vis) = (&kernel.function.sig.ident, &kernel.function.vis);
    let attributes = kernel.shared_attributes();
    let mut body = kernel.function.clone();
    body.vis = syn::Visibility::Inherited;
    body.sig.ident = format_ident!("{}_body", name);
    quote! {
        #[cfg(target_os = "cuda")]
        #(#attributes)*
        #[allow(dead_code, missing_docs)]
        #vis fn #name() {
            #[allow(dead_code)]
            #body
        }
    }
}

/// The entry `name`: it makes the arguments of `callee` and calls it.
fn function(
    kernel: &Kernel,
    name: &Ident,
    callee: &TokenStream,
    inner_items: &TokenStream,
) -> TokenStream {
    let vis = &kernel.function.vis;
    let ptx: Vec<_> = kernel.params.iter().flat_map(Param::ptx).collect();
    let (names, types) = (ptx.iter().map(|p| &p.name), ptx.iter().map(|p| &p.ty));
    let arguments = kernel.params.iter().map(|param| rebuild(name, param));
    let contract = kernel.contract.value();
    let assume = kernel.contract.fixes_block().then(|| {
        quote! {
            const CONTRACT: ::cuda_std::contract::Contract = #contract;
            // SAFETY: the launcher and `.reqntid` see to it.
            unsafe { ::cuda_std::contract::assume(CONTRACT) };
        }
    });
    // An unsafe kernel waits where it wants to.
    let is_safe = kernel.function.sig.unsafety.is_none();
    let wait = (kernel.contract.is_dependent() && is_safe)
        .then(|| quote!(::cuda_std::dependent::wait_for_previous();));
    quote! {
        #[unsafe(no_mangle)]
        #[allow(
            improper_ctypes_definitions,
            missing_docs,
            non_snake_case,
            unused_qualifications,
            clippy::missing_safety_doc,
            clippy::too_many_arguments
        )]
        #vis unsafe extern "ptx-kernel" fn #name(#(#names: #types),*) {
            #inner_items
            #assume
            #wait
            // SAFETY: the launcher passes what the kernel's parameters describe.
            #[allow(unused_unsafe)]
            unsafe {
                #callee(#(#arguments),*)
            }
        }
    }
}

/// The expression that makes the user's argument from the PTX parameters.
fn rebuild(kernel: &Ident, param: &Param) -> TokenStream {
    let (name, ty) = (&param.name, canonical::ty(param));
    let part = |suffix: &str| format_ident!("{}_{}", name, suffix);
    let ptr = part("ptr");
    match &param.kind {
        ParamKind::Index(_) | ParamKind::Block(_) => quote!(<#ty>::from_hardware()),
        ParamKind::Shared { dynamic } => shared::handle(kernel, param, dynamic.is_some()),
        ParamKind::GridConstant(_) => {
            // Nothing but assembly can name a parameter's own memory. `check_grid_constant` sees to it that it is the first.
            let text = format!(
                "mov.b64 {{0}}, {kernel}_param_0; // ferrowarp.param_align {kernel}_param_0 64\n\
                 cvta.param.u64 {{0}}, {{0}};"
            );
            quote! {{
                let _ = #name;
                let address;
                ::core::arch::asm!(#text, out(reg64) address, options(pure, nomem, nostack));
                <#ty>::from_raw_parts(address)
            }}
        }
        ParamKind::Slice(_) => {
            let len = part("len");
            quote!(::core::slice::from_raw_parts(#ptr.as_ptr(), #len))
        }
        ParamKind::Reference(_) => quote!(&*#name),
        ParamKind::View { view, .. } => {
            let lengths = view.lengths.iter().map(|what| part(what));
            quote!(<#ty>::from_raw_parts(#ptr.as_ptr(), #(#lengths),*))
        }
        ParamKind::Pointer { .. } | ParamKind::Value => quote!(#name),
    }
}
