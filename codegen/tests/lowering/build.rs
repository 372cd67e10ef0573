//! Checked operators by hand, with expressions that read like the language.

use std::ops;

use kernelwright_syntax::program::*;
use kernelwright_syntax::source::Span;

/// An expression.
#[derive(Debug, Clone)]
pub struct E(pub Expr);

fn e(kind: ExprKind) -> E {
    E(Expr { kind, span: Span::default() })
}

pub fn num(v: f64) -> E {
    e(ExprKind::Number(v))
}

pub fn index(axis: usize) -> E {
    e(ExprKind::Index(axis))
}

pub fn size(axis: usize) -> E {
    e(ExprKind::Size(axis))
}

pub fn call(f: Function, args: Vec<E>) -> E {
    e(ExprKind::Call(f, args.into_iter().map(|a| a.0).collect()))
}

pub fn sqr(a: &E) -> E {
    a.clone() * a.clone()
}

pub fn cube(a: &E) -> E {
    a.clone() * a.clone() * a.clone()
}

pub fn u(shift: Shift) -> E {
    component(0, shift)
}

pub fn component(c: usize, shift: Shift) -> E {
    e(ExprKind::Unknown(c, shift))
}

pub fn choose(op: CompareOp, a: E, b: E, yes: E, no: E) -> E {
    let c = Condition::Compare(op, a.0, b.0);
    e(ExprKind::If(Box::new(c), Box::new(yes.0), Box::new(no.0)))
}

macro_rules! arithmetic {
    ($($trait:ident $method:ident $op:ident),*) => {$(
        impl ops::$trait for E {
            type Output = E;
            fn $method(self, b: E) -> E {
                e(ExprKind::Binary(BinaryOp::$op, Box::new(self.0), Box::new(b.0)))
            }
        }
    )*};
}
arithmetic!(Add add Add, Sub sub Sub, Mul mul Mul, Div div Div);

impl ops::Neg for E {
    type Output = E;
    fn neg(self) -> E {
        e(ExprKind::Neg(Box::new(self.0)))
    }
}

/// A let, data array or flux that can be read at shifts.
#[derive(Clone, Copy)]
pub struct Name(usize, fn(usize, Shift) -> ExprKind);

impl Name {
    pub fn at(self, shift: Shift) -> E {
        e((self.1)(self.0, shift))
    }

    pub fn here(self) -> E {
        self.at([0; 3])
    }

    /// Divergence of a flux along an axis.
    pub fn div(self, axis: usize) -> E {
        self.here() - self.at(step(axis, -1))
    }
}

pub fn step(axis: usize, by: i32) -> Shift {
    let mut s = [0; 3];
    s[axis] = by;
    s
}

/// An operator under construction.
pub struct Build(pub Operator);

impl Build {
    pub fn new(name: &str, centring: Centring, dims: usize) -> Build {
        let axis = |n: usize| Axis {
            letter: ["i", "j", "k"][n].into(),
            size: ["nx", "ny", "nz"][n].into(),
            span: Span::default(),
        };
        Build(Operator {
            name: name.into(),
            doc: String::new(),
            span: Span::default(),
            centring,
            axes: (0..dims).map(axis).collect(),
            params: vec![],
            data: vec![],
            lets: vec![],
            fluxes: vec![],
            unknowns: vec![],
            apply: vec![],
            boundary: vec![[Rule::NoFlux, Rule::NoFlux]; dims],
            mask: None,
            nullspace: None,
            claims: vec![],
        })
    }

    pub fn param(&mut self, name: &str) -> E {
        let (doc, default, span) = (String::new(), None, Span::default());
        self.0.params.push(Param { name: name.into(), doc, default, span });
        e(ExprKind::Param(self.0.params.len() - 1))
    }

    pub fn data(&mut self, name: &str, axes: &[usize], half: Option<usize>, outside: Outside) -> Name {
        let (doc, span) = (String::new(), Span::default());
        self.0.data.push(Data { name: name.into(), doc, axes: axes.to_vec(), half, outside, span });
        Name(self.0.data.len() - 1, ExprKind::Data)
    }

    /// `depends` and `on_unknown` are inferred by lowering, so they stay unset here.
    pub fn set(&mut self, name: &str, value: E) -> Name {
        self.0.lets.push(Let {
            name: name.into(),
            half: None,
            depends: [false; 3],
            on_unknown: false,
            value: value.0,
            text: format!("let {name} = …"),
            span: Span::default(),
        });
        Name(self.0.lets.len() - 1, ExprKind::Let)
    }

    pub fn flux(&mut self, name: &str, axis: usize, value: E) -> Name {
        let text = format!("flux {name} = …");
        self.0.fluxes.push(Flux { name: name.into(), axis, value: value.0, text, span: Span::default() });
        Name(self.0.fluxes.len() - 1, ExprKind::Flux)
    }

    pub fn apply(&mut self, unknown: &str, value: E) {
        self.0.unknowns.push(unknown.into());
        let text = format!("apply {unknown} => …");
        self.0.apply.push(Applied { value: value.0, text, span: Span::default() });
    }

    pub fn boundary(&mut self, axis: usize, low: Rule, high: Rule) {
        self.0.boundary[axis] = [low, high];
    }

    pub fn claim(&mut self, facts: &[Fact]) {
        self.0.claims = facts.iter().map(|&fact| Claim { fact, span: Span::default() }).collect();
    }
}

pub fn dirichlet(value: E) -> Rule {
    Rule::Dirichlet(value.0)
}
