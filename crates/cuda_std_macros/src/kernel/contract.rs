//! The launch contract in `#[kernel(…)]`: parsed once, written for the device and for the host.

use super::errors::Errors;
use super::instances::ListedInstance;
use super::param::{Param, ParamKind};
use proc_macro2::{Span, TokenStream};
use quote::{ToTokens, format_ident, quote};
use syn::ext::IdentExt;
use syn::parse::{Parse, ParseStream, Parser};
use syn::punctuated::Punctuated;
use syn::{Error, Expr, Ident, Result, Token, Type};

/// The names that a contract knows, for messages.
pub const NAMES: &str = "`block`, `max_threads`, `min_blocks`, `max_registers`, `cluster`, \
                     `cooperative`, `dependent` and `dynamic_shared`";

/// What a kernel demands of its launch. Every expression is a constant of the crate.
#[derive(Default)]
pub struct Contract {
    block: Option<Extents>,
    max_threads: Option<Expr>,
    min_blocks: Option<Expr>,
    max_registers: Option<Expr>,
    cluster: Option<Extents>,
    cooperative: bool,
    dependent: bool,
    dynamic_shared: Option<Shared>,
}

/// One to three numbers, as `256` or `(32, 8)`.
struct Extents {
    given: Vec<Expr>,
    span: Span,
}

/// How much dynamic shared memory the launch gives.
enum Shared {
    /// An expression in bytes.
    Bytes(Expr),
    /// `[T; N]`: exactly its size.
    Array(Type),
    /// `[T]`: any whole number of elements.
    Elements(Type),
    /// `least..=most` in bytes, either end open.
    Range { least: Option<Expr>, most: Option<Expr> },
}

/// One argument of the attribute.
enum Argument {
    Flag(Ident),
    Setting { name: Ident, value: TokenStream },
    Instance(ListedInstance),
}

impl Parse for Argument {
    fn parse(input: ParseStream<'_>) -> Result<Self> {
        let ahead = input.fork();
        let Ok(name) = ahead.call(Ident::parse_any) else {
            return input.parse().map(Self::Instance);
        };
        if ahead.peek(Token![=]) && !ahead.peek(Token![==]) {
            input.call(Ident::parse_any)?;
            input.parse::<Token![=]>()?;
            return Ok(Self::Setting { name, value: value_tokens(input)? });
        }
        let is_flag = name == "cooperative" || name == "dependent";
        if is_flag && (ahead.is_empty() || ahead.peek(Token![,])) {
            return input.call(Ident::parse_any).map(Self::Flag);
        }
        input.parse().map(Self::Instance)
    }
}

/// Everything up to the next comma outside brackets. Commas between `<` and `>` belong to it too.
fn value_tokens(input: ParseStream<'_>) -> Result<TokenStream> {
    let value = match input.fork().parse::<Expr>() {
        Ok(_) => input.parse::<Expr>()?.into_token_stream(),
        Err(_) => input.parse::<Type>()?.into_token_stream(),
    };
    Ok(value)
}

impl Contract {
    /// The contract, and the instances beside it.
    pub fn parse(attributes: TokenStream, errors: &mut Errors) -> (Self, Vec<ListedInstance>) {
        let (mut contract, mut instances) = (Self::default(), Vec::new());
        let parser = Punctuated::<Argument, Token![,]>::parse_terminated;
        let arguments = errors.take(parser.parse2(attributes));
        for argument in arguments.into_iter().flatten() {
            match argument {
                Argument::Flag(name) => {
                    errors.take(contract.set_flag(&name));
                }
                Argument::Setting { name, value } => {
                    errors.take(contract.set(&name, value));
                }
                Argument::Instance(listed) => instances.push(listed),
            }
        }
        errors.take(contract.check());
        (contract, instances)
    }

    /// The number of dimensions of the fixed block, if there is one.
    pub fn block_dims(&self) -> Option<(usize, Span)> {
        self.block.as_ref().map(|block| (block.given.len(), block.span))
    }

