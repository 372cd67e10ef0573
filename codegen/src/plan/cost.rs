//! What a loop program costs per round of its main loop and point: words moved, operations, sweeps, storage.
//!
//! A word is one value of a vector or of a coefficient that fills the grid; a matrix counts with all its arrays. A sweep loads each buffer once, however
//! many neighbours it reads, and stores each once; coefficients of fewer dimensions stay in cache and cost nothing.

use std::collections::BTreeSet;

use crate::format::Layout;
use crate::graph::{MapTree, NodeKind};
use crate::loops::{Control, PointExpr, Program, Role, SumKind, Sweep, ValueKind};
use crate::loops_verify::operands;
use crate::math::{Expr, Operator, Shift};

/// Bytes of a word of a matrix.
const WORD: u64 = 8;

/// Costs of one round of the main loop.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Cost {
    /// Words per point: loads, stores and coefficients.
    pub words: f64,
    /// Of these, words of vectors that are loaded.
    pub loads: f64,
    /// Words of vectors that are stored.
    pub stores: f64,
    /// Words of coefficients that fill the grid.
    pub coefficient_words: f64,
    /// Floating-point operations per point, divisions counted once. Recomputation at neighbours is included.
    pub flops: f64,
    /// Divisions per point.
    pub divisions: f64,
    /// Sweeps.
    pub sweeps: f64,
    /// Fences.
    pub fences: f64,
    /// Buffers of vectors that the loop owns beside the solution and the right-hand side as given.
    pub buffers: u32,
}

/// Counts a program. `delay` is that of its placement: sweeps of the placed loop that have a predicate stand aside in
/// every `delay`-th round. (Elsewhere predicates are branches, which count as taken.)
pub fn cost(program: &Program, delay: u32) -> Cost {
    let owned = program.vectors.iter().filter(|v| v.role != Role::Rhs).map(|v| v.versions).sum::<u32>();
    let mut total = Cost {
        words: 0.0,
        loads: 0.0,
        stores: 0.0,
        coefficient_words: 0.0,
        flops: 0.0,
        divisions: 0.0,
        sweeps: 0.0,
        fences: 0.0,
        buffers: owned.saturating_sub(1),
    };
    let operator = OperatorCost::new(&program.operator);
    let unbounded = program.body.iter().find(|c| matches!(c, Control::Loop { times: None, .. }));
    let main = unbounded.or_else(|| program.body.iter().find(|c| matches!(c, Control::Loop { .. })));
    if let Some(Control::Loop { body, .. }) = main {
        let light = if delay > 1 { 1.0 - 1.0 / f64::from(delay) } else { 1.0 };
        count(program, &operator, body, [1.0, light], &mut total);
    }
    // Shares of rounds do not add up exactly in binary.
    let Cost { words, loads, stores, coefficient_words, flops, divisions, sweeps, fences, .. } = &mut total;
    for x in [words, loads, stores, coefficient_words, flops, divisions, sweeps, fences] {
        *x = (*x * 1e9).round() / 1e9;
    }
    total
}

fn count(program: &Program, operator: &OperatorCost, controls: &[Control], weight: [f64; 2], total: &mut Cost) {
    let of = |predicate: Option<_>| if predicate.is_some() { weight[0] * weight[1] } else { weight[0] };
    for control in controls {
        match control {
            Control::Sweep(id) => {
                let sweep = &program.sweeps[id.0];
                count_sweep(program, operator, sweep, of(sweep.predicate), total);
            }
            Control::Fence(id) => total.fences += of(program.fences[id.0].predicate),
            Control::Rotate(_) => {}
            Control::Loop { times, body } => {
                let times = f64::from(times.unwrap_or(1));
                count(program, operator, body, [weight[0] * times, weight[1]], total);
            }
            Control::Every { n, body, otherwise } => {
                let share = weight[0] / f64::from((*n).max(1));
                count(program, operator, body, [share, weight[1]], total);
                count(program, operator, otherwise, [weight[0] - share, weight[1]], total);
            }
        }
    }
}

