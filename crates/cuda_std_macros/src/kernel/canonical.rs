//! The types that a kernel's parameters are recognised as.
//!
//! `#[kernel]` recognises a type by the last word of its path, which an alias or a renaming `use` can give to any
//! other type. So everything that is made for a parameter has the type that the word stands for, by its full path,
//! and a function that nothing calls passes such parameters to the user's function. If one of the types is another
//! one there, or lives longer than the launch, this function does not compile.

use super::param::{INDICES, Param, ParamKind, last_segment};
use proc_macro2::TokenStream;
use quote::{format_ident, quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{AngleBracketedGenericArguments, GenericArgument, PathArguments, Type, parse_quote};

/// The type that the parameter's words stand for.
pub fn ty(param: &Param) -> TokenStream {
    let (written, span) = (&param.ty, param.ty.span());
    match &param.kind {
        ParamKind::Index(dims) => {
            let name = INDICES.iter().find(|(_, of)| of == dims).map(|(name, _)| name);
            let name = name.map(|name| format_ident!("{name}", span = span));
            quote_spanned!(span=> ::cuda_std::index::#name)
        }
        ParamKind::Block(extents) => {
            quote_spanned!(span=> ::cuda_std::block::Block<#({ #extents }),*>)
        }
        ParamKind::Shared { .. } => {
            let arguments = arguments(written);
            quote_spanned!(span=> ::cuda_std::shared::Shared #arguments)
        }
        ParamKind::View { view, .. } => {
            let word = |word| format_ident!("{word}", span = span);
            let (module, name) = (word(view.module), word(view.name));
            let arguments = arguments(written).map(with_lifetime);
            quote_spanned!(span=> ::cuda_std::#module::#name #arguments)
        }
        ParamKind::GridConstant(_) => {
            let arguments = arguments(written).map(with_lifetime);
            quote_spanned!(span=> ::cuda_std::grid_constant::GridConstant #arguments)
        }
        ParamKind::Slice(element) => quote!(&[#element]),
        ParamKind::Reference(element) => quote!(&#element),
        ParamKind::Pointer { .. } | ParamKind::Value => quote!(#written),
    }
}

/// The generic arguments of the path segment by which the type is recognised.
fn arguments(written: &Type) -> Option<AngleBracketedGenericArguments> {
    match &last_segment(written)?.arguments {
        PathArguments::AngleBracketed(arguments) => Some(arguments.clone()),
        _ => None,
    }
}

/// The arguments of a view with the lifetime that it has, `'_`, which may have been left out.
fn with_lifetime(mut arguments: AngleBracketedGenericArguments) -> AngleBracketedGenericArguments {
    if !matches!(arguments.args.first(), Some(GenericArgument::Lifetime(_))) {
        arguments.args.insert(0, parse_quote!('_));
    }
    arguments
}

/// The function that passes parameters of these types to `callee`, which may be an `unsafe fn`, for lifetimes of its
/// caller's choice.
pub fn check(params: &[Param], is_unsafe: bool, callee: &TokenStream) -> TokenStream {
    let names = params.iter().map(|param| &param.name);
    let types = params.iter().map(ty);
    let arguments = params.iter().map(argument);
    let mut call = quote!(#callee(#(#arguments),*));
    if is_unsafe {
        // Nothing calls the function around it.
        call = quote!(unsafe { #call });
    }
    quote! {
        #[allow(dead_code, unused_braces, unused_qualifications, clippy::all, clippy::pedantic)]
        fn the_types_are_what_they_are_called(#(#names: #types),*) {
            #call
        }
    }
}

fn argument(param: &Param) -> TokenStream {
    let (mut name, written) = (param.name.clone(), &param.ty);
    // Errors stand at the type.
    name.set_span(name.span().located_at(written.span()));
    match &param.kind {
        ParamKind::Index(_)
        | ParamKind::Block(_)
        | ParamKind::Shared { .. }
        | ParamKind::GridConstant(_)
        | ParamKind::View { .. } => {
            quote_spanned!(written.span()=> ::cuda_std::signature::Is::<#written>::same(#name))
        }
        _ => quote!(#name),
    }
}
