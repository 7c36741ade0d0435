//! `#[address_space(…)]`: a static in another memory than the global one.
//!
//! rustc puts every static into global memory. The macro leaves a comment in the PTX that names the
//! static, and `cuda_builder` moves it.

use super::externally_visible::exported_name;
use super::shared::unique_name;
use super::statics;
use proc_macro2::{Span, TokenStream};
use quote::{quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{
    Attribute, Error, Expr, Ident, ItemStatic, Lit, Meta, Result, StaticMutability, parse_quote,
};

/// Expands the attribute; a wrong use becomes a `compile_error!`.
pub fn expand(attributes: TokenStream, item: TokenStream) -> TokenStream {
    try_expand(&attributes, item).unwrap_or_else(Error::into_compile_error)
}

fn try_expand(attributes: &TokenStream, item: TokenStream) -> Result<TokenStream> {
    let space: Ident = syn::parse2(attributes.clone()).map_err(|_| unknown(attributes))?;
    let item: ItemStatic = syn::parse2(item.clone()).map_err(|_| {
        Error::new_spanned(item, "`#[address_space]` stands on a `static` or `static mut`")
    })?;
    match space.to_string().as_str() {
        "global" => Ok(quote!(#item)),
        "shared" => shared(&item),
        "constant" => moved(&item, "constant"),
        "local" => Err(Error::new_spanned(
            space,
            "a static cannot be in local memory: each thread would have its own\n\
             help: write a local variable, `let mut name = …`",
        )),
        _ => Err(unknown(attributes)),
    }
}

fn unknown(attributes: &TokenStream) -> Error {
    let message = "name a memory: `shared`, `constant` or `global`";
    match attributes.is_empty() {
        true => Error::new(Span::call_site(), message),
        false => Error::new_spanned(attributes, message),
    }
}

fn shared(item: &ItemStatic) -> Result<TokenStream> {
    if matches!(item.mutability, StaticMutability::None) {
        return Err(Error::new_spanned(
            item,
            "a static in shared memory is written before it is read: write `static mut`",
        ));
    }
    let item = &typed(item.clone());
    let (item_in_place, ty) = (moved(item, "shared")?, &item.ty);
    Ok(quote! {
        #item_in_place
        const _: () = ::cuda_std::shared::assert_uninitialised::<#ty>();
    })
}

/// The static with the type and the value that a [`statics::is_uninit`] stands for; any other one as it is.
fn typed(mut item: ItemStatic) -> ItemStatic {
    if statics::is_uninit(&item.expr) {
        let array = &item.ty;
        let ty = quote_spanned!(array.span()=> <#array as ::cuda_std::shared::InStatic>::Static);
        item.expr = parse_quote!(unsafe { <#ty>::in_shared_memory() });
        item.ty = parse_quote!(#ty);
    }
    item
}

/// The static with a name of its own, and the comment that `cuda_builder` looks for.
fn moved(item: &ItemStatic, space: &str) -> Result<TokenStream> {
    let unique = unique_name(&format!("{space}_static"));
    let module = Ident::new(&unique, Span::call_site());
    let (name, attribute) = match exported_name(&item.attrs) {
        Some(attribute) => (own_name(item, attribute)?, None),
        None => (unique.clone(), Some(quote!(#[unsafe(export_name = #unique)]))),
    };
    let comment = format!("// ferrowarp.space {space} {name}");
    Ok(quote! {
        #attribute
        #item

        #[cfg(target_os = "cuda")]
        mod #module {
            ::core::arch::global_asm!(#comment);
        }
    })
}

/// The name that `no_mangle` or `export_name` gives.
fn own_name(item: &ItemStatic, attribute: &Attribute) -> Result<String> {
    let meta = match attribute.path().is_ident("unsafe") {
        true => attribute.parse_args::<Meta>()?,
        false => attribute.meta.clone(),
    };
    let Meta::NameValue(named) = meta else {
        return Ok(item.ident.to_string());
    };
    match &named.value {
        Expr::Lit(syn::ExprLit { lit: Lit::Str(text), .. }) => Ok(text.value()),
        other => Err(Error::new_spanned(other, "write the name out, in quotes")),
    }
}
