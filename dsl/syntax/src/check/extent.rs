//! Whether arrays are read inside their extents.
//!
//! Every expression is evaluated for letters in `low ..= n-1+high` along each axis; rows start with 0 and 0, readings add
//! their shifts, and named values collect the hull over all their readers. Fluxes are evaluated from face -1/2 to face
//! n-1/2 except on boundary faces without flux; along a periodic axis letters wrap. The value of a Dirichlet side is
//! evaluated where an unknown is read outside: along later axes possibly outside too, because rules apply in axis order.

use crate::diagnostic::Diagnostic;
use crate::program::{Condition, Data, Expr, ExprKind, Operator, Outside, Rule, Shift};
use crate::source::Span;

/// Letters reached along each axis, relative to 0 and to n-1.
type Range = [(i64, i64); 3];

/// Reports arrays that are read outside their extents with no rule for it.
pub fn extents(operator: &Operator, errors: &mut Vec<Diagnostic>) {
    let without_sides = Walk::run(operator, &[], &mut Vec::new());
    let sides = sides(operator, &without_sides);
    Walk::run(operator, &sides, errors);
}

/// Where the value of each Dirichlet side is evaluated, given where unknowns are read.
fn sides(operator: &Operator, readings: &[Range]) -> Vec<(usize, usize, Range)> {
    let mut sides = Vec::new();
    for range in readings {
        for axis in 0..operator.axes.len().min(operator.boundary.len()) {
            let outside = [range[axis].0 < 0, range[axis].1 > 0];
            for (end, _) in outside.iter().enumerate().filter(|(_, outside)| **outside) {
                let mut at: Range = [(0, 0); 3];
                at[axis + 1..].copy_from_slice(&range[axis + 1..]);
                sides.push((axis, end, at));
            }
        }
    }
    sides
}

struct Walk<'a> {
    operator: &'a Operator,
    lets: Vec<Option<Range>>,
    fluxes: Vec<Option<Range>>,
    unknowns: Vec<Range>,
    errors: &'a mut Vec<Diagnostic>,
}

impl<'a> Walk<'a> {
    /// Visits everything; gives where unknowns are read.
    fn run(operator: &'a Operator, sides: &[(usize, usize, Range)], errors: &'a mut Vec<Diagnostic>) -> Vec<Range> {
        let (lets, fluxes) = (vec![None; operator.lets.len()], vec![None; operator.fluxes.len()]);
        let mut walk = Walk { operator, lets, fluxes, unknowns: Vec::new(), errors };
        for row in &operator.apply {
            walk.expr(&row.value, &[(0, 0); 3]);
        }
        if let Some(mask) = &operator.mask {
            walk.expr(mask, &[(0, 0); 3]);
        }
        for (axis, end, range) in sides {
            if let Some(Rule::Dirichlet(value)) = operator.boundary.get(*axis).map(|rules| &rules[*end]) {
                walk.expr(value, range);
            }
        }
        for (index, flux) in operator.fluxes.iter().enumerate() {
            if let Some(range) = walk.fluxes[index] {
                walk.expr(&flux.value, &range);
            }
        }
        for (index, value) in operator.lets.iter().enumerate().rev() {
            if let Some(range) = walk.lets[index] {
                walk.expr(&value.value, &range);
            }
        }
        walk.unknowns
    }

    fn expr(&mut self, expr: &Expr, range: &Range) {
        match &expr.kind {
            ExprKind::Number(_) | ExprKind::Size(_) | ExprKind::Index(_) | ExprKind::Param(_) => {}
            ExprKind::Let(index, shift) => join(&mut self.lets[*index], shifted(range, shift)),
            ExprKind::Data(index, shift) => self.data(*index, &shifted(range, shift), expr.span),
            ExprKind::Unknown(_, shift) => self.unknown(shifted(range, shift)),
            ExprKind::Flux(index, shift) => {
                let range = self.faces(self.operator.fluxes[*index].axis, shifted(range, shift));
                join(&mut self.fluxes[*index], range);
            }
            ExprKind::Neg(inner) => self.expr(inner, range),
            ExprKind::Binary(_, left, right) => {
                self.expr(left, range);
                self.expr(right, range);
            }
            ExprKind::Call(_, arguments) => arguments.iter().for_each(|argument| self.expr(argument, range)),
            ExprKind::If(condition, then, other) => {
                self.condition(condition, range);
                self.expr(then, range);
                self.expr(other, range);
            }
        }
    }