fn count_sweep(program: &Program, operator: &OperatorCost, sweep: &Sweep, weight: f64, total: &mut Cost) {
    let loads = sweep.values.iter().filter_map(|v| match v.kind {
        ValueKind::Load(version) => Some(version),
        _ => None,
    });
    let loads: BTreeSet<_> = loads.collect();
    let stores: BTreeSet<_> = sweep.stores.iter().map(|s| s.to).collect();
    let product = |kind: &ValueKind| reads_operator(kind) && !matches!(kind, ValueKind::Diagonal(_));
    let diagonal = sweep.values.iter().any(|v| matches!(v.kind, ValueKind::Diagonal(_)));
    let companions: BTreeSet<usize> = sweep.values.iter().filter_map(|v| companion(&v.kind)).collect();
    let companions = companions.iter().map(|&number| operator.companions[number].words).sum::<f64>();
    let coefficients = match sweep.values.iter().any(|v| product(&v.kind)) {
        true => operator.words,
        // The diagonal of a matrix is stored beside it; that of a grid is made of the operator's coefficients.
        false if diagonal => {
            if program.operator.space.rows().is_some() {
                1.0
            } else {
                operator.words
            }
        }
        false => 0.0,
    };
    let coefficients = coefficients + companions;
    total.sweeps += weight;
    total.coefficient_words += weight * coefficients;
    total.loads += weight * loads.len() as f64;
    total.stores += weight * stores.len() as f64;
    total.words += weight * (loads.len() as f64 + stores.len() as f64 + coefficients);
    let near = near(sweep);
    for (value, near) in sweep.values.iter().zip(near) {
        let times = if near { operator.neighbours } else { 1.0 };
        let (flops, divisions) = operations(operator, &value.kind);
        total.flops += weight * times * flops;
        total.divisions += weight * times * divisions;
    }
    for sum in &sweep.sums {
        let flops = if program.sums[sum.sum.0] == SumKind::Add && sum.right.is_some() { 2.0 } else { 1.0 };
        total.flops += weight * flops;
    }
}

fn reads_operator(kind: &ValueKind) -> bool {
    match kind {
        ValueKind::Load(_) | ValueKind::Map(_) | ValueKind::Companion { .. } => false,
        ValueKind::Apply(_) | ValueKind::AffinePart | ValueKind::Magnitude(_) => true,
        ValueKind::Solve(..) | ValueKind::Along(..) | ValueKind::Diagonal(_) | ValueKind::Inside(_) => true,
    }
}

/// The companion that a value multiplies with.
fn companion(kind: &ValueKind) -> Option<usize> {
    if let ValueKind::Companion { number, .. } = kind { Some(*number) } else { None }
}

/// Which values of a sweep are evaluated at neighbours too.
pub fn near(sweep: &Sweep) -> Vec<bool> {
    let mut near = vec![false; sweep.values.len()];
    for (i, value) in sweep.values.iter().enumerate().rev() {
        let around = value.kind.gathers();
        for operand in operands(&value.kind) {
            near[operand.0] |= near[i] || around;
        }
    }
    near
}

fn operations(operator: &OperatorCost, kind: &ValueKind) -> (f64, f64) {
    match kind {
        ValueKind::Load(_) | ValueKind::Inside(_) => (0.0, 0.0),
        ValueKind::Map(e) => point_operations(e),
        ValueKind::Apply(_) | ValueKind::AffinePart | ValueKind::Magnitude(_) => (operator.flops, operator.divisions),
        // Elimination and substitution: two multiplications and a division, three and two more; with the coefficients.
        ValueKind::Solve(..) => (9.0 + operator.coefficient_flops, 1.0 + operator.divisions),
        // A difference, a product and a sum for each of two neighbours, and the point itself.
        ValueKind::Along(..) => (7.0 + operator.coefficient_flops, operator.divisions),
        ValueKind::Diagonal(_) => (1.0 + operator.coefficient_flops, 1.0 + operator.divisions),
        ValueKind::Companion { number, .. } => (operator.companions[*number].flops, 0.0),
    }
}

fn map_operations(tree: &MapTree) -> f64 {
    match tree {
        MapTree::Value(_) | MapTree::Scalar(_) | MapTree::Number(_) => 0.0,
        MapTree::Neg(a) | MapTree::Abs(a) => map_operations(a),
        MapTree::Binary(_, a, b) => map_operations(a) + map_operations(b) + 1.0,
    }
}

/// Operations of a pointwise expression, and the divisions among them.
pub fn point_operations(e: &PointExpr) -> (f64, f64) {
    match e {
        PointExpr::Value(_) | PointExpr::Scalar(_) | PointExpr::Number(_) => (0.0, 0.0),
        PointExpr::Neg(a) | PointExpr::Abs(a) => point_operations(a),
        PointExpr::Binary(op, a, b) => {
            let (a, b) = (point_operations(a), point_operations(b));
            let division = f64::from(u8::from(*op == crate::loops::BinaryOp::Div));
            (a.0 + b.0 + 1.0, a.1 + b.1 + division)
        }
    }
}

/// Costs of one row of an operator, averaged over its unknowns.
#[derive(Debug, Clone)]
pub(super) struct OperatorCost {
    words: f64,
    flops: f64,
    divisions: f64,
    /// Operations on coefficients alone, about what assembling a line or a diagonal takes.
    coefficient_flops: f64,
    /// Points a row reads.
    neighbours: f64,
    /// Those of a matrix's companions, one product of as many as an application takes.
    companions: Vec<OperatorCost>,
}

