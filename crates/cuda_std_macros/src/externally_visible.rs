//! `#[externally_visible]`: an item that keeps its name in the PTX.

use proc_macro2::TokenStream;
use quote::quote;
use syn::{Attribute, Error, Item, Result};

/// Expands the attribute; a wrong use becomes a `compile_error!`.
pub fn expand(attributes: TokenStream, item: TokenStream) -> TokenStream {
    try_expand(attributes, item).unwrap_or_else(Error::into_compile_error)
}

fn try_expand(attributes: TokenStream, item: TokenStream) -> Result<TokenStream> {
    if !attributes.is_empty() {
        return Err(Error::new_spanned(attributes, "`#[externally_visible]` takes no arguments"));
    }
    let item: Item = syn::parse2(item)?;
    let (Item::Fn(syn::ItemFn { attrs, .. }) | Item::Static(syn::ItemStatic { attrs, .. })) = &item
    else {
        return Err(Error::new_spanned(item, "only functions and statics have a name in the PTX"));
    };
    if exported_name(attrs).is_none() {
        return Err(Error::new_spanned(
            &item,
            "`#[externally_visible]` needs a name that the host can know\n\
             help: write `#[unsafe(no_mangle)]` below it",
        ));
    }
    // The name alone keeps it: what has one of its own is exported from the PTX.
    Ok(quote!(#item))
}

/// The attribute that gives an item its own name: `no_mangle` or `export_name`.
pub fn exported_name(attributes: &[Attribute]) -> Option<&Attribute> {
    let is_named = |attribute: &&Attribute| {
        let names = |path: &syn::Path| path.is_ident("no_mangle") || path.is_ident("export_name");
        let inner = || attribute.parse_args::<syn::Meta>().is_ok_and(|meta| names(meta.path()));
        names(attribute.path()) || attribute.path().is_ident("unsafe") && inner()
    };
    attributes.iter().find(is_named)
}
