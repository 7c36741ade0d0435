//! The kinds of kernel parameter, recognised from syntax.

use super::shared;
use proc_macro2::{TokenStream, TokenTree};
use quote::{ToTokens, format_ident, quote};
use syn::{
    Error, Expr, FnArg, GenericArgument, Ident, Pat, PathArguments, PathSegment, Result, Type,
    TypePtr, TypeReference,
};

/// One parameter of the kernel as the user wrote it.
pub struct Param {
    pub name: Ident,
    pub ty: Type,
    pub kind: ParamKind,
}

/// How a parameter is passed. The type inside is the element's.
pub enum ParamKind {
    /// The entry takes it from the hardware: a thread index with this number of dimensions.
    Index(usize),
    /// The token of a block of these extents: made by the entry.
    Block(Vec<Expr>),
    /// An array in shared memory: declared and made by the entry. The element of a dynamic one.
    Shared {
        dynamic: Option<Type>,
    },
    /// A value that stays in the memory of the launch's parameters.
    GridConstant(Type),
    Slice(Type),
    Reference(Type),
    /// A pointer and lengths that the entry makes a view from.
    View {
        view: &'static View,
        element: Type,
    },
    Pointer {
        element: Type,
        mutable: bool,
    },
    Value,
}

/// The thread indices, by the last segment of their path, with their dimensions.
pub const INDICES: [(&str, usize); 3] =
    [("ThreadIndex", 1), ("ThreadIndex2", 2), ("ThreadIndex3", 3)];

/// A view of device memory. The type has `from_raw_parts(pointer, lengths…)`, and its first type
/// parameter is the element.
pub struct View {
    /// The last segment of its path.
    pub name: &'static str,
    /// The module of `cuda_std` that has it.
    pub module: &'static str,
    /// What its lengths are called, in order.
    pub lengths: &'static [&'static str],
    /// The trait of `cuda_std::launch` that the launcher's argument has.
    pub bound: &'static str,
    /// Whether the argument is a `&mut`: nothing else uses the memory until the kernel has run.
    pub exclusive: bool,
    /// The method of `cuda_std::launch::Args` that appends it.
    pub push: &'static str,
}

/// Every view. A new one needs a row here, the trait and the method.
const VIEWS: [View; 12] = [
    View {
        name: "DisjointTiles",
        module: "block",
        lengths: &["len"],
        bound: "DeviceWrite",
        exclusive: true,
        push: "push_write",
    },
    View {
        name: "DisjointTiles2",
        module: "block",
        lengths: &["width", "height"],
        bound: "DeviceWriteGrid",
        exclusive: true,
        push: "push_write_grid",
    },
    View {
        name: "DisjointSlice",
        module: "disjoint",
        lengths: &["len"],
        bound: "DeviceWrite",
        exclusive: true,
        push: "push_write",
    },
    View {
        name: "AtomicSlice",
        module: "atomic",
        lengths: &["len"],
        bound: "DeviceWrite",
        exclusive: true,
        push: "push_atomic",
    },
    View {
        name: "DisjointGrid",
        module: "disjoint",
        lengths: &["width", "height"],
        bound: "DeviceWriteGrid",
        exclusive: true,
        push: "push_write_grid",
    },
    View {
        name: "DisjointVectors",
        module: "disjoint",
        lengths: &["len"],
        bound: "DeviceWrite",
        exclusive: true,
        push: "push_write",
    },
    View {
        name: "DisjointChunks",
        module: "disjoint",
        lengths: &["len"],
        bound: "DeviceWrite",
        exclusive: true,
        push: "push_write",
    },
    View {
        name: "DisjointPitched",
        module: "disjoint",
        lengths: &["width", "height", "pitch"],
        bound: "DeviceWritePitched",
        exclusive: true,
        push: "push_write_pitched",
    },
    View {
        name: "DisjointVolume",
        module: "disjoint",
        lengths: &["width", "height", "depth"],
        bound: "DeviceWriteVolume",
        exclusive: true,
        push: "push_write_volume",
    },
    View {
        name: "SystemAtomics",
        module: "atomic",
        lengths: &["len"],
        bound: "DeviceAtomics",
        exclusive: false,
        push: "push_system_atomics",
    },
    View {
        name: "RingConsumer",
        module: "ring",
        lengths: RING,
        bound: "DeviceConsumer",
        exclusive: false,
        push: "push_consumer",
    },
    View {
        name: "RingProducer",
        module: "ring",
        lengths: RING,
        bound: "DeviceProducer",
        exclusive: false,
        push: "push_producer",
    },
];

/// The addresses of a ring's parts after that of its messages, and its capacity.
const RING: &[&str] = &["arrived", "free", "own", "other", "control", "capacity"];