    /// What the parameters say of the block and of the dynamic shared memory.
    pub fn complete(&mut self, params: &[Param], errors: &mut Errors) {
        for param in params {
            let span = syn::spanned::Spanned::span(&param.ty);
            match (&param.kind, &self.block, &self.max_threads) {
                (ParamKind::Block(given), None, None) => {
                    self.block = Some(Extents { given: given.clone(), span });
                }
                (ParamKind::Block(_), ..) => errors.add(Error::new(
                    span,
                    "the token `Block<…>` fixes the block: remove `block` and `max_threads`",
                )),
                (ParamKind::Shared { dynamic: Some(element) }, ..)
                    if self.dynamic_shared.is_none() =>
                {
                    self.dynamic_shared = Some(Shared::Elements(element.clone()));
                }
                _ => {}
            }
        }
    }

    /// Whether the kernel may start before the one before it has ended.
    pub fn is_dependent(&self) -> bool {
        self.dependent
    }

    pub fn fixes_block(&self) -> bool {
        self.block.is_some()
    }

    fn set_flag(&mut self, name: &Ident) -> Result<()> {
        let flag = if name == "dependent" { &mut self.dependent } else { &mut self.cooperative };
        let again = std::mem::replace(flag, true);
        if again { Err(repeated(name)) } else { Ok(()) }
    }

    fn set(&mut self, name: &Ident, value: TokenStream) -> Result<()> {
        match name.to_string().as_str() {
            "block" => put(&mut self.block, name, Extents::parse(value)?),
            "cluster" => put(&mut self.cluster, name, Extents::parse(value)?),
            "max_threads" => put(&mut self.max_threads, name, syn::parse2(value)?),
            "min_blocks" => put(&mut self.min_blocks, name, syn::parse2(value)?),
            "max_registers" => put(&mut self.max_registers, name, syn::parse2(value)?),
            "dynamic_shared" => put(&mut self.dynamic_shared, name, Shared::parse(value)?),
            "cooperative" | "dependent" => Err(Error::new_spanned(
                name,
                format!("`{name}` takes no value: write `#[kernel({name})]`"),
            )),
            _ => Err(unknown(name)),
        }
    }

    fn check(&self) -> Result<()> {
        if let (Some(_), Some(extra)) = (&self.block, &self.max_threads) {
            return Err(Error::new_spanned(
                extra,
                "`block` fixes the number of threads, so `max_threads` has no effect: \
                 remove one of them",
            ));
        }
        match &self.min_blocks {
            Some(extra) if self.block.is_none() && self.max_threads.is_none() => {
                Err(Error::new_spanned(
                    extra,
                    "`min_blocks` needs the size of the block\n\
                     help: write `block = …` or `max_threads = …` beside it",
                ))
            }
            _ => Ok(()),
        }
    }

    /// The expression of type `cuda_std::contract::Contract`: a constant, or a compile error that
    /// stands at the attribute.
    pub fn value(&self) -> TokenStream {
        let value = self.unchecked();
        quote! {{
            const VALUE: ::cuda_std::contract::Contract = #value;
            if let ::core::option::Option::Some(fault) = VALUE.fault() {
                ::core::panic!("{}", fault);
            }
            VALUE
        }}
    }

