//! The host side of a generic kernel: a type of the kernel's name, with the typed launcher.

use super::host::{LauncherScope, description_value, grid_for, launch};
use super::instances::{Instance, name_of};
use super::param::{Param, ParamKind};
use super::parsed::Kernel;
use super::shared;
use proc_macro2::{TokenStream, TokenTree};
use quote::{ToTokens, quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{GenericParam, Ident, Type};

/// Writes the user's function, a module for each instance, and the type with `launch` and `KERNEL`.
pub fn launcher(kernel: &Kernel) -> TokenStream {
    let function = &kernel.function;
    let (name, vis) = (&function.sig.ident, &function.vis);
    let attributes = kernel.shared_attributes();
    let doc = format!(
        "The host's side of the generic kernel `{name}`, whose instances are {}.",
        list(kernel)
    );
    let (declared, used) = generics(kernel);
    let fields = types(kernel);
    let modules = kernel.instances.iter().map(|instance| {
        let module = module(kernel, instance);
        quote! {
            #[cfg(not(target_os = "cuda"))]
            #(#attributes)*
            #module
        }
    });
    let implementation = implementation(kernel, &declared, &used);
    quote! {
        #[cfg(not(target_os = "cuda"))]
        #[allow(dead_code, clippy::too_many_arguments)]
        #function

        #(#modules)*

        #[cfg(not(target_os = "cuda"))]
        #(#attributes)*
        #[doc = #doc]
        #[allow(non_camel_case_types, dead_code)]
        #vis struct #name<#(#declared),*> {
            instance: ::core::marker::PhantomData<fn() -> (#(#fields,)*)>,
        }

        #implementation
    }
}

/// The generic parameters without their bounds, as they are declared and as they are used.
fn generics(kernel: &Kernel) -> (Vec<TokenStream>, Vec<TokenStream>) {
    let declare = |param: &GenericParam| match param {
        GenericParam::Const(param) => {
            let (name, ty) = (&param.ident, &param.ty);
            (quote!(const #name: #ty), quote!(#name))
        }
        param => {
            let name = name_of(param);
            (quote!(#name), quote!(#name))
        }
    };
    kernel.function.sig.generics.params.iter().map(declare).unzip()
}

fn types(kernel: &Kernel) -> Vec<&Ident> {
    kernel.function.sig.generics.type_params().map(|param| &param.ident).collect()
}

/// The bounds that the kernel's author put on the parameters, where a type among the launcher's
/// arguments may need them: `<T as Number>::Wide` does, `T` and `[T; N]` do not. Whatever is an instance was
/// checked against all of them, so generic code that launches one need not repeat them.
fn predicates(kernel: &Kernel) -> Vec<TokenStream> {
    let generics = &kernel.function.sig.generics;
    let is_param = |word: &Ident| generics.params.iter().any(|param| name_of(param) == word);
    if !kernel.params.iter().filter_map(Param::form).any(|(_, ty)| has_path_of(ty, &is_param)) {
        return vec![];
    }
    let inline = generics.type_params().filter(|param| !param.bounds.is_empty()).map(|param| {
        let (name, bounds) = (&param.ident, &param.bounds);
        quote!(#name: #bounds)
    });
    let clause = generics.where_clause.iter().flat_map(|clause| &clause.predicates);
    inline.chain(clause.map(|predicate| quote!(#predicate))).collect()
}

/// Whether `ty` names a generic parameter and has a path of several words or angle brackets.
fn has_path_of(ty: &Type, is_param: &impl Fn(&Ident) -> bool) -> bool {
    let tokens = flat(ty.to_token_stream());
    let is_path = |token: &TokenTree| matches!(token, TokenTree::Punct(punct) if matches!(punct.as_char(), ':' | '<'));
    tokens.iter().any(|token| matches!(token, TokenTree::Ident(word) if is_param(word)))
        && tokens.iter().any(is_path)
}

/// The tokens without the groups around them.
fn flat(tokens: TokenStream) -> Vec<TokenTree> {
    let inside = |token| match token {
        TokenTree::Group(group) => flat(group.stream()),
        token => vec![token],
    };
    tokens.into_iter().flat_map(inside).collect()
}

/// The implementation of `Instance` for each instance, and the functions of the type.
fn implementation(kernel: &Kernel, declared: &[TokenStream], used: &[TokenStream]) -> TokenStream {
    let name = &kernel.function.sig.ident;
    let attributes = kernel.shared_attributes();
    let attributes = quote! {
        #[cfg(not(target_os = "cuda"))]
        #(#attributes)*
        #[allow(unused_imports, private_interfaces, private_bounds, unused_braces)]
    };
    let instances = kernel.instances.iter().map(|instance| {
        let module = instance.module();
        // The aliases in the instance's module, where its arguments were resolved.
        let arguments = kernel.function.sig.generics.params.iter().map(|param| {
            let name = name_of(param);
            match param {
                GenericParam::Const(_) => quote!({ #module::#name }),
                _ => quote!(#module::#name),
            }
        });
        quote! {
            #attributes
            // SAFETY: the description was written from this instance's parameters, as its PTX entry was.
            unsafe impl ::cuda_std::launch::Instance for #name<#(#arguments),*> {
                const KERNEL: &'static ::cuda_std::launch::Kernel = &#module::KERNEL;
            }
        }
    });
    let is_instance = quote!(Self: ::cuda_std::launch::Instance);
    let scope = LauncherScope {
        kernel: quote!(<Self as ::cuda_std::launch::Instance>::KERNEL),
        contract: quote!(<Self as ::cuda_std::launch::Instance>::KERNEL.contract),
        predicates: predicates(kernel).into_iter().chain([is_instance.clone()]).collect(),
        is_generic: true,
    };
    let (grid, launch) = (grid_for(kernel, &scope), launch(kernel, &scope));
    let description = &scope.kernel;
    quote! {
        #(#instances)*

        #attributes
        impl<#(#declared),*> #name<#(#used),*>
        where
            #is_instance,
        {
            /// The instance's name, the parameters of its PTX entry, in order, and its contract.
            pub const KERNEL: &'static ::cuda_std::launch::Kernel = #description;
        }

        #attributes
        impl<#(#declared),*> #name<#(#used),*> {
            #grid

            #launch
        }
    }
}

/// The instances, as the attribute lists them.
fn list(kernel: &Kernel) -> String {
    let name = &kernel.function.sig.ident;
    let one = |instance: &Instance| {
        let arguments: Vec<_> = instance.arguments.iter().map(ToString::to_string).collect();
        format!("`{name}<{}>`", arguments.join(", "))
    };
    kernel.instances.iter().map(one).collect::<Vec<_>>().join(", ")
}

/// The module of one instance: its description, and the checks of its types.
fn module(kernel: &Kernel, instance: &Instance) -> TokenStream {
    let (module, name) = (instance.module(), instance.name.to_string());
    let aliases = instance.aliases(&kernel.function.sig.generics);
    let description = description_value(kernel, &name, &kernel.contract.value());
    let checks = kernel.params.iter().filter_map(|param| check(kernel, param));
    let assertions = shared::assertions(&kernel.params, &TokenStream::new());
    let (user, arguments) = (&kernel.function.sig.ident, &instance.arguments);
    let types = kernel.check_types(&quote!(super::#user::<#(#arguments),*>));
    quote! {
        #[doc(hidden)]
        #[allow(unused_imports, dead_code, non_snake_case, unused_braces)]
        mod #module {
            use super::*;
            #aliases
            pub static KERNEL: ::cuda_std::launch::Kernel = #description;
            #assertions
            #types
            const _: fn() = || {
                fn value<V: ::cuda_std::launch::KernelValue>() {}
                fn copied<V: ::core::marker::Copy + 'static>() {}
                fn atomic<V: ::cuda_std::atomic::AtomicElement>() {}
                #(#checks)*
            };
        }
    }
}

/// The check of a parameter's type in an instance, since the launcher cannot check it for all types.
fn check(kernel: &Kernel, param: &Param) -> Option<TokenStream> {
    let ty = &param.ty;
    match &param.kind {
        ParamKind::Value if kernel.is_unsafe() => {
            Some(quote_spanned!(ty.span()=> copied::<#ty>();))
        }
        ParamKind::Value => Some(quote_spanned!(ty.span()=> value::<#ty>();)),
        ParamKind::View { view, element } if view.is_atomic() => {
            Some(quote_spanned!(element.span()=> atomic::<#element>();))
        }
        _ => None,
    }
}
