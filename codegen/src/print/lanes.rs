//! Blocks of several lanes on the host: straight-line runs over all lanes, cut where lanes meet.
//!
//! Between two barriers (or shuffles) a block's lanes are independent, so a run of statements is a loop over lanes.
//! Control flow around a barrier is the same for all lanes, so it stands outside of those loops and lane 0 decides.
//! Variables that live across runs, and private buffers, become arrays with one entry per lane.

use super::body::{self, ShuffleParts, Target, fresh, loop_head};
use super::expr::{converted, full, type_name};
use super::writer::Writer;
use crate::kernel::{Expr, Kernel, Shuffle, Stmt, Type, VarId};

/// Which variables need one entry per lane.
pub(super) fn arrays(kernel: &Kernel) -> Vec<bool> {
    let vars = kernel.vars.len();
    let mut homes = Homes { home: vec![None; vars], array: vec![false; vars], runs: 0 };
    if kernel.lane_count() > 1 {
        homes.sequence(&kernel.body);
    }
    homes.array
}

/// Where variables are declared and whether they are used elsewhere. Run 0 is no run: a variable of the block.
struct Homes {
    home: Vec<Option<usize>>,
    array: Vec<bool>,
    runs: usize,
}

impl Homes {
    fn sequence(&mut self, stmts: &[Stmt]) {
        for piece in pieces(stmts) {
            self.runs += 1;
            let run = self.runs;
            match piece {
                Piece::Run(stmts) => stmts.iter().for_each(|stmt| self.inside(stmt, run)),
                Piece::Meeting(stmt) => self.meeting(stmt, run),
            }
        }
    }

    fn meeting(&mut self, stmt: &Stmt, run: usize) {
        self.uses(stmt, run);
        match stmt {
            Stmt::For { var, .. } => self.home[var.0] = Some(0),
            _ => stmt.declares().into_iter().for_each(|var| self.array[var.0] = true),
        }
        stmt.blocks().into_iter().for_each(|block| self.sequence(block));
    }

    fn inside(&mut self, stmt: &Stmt, run: usize) {
        self.uses(stmt, run);
        for var in stmt.declares() {
            self.home[var.0] = Some(run);
        }
        stmt.blocks().into_iter().flatten().for_each(|stmt| self.inside(stmt, run));
    }

    fn uses(&mut self, stmt: &Stmt, run: usize) {
        if let Stmt::Assign(var, _) = stmt {
            self.used(*var, run);
        }
        for expr in stmt.exprs() {
            expr.any(&mut |part| {
                if let Expr::Var(var) = part {
                    self.used(*var, run);
                }
                false
            });
        }
    }

    fn used(&mut self, var: VarId, run: usize) {
        self.array[var.0] |= self.home[var.0].is_some_and(|home| home != 0 && home != run);
    }
}

/// A part of a sequence.
enum Piece<'a> {
    /// Statements every lane runs through on its own.
    Run(&'a [Stmt]),
    /// A statement in which lanes meet, or that ends the block.
    Meeting(&'a Stmt),
}

fn pieces(stmts: &[Stmt]) -> Vec<Piece<'_>> {
    let meets = |stmt: &Stmt| stmt.synchronises() || matches!(stmt, Stmt::ExitIf(_));
    let mut pieces = Vec::new();
    let mut rest = stmts;
    while let Some(first) = rest.first() {
        if meets(first) {
            pieces.push(Piece::Meeting(first));
            rest = &rest[1..];
        } else {
            let (run, after) = rest.split_at(rest.iter().position(meets).unwrap_or(rest.len()));
            pieces.push(Piece::Run(run));
            rest = after;
        }
    }
    pieces
}

/// Prints a sequence outside of any loop over lanes.
pub(super) fn sequence(target: &dyn Target, out: &mut Writer, stmts: &[Stmt]) {
    for piece in pieces(stmts) {
        match piece {
            Piece::Run(stmts) => run(target, out, stmts),
            Piece::Meeting(stmt) => meeting(target, out, stmt),
        }
    }
}

