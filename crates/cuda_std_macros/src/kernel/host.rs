//! The host side: the user's function as it is, and a module with the typed launcher.

use super::Kernel;
use super::param::{Kind, Param, PtxParam};
use proc_macro2::{Span, TokenStream};
use quote::{quote, quote_spanned};
use syn::Ident;
use syn::spanned::Spanned;

/// Writes the host's function and, beside it, the module with `KERNEL` and `launch`.
pub fn launcher(kernel: &Kernel) -> TokenStream {
    let function = &kernel.function;
    let (name, vis) = (&function.sig.ident, &function.vis);
    let attributes = kernel.shared_attributes();
    let module_doc = format!("The host's side of the kernel `{name}`.");
    let (description, launch) = (description(kernel), launch(kernel));
    quote! {
        #[cfg(not(target_os = "cuda"))]
        #[allow(dead_code, clippy::too_many_arguments)]
        #function

        #[cfg(not(target_os = "cuda"))]
        #(#attributes)*
        #[doc = #module_doc]
        #[allow(unused_imports, private_interfaces, private_bounds)]
        #vis mod #name {
            use super::*;

            #description

            #launch
        }
    }
}

/// `pub static KERNEL`: the name and the PTX parameters.
fn description(kernel: &Kernel) -> TokenStream {
    let name = kernel.function.sig.ident.to_string();
    let params = kernel.params.iter().flat_map(Param::ptx).map(|PtxParam { name, ty, kind }| {
        let name = name.to_string();
        quote! {
            ::cuda_std::launch::Param {
                name: #name,
                kind: ::cuda_std::launch::ParamKind::#kind,
                size_bytes: ::core::mem::size_of::<#ty>(),
            }
        }
    });
    quote! {
        /// The kernel's name and the parameters of its PTX entry, in order.
        pub static KERNEL: ::cuda_std::launch::Kernel =
            ::cuda_std::launch::Kernel { name: #name, params: &[#(#params),*] };
    }
}

/// `pub fn launch`: checks the arguments by type and hands them to the launcher in PTX order.
fn launch(kernel: &Kernel) -> TokenStream {
    let [on, config, args] =
        ["on", "config", "args"].map(|name| Ident::new(name, Span::mixed_site()));
    let doc = format!("Starts the kernel `{}` on `on`.", kernel.function.sig.ident);
    let safety = kernel.is_unsafe().then(|| safety_doc(kernel));
    let unsafety = &kernel.function.sig.unsafety;
    let (shape, to_config) = shape(kernel, &config);
    let inputs = kernel.params.iter().filter_map(input);
    let pushes = kernel.params.iter().filter_map(|param| push(kernel, param, &args));
    quote! {
        #[doc = #doc]
        #safety
        ///
        /// # Errors
        /// Those of the launcher.
        #[allow(clippy::too_many_arguments)]
        pub #unsafety fn launch<L: ::cuda_std::launch::Launch>(
            #on: &L,
            #config: impl #shape,
            #(#inputs),*
        ) -> ::core::result::Result<(), L::Error> {
            #[allow(unused_mut)]
            let mut #args = ::cuda_std::launch::Args::new();
            #(#pushes)*
            // SAFETY: the arguments were pushed in the order and with the types of `KERNEL`.
            unsafe { ::cuda_std::launch::Launch::launch(#on, &KERNEL, #to_config, &#args) }
        }
    }
}

fn safety_doc(kernel: &Kernel) -> TokenStream {
    let text = format!(" The requirements of [`{0}`](fn@{0}).", kernel.function.sig.ident);
    quote! {
        ///
        /// # Safety
        #[doc = #text]
    }
}

/// The bound on the configuration, and how it becomes a `LaunchConfig`.
fn shape(kernel: &Kernel, config: &Ident) -> (TokenStream, TokenStream) {
    for param in &kernel.params {
        match param.kind {
            Kind::ThreadIndex => {
                let to_config = quote!(::cuda_std::launch::OneDimensional::linear(#config).into());
                return (quote!(::cuda_std::launch::OneDimensional), to_config);
            }
            Kind::ThreadIndex2 => {
                let to_config = quote!(::cuda_std::launch::TwoDimensional::planar(#config).into());
                return (quote!(::cuda_std::launch::TwoDimensional), to_config);
            }
            _ => {}
        }
    }
    let any = quote!(::core::convert::Into<::cuda_std::launch::LaunchConfig>);
    (any, quote!(::core::convert::Into::into(#config)))
}

/// The launcher's parameter for `param`, if it has one.
fn input(param: &Param) -> Option<TokenStream> {
    let name = &param.name;
    let ty = match &param.kind {
        Kind::ThreadIndex | Kind::ThreadIndex2 => return None,
        Kind::Slice(t) => quote!(&impl ::cuda_std::launch::DeviceRead<#t>),
        Kind::Reference(t) => quote!(&impl ::cuda_std::launch::DeviceReadOne<#t>),
        Kind::DisjointSlice(t) | Kind::AtomicSlice(t) => {
            quote!(&mut impl ::cuda_std::launch::DeviceWrite<#t>)
        }
        Kind::DisjointGrid(t) => quote!(&mut impl ::cuda_std::launch::DeviceWriteGrid<#t>),
        Kind::Pointer { element, .. } => quote!(::cuda_std::launch::DevicePtr<#element>),
        Kind::Value => {
            let ty = &param.ty;
            quote!(#ty)
        }
    };
    Some(quote!(#name: #ty))
}

/// The statement that appends the argument's PTX values.
fn push(kernel: &Kernel, param: &Param, args: &Ident) -> Option<TokenStream> {
    let name = &param.name;
    Some(match &param.kind {
        Kind::ThreadIndex | Kind::ThreadIndex2 => return None,
        Kind::Slice(t) => quote!(#args.push_read::<#t>(#name);),
        Kind::Reference(t) => quote!(#args.push_read_one::<#t>(#name);),
        Kind::DisjointSlice(t) => quote!(#args.push_write::<#t>(#name);),
        Kind::AtomicSlice(t) => quote_spanned!(t.span()=> #args.push_atomic::<#t>(#name);),
        Kind::DisjointGrid(t) => quote!(#args.push_write_grid::<#t>(#name);),
        Kind::Pointer { .. } => quote!(#args.push_pointer(#name);),
        Kind::Value if kernel.is_unsafe() => quote!(#args.push_copy(#name);),
        Kind::Value => {
            let ty = &param.ty;
            quote_spanned!(ty.span()=> #args.push_value::<#ty>(#name);)
        }
    })
}