    fn unchecked(&self) -> TokenStream {
        let mut value = quote!(::cuda_std::contract::Contract::NONE);
        if let Some(block) = &self.block {
            let [x, y, z] = block.numbers();
            value.extend(quote!(.with_block([#x, #y, #z])));
        }
        if let Some(cluster) = &self.cluster {
            let [x, y, z] = cluster.numbers();
            value.extend(quote!(.with_cluster([#x, #y, #z])));
        }
        let settings = [
            ("with_max_threads", &self.max_threads),
            ("with_min_blocks", &self.min_blocks),
            ("with_max_registers", &self.max_registers),
        ];
        for (method, setting) in settings {
            let method = format_ident!("{method}");
            let number = setting.as_ref().map(number);
            value.extend(number.map(|number| quote!(.#method(#number))));
        }
        if self.cooperative {
            value.extend(quote!(.with_cooperative()));
        }
        if self.dependent {
            value.extend(quote!(.with_dependent()));
        }
        value.extend(self.dynamic_shared.as_ref().map(Shared::value));
        value
    }

    /// The assembly comment from which the builder writes the launch bounds, if there are any.
    pub fn bounds(&self, kernel: &str) -> Option<TokenStream> {
        let value = self.unchecked();
        let three = |of: &str| -> Vec<_> {
            let of = format_ident!("{of}");
            (0..3usize).map(|i| quote!(::cuda_std::contract::extent(#value.#of, #i))).collect()
        };
        let one = |of: &str| {
            let of = format_ident!("{of}");
            vec![quote!(::cuda_std::contract::number(#value.#of))]
        };
        let directives = [
            ("reqntid", self.block.as_ref().map(|_| three("block"))),
            ("maxntid", self.max_threads.as_ref().map(|_| one("max_threads"))),
            ("minnctapersm", self.min_blocks.as_ref().map(|_| one("min_blocks"))),
            ("maxnreg", self.max_registers.as_ref().map(|_| one("max_registers"))),
            ("reqnctapercluster", self.cluster.as_ref().map(|_| three("cluster"))),
        ];
        let (mut text, mut operands) = (String::new(), Vec::new());
        for (directive, numbers) in directives {
            let Some(numbers) = numbers else { continue };
            let places: Vec<_> =
                (operands.len()..).take(numbers.len()).map(|i| format!("{{{i}}}")).collect();
            text += &format!(" {directive}={}", places.join(","));
            operands.extend(numbers);
        }
        let text = format!("// ferrowarp.bounds {kernel}{text}");
        let some = !operands.is_empty();
        some.then(|| quote!(::core::arch::global_asm!(#text, #(const #operands),*);))
    }
}

impl Extents {
    fn parse(value: TokenStream) -> Result<Self> {
        let expr: Expr = syn::parse2(value)?;
        let span = syn::spanned::Spanned::span(&expr);
        let given = match expr {
            Expr::Tuple(tuple) => tuple.elems.into_iter().collect(),
            Expr::Paren(inner) => vec![*inner.expr],
            other => vec![other],
        };
        match given.len() {
            1..=3 => Ok(Self { given, span }),
            _ => Err(Error::new(span, "one to three numbers, as `256`, `(32, 8)` or `(8, 8, 4)`")),
        }
    }

    fn numbers(&self) -> [TokenStream; 3] {
        std::array::from_fn(|i| self.given.get(i).map_or(quote!(1), number))
    }
}

impl Shared {
    fn parse(value: TokenStream) -> Result<Self> {
        match syn::parse2::<Type>(value.clone()) {
            Ok(ty @ Type::Array(_)) => return Ok(Self::Array(ty)),
            Ok(Type::Slice(slice)) => return Ok(Self::Elements(*slice.elem)),
            _ => {}
        }
        Ok(match syn::parse2(value)? {
            Expr::Range(range) => {
                let most = range.end.map(|end| match range.limits {
                    syn::RangeLimits::Closed(_) => Ok(*end),
                    syn::RangeLimits::HalfOpen(dots) => {
                        Err(Error::new_spanned(dots, "the largest size is allowed: write `..=`"))
                    }
                });
                Self::Range { least: range.start.map(|start| *start), most: most.transpose()? }
            }
            bytes => Self::Bytes(bytes),
        })
    }

    /// The call that adds it to the contract.
    fn value(&self) -> TokenStream {
        let (least, most, unit) = match self {
            Self::Bytes(bytes) => {
                let bytes = number(bytes);
                return quote!(.with_dynamic_shared(#bytes, #bytes, 1));
            }
            Self::Array(ty) => {
                let bytes = quote!(::core::mem::size_of::<#ty>() as u64);
                return quote!(.with_dynamic_shared(#bytes, #bytes, 1));
            }
            Self::Elements(ty) => (None, None, quote!(::core::mem::size_of::<#ty>() as u64)),
            Self::Range { least, most } => (least.as_ref(), most.as_ref(), quote!(1)),
        };
        let least = least.map_or(quote!(0), number);
        let most = most.map_or(quote!(::core::primitive::u32::MAX as u64), number);
        quote!(.with_dynamic_shared(#least, #most, #unit))
    }
}

/// Any integer as a `u64`; a negative one becomes too large, and is refused as that.
fn number(expr: &Expr) -> TokenStream {
    quote!((#expr) as u64)
}

fn put<T>(slot: &mut Option<T>, name: &Ident, value: T) -> Result<()> {
    match slot.replace(value) {
        None => Ok(()),
        Some(_) => Err(repeated(name)),
    }
}

fn repeated(name: &Ident) -> Error {
    Error::new_spanned(name, format!("`{name}` is given twice"))
}

fn unknown(name: &Ident) -> Error {
    Error::new_spanned(name, format!("`#[kernel]` has no option `{name}`: a contract has {NAMES}"))
}