fn run(target: &dyn Target, out: &mut Writer, stmts: &[Stmt]) {
    // Comments in front stay in front.
    let is_comment = |stmt: &Stmt| matches!(stmt, Stmt::Comment(_));
    let (comments, rest) = stmts.split_at(stmts.iter().position(|stmt| !is_comment(stmt)).unwrap_or(stmts.len()));
    body::stmts(target, out, comments);
    if rest.is_empty() {
        return;
    }
    over_lanes(target, out, |out| {
        positions(target.kernel(), out, rest);
        body::stmts(target, out, rest);
    });
}

fn over_lanes(target: &dyn Target, out: &mut Writer, inside: impl FnOnce(&mut Writer)) {
    out.open(&format!("for (int lane = 0; lane < {}; ++lane) {{", target.kernel().lane_count()));
    inside(out);
    out.close("}");
}

/// Positions of the lane, x fastest, as far as the statements read them.
fn positions(kernel: &Kernel, out: &mut Writer, stmts: &[Stmt]) {
    let mut read = [false; 3];
    crate::kernel_walk::each_expr(stmts, &mut |e| {
        if let Expr::Lane(axis) = e
            && let Some(read) = read.get_mut(usize::from(*axis))
        {
            *read = true;
        }
    });
    let [x, y, _] = kernel.lanes;
    let ty = type_name(Type::Int, kernel.index);
    let formulas = [
        ("lane_x", format!("lane % {x}")),
        ("lane_y", format!("lane / {x} % {y}")),
        ("lane_z", format!("lane / {}", x * y)),
    ];
    for (axis, (name, formula)) in formulas.into_iter().enumerate() {
        if read[axis] && kernel.lanes[axis] > 1 {
            out.code(&format!("const {ty} {name} = {formula};"));
        }
    }
}

fn meeting(target: &dyn Target, out: &mut Writer, stmt: &Stmt) {
    match stmt {
        Stmt::For { body, .. } => {
            out.open(&loop_head(target, stmt));
            sequence(target, out, body);
            out.close("}");
        }
        Stmt::If { cond, then, otherwise } => {
            out.open(&format!("if ({}) {{", full(target, cond)));
            sequence(target, out, then);
            if !otherwise.is_empty() {
                out.turn("} else {");
                sequence(target, out, otherwise);
            }
            out.close("}");
        }
        _ => body::stmts(target, out, std::slice::from_ref(stmt)),
    }
}

/// All lanes give their value, then all lanes take one.
pub(super) fn shuffle(target: &dyn Target, out: &mut Writer, shuffle: &ShuffleParts<'_>) {
    let kernel = target.kernel();
    let (lanes, width) = (kernel.lane_count(), shuffle.width);
    let [given, place, source] = ["given", "place", "source"].map(|name| fresh(kernel, name, &[]));
    out.open("{");
    out.code(&format!("{} {given}[{lanes}];", target.var_type(shuffle.var)));
    over_lanes(target, out, |out| {
        positions_of(kernel, out, shuffle.value);
        out.code(&format!("{given}[lane] = {};", converted(target, shuffle.value)));
    });
    over_lanes(target, out, |out| {
        out.code(&format!("const int {place} = lane % {width};"));
        let wanted = match shuffle.mode {
            Shuffle::Down(n) => format!("{place} + {n}"),
            Shuffle::Up(n) => format!("{place} - {n}"),
            Shuffle::Xor(n) => format!("{place} ^ {n}"),
            Shuffle::Index(expr) => {
                positions_of(kernel, out, expr);
                converted(target, expr)
            }
        };
        out.code(&format!("const {} {source} = {wanted};", type_name(Type::Int, kernel.index)));
        let inside = format!("0 <= {source} && {source} < {width}");
        let taken = format!("{given}[{inside} ? lane - {place} + {source} : lane]");
        body::define(target, out, shuffle.var, false, &taken);
    });
    out.close("}");
}

fn positions_of(kernel: &Kernel, out: &mut Writer, expr: &Expr) {
    positions(kernel, out, &[Stmt::ExitIf(expr.clone())]);
}
