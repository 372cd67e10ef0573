//! The verifier of Math IR: the invariants listed in [`math`](crate::math).

use crate::lower::required_margins;
use crate::math::{Expr, Function, Operator, Rule, Shift, TableCondition, TableExpr};

/// Checks every invariant.
///
/// # Errors
/// All violations, in order; a violation is a bug of the stage that produced the operator.
pub fn verify(op: &Operator) -> Result<(), Vec<String>> {
    let mut check = Check { op, errors: Vec::new(), within_slots: false };
    check.shape();
    if check.errors.is_empty() {
        check.tables();
        check.rows();
    }
    if check.errors.is_empty() {
        check.margins();
    }
    if check.errors.is_empty() { Ok(()) } else { Err(check.errors) }
}

struct Check<'a> {
    op: &'a Operator,
    errors: Vec<String>,
    /// Within a sum over slots.
    within_slots: bool,
}

/// What an f64 expression may read.
struct Scope<'a> {
    owner: &'a str,
    lets: usize,
    axes: Option<&'a [usize]>,
}

impl Check<'_> {
    fn require(&mut self, holds: bool, what: impl FnOnce() -> String) {
        if !holds {
            self.errors.push(what());
        }
    }

    fn dims(&self) -> usize {
        let grid = self.op.space.grid();
        grid.axes.len()
    }

    fn shape(&mut self) {
        let grid = self.op.space.grid();
        let dims = grid.axes.len();
        self.require((1..=3).contains(&dims), || format!("{dims} axes"));
        if let Some(rows) = self.op.space.rows() {
            let layouts = || std::iter::once(&rows.layout).chain(rows.companions.iter().map(|c| &c.layout));
            let expected = layouts().flat_map(|layout| layout.arrays.iter().map(Some));
            let arrays = self.op.data.iter().map(|data| data.stored.as_ref()).eq(expected);
            self.require(arrays, || "data are not the arrays of the layout".to_string());
            let alone = self.op.tables.is_empty() && self.op.fluxes.is_empty() && self.op.mask.is_none();
            self.require(alone && dims == 1, || "rows of a matrix have tables, fluxes or a mask".to_string());
            let fits = grid.axes.iter().all(|axis| layouts().all(|layout| axis.size == layout.size));
            self.require(fits, || "the rows are not those of the layout".to_string());
        } else {
            let stored = self.op.data.iter().any(|data| data.stored.is_some());
            self.require(!stored, || "a grid has arrays of a matrix".to_string());
        }
        self.require(grid.axes.iter().all(|a| a.size > 0), || "an axis without points".to_string());
        let counts = [self.op.rows.len(), self.op.unknowns.len()];
        self.require(counts == [grid.components; 2], || format!("{counts:?} rows and unknowns"));
        self.require(self.op.boundary.len() == dims, || "one pair of rules per axis".to_string());
        for (a, rules) in self.op.boundary.iter().enumerate() {
            let periodic = rules.iter().filter(|r| **r == Rule::Periodic).count();
            self.require(periodic != 1, || format!("axis {a} is periodic on one side"));
            for rule in rules {
                if let Rule::Dirichlet(t) = rule {
                    let fits = self.op.tables.get(*t).is_some_and(|t| !t.axes.contains(&a));
                    self.require(fits, || format!("the prescribed value on axis {a} depends on it or is missing"));
                }
            }
        }
        for d in &self.op.data {
            self.require(ascending(&d.axes, dims), || format!("axes of data {}", d.name));
            self.require(d.half.is_none_or(|h| d.axes.contains(&h)), || format!("half axis of data {}", d.name));
            let plain = d.profile == (d.axes.len() < dims) || d.stored.is_some();
            self.require(plain, || format!("data {} is a profile or not", d.name));
        }
        for t in &self.op.tables {
            self.require(ascending(&t.axes, dims), || format!("axes of table {}", t.name));
        }
        for f in &self.op.fluxes {
            self.require(f.axis < dims, || format!("axis of flux {}", f.name));
        }
    }

    fn tables(&mut self) {
        let op = self.op;
        for (n, l) in op.lets.iter().enumerate() {
            self.table_expr(&l.value, &Scope { owner: &l.name, lets: n, axes: None });
        }
        for t in &op.tables {
            self.table_expr(&t.value, &Scope { owner: &t.name, lets: op.lets.len(), axes: Some(&t.axes) });
        }
    }

    fn table_expr(&mut self, e: &TableExpr, scope: &Scope) {
        let owner = scope.owner;
        let dims = self.dims();
        let allowed = |a: usize| a < dims && scope.axes.is_none_or(|axes| axes.contains(&a));
        match e {
            TableExpr::Number(_) => {}
            TableExpr::Param(p) => self.require(*p < self.op.params.len(), || format!("{owner}: parameter {p}")),
            TableExpr::Size(a) => self.require(*a < dims, || format!("{owner}: size {a}")),
            TableExpr::Index(a) => self.require(allowed(*a), || format!("{owner}: letter {a}")),
            TableExpr::Let(id, s) => {
                self.require(*id < scope.lets, || format!("{owner}: let {id} is not an earlier one"));
                self.shift(owner, s);
            }
            TableExpr::Data(id, s) => {
                let data = self.op.data.get(*id);
                let fits = data.is_some_and(|d| d.profile && d.axes.iter().all(|a| allowed(*a)));
                self.require(fits, || format!("{owner}: data {id} is no profile of its axes"));
                self.shift(owner, s);
            }
            TableExpr::Neg(a) => self.table_expr(a, scope),
            TableExpr::Binary(_, a, b) => {
                self.table_expr(a, scope);
                self.table_expr(b, scope);
            }
            TableExpr::Call(f, args) => {
                self.require(args.len() == arity(*f), || format!("{owner}: arguments of {f:?}"));
                args.iter().for_each(|a| self.table_expr(a, scope));
            }
            TableExpr::Select(c, a, b) => {
                self.table_condition(c, scope);
                self.table_expr(a, scope);
                self.table_expr(b, scope);
            }
        }
    }

    fn table_condition(&mut self, c: &TableCondition, scope: &Scope) {
        match c {
            TableCondition::Compare(_, a, b) => {
                self.table_expr(a, scope);
                self.table_expr(b, scope);
            }
            TableCondition::And(a, b) | TableCondition::Or(a, b) => {
                self.table_condition(a, scope);
                self.table_condition(b, scope);
            }
            TableCondition::Not(a) => self.table_condition(a, scope),
        }
    }

    fn shift(&mut self, owner: &str, s: &Shift) {
        let dims = self.dims();
        self.require(s[dims..].iter().all(|s| *s == 0), || format!("{owner}: a shift along an absent axis"));
    }

    fn rows(&mut self) {
        let op = self.op;
        for f in &op.fluxes {
            let degree = self.degree(&f.name, &f.value, false);
            self.require(degree <= 1, || format!("{} is not linear", f.name));
        }
        for (row, name) in op.rows.iter().zip(&op.unknowns) {
            let degree = self.degree(name, &row.value, true);
            self.require(degree <= 1, || format!("{name} is not linear"));
        }
        if let Some(mask) = &op.mask {
            let degree = self.degree("mask", mask, false);
            self.require(degree == 0, || "the mask reads unknowns".to_string());
        }
    }

    /// Degree in the unknowns (2 stands for anything not linear).
    fn degree(&mut self, owner: &str, e: &Expr, fluxes: bool) -> u8 {
        match e {
            Expr::Number(_) | Expr::Param(_) | Expr::Table(..) | Expr::Data(..) => self.coefficient_read(owner, e),
            Expr::Slots(a) => self.slots(owner, a, fluxes),
            Expr::Entry | Expr::Gather(_) => {
                self.require(self.within_slots, || format!("{owner}: a slot is read outside of a sum over slots"));
                if let Expr::Gather(c) = e {
                    self.require(*c < self.op.unknowns.len(), || format!("{owner}: unknown {c}"));
                }
                u8::from(matches!(e, Expr::Gather(_)))
            }
            Expr::Unknown(c, s) => {
                self.require(*c < self.op.unknowns.len(), || format!("{owner}: unknown {c}"));
                self.shift(owner, s);
                1
            }
            Expr::Flux(id, s) => {
                self.require(fluxes && *id < self.op.fluxes.len(), || format!("{owner}: flux {id}"));
                self.shift(owner, s);
                1
            }
            Expr::Neg(a) => self.degree(owner, a, fluxes),
            Expr::Binary(op, a, b) => {
                use crate::math::BinaryOp::{Add, Div, Mul, Sub};
                let (a, b) = (self.degree(owner, a, fluxes), self.degree(owner, b, fluxes));
                match op {
                    Add | Sub => a.max(b),
                    Mul => (a + b).min(2),
                    Div => {
                        if b > 0 {
                            2
                        } else {
                            a
                        }
                    }
                }
            }
            Expr::Call(_, args) => {
                let most = args.iter().map(|a| self.degree(owner, a, fluxes)).max().unwrap_or(0);
                most * 2
            }
            Expr::Select(c, a, b) => {
                let free = self.degree(owner, c, fluxes) == 0;
                self.require(free, || format!("{owner}: a condition reads unknowns"));
                self.degree(owner, a, fluxes).max(self.degree(owner, b, fluxes))
            }
            Expr::Compare(_, a, b) => 2 * self.degree(owner, a, fluxes).max(self.degree(owner, b, fluxes)),
        }
    }

    /// A sum over the slots of a row; its terms are linear, not affine: padding must add nothing.
    fn slots(&mut self, owner: &str, term: &Expr, fluxes: bool) -> u8 {
        let alone = self.op.space.rows().is_some() && !self.within_slots;
        self.require(alone, || format!("{owner}: a sum over slots where there are none"));
        self.within_slots = true;
        let degree = self.degree(owner, term, fluxes);
        self.within_slots = false;
        self.require(degree == 1, || format!("{owner}: a sum over slots of what reads no unknown"));
        degree
    }

    /// A reading of degree zero.
    fn coefficient_read(&mut self, owner: &str, e: &Expr) -> u8 {
        match e {
            Expr::Param(p) => self.require(*p < self.op.params.len(), || format!("{owner}: parameter {p}")),
            Expr::Table(id, s) => {
                self.require(*id < self.op.tables.len(), || format!("{owner}: table {id}"));
                self.shift(owner, s);
            }
            Expr::Data(id, s) => {
                let field = self.op.data.get(*id).is_some_and(|d| !d.profile);
                self.require(field, || format!("{owner}: data {id} is not read by rows"));
                self.shift(owner, s);
            }
            _ => {}
        }
        0
    }

    fn margins(&mut self) {
        for (table, (below, above)) in self.op.tables.iter().zip(required_margins(self.op)) {
            let covers = (0..3).all(|a| table.below[a] >= below[a] && table.above[a] >= above[a]);
            self.require(covers, || format!("{}: read {below:?} below and {above:?} above", table.name));
        }
    }
}

fn arity(f: Function) -> usize {
    if matches!(f, Function::Pow | Function::Min | Function::Max) { 2 } else { 1 }
}

fn ascending(axes: &[usize], dims: usize) -> bool {
    axes.windows(2).all(|w| w[0] < w[1]) && axes.iter().all(|a| *a < dims)
}
