//! `explain --paper`: words and operations as Müller, Guo, Scheichl and Shi (2013) count them, for their two schedules.
//!
//! Their table 2 differs from the planner's count, which loads each field once per sweep and keeps a line solve on chip:
//! - operations are those of the operator *as it is written*, coefficients included, and of a Thomas elimination;
//! - every reading of a vector is a word (seven for a seven-point row) unless a cache is assumed: *levels cached* keeps
//!   values that depend on the axis of the lines only, *columns cached* also what the same line touched one step before;
//! - the elimination's intermediate vector goes through memory;
//! - updates of vectors are calls of BLAS 1: `p = z + beta*p` is a `scal` and an `axpy`.
//!
//! The standard preconditioner omits the load of its right-hand side, as theirs does.

use std::collections::BTreeSet;

use kernelwright_codegen::graph::{Graph, Loop, MapTree, NodeId, NodeKind, ReduceKind, Step};
use kernelwright_codegen::loops::{Control, Program, Sweep, ValueId, ValueKind};
use kernelwright_codegen::plan::Plan;
use kernelwright_codegen::plan::cost::{near, point_operations};
use kernelwright_codegen::plan::schedule::Placement;
use kernelwright_syntax::program::{BinaryOp, Expr, ExprKind, Operator, Shift};
use serde_json::{Value, json};

use super::failure::Failure;
use super::out::Out;
use super::table::columns;
use crate::pipeline::Planned;

/// Operations of the elimination and the substitution at a point: two, one and three forward, two backward.
const ELIMINATION: f64 = 8.0;
/// Words of the elimination at a point: it loads and stores its intermediate vector and its result, and comes back.
const ELIMINATION_WORDS: f64 = 8.0;
/// Of these, what the same line touched one step before.
const ELIMINATION_AGAIN: f64 = 3.0;

/// A row of the table.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Row {
    schedule: &'static str,
    part: &'static str,
    operations: f64,
    /// Without a cache, with levels cached, with columns cached too.
    words: [f64; 3],
}

impl Row {
    fn new(schedule: &'static str, part: &'static str) -> Row {
        Row { schedule, part, operations: 0.0, words: [0.0; 3] }
    }

    /// Adds words that every cache assumption counts.
    fn plain(&mut self, words: f64, operations: f64) {
        self.words.iter_mut().for_each(|w| *w += words);
        self.operations += operations;
    }
}

/// Prints the table.
pub(super) fn print(operator: &Operator, planned: &Planned, out: &mut Out) -> Result<(), Failure> {
    let rows = rows(operator, planned);
    out.line("\nAs in Mueller, Guo, Scheichl and Shi (2013), table 2: per point and iteration")?;
    let title = ["", "", "operations", "words", "levels cached", "columns cached"];
    let mut text = vec![title.map(String::from).to_vec()];
    for row in &rows {
        let mut cells = vec![format!("  {}", row.schedule), row.part.to_string(), row.operations.to_string()];
        cells.extend(row.words.iter().map(f64::to_string));
        text.push(cells);
    }
    columns(&text).iter().try_for_each(|line| out.line(line))
}

/// The table for `--json`.
pub(super) fn object(operator: &Operator, planned: &Planned) -> Value {
    let one = |row: &Row| {
        json!({
            "schedule": row.schedule,
            "part": row.part,
            "operations": row.operations,
            "words": row.words[0],
            "words_levels_cached": row.words[1],
            "words_columns_cached": row.words[2],
        })
    };
    Value::Array(rows(operator, planned).iter().map(one).collect())
}

fn rows(operator: &Operator, planned: &Planned) -> Vec<Row> {
    let axis = line_axis(&planned.graph).unwrap_or(operator.axes.len().saturating_sub(1));
    let written = Written::new(operator, axis);
    let mut rows = standard(&planned.graph, &written);
    total("standard", &mut rows, 0);
    if let Some(plan) = planned.plans.iter().find(|plan| is_interleaved(plan)) {
        let from = rows.len();
        rows.extend(interleaved(&plan.program, &written));
        total("interleaved", &mut rows, from);
    }
    rows
}

