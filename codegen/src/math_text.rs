//! Math IR as text: dumps, texts of tables, terms in proofs.

use std::fmt::Write;

use kernelwright_syntax::program::{BinaryOp, CompareOp, Function};

use crate::math::{Centring, Expr, Operator, Rule, Shift, TableCondition, TableExpr};

/// Names an f64 expression is written with.
#[allow(missing_docs)]
pub struct Names<'a> {
    pub letters: Vec<&'a str>,
    pub sizes: Vec<&'a str>,
    pub params: Vec<&'a str>,
    pub data: Vec<&'a str>,
    pub lets: Vec<&'a str>,
}

impl<'a> Names<'a> {
    /// The names of an operator.
    pub fn of(op: &'a Operator) -> Self {
        let grid = op.space.grid();
        Names {
            letters: grid.axes.iter().map(|a| a.letter.as_str()).collect(),
            sizes: grid.axes.iter().map(|a| a.size_name.as_str()).collect(),
            params: op.params.iter().map(String::as_str).collect(),
            data: op.data.iter().map(|d| d.name.as_str()).collect(),
            lets: op.lets.iter().map(|l| l.name.as_str()).collect(),
        }
    }

    /// `name[k-1]`, or the bare name at shift zero.
    pub fn at(&self, name: &str, s: Shift) -> String {
        let moved = self.letters.iter().zip(s).filter(|(_, s)| *s != 0);
        let steps: Vec<String> = moved.map(|(l, s)| format!("{l}{s:+}")).collect();
        if steps.is_empty() { name.to_string() } else { format!("{name}[{}]", steps.join(", ")) }
    }

    /// A table's definition.
    pub fn table_expr(&self, e: &TableExpr) -> String {
        self.table_level(e, 0)
    }

    fn table_level(&self, e: &TableExpr, level: u8) -> String {
        match e {
            TableExpr::Number(v) => number(*v, level),
            TableExpr::Param(p) => self.params[*p].to_string(),
            TableExpr::Size(a) => self.sizes[*a].to_string(),
            TableExpr::Index(a) => self.letters[*a].to_string(),
            TableExpr::Let(id, s) => self.at(self.lets[*id], *s),
            TableExpr::Data(id, s) => self.at(self.data[*id], *s),
            TableExpr::Neg(a) => negative(&self.table_level(a, 3), level),
            TableExpr::Binary(op, a, b) => {
                let (own, right) = levels(*op);
                infix(*op, &self.table_level(a, own), &self.table_level(b, right), own, level)
            }
            TableExpr::Call(f, args) => {
                let args: Vec<String> = args.iter().map(|a| self.table_level(a, 0)).collect();
                format!("{}({})", function(*f), args.join(", "))
            }
            TableExpr::Select(c, a, b) => {
                format!("if {} {{ {} }} else {{ {} }}", self.condition(c), self.table_expr(a), self.table_expr(b))
            }
        }
    }

    fn condition(&self, c: &TableCondition) -> String {
        match c {
            TableCondition::Compare(op, a, b) => {
                format!("{} {} {}", self.table_level(a, 1), comparison(*op), self.table_level(b, 1))
            }
            TableCondition::And(a, b) => format!("({}) && ({})", self.condition(a), self.condition(b)),
            TableCondition::Or(a, b) => format!("({}) || ({})", self.condition(a), self.condition(b)),
            TableCondition::Not(a) => format!("!({})", self.condition(a)),
        }
    }
}

/// A row, flux or coefficient of an operator.
pub fn expr(op: &Operator, e: &Expr) -> String {
    level(op, &Names::of(op), e, 0)
}

fn level(op: &Operator, names: &Names, e: &Expr, around: u8) -> String {
    let sub = |e: &Expr, around| level(op, names, e, around);
    match e {
        Expr::Number(v) => number(*v, around),
        Expr::Param(p) => op.params[*p].clone(),
        Expr::Table(id, s) => names.at(&op.tables[*id].name, *s),
        Expr::Data(id, s) => names.at(&op.data[*id].name, *s),
        Expr::Unknown(c, s) => names.at(&op.unknowns[*c], *s),
        Expr::Flux(id, s) => names.at(&op.fluxes[*id].name, *s),
        Expr::Neg(a) => negative(&sub(a, 3), around),
        Expr::Binary(o, a, b) => {
            let (own, right) = levels(*o);
            infix(*o, &sub(a, own), &sub(b, right), own, around)
        }
        Expr::Call(f, args) => {
            let args: Vec<String> = args.iter().map(|a| sub(a, 0)).collect();
            format!("{}({})", function(*f), args.join(", "))
        }
        Expr::Select(c, a, b) => format!("if {} {{ {} }} else {{ {} }}", sub(c, 0), sub(a, 0), sub(b, 0)),
        Expr::Slots(a) => format!("sum over slots ({})", sub(a, 0)),
        Expr::Entry => "value".into(),
        Expr::Gather(c) => format!("{}[column]", op.unknowns[*c]),
        Expr::Compare(o, a, b) => format!("({} {} {})", sub(a, 1), comparison(*o), sub(b, 1)),
    }
}

