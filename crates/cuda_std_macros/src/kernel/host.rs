//! The host side: the user's function, unchanged, and a module with the typed launcher.

use super::param::{Param, ParamKind, PtxParam};
use super::parsed::Kernel;
use proc_macro2::{Span, TokenStream};
use quote::{format_ident, quote, quote_spanned};
use syn::Ident;
use syn::spanned::Spanned;

/// The expressions by which a launcher names its kernel, and the bounds that hold where it is written.
pub struct LauncherScope {
    /// The kernel's description.
    pub kernel: TokenStream,
    /// Its contract.
    pub contract: TokenStream,
    /// The bounds that hold there.
    pub predicates: Vec<TokenStream>,
    /// Whether the types are generic parameters: their checks are written with each instance.
    pub is_generic: bool,
}

/// Writes the host's function and, beside it, the module with `KERNEL` and `launch`.
pub fn launcher(kernel: &Kernel) -> TokenStream {
    let function = &kernel.function;
    let (name, vis) = (&function.sig.ident, &function.vis);
    let attributes = kernel.shared_attributes();
    let module_doc = format!("The host's side of the kernel `{name}`.");
    let scope = LauncherScope {
        kernel: quote!(&KERNEL),
        contract: quote!(__contract::CONTRACT),
        predicates: vec![],
        is_generic: false,
    };
    let (grid, launch) = (grid_for(kernel, &scope), launch(kernel, &scope));
    let (contract, contract_of_site) = (kernel.contract.value(), &scope.contract);
    let types = kernel.check_types(&quote!(super::#name));
    let description = description_value(kernel, &name.to_string(), contract_of_site);
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

            mod __contract {
                use super::super::*;
                pub const CONTRACT: ::cuda_std::launch::Contract = #contract;
            }

            /// The kernel's name, the parameters of its PTX entry, in order, and its contract.
            pub static KERNEL: ::cuda_std::launch::Kernel = #description;

            #grid

            #launch

            #types
        }
    }
}