impl View {
    /// Whether its elements must be atomic ones.
    pub fn is_atomic(&self) -> bool {
        matches!(self.push, "push_atomic" | "push_system_atomics")
    }
}

impl ParamKind {
    /// The dimensions of a thread index.
    pub fn index_dims(&self) -> Option<usize> {
        match self {
            Self::Index(dims) => Some(*dims),
            _ => None,
        }
    }
}

/// One parameter of the PTX entry.
pub struct PtxParam {
    pub name: Ident,
    /// Its Rust type in the entry's signature.
    pub ty: TokenStream,
    /// Its variant of `cuda_std::launch::ParamKind`.
    pub kind: Ident,
}

impl Param {
    pub fn parse(input: &FnArg, in_unsafe_fn: bool) -> Result<Self> {
        let FnArg::Typed(input) = input else {
            return Err(Error::new_spanned(input, "a kernel cannot be a method: remove `self`"));
        };
        let ty = (*input.ty).clone();
        check_lifetimes(&ty)?;
        let kind = kind_of(&ty, in_unsafe_fn)?;
        Ok(Self { name: name_of(&input.pat)?, ty, kind })
    }

    /// The PTX parameters that carry this one, in order.
    pub fn ptx(&self) -> Vec<PtxParam> {
        match &self.kind {
            ParamKind::Index(_) | ParamKind::Block(_) | ParamKind::Shared { .. } => vec![],
            ParamKind::Slice(t) => vec![self.pointer(t), self.length("len")],
            ParamKind::View { view, element } => {
                let lengths = view.lengths.iter().map(|what| self.length(what));
                [self.pointer(element)].into_iter().chain(lengths).collect()
            }
            ParamKind::Reference(t) => vec![self.whole(quote!(*const #t), "Pointer")],
            ParamKind::Pointer { element, mutable: false } => {
                vec![self.whole(quote!(*const #element), "Pointer")]
            }
            ParamKind::Pointer { element, mutable: true } => {
                vec![self.whole(quote!(*mut #element), "Pointer")]
            }
            ParamKind::GridConstant(t) => {
                let constant = quote!(::cuda_std::grid_constant);
                let ty = quote!(#constant::Carrier<{ #constant::units::<#t>() }>);
                vec![self.whole(ty, "Value")]
            }
            ParamKind::Value => {
                let ty = &self.ty;
                vec![self.whole(quote!(#ty), "Value")]
            }
        }
    }

    /// Its form and its element, if it is passed to the entry: what a launcher is compared by.
    pub fn form(&self) -> Option<(&'static str, &Type)> {
        match &self.kind {
            ParamKind::Index(_) | ParamKind::Block(_) | ParamKind::Shared { .. } => None,
            ParamKind::GridConstant(element) => Some(("GridConstant", element)),
            ParamKind::Slice(element) => Some(("slice", element)),
            ParamKind::Reference(element) => Some(("reference", element)),
            ParamKind::View { view, element } => Some((view.name, element)),
            ParamKind::Pointer { element, mutable: false } => Some(("pointer", element)),
            ParamKind::Pointer { element, mutable: true } => Some(("pointer_mut", element)),
            ParamKind::Value => Some(("value", &self.ty)),
        }
    }

    /// The pointer of a slice. Since it is known not to be null, `Option<&T>` needs no second test.
    fn pointer(&self, element: &Type) -> PtxParam {
        let name = format_ident!("{}_ptr", self.name);
        let ty = quote!(::core::ptr::NonNull<#element>);
        PtxParam { name, ty, kind: format_ident!("Pointer") }
    }

    fn length(&self, what: &str) -> PtxParam {
        let name = format_ident!("{}_{}", self.name, what);
        PtxParam { name, ty: quote!(usize), kind: format_ident!("Length") }
    }

    fn whole(&self, ty: TokenStream, kind: &str) -> PtxParam {
        PtxParam { name: self.name.clone(), ty, kind: format_ident!("{kind}") }
    }
}

fn name_of(pattern: &Pat) -> Result<Ident> {
    match pattern {
        Pat::Ident(pat) if pat.by_ref.is_none() && pat.subpat.is_none() => Ok(pat.ident.clone()),
        other => Err(Error::new_spanned(
            other,
            "a kernel parameter is a plain name\nhelp: destructure it in the body with `let`",
        )),
    }
}

/// A kernel's arguments live as long as it runs, and no name says how long that is.
fn check_lifetimes(ty: &Type) -> Result<()> {
    match named_lifetime(ty.to_token_stream()) {
        None => Ok(()),
        Some(lifetime) => Err(Error::new_spanned(
            ty,
            format!(
                "a kernel parameter has no named lifetime: its memory is borrowed for one launch, \
                 and may be freed after it\n\
                 help: leave `{lifetime}` out"
            ),
        )),
    }
}

/// The first lifetime among the tokens that is not `'_`.
fn named_lifetime(tokens: TokenStream) -> Option<String> {
    let mut tokens = tokens.into_iter();
    while let Some(token) = tokens.next() {
        let found = match token {
            TokenTree::Punct(quote) if quote.as_char() == '\'' => {
                tokens.next().map(|name| format!("'{name}")).filter(|name| name != "'_")
            }
            TokenTree::Group(group) => named_lifetime(group.stream()),
            _ => None,
        };
        if found.is_some() {
            return found;
        }
    }
    None
}

fn kind_of(ty: &Type, in_unsafe_fn: bool) -> Result<ParamKind> {
    match ty {
        Type::Reference(reference) => kind_of_reference(reference),
        Type::Ptr(pointer) => kind_of_pointer(pointer, in_unsafe_fn),
        Type::Path(path) => {
            path.path.segments.last().map_or(Ok(ParamKind::Value), |last| kind_of_name(ty, last))
        }
        Type::ImplTrait(_) => Err(Error::new_spanned(
            ty,
            "`impl Trait` makes a kernel generic: name the type that it takes",
        )),
        Type::Paren(inner) => kind_of(&inner.elem, in_unsafe_fn),
        Type::Group(inner) => kind_of(&inner.elem, in_unsafe_fn),
        _ => Ok(ParamKind::Value),
    }
}

fn kind_of_reference(reference: &TypeReference) -> Result<ParamKind> {
    if reference.mutability.is_some() {
        return Err(Error::new_spanned(
            reference,
            "a kernel cannot take `&mut`: every thread would hold the same exclusive reference\n\
             help: take a `DisjointSlice<T>`, of which each thread writes its own element, \
             or an `AtomicSlice<T>`",
        ));
    }
    if let Type::Path(path) = &*reference.elem
        && path.path.is_ident("str")
    {
        return Err(Error::new_spanned(
            reference,
            "a kernel cannot take `&str`: device memory holds bytes\n\
             help: take `&[u8]`, launch with a buffer of the text's bytes, and \
             `core::str::from_utf8` gives the text back",
        ));
    }
    Ok(match &*reference.elem {
        Type::Slice(slice) => ParamKind::Slice((*slice.elem).clone()),
        other => ParamKind::Reference(other.clone()),
    })
}

fn kind_of_pointer(pointer: &TypePtr, in_unsafe_fn: bool) -> Result<ParamKind> {
    if !in_unsafe_fn {
        return Err(Error::new_spanned(
            pointer,
            "a raw pointer needs an unsafe kernel: the compiler cannot check what it points to\n\
             help: take `&[T]` or `DisjointSlice<T>`, or write `#[kernel] pub unsafe fn`",
        ));
    }
    let mutable = pointer.mutability.is_some();
    Ok(ParamKind::Pointer { element: (*pointer.elem).clone(), mutable })
}

fn kind_of_name(ty: &Type, last: &PathSegment) -> Result<ParamKind> {
    if let Some((_, dims)) = INDICES.iter().find(|(name, _)| last.ident == name) {
        return Ok(ParamKind::Index(*dims));
    }
    match last.ident.to_string().as_str() {
        "Block" => return shared::block(ty, last),
        "Shared" => return shared::array(ty, last),
        "GridConstant" => return constant(ty, last),
        _ => {}
    }
    let Some(view) = VIEWS.iter().find(|view| last.ident == view.name) else {
        return Ok(ParamKind::Value);
    };
    element_of(last).map(|element| ParamKind::View { view, element }).ok_or_else(|| {
        let message = format!("name the element type, as in `{}<f32>`", last.ident);
        Error::new_spanned(ty, message)
    })
}

fn constant(ty: &Type, last: &PathSegment) -> Result<ParamKind> {
    element_of(last).map(ParamKind::GridConstant).ok_or_else(|| {
        Error::new_spanned(ty, "name the type of the value, as in `GridConstant<[MapWords; 2]>`")
    })
}

fn element_of(segment: &PathSegment) -> Option<Type> {
    arguments(segment).find_map(|argument| match argument {
        GenericArgument::Type(ty) => Some(ty.clone()),
        _ => None,
    })
}

/// The generic arguments.
pub fn arguments(segment: &PathSegment) -> impl Iterator<Item = &GenericArgument> {
    let arguments = match &segment.arguments {
        PathArguments::AngleBracketed(arguments) => Some(&arguments.args),
        _ => None,
    };
    arguments.into_iter().flatten()
}

/// The last segment of a path, the one by which a type is recognised.
pub fn last_segment(ty: &Type) -> Option<&PathSegment> {
    match ty {
        Type::Path(path) => path.path.segments.last(),
        Type::Paren(inner) => last_segment(&inner.elem),
        Type::Group(inner) => last_segment(&inner.elem),
        _ => None,
    }
}