fn total(schedule: &'static str, rows: &mut Vec<Row>, from: usize) {
    let mut sum = Row::new(schedule, "total");
    for row in &rows[from..] {
        sum.operations += row.operations;
        for (all, one) in sum.words.iter_mut().zip(row.words) {
            *all += one;
        }
    }
    rows.push(sum);
}

/// The published schedule: two sweeps, `A*p` by linearity, nothing delayed, of the loop as it is written.
fn is_interleaved(plan: &Plan) -> bool {
    let as_written = plan.schedule.recovered.is_none() && plan.schedule.predicted.is_none();
    let published = |main: &Placement| main.sweeps == 2 && !main.linear.is_empty() && main.delay == 1;
    as_written && plan.schedule.main.as_ref().is_some_and(published)
}

fn line_axis(graph: &Graph) -> Option<usize> {
    graph.nodes.iter().find_map(|node| if let NodeKind::Solve(axis, _) = node.kind { Some(axis) } else { None })
}

/// A row of the operator as it is written; named values are leaves.
struct Written {
    axis: usize,
    operations: f64,
    /// Of these, on coefficients alone.
    coefficients: f64,
    points: BTreeSet<Shift>,
    /// Values that depend on the axis of the lines only, by number and shift.
    levels: BTreeSet<(bool, usize, Shift)>,
    /// Arrays that fill the grid.
    fields: BTreeSet<(usize, Shift)>,
}

impl Written {
    fn new(operator: &Operator, axis: usize) -> Written {
        let mut written = Written {
            axis,
            operations: 0.0,
            coefficients: 0.0,
            points: BTreeSet::new(),
            levels: BTreeSet::new(),
            fields: BTreeSet::new(),
        };
        for row in &operator.apply {
            written.expr(operator, &row.value, [0; 3]);
        }
        written
    }

    /// Counts an expression at a shift; tells whether it reads unknowns.
    fn expr(&mut self, operator: &Operator, e: &Expr, at: Shift) -> bool {
        let plus = |s: &Shift| -> Shift { std::array::from_fn(|i| at[i] + s[i]) };
        match &e.kind {
            ExprKind::Number(_) | ExprKind::Size(_) | ExprKind::Index(_) | ExprKind::Param(_) => false,
            ExprKind::Let(n, s) if operator.lets[*n].on_unknown => {
                self.expr(operator, &operator.lets[*n].value, plus(s))
            }
            ExprKind::Let(n, s) => {
                let depends = operator.lets[*n].depends;
                if (0..3).all(|axis| depends[axis] == (axis == self.axis)) {
                    self.levels.insert((false, *n, plus(s)));
                }
                false
            }
            ExprKind::Data(n, s) => {
                let axes = &operator.data[*n].axes;
                if axes.as_slice() == [self.axis] {
                    self.levels.insert((true, *n, plus(s)));
                } else if axes.len() == operator.axes.len() {
                    self.fields.insert((*n, plus(s)));
                }
                false
            }
            ExprKind::Unknown(_, s) => {
                self.points.insert(plus(s));
                true
            }
            ExprKind::Flux(n, s) => self.expr(operator, &operator.fluxes[*n].value, plus(s)),
            ExprKind::Neg(a) => self.expr(operator, a, at),
            ExprKind::Binary(_, a, b) => {
                let involved = self.expr(operator, a, at) | self.expr(operator, b, at);
                self.count(involved)
            }
            ExprKind::Call(_, args) => {
                let involved = args.iter().fold(false, |involved, a| involved | self.expr(operator, a, at));
                self.count(involved)
            }
            ExprKind::If(_, a, b) => self.expr(operator, a, at) | self.expr(operator, b, at),
        }
    }

    fn count(&mut self, involved: bool) -> bool {
        self.operations += 1.0;
        self.coefficients += f64::from(u8::from(!involved));
        involved
    }

