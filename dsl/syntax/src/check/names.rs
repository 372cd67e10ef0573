//! Names of an operator or solver: what each means, and which are taken by the language.

use crate::ast::Name;
use crate::diagnostic::{Diagnostic, closest};
use crate::source::Span;
use std::cell::Cell;
use std::collections::HashMap;

/// Functions of reals, with their number of arguments.
pub const FUNCTIONS: [(&str, usize); 14] = [
    ("sqrt", 1),
    ("exp", 1),
    ("log", 1),
    ("sin", 1),
    ("cos", 1),
    ("tan", 1),
    ("tanh", 1),
    ("abs", 1),
    ("floor", 1),
    ("pow", 2),
    ("min", 2),
    ("max", 2),
    ("sqr", 1),
    ("cube", 1),
];

/// Unknown names that get a suggestion: each one is compared with every known name.
pub const SUGGESTIONS: usize = 50;

/// What a name of an operator means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Symbol {
    /// The letter of an axis.
    Letter(usize),
    /// The size of an axis.
    Size(usize),
    /// A parameter.
    Param(usize),
    /// An array.
    Data(usize),
    /// A named value.
    Let(usize),
    /// A flux.
    Flux(usize),
    /// An unknown.
    Unknown(usize),
    /// Declared, but with errors: uses are not reported again.
    Broken,
}

/// Names in the order of declaration.
#[derive(Debug, Clone, Default)]
pub struct Names {
    order: Vec<Name>,
    known: HashMap<String, (Symbol, Span)>,
    later: HashMap<String, Span>,
    suggestions: Cell<usize>,
}

impl Names {
    /// Declares a name; an error if it is taken.
    pub fn declare(&mut self, name: &Name, symbol: Symbol, errors: &mut Vec<Diagnostic>) {
        if let Some(error) = reserved(name) {
            errors.push(error);
        }
        if let Some((_, first)) = self.known.get(&name.text) {
            errors.push(duplicate(name, *first));
            return;
        }
        self.order.push(name.clone());
        self.known.insert(name.text.clone(), (symbol, name.span));
    }

    /// Gives a declared name its meaning, or takes it away.
    pub fn redefine(&mut self, name: &str, symbol: Symbol) {
        if let Some((known, _)) = self.known.get_mut(name) {
            *known = symbol;
        }
    }

    /// Remembers that the name is declared further down.
    pub fn announce(&mut self, name: &Name) {
        self.later.entry(name.text.clone()).or_insert(name.span);
    }

    /// What the name means, or why it means nothing here.
    pub fn find(&self, name: &str, span: Span) -> Result<Symbol, Box<Diagnostic>> {
        if let Some((symbol, _)) = self.known.get(name) {
            return Ok(*symbol);
        }
        if let Some(later) = self.later.get(name) {
            let error =
                Diagnostic::new("used-before-definition", span, format!("`{name}` is used before its definition"));
            let error = error.note(*later, "defined here").help("a value reads only what is defined before it");
            return Err(Box::new(error));
        }
        let error = Diagnostic::new("unknown-name", span, format!("nothing is called `{name}`")).label("unknown name");
        Err(Box::new(error.help_if(self.suggest(name))))
    }

    fn suggest(&self, name: &str) -> Option<String> {
        self.suggestions.set(self.suggestions.get() + 1);
        if self.suggestions.get() > SUGGESTIONS {
            return None;
        }
        let known = self.order.iter().map(|name| name.text.as_str());
        closest(name, known.chain(["pi"])).map(|near| format!("did you mean `{near}`?"))
    }
}

/// The error for a name that is declared twice.
pub fn duplicate(name: &Name, first: Span) -> Diagnostic {
    Diagnostic::new("duplicate-name", name.span, format!("`{}` is already taken", name.text))
        .label("second declaration")
        .note(first, "first declaration")
}

/// The error for a name the language itself uses.
pub fn reserved(name: &Name) -> Option<Diagnostic> {
    let text = name.text.as_str();
    let function = FUNCTIONS.iter().any(|(function, _)| *function == text) || text == "div";
    let what = match text {
        _ if function => "a function",
        "pi" => "a constant",
        _ => return None,
    };
    let error = Diagnostic::new("reserved-name", name.span, format!("`{text}` is {what} of the language"));
    Some(error.label("choose another name"))
}

/// The error for a function nobody knows.
pub fn unknown_function(name: &Name, further: &[&'static str]) -> Diagnostic {
    let known = FUNCTIONS.iter().map(|(function, _)| *function).chain(further.iter().copied());
    let nearest = closest(&name.text, known).map(|near| format!("did you mean `{near}`?"));
    Diagnostic::new("unknown-name", name.span, format!("there is no function `{}`", name.text))
        .label("unknown function")
        .help_if(nearest)
}

/// `1 argument`, `2 arguments`.
pub fn count(number: usize, what: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {what}{plural}")
}