fn number(v: f64, around: u8) -> String {
    let plain = v == 0.0 || (1e-4..1e15).contains(&v.abs());
    let text = if plain { format!("{v}") } else { format!("{v:?}") };
    if v < 0.0 && around > 0 { format!("({text})") } else { text }
}

fn negative(a: &str, around: u8) -> String {
    if around > 0 { format!("(-{a})") } else { format!("-{a}") }
}

/// Binding of an operator and of its right operand.
fn levels(op: BinaryOp) -> (u8, u8) {
    match op {
        BinaryOp::Add => (1, 2),
        BinaryOp::Sub => (1, 2),
        BinaryOp::Mul => (2, 3),
        BinaryOp::Div => (2, 3),
    }
}

fn infix(op: BinaryOp, a: &str, b: &str, own: u8, around: u8) -> String {
    let sign = match op {
        BinaryOp::Add => "+",
        BinaryOp::Sub => "-",
        BinaryOp::Mul => "*",
        BinaryOp::Div => "/",
    };
    // Right operands keep their parentheses: the order of rounding is part of the IR.
    if own < around { format!("({a} {sign} {b})") } else { format!("{a} {sign} {b}") }
}

fn function(f: Function) -> String {
    format!("{f:?}").to_lowercase()
}

fn comparison(op: CompareOp) -> &'static str {
    match op {
        CompareOp::Lt => "<",
        CompareOp::Le => "<=",
        CompareOp::Gt => ">",
        CompareOp::Ge => ">=",
        CompareOp::Eq => "==",
        CompareOp::Ne => "!=",
    }
}

/// The operator as text, the same on every machine.
pub fn dump(op: &Operator) -> String {
    let mut out = String::new();
    write_dump(&mut out, op).expect("a string grows");
    out
}

fn write_dump(out: &mut String, op: &Operator) -> std::fmt::Result {
    let names = Names::of(op);
    let grid = op.space.grid();
    writeln!(out, "operator {}", op.name)?;
    let axes: Vec<String> = grid.axes.iter().map(|a| format!("{}: {} = {}", a.letter, a.size_name, a.size)).collect();
    let centring = if grid.centring == Centring::Cells { "cells" } else { "nodes" };
    writeln!(out, "  grid {centring} [{}], unknowns {}", axes.join(", "), op.unknowns.join(", "))?;
    if !op.params.is_empty() {
        writeln!(out, "  params {}", op.params.join(", "))?;
    }
    write_stored(out, op, &names)?;
    for f in &op.fluxes {
        writeln!(out, "  flux {}[{}+1/2] = {}", f.name, grid.axes[f.axis].letter, expr(op, &f.value))?;
    }
    for (row, unknown) in op.rows.iter().zip(&op.unknowns) {
        writeln!(out, "  apply {unknown} => {}", expr(op, &row.value))?;
    }
    for (axis, rules) in grid.axes.iter().zip(&op.boundary) {
        writeln!(out, "  boundary {}: {}, {}", axis.letter, rule(op, &rules[0]), rule(op, &rules[1]))?;
    }
    if let Some(mask) = &op.mask {
        writeln!(out, "  mask {}", expr(op, mask))?;
    }
    if op.nullspace {
        writeln!(out, "  nullspace constant")?;
    }
    for f in &op.facts {
        writeln!(out, "  fact {:?}: {:?}, {}", f.fact, f.standing, f.why)?;
    }
    Ok(())
}

/// Data, lets and tables.
fn write_stored(out: &mut String, op: &Operator, names: &Names) -> std::fmt::Result {
    let grid = op.space.grid();
    for d in &op.data {
        let on = |&a: &usize| grid.axes[a].letter.clone() + if d.half == Some(a) { "+1/2" } else { "" };
        let axes: Vec<String> = d.axes.iter().map(on).collect();
        let kind = if d.profile { "profile" } else { "field" };
        writeln!(out, "  data {}[{}], {kind}, outside {:?}", d.name, axes.join(", "), d.outside)?;
    }
    for l in &op.lets {
        writeln!(out, "  let {} = {}", l.name, names.table_expr(&l.value))?;
    }
    for t in &op.tables {
        let axis = |&a: &usize| {
            let margin = |m: u32, sign: &str| if m > 0 { format!("{sign}{m}") } else { String::new() };
            format!("{}{}{}", grid.axes[a].letter, margin(t.below[a], "-"), margin(t.above[a], "+"))
        };
        let axes: Vec<String> = t.axes.iter().map(axis).collect();
        writeln!(out, "  table {}[{}] = {}", t.name, axes.join(", "), names.table_expr(&t.value))?;
    }
    Ok(())
}

fn rule(op: &Operator, r: &Rule) -> String {
    match r {
        Rule::NoFlux => "no_flux".to_string(),
        Rule::Periodic => "periodic".to_string(),
        Rule::Dirichlet(table) => format!("dirichlet({})", op.tables[*table].name),
    }
}