    /// Points on the same line beside the own one: cached with columns.
    fn beside(&self) -> f64 {
        let on_line = |p: &&Shift| p[self.axis] != 0 && (0..3).all(|axis| axis == self.axis || p[axis] == 0);
        self.points.iter().filter(on_line).count() as f64
    }

    /// Words of coefficients by cache assumption.
    fn coefficient_words(&self) -> [f64; 3] {
        let (levels, fields) = (self.levels.len() as f64, self.fields.len() as f64);
        [levels + fields, fields, fields]
    }

    /// Words of a vector read at all points of a row.
    fn reading(&self) -> [f64; 3] {
        let points = self.points.len() as f64;
        [points, points, points - self.beside()]
    }
}

fn add(words: &mut [f64; 3], more: [f64; 3]) {
    words.iter_mut().zip(more).for_each(|(w, m)| *w += m);
}

fn standard(graph: &Graph, written: &Written) -> Vec<Row> {
    let Some(main) = graph.main_loop() else { return Vec::new() };
    let mut product = Row::new("standard", "product with A");
    let mut solve = Row::new("standard", "preconditioner");
    let mut blas = Row::new("standard", "BLAS 1");
    for step in &main.body.steps {
        let Step::Node(n) = step else { continue };
        match graph.kind(*n) {
            NodeKind::Apply(_) => {
                product.plain(1.0, written.operations);
                add(&mut product.words, written.reading());
                add(&mut product.words, written.coefficient_words());
            }
            NodeKind::Solve(..) => {
                solve.plain(ELIMINATION_WORDS, ELIMINATION + written.coefficients);
                solve.words[2] -= ELIMINATION_AGAIN;
                add(&mut solve.words, written.coefficient_words());
            }
            NodeKind::Diagonal(_) => {
                solve.plain(2.0, 1.0 + written.coefficients);
                add(&mut solve.words, written.coefficient_words());
            }
            NodeKind::Map(tree) => update(main, *n, tree, &mut blas),
            NodeKind::Reduce(ReduceKind::Dot, v, w) => blas.plain(if v == w { 1.0 } else { 2.0 }, 2.0),
            NodeKind::Reduce(ReduceKind::Max, ..) => blas.plain(1.0, 1.0),
            _ => {}
        }
    }
    [product, solve, blas].into_iter().filter(|row| row.operations > 0.0).collect()
}

/// An update of a vector as calls of `scal`, `copy` and `axpy`.
fn update(main: &Loop, node: NodeId, tree: &MapTree, blas: &mut Row) {
    let mut terms = Vec::new();
    if !terms_of(tree, false, &mut terms) {
        let (mut leaves, mut operations) = (0.0, 0.0);
        arithmetic(tree, &mut leaves, &mut operations);
        blas.plain(leaves + 1.0, operations);
        return;
    }
    let own = main.phis.iter().find(|p| p.next == node).map(|p| p.node);
    match terms.iter().position(|(n, _)| Some(*n) == own) {
        Some(at) => {
            if terms.remove(at).1 {
                blas.plain(2.0, 1.0);
            }
        }
        None => {
            let scaled = !terms.is_empty() && terms.remove(0).1;
            blas.plain(2.0, f64::from(u8::from(scaled)));
        }
    }
    blas.plain(3.0 * terms.len() as f64, 2.0 * terms.len() as f64);
}

/// Vectors of a linear combination, and whether each has a factor; false where the tree is none.
fn terms_of(tree: &MapTree, scaled: bool, out: &mut Vec<(NodeId, bool)>) -> bool {
    match tree {
        MapTree::Value(n) => {
            out.push((*n, scaled));
            true
        }
        MapTree::Scalar(_) | MapTree::Number(_) | MapTree::Abs(_) => false,
        MapTree::Neg(a) => terms_of(a, true, out),
        MapTree::Binary(BinaryOp::Add, a, b) => terms_of(a, scaled, out) && terms_of(b, scaled, out),
        MapTree::Binary(BinaryOp::Sub, a, b) => terms_of(a, scaled, out) && terms_of(b, true, out),
        MapTree::Binary(BinaryOp::Mul, a, b) if is_number(a) => terms_of(b, true, out),
        MapTree::Binary(BinaryOp::Mul | BinaryOp::Div, a, b) => is_number(b) && terms_of(a, true, out),
    }
}

