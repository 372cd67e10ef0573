//! Procedural macros that declare kernelwright programs in Rust sources.
//!
//! A thin shell over `kernelwright-syntax`: the same parser and checks as for `.kw` files, errors at the tokens they
//! are about, and a small expansion: the program's text, its registration for the command, and a typed handle per
//! operator (a missing or misspelt size or parameter is a compile error).

mod expand;
mod source;

use proc_macro::TokenStream;

/// Declares an operator: `operator! { poisson { grid cells [i: nx]; … } }`, or `operator!(file = "poisson.kw")`.
///
/// Expands to a module of the operator's name with `PROGRAM`, `Sizes`, `Parameters`, `Data` where it has data arrays,
/// and `system(sizes, parameters)`, which begins a `kernelwright::handle::System`. A name that is a keyword of Rust becomes a
/// raw identifier, `r#type`; `self`, `Self`, `super` and `crate`, which cannot, get an underscore behind them.
#[proc_macro]
pub fn operator(tokens: TokenStream) -> TokenStream {
    declare(Some("operator"), tokens)
}

/// Declares a solver: `solver! { mine(A: spd) { residual r = f - A*u; … } }`, or `solver!(file = "mine.kw")`.
///
/// Expands to a module of the solver's name with `PROGRAM`, which `System::own_solver` takes.
#[proc_macro]
pub fn solver(tokens: TokenStream) -> TokenStream {
    declare(Some("solver"), tokens)
}

/// Declares several operators, solvers and problems as one program, as in a `.kw` file; or `program!(file = "all.kw")`.
///
/// Expands to a module per operator and solver. The whole is registered under the name of its first item.
#[proc_macro]
pub fn program(tokens: TokenStream) -> TokenStream {
    declare(None, tokens)
}

fn declare(keyword: Option<&str>, tokens: TokenStream) -> TokenStream {
    let expanded = source::read(keyword, tokens.into()).map(|declared| expand::modules(&declared));
    expanded.unwrap_or_else(|errors| errors).into()
}
