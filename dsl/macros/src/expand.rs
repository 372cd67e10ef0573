//! The expansion: one module per operator and solver, and the registration of the program.

use kernelwright_syntax::program::{Operator, Param, Solver};
use proc_macro2::{Ident, Span, TokenStream};
use quote::quote;

use crate::source::Declared;

/// All modules of a program.
pub fn modules(declared: &Declared) -> TokenStream {
    let own = |name: &String| declared.names.contains(name);
    let operators = declared.program.operators.iter().map(|op| operator(declared, op));
    let solvers = declared.program.solvers.iter().filter(|s| own(&s.name)).map(|s| solver(declared, s));
    let watched = declared.file.as_ref().map(|path| {
        let path = path.display().to_string();
        quote! { const _: &[u8] = ::core::include_bytes!(#path); }
    });
    let registration = registration(declared);
    quote! { #watched #registration #(#operators)* #(#solvers)* }
}

fn registration(declared: &Declared) -> TokenStream {
    let name = declared.names.first().map_or("", String::as_str);
    let record = record(declared, name);
    quote! { ::kernelwright::registry::inventory::submit! { #record } }
}

/// The program as the runtime knows it, under a name.
fn record(declared: &Declared, name: &str) -> TokenStream {
    let text = &declared.text;
    quote! { ::kernelwright::registry::Registered { name: #name, source: #text, file: ::core::file!() } }
}

fn solver(declared: &Declared, solver: &Solver) -> TokenStream {
    let module = ident(&solver.name);
    let doc = &solver.doc;
    let record = record(declared, &solver.name);
    quote! {
        #[doc = #doc]
        pub mod #module {
            /// The program that declares the solver.
            pub static PROGRAM: ::kernelwright::registry::Registered = #record;
        }
    }
}

fn operator(declared: &Declared, operator: &Operator) -> TokenStream {
    let module = ident(&operator.name);
    let doc = &operator.doc;
    let record = record(declared, &operator.name);
    let sizes = sizes(operator);
    let parameters = parameters(&operator.params);
    let data = (!operator.data.is_empty()).then(|| data(operator));
    quote! {
        #[doc = #doc]
        pub mod #module {
            /// The program that declares the operator.
            pub static PROGRAM: ::kernelwright::registry::Registered = #record;
            #sizes
            #parameters
            #data
            /// Begins a system with this operator; data arrays and right-hand sides are given to each solve.
            pub fn system(sizes: Sizes, parameters: Parameters) -> ::kernelwright::handle::System {
                ::kernelwright::handle::System::new(&PROGRAM, &sizes.list(), &parameters.list())
            }
        }
    }
}

fn sizes(operator: &Operator) -> TokenStream {
    let names: Vec<&String> = operator.axes.iter().map(|axis| &axis.size).collect();
    let fields: Vec<Ident> = names.iter().map(|name| ident(name)).collect();
    let docs = operator.axes.iter().map(|axis| format!("Points along {}.", axis.letter));
    quote! {
        /// Number of points along each axis.
        #[derive(Debug, Clone, Copy, PartialEq)]
        pub struct Sizes { #( #[doc = #docs] pub #fields: usize, )* }
        impl Sizes {
            fn list(&self) -> ::std::vec::Vec<(&'static str, usize)> { ::std::vec![ #( (#names, self.#fields) ),* ] }
        }
    }
}

fn parameters(params: &[Param]) -> TokenStream {
    let names: Vec<&String> = params.iter().map(|param| &param.name).collect();
    let fields: Vec<Ident> = names.iter().map(|name| ident(name)).collect();
    let docs = params.iter().map(|param| if param.doc.is_empty() { param.name.clone() } else { param.doc.clone() });
    let defaults: Option<Vec<f64>> = params.iter().map(|param| param.default).collect();
    let default = defaults.map(|values| {
        quote! {
            impl ::core::default::Default for Parameters {
                fn default() -> Self { Parameters { #( #fields: #values ),* } }
            }
        }
    });
    quote! {
        /// Run-time arguments; changing them never recompiles.
        #[derive(Debug, Clone, Copy, PartialEq)]
        pub struct Parameters { #( #[doc = #docs] pub #fields: f64, )* }
        #default
        impl Parameters {
            fn list(&self) -> ::std::vec::Vec<(&'static str, f64)> { ::std::vec![ #( (#names, self.#fields) ),* ] }
            /// Sets all of them for a solve.
            pub fn set<'a>(&self, inputs: ::kernelwright::solve::Inputs<'a>) -> ::kernelwright::solve::Inputs<'a> {
                self.list().into_iter().fold(inputs, |inputs, (name, value)| inputs.param(name, value))
            }
        }
    }
}

fn data(operator: &Operator) -> TokenStream {
    let names: Vec<&String> = operator.data.iter().map(|data| &data.name).collect();
    let fields: Vec<Ident> = names.iter().map(|name| ident(name)).collect();
    let docs = operator.data.iter().map(|data| if data.doc.is_empty() { data.name.clone() } else { data.doc.clone() });
    quote! {
        /// Arrays from outside, axis 0 fastest.
        #[derive(Debug, Clone, Copy, PartialEq)]
        pub struct Data<'a> { #( #[doc = #docs] pub #fields: &'a [f64], )* }
        impl<'a> Data<'a> {
            /// Sets all of them for a solve.
            pub fn set(&self, inputs: ::kernelwright::solve::Inputs<'a>) -> ::kernelwright::solve::Inputs<'a> {
                inputs #( .data(#names, self.#fields) )*
            }
        }
    }
}

/// A name of the program as a Rust identifier. A keyword of Rust becomes a raw one, but for the few that cannot: those
/// take an underscore.
fn ident(name: &str) -> Ident {
    if matches!(name, "self" | "Self" | "super" | "crate") {
        return Ident::new(&format!("{name}_"), Span::call_site());
    }
    let raw = is_keyword(name);
    if raw { Ident::new_raw(name, Span::call_site()) } else { Ident::new(name, Span::call_site()) }
}

/// Keywords, with those that are only reserved.
fn is_keyword(name: &str) -> bool {
    const WORDS: [&str; 48] = [
        "as", "async", "await", "break", "const", "continue", "dyn", "else", "enum", "extern", "false", "fn", "for",
        "gen", "if", "impl", "in", "let", "loop", "match", "mod", "move", "mut", "pub", "ref", "return", "static",
        "struct", "trait", "true", "type", "unsafe", "use", "where", "while", "yield", "abstract", "become", "box",
        "do", "final", "macro", "override", "priv", "try", "typeof", "unsized", "virtual",
    ];
    WORDS.contains(&name)
}

#[cfg(test)]
mod tests {
    use super::ident;

    #[test]
    fn names_of_programs_may_be_keywords_of_rust() {
        for (name, written) in [("u", "u"), ("type", "r#type"), ("final", "r#final"), ("Self", "Self_")] {
            assert_eq!(ident(name).to_string(), written);
        }
    }
}