impl OperatorCost {
    /// Operations of a node, at the own point or at all points a row reads.
    pub fn node(&self, kind: &NodeKind, near: bool) -> f64 {
        let flops = match kind {
            NodeKind::Apply(_) | NodeKind::Magnitude(_) => self.flops,
            NodeKind::Solve(..) => 9.0 + self.coefficient_flops,
            NodeKind::Along(..) => 7.0 + self.coefficient_flops,
            NodeKind::Diagonal(_) => 1.0 + self.coefficient_flops,
            NodeKind::Companion { number, .. } => self.companions[*number].flops,
            NodeKind::Map(tree) => map_operations(tree),
            _ => 0.0,
        };
        if near { flops * self.neighbours } else { flops }
    }

    pub fn new(operator: &Operator) -> OperatorCost {
        if let Some(rows) = operator.space.rows() {
            let mut own = OperatorCost::of_rows(&rows.layout, 1);
            let companions = rows.companions.iter();
            own.companions = companions.map(|c| OperatorCost::of_rows(&c.layout, c.of.products())).collect();
            return own;
        }
        let grid = operator.space.grid();
        let mut walk =
            Walk { operator, full: BTreeSet::new(), points: BTreeSet::new(), flops: 0.0, divisions: 0.0, unknown: 0.0 };
        for row in &operator.rows {
            walk.expr(&row.value, [0; 3]);
        }
        let axes = grid.axes.len();
        let components = operator.rows.len().max(1) as f64;
        let filled = walk.full.iter().filter(|c| match c {
            Coefficient::Table(t) => operator.tables[*t].axes.len() == axes,
            Coefficient::Data(d) => operator.data[*d].axes.len() == axes,
        });
        OperatorCost {
            words: filled.count() as f64 / components,
            flops: walk.flops / components,
            divisions: walk.divisions / components,
            coefficient_flops: (walk.flops - walk.unknown) / components,
            neighbours: walk.points.len() as f64,
            companions: Vec::new(),
        }
    }
}

impl OperatorCost {
    /// Costs of a matrix's row. Words are of 8 bytes: the precision is chosen later, and in f32 plain columns weigh
    /// twice as much, which changes no order of schedules, because every product reads the whole matrix.
    ///
    /// Where an application takes several `products`, each reads its part of the entries.
    fn of_rows(layout: &Layout, products: u32) -> OperatorCost {
        let size = layout.size.max(1) as f64 * f64::from(products.max(1));
        OperatorCost {
            words: layout.bytes(WORD) as f64 / WORD as f64 / size,
            flops: 2.0 * layout.cells as f64 / size,
            divisions: 0.0,
            coefficient_flops: 0.0,
            neighbours: layout.entries as f64 / size,
            companions: Vec::new(),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Coefficient {
    Table(usize),
    Data(usize),
}

struct Walk<'o> {
    operator: &'o Operator,
    full: BTreeSet<Coefficient>,
    points: BTreeSet<Shift>,
    flops: f64,
    divisions: f64,
    /// Operations that involve unknowns.
    unknown: f64,
}

impl Walk<'_> {
    /// Counts an expression at a shift; tells whether it involves unknowns.
    fn expr(&mut self, e: &Expr, at: Shift) -> bool {
        let plus = |s: &Shift| -> Shift { std::array::from_fn(|i| at[i] + s[i]) };
        match e {
            Expr::Number(_) | Expr::Param(_) => false,
            Expr::Table(t, _) => {
                self.full.insert(Coefficient::Table(*t));
                false
            }
            Expr::Data(d, _) => {
                self.full.insert(Coefficient::Data(*d));
                false
            }
            Expr::Unknown(_, s) => {
                self.points.insert(plus(s));
                true
            }
            Expr::Flux(f, s) => match self.operator.fluxes.get(*f) {
                Some(flux) => self.expr(&flux.value, plus(s)),
                None => false,
            },
            Expr::Neg(a) => self.expr(a, at),
            Expr::Binary(op, a, b) => {
                let involved = self.expr(a, at) | self.expr(b, at);
                self.operation(involved);
                self.divisions += f64::from(u8::from(*op == crate::math::BinaryOp::Div));
                involved
            }
            Expr::Call(_, args) => {
                let involved = args.iter().fold(false, |k, a| k | self.expr(a, at));
                self.operation(involved);
                involved
            }
            Expr::Select(c, a, b) => {
                let involved = self.expr(c, at) | self.expr(a, at);
                involved | self.expr(b, at)
            }
            Expr::Slots(a) => self.expr(a, at),
            Expr::Entry => false,
            Expr::Gather(_) => true,
            Expr::Compare(_, a, b) => self.expr(a, at) | self.expr(b, at),
        }
    }

    fn operation(&mut self, involved: bool) {
        self.flops += 1.0;
        self.unknown += f64::from(u8::from(involved));
    }
}