    fn condition(&mut self, condition: &Condition, range: &Range) {
        match condition {
            Condition::Compare(_, left, right) => {
                self.expr(left, range);
                self.expr(right, range);
            }
            Condition::And(left, right) | Condition::Or(left, right) => {
                self.condition(left, range);
                self.condition(right, range);
            }
            Condition::Not(inner) => self.condition(inner, range),
        }
    }

    /// Faces on which a flux is evaluated.
    fn faces(&self, axis: usize, mut range: Range) -> Range {
        match self.operator.boundary.get(axis) {
            Some([Rule::Periodic, _]) => range[axis] = (0, 0),
            Some([low, high]) => {
                if matches!(low, Rule::NoFlux) {
                    range[axis].0 = range[axis].0.max(0);
                }
                if matches!(high, Rule::NoFlux) {
                    range[axis].1 = range[axis].1.min(-1);
                }
            }
            None => {}
        }
        range
    }

    fn unknown(&mut self, range: Range) {
        if !self.unknowns.contains(&range) {
            self.unknowns.push(range);
        }
    }

    fn data(&mut self, index: usize, range: &Range, span: Span) {
        let data = &self.operator.data[index];
        if data.outside != Outside::Error {
            return;
        }
        for &axis in &data.axes {
            if matches!(self.operator.boundary.get(axis), None | Some([Rule::Periodic, _])) {
                continue;
            }
            let lowest = if data.half == Some(axis) { -1 } else { 0 };
            let (low, high) = range[axis];
            if low < lowest || high > 0 {
                self.errors.push(self.outside(
                    data,
                    axis,
                    (low < lowest).then_some(low),
                    (high > 0).then_some(high),
                    span,
                ));
            }
        }
    }

    fn outside(&self, data: &Data, axis: usize, low: Option<i64>, high: Option<i64>, span: Span) -> Diagnostic {
        let axis = &self.operator.axes[axis];
        let (letter, size) = (&axis.letter, &axis.size);
        let high = high.map(|high| match high {
            1 => format!("`{letter} = {size}`"),
            _ => format!("`{letter} = {size} + {}`", high - 1),
        });
        let places: Vec<String> = low.map(|low| format!("`{letter} = {low}`")).into_iter().chain(high).collect();
        let axes: Vec<String> = data
            .axes
            .iter()
            .map(|&axis| {
                let half = if data.half == Some(axis) { "+1/2" } else { "" };
                format!("{}{half}", self.operator.axes[axis].letter)
            })
            .collect();
        Diagnostic::new("outside-extent", span, format!("`{}` is read outside its extent along `{letter}`", data.name))
            .label(format!("reaches {}", places.join(" and ")))
            .note(data.span, "nothing is said about values outside")
            .help(format!("declare `data {}[{}] outside mirror;`, or `clamp`, `zero`", data.name, axes.join(", ")))
    }
}

fn shifted(range: &Range, shift: &Shift) -> Range {
    std::array::from_fn(|axis| {
        let shift = i64::from(shift[axis]);
        (range[axis].0.saturating_add(shift), range[axis].1.saturating_add(shift))
    })
}

fn join(hull: &mut Option<Range>, range: Range) {
    *hull = Some(match hull {
        None => range,
        Some(known) => std::array::from_fn(|axis| (known[axis].0.min(range[axis].0), known[axis].1.max(range[axis].1))),
    });
}