fn is_number(tree: &MapTree) -> bool {
    match tree {
        MapTree::Scalar(_) | MapTree::Number(_) => true,
        MapTree::Value(_) => false,
        MapTree::Neg(a) | MapTree::Abs(a) => is_number(a),
        MapTree::Binary(_, a, b) => is_number(a) && is_number(b),
    }
}

fn arithmetic(tree: &MapTree, leaves: &mut f64, operations: &mut f64) {
    match tree {
        MapTree::Value(_) => *leaves += 1.0,
        MapTree::Scalar(_) | MapTree::Number(_) => {}
        MapTree::Neg(a) | MapTree::Abs(a) => arithmetic(a, leaves, operations),
        MapTree::Binary(_, a, b) => {
            arithmetic(a, leaves, operations);
            arithmetic(b, leaves, operations);
            *operations += 1.0;
        }
    }
}

/// One row for each sweep of the loop.
fn interleaved(program: &Program, written: &Written) -> Vec<Row> {
    let Some(Control::Loop { body, .. }) = program.body.iter().find(|c| matches!(c, Control::Loop { .. })) else {
        return Vec::new();
    };
    let sweeps =
        body.iter().filter_map(|c| if let Control::Sweep(id) = c { Some(&program.sweeps[id.0]) } else { None });
    sweeps.map(|sweep| sweep_row(sweep, written)).collect()
}

fn sweep_row(sweep: &Sweep, written: &Written) -> Row {
    let applies = sweep.values.iter().any(|v| matches!(v.kind, ValueKind::Apply(_)));
    let solves = sweep.values.iter().any(|v| matches!(v.kind, ValueKind::Solve(..)));
    let part = match (applies, solves) {
        (true, true) => "both",
        (true, false) => "product with A",
        (false, true) => "preconditioner",
        (false, false) => "BLAS 1",
    };
    let mut row = Row::new("interleaved", part);
    let near = near(sweep);
    for (number, value) in sweep.values.iter().enumerate() {
        match &value.kind {
            ValueKind::Load(_) if near[number] => add(&mut row.words, written.reading()),
            ValueKind::Load(_) => row.plain(1.0, 0.0),
            ValueKind::Inside(_) => {}
            ValueKind::Map(e) => row.operations += point_operations(e).0,
            ValueKind::Apply(_) | ValueKind::AffinePart | ValueKind::Magnitude(_) => {
                row.operations += written.operations
            }
            ValueKind::Diagonal(_) => row.operations += 1.0 + written.coefficients,
            // The paper's operators are grids, and its schedules recover nothing.
            ValueKind::Companion { .. } | ValueKind::Along(..) => {}
            ValueKind::Solve(..) => {
                row.plain(ELIMINATION_WORDS, ELIMINATION + written.coefficients);
                row.words[2] -= ELIMINATION_AGAIN;
                // What its result is combined with comes back in the backward substitution.
                row.plain(again(sweep, ValueId(number)), 0.0);
            }
        }
    }
    // The elimination's words include the store of its result.
    let stored = sweep.stores.iter().filter(|s| !matches!(sweep.values[s.value.0].kind, ValueKind::Solve(..)));
    row.plain(stored.count() as f64, 2.0 * sweep.sums.len() as f64);
    if applies || solves {
        add(&mut row.words, written.coefficient_words());
    }
    row
}

/// Values that sums combine with the result of a line solve.
fn again(sweep: &Sweep, solved: ValueId) -> f64 {
    let partner = |left: ValueId, right: ValueId| if left == solved { Some(right) } else { None };
    let partners = sweep.sums.iter().filter_map(|sum| {
        let right = sum.right?;
        partner(sum.left, right).or_else(|| partner(right, sum.left))
    });
    partners.filter(|value| *value != solved).collect::<BTreeSet<_>>().len() as f64
}