/// The expression of type `Kernel`.
pub fn description_value(kernel: &Kernel, name: &str, contract: &TokenStream) -> TokenStream {
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
    let mut params = quote!([#(#params),*]);
    if kernel.params.iter().any(|param| matches!(param.kind, ParamKind::Value)) {
        params = quote! {{
            const ALL: &[::cuda_std::launch::Param] = &#params;
            const SIZED: [::cuda_std::launch::Param; ::cuda_std::launch::count_sized(ALL)] =
                ::cuda_std::launch::sized(ALL);
            SIZED
        }};
    }
    let (forms, elements): (Vec<_>, Vec<_>) = kernel.params.iter().filter_map(Param::form).unzip();
    let index = kernel.index_dims().unwrap_or(0) as u32;
    let dynamic = kernel.params.iter().find_map(|param| match &param.kind {
        ParamKind::Shared { dynamic: Some(element) } => Some(element),
        _ => None,
    });
    let dynamic = match dynamic {
        Some(element) => {
            quote!(::core::option::Option::Some(::core::mem::size_of::<#element>()))
        }
        None => quote!(::core::option::Option::None),
    };
    let safe_launch = kernel.function.sig.unsafety.is_none().then(|| quote!(.with_safe_launch()));
    quote! {{
        const SIGNATURE: &[::cuda_std::signature::Parameter] =
            &[#(::cuda_std::signature::Parameter::of::<#elements>(#forms)),*];
        ::cuda_std::launch::Kernel {
            name: #name,
            params: &#params,
            contract: #contract
                .with_hardware(#index, #dynamic)
                #safe_launch
                .with_signature(SIGNATURE),
        }
    }}
}

/// `pub fn grid_for`: enough blocks of a fixed size.
pub fn grid_for(kernel: &Kernel, scope: &LauncherScope) -> Option<TokenStream> {
    let (contract, bounds) = (&scope.contract, scope.bounds());
    let (block_dims, _) = kernel.contract.block_dims()?;
    let dims = kernel.index_dims().unwrap_or(block_dims);
    let grid = format_ident!("Grid{dims}");
    let extents = [vec!["n"], vec!["width", "height"], vec!["width", "height", "depth"]];
    let extents: Vec<_> = extents[dims - 1].iter().map(|name| format_ident!("{name}")).collect();
    let doc = match dims {
        1 => "Enough blocks of the kernel's size for `n` threads.",
        2 => "Enough blocks of the kernel's size for `width * height` threads.",
        _ => "Enough blocks of the kernel's size for `width * height * depth` threads.",
    };
    Some(quote! {
        #[doc = #doc]
        pub const fn grid_for(#(#extents: usize),*) -> ::cuda_std::launch::#grid #bounds {
            ::cuda_std::launch::#grid::covering(&#contract, #(#extents),*)
        }
    })
}

/// `pub fn launch` and `pub fn occupancy`. The first checks the arguments
/// by their types and passes them to the launcher in PTX order.
pub fn launch(kernel: &Kernel, scope: &LauncherScope) -> TokenStream {
    let (description, bounds) = (&scope.kernel, scope.bounds());
    let [on, config, args] =
        ["on", "config", "args"].map(|name| Ident::new(name, Span::mixed_site()));
    let doc = format!("Starts the kernel `{}` on `on`.", kernel.function.sig.ident);
    let safety = kernel.is_unsafe().then(|| safety_doc(kernel));
    let unsafety = &kernel.function.sig.unsafety;
    let (shape, to_config) = shape(kernel, scope, &config);
    let inputs = kernel.params.iter().filter_map(input);
    let pushes = kernel.params.iter().filter_map(|param| push(kernel, scope, param, &args));
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
        ) -> ::core::result::Result<(), L::Error> #bounds {
            #[allow(unused_mut)]
            let mut #args = ::cuda_std::launch::Args::of(#description);
            #(#pushes)*
            // SAFETY: the arguments were pushed in the order and with the types of `KERNEL`.
            unsafe { ::cuda_std::launch::Launch::launch(#on, #description, #to_config, &#args) }
        }

        /// How many blocks of the kernel the device `on` holds at once.
        ///
        /// # Errors
        /// Those of the device.
        pub fn occupancy<D: ::cuda_std::launch::MeasureOccupancy>(
            #on: &D,
        ) -> ::core::result::Result<D::Occupancy, D::Error> #bounds {
            ::cuda_std::launch::MeasureOccupancy::occupancy(#on, #description)
        }
    }
}

impl LauncherScope {
    fn bounds(&self) -> TokenStream {
        let predicates = &self.predicates;
        if predicates.is_empty() { TokenStream::new() } else { quote!(where #(#predicates),*) }
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
fn shape(kernel: &Kernel, scope: &LauncherScope, config: &Ident) -> (TokenStream, TokenStream) {
    let launch = quote!(::cuda_std::launch);
    if kernel.contract.fixes_block() {
        let bound = match kernel.index_dims() {
            Some(dims) => quote!(#launch::FixedBlock<#dims>),
            None => quote!(#launch::AnyGrid),
        };
        let contract = &scope.contract;
        let to_config = quote!(#launch::AnyGrid::with_block_of(#config, &#contract));
        return (bound, to_config);
    }
    match kernel.index_dims() {
        Some(1) => (
            quote!(#launch::OneDimensional),
            quote!(#launch::OneDimensional::linear(#config).into()),
        ),
        Some(2) => (
            quote!(#launch::TwoDimensional),
            quote!(#launch::TwoDimensional::planar(#config).into()),
        ),
        Some(_) => (
            quote!(#launch::ThreeDimensional),
            quote!(#launch::ThreeDimensional::spatial(#config).into()),
        ),
        None => (
            quote!(::core::convert::Into<#launch::LaunchConfig>),
            quote!(::core::convert::Into::into(#config)),
        ),
    }
}

/// The launcher's parameter for `param`, if it has one.
fn input(param: &Param) -> Option<TokenStream> {
    let name = &param.name;
    let ty = match &param.kind {
        ParamKind::Index(_) | ParamKind::Block(_) | ParamKind::Shared { .. } => return None,
        ParamKind::GridConstant(t) => quote!(#t),
        ParamKind::Slice(t) => quote!(&impl ::cuda_std::launch::DeviceRead<#t>),
        ParamKind::Reference(t) => quote!(&impl ::cuda_std::launch::DeviceReadOne<#t>),
        ParamKind::View { view, element } => {
            let bound = format_ident!("{}", view.bound);
            let exclusive = view.exclusive.then(|| quote!(mut));
            quote!(&#exclusive impl ::cuda_std::launch::#bound<#element>)
        }
        ParamKind::Pointer { element, .. } => quote!(::cuda_std::launch::DevicePtr<#element>),
        ParamKind::Value => {
            let ty = &param.ty;
            quote!(#ty)
        }
    };
    Some(quote!(#name: #ty))
}

/// The statement that appends the PTX values of the argument.
fn push(
    kernel: &Kernel,
    scope: &LauncherScope,
    param: &Param,
    args: &Ident,
) -> Option<TokenStream> {
    let name = &param.name;
    Some(match &param.kind {
        ParamKind::Index(_) | ParamKind::Block(_) | ParamKind::Shared { .. } => return None,
        ParamKind::GridConstant(t) => quote!(#args.push_copy::<#t>(#name);),
        ParamKind::Slice(t) => quote!(#args.push_read::<#t>(#name);),
        ParamKind::Reference(t) => quote!(#args.push_read_one::<#t>(#name);),
        ParamKind::View { view, element }
            if scope.is_generic && view.is_atomic() && view.exclusive =>
        {
            quote!(#args.push_write::<#element>(#name);)
        }
        ParamKind::View { view, element } => {
            let push = format_ident!("{}", view.push);
            quote_spanned!(element.span()=> #args.#push::<#element>(#name);)
        }
        ParamKind::Pointer { .. } => quote!(#args.push_pointer(#name);),
        ParamKind::Value if scope.is_generic => quote! {
            // SAFETY: each instance's types were checked to be plain data.
            unsafe { #args.push_plain(&#name) };
        },
        ParamKind::Value if kernel.is_unsafe() => quote!(#args.push_copy(#name);),
        ParamKind::Value => {
            let ty = &param.ty;
            quote_spanned!(ty.span()=> #args.push_value::<#ty>(#name);)
        }
    })
}
