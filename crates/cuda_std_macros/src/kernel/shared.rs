//! A kernel's token of its block, and its arrays in shared memory.

use super::canonical;
use super::errors::Errors;
use super::param::{Param, ParamKind, arguments};
use crate::shared::assert_fits;
use proc_macro2::{Ident, Literal, TokenStream};
use quote::quote;
use syn::punctuated::Punctuated;
use syn::spanned::Spanned;
use syn::{
    Error, Expr, ExprLit, FnArg, GenericArgument, Lit, PatType, PathArguments, PathSegment, Token,
    Type, parse_quote,
};

/// The kind of a `Block<X, Y, Z>`.
pub fn block(ty: &Type, last: &PathSegment) -> syn::Result<ParamKind> {
    let extents: Vec<Expr> = arguments(last).filter_map(extent).collect();
    if extents.is_empty() {
        return Err(Error::new_spanned(ty, "name the threads of a block, as in `Block<256>`"));
    }
    Ok(ParamKind::Block(extents))
}

/// The expression of a generic argument; one that is a plain name looks like a type.
fn extent(argument: &GenericArgument) -> Option<Expr> {
    match argument {
        GenericArgument::Const(expr) => Some(expr.clone()),
        GenericArgument::Type(Type::Path(path)) => Some(parse_quote!(#path)),
        _ => None,
    }
}

/// The kind of a `Shared<L, ID>`.
pub fn array(ty: &Type, last: &PathSegment) -> syn::Result<ParamKind> {
    let array = arguments(last).find_map(|argument| match argument {
        GenericArgument::Type(ty) => Some(ty),
        _ => None,
    });
    match array {
        Some(Type::Slice(slice)) => Ok(ParamKind::Shared { dynamic: Some((*slice.elem).clone()) }),
        Some(_) => Ok(ParamKind::Shared { dynamic: None }),
        None => Err(Error::new_spanned(ty, "name the array, as in `Shared<[f32; 256]>`")),
    }
}

/// Numbers the arrays that the user did not number, in their order and past the numbers in use: every
/// handle of a kernel has a type of its own. 0, which `Shared` has by default, is not written.
pub fn number_arrays<'a>(inputs: impl Iterator<Item = &'a mut FnArg>) {
    let mut arrays: Vec<_> = inputs.filter_map(arguments_of_array).collect();
    let in_use: Vec<_> = arrays.iter().filter_map(|arguments| number(arguments)).collect();
    let mut free = (0..).filter(|number| !in_use.contains(number));
    for arguments in arrays.iter_mut().filter(|arguments| arguments.len() == 1) {
        if let Some(number @ 1..) = free.next() {
            let number = Literal::u32_unsuffixed(number);
            arguments.push(parse_quote!(#number));
        }
    }
}

type Arguments = Punctuated<GenericArgument, Token![,]>;

/// The generic arguments of a parameter that is a shared array.
fn arguments_of_array(input: &mut FnArg) -> Option<&mut Arguments> {
    let FnArg::Typed(PatType { ty, .. }) = input else { return None };
    let Type::Path(path) = &mut **ty else { return None };
    let last = path.path.segments.last_mut().filter(|last| last.ident == "Shared")?;
    match &mut last.arguments {
        PathArguments::AngleBracketed(arguments) => Some(&mut arguments.args),
        _ => None,
    }
}

/// The array's number, where the user wrote one as a literal.
fn number(arguments: &Arguments) -> Option<u32> {
    match arguments.get(1)? {
        GenericArgument::Const(Expr::Lit(ExprLit { lit: Lit::Int(number), .. })) => {
            number.base10_parse().ok()
        }
        _ => None,
    }
}

/// The expression that makes the handle, in the kernel's entry.
///
/// The storage is global assembly, which stands once however the compiler copies the entry's code. It
/// bears the name of kernel and parameter: no Rust name contains the `$` between them.
pub fn handle(kernel: &Ident, param: &Param, dynamic: bool) -> TokenStream {
    if dynamic {
        return quote!(::cuda_std::shared::dynamic_handle());
    }
    let ty = canonical::ty(param);
    let name = format!("{kernel}${}", param.name);
    let declaration = format!(".shared .align {{align}} .b8 {name}[{{bytes}}];");
    let address = format!("mov.u64 {{address}}, {name}; cvta.shared.u64 {{address}}, {{address}};");
    quote! {{
        mod storage {
            #[allow(unused_imports)]
            use super::*;
            type Array = <#ty as ::cuda_std::shared::Declared>::Layout;
            ::core::arch::global_asm!(
                #declaration,
                align = const ::cuda_std::shared::align_bytes::<Array>(),
                bytes = const ::cuda_std::shared::size_bytes::<Array>(1),
            );
        }
        let address;
        ::core::arch::asm!(
            #address,
            address = out(reg64) address,
            options(pure, nomem, nostack),
        );
        ::cuda_std::shared::handle(address)
    }}
}

/// The assertions that no two arrays have the same number, and that the static ones fit into what a kernel may
/// declare.
pub fn assertions(params: &[Param], attributes: &TokenStream) -> TokenStream {
    let arrays = || params.iter().filter(|param| matches!(param.kind, ParamKind::Shared { .. }));
    let types: Vec<_> = arrays().map(canonical::ty).collect();
    let distinct = (types.len() > 1).then(|| {
        quote! {
            #attributes
            #[allow(unused_qualifications)]
            const _: () = assert!(
                ::cuda_std::shared::are_distinct(
                    &[#(<#types as ::cuda_std::shared::Declared>::ID),*]
                ),
                "two shared arrays of this kernel have the same number: \
                 write `Shared<[f32; 256], 0>`, `Shared<[f32; 256], 1>`, …",
            );
        }
    });
    let fixed: Vec<_> = arrays()
        .filter(|param| matches!(param.kind, ParamKind::Shared { dynamic: None }))
        .collect();
    let fixed_types: Vec<_> = fixed
        .iter()
        .map(|param| canonical::ty(param))
        .map(|ty| quote!(<#ty as ::cuda_std::shared::Declared>::Layout))
        .collect();
    let fit = fixed.iter().enumerate();
    let fit = fit.map(|(at, last)| assert_fits(&fixed_types[..=at], last.ty.span()));
    quote!(#distinct #(#attributes #fit)*)
}

/// A kernel has one token at most, one if it has shared arrays, and one dynamic array at most.
pub fn check(params: &[Param], errors: &mut Errors) {
    let of = |is: fn(&ParamKind) -> bool| params.iter().filter(move |param| is(&param.kind));
    for extra in of(|kind| matches!(kind, ParamKind::Block(_))).skip(1) {
        errors.add(Error::new_spanned(
            &extra.ty,
            "a kernel takes one `Block` token: two would not account for each other's barriers",
        ));
    }
    for extra in of(|kind| matches!(kind, ParamKind::Shared { dynamic: Some(_) })).skip(1) {
        errors.add(Error::new_spanned(
            &extra.ty,
            "a launch has one dynamic shared array, and another parameter already takes it",
        ));
    }
    let has_block = of(|kind| matches!(kind, ParamKind::Block(_))).next().is_some();
    if let (false, Some(array)) =
        (has_block, of(|kind| matches!(kind, ParamKind::Shared { .. })).next())
    {
        errors.add(Error::new_spanned(
            &array.ty,
            "a shared array needs the block's token, whose barriers separate its phases\n\
             help: add a parameter `mut block: Block<256>`, with the launch's threads per block",
        ));
    }
}
