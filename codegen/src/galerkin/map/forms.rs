//! Systems made ready for kernels: fluxes in the difference of states where they allow it, factors that are the same for
//! a whole face or element pulled out, so that they are computed once there.
//!
//! Precondition: a verified system. Postcondition: the trees of [`Forms`] read, beside what [`Expr`] can read, the leaves
//! [`Leaf`]; they read no materials and no normals.
//!
//! A flux correction n.F* - n.F(interior) is linear. If it vanishes for equal states, whatever the materials on both sides
//! are, it is a function of the jump alone: the numerical flux with zero for interior and the jump for exterior values.
//! Nothing is then subtracted that was added before, and a constant state is preserved to the last bit.

use crate::galerkin::evaluate::{Samples, evaluate};
use crate::galerkin::system::{BinaryOp, Condition, Expr, Side, System};

/// Points at which the vanishing of a correction is tested.
const POINTS: usize = 24;

/// What kernels compute.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Forms {
    /// Per component: the flux correction times the face's scale.
    pub corrections: Vec<Expr>,
    /// Per component: its rate without the flux.
    pub rates: Vec<Vec<Group>>,
    /// Per component: its source.
    pub sources: Vec<Option<Expr>>,
    /// Values of a face, of materials, normals and the scale.
    pub face_slots: Vec<Expr>,
    /// Values of an element, of materials.
    pub element_slots: Vec<Expr>,
}

/// Terms of a rate with one coefficient: `coefficient * sum of (sign) what`.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Group {
    pub coefficient: Expr,
    /// Negated, component, axis of the derivative.
    pub terms: Vec<(bool, usize, Option<usize>)>,
}

/// Leaves that only kernels have, encoded in ids beyond those of the system.
pub(super) struct Leaf {
    components: usize,
    materials: usize,
}

/// `|grad(l_f)|`, the face's measure relative to the element's.
pub(super) const SCALE: Expr = Expr::Normal(3);

/// What an expression's leaf is.
pub(super) enum Meaning {
    /// Exterior minus interior value of a component.
    Jump(usize),
    /// A value of the face.
    FaceSlot(usize),
    /// A value of the element.
    ElementSlot(usize),
}

impl Leaf {
    pub fn of(system: &System) -> Leaf {
        Leaf { components: system.components.len(), materials: system.materials.len() }
    }

    fn jump(&self, component: usize) -> Expr {
        Expr::Component(Side::Exterior, self.components + component)
    }

    fn face_slot(&self, slot: usize) -> Expr {
        Expr::Material(Side::Exterior, self.materials + slot)
    }

    fn element_slot(&self, slot: usize) -> Expr {
        Expr::Material(Side::Interior, self.materials + slot)
    }

    /// The meaning of a leaf beyond those of the system.
    pub fn meaning(&self, e: &Expr) -> Option<Meaning> {
        match e {
            Expr::Component(Side::Exterior, n) if *n >= self.components => Some(Meaning::Jump(n - self.components)),
            Expr::Material(Side::Exterior, n) if *n >= self.materials => Some(Meaning::FaceSlot(n - self.materials)),
            Expr::Material(Side::Interior, n) if *n >= self.materials => Some(Meaning::ElementSlot(n - self.materials)),
            _ => None,
        }
    }
}

/// Makes a system ready.
pub(super) fn prepare(system: &System) -> Forms {
    let leaf = Leaf::of(system);
    let (mut face_slots, mut element_slots) = (Vec::new(), Vec::new());
    let mut corrections = Vec::new();
    for component in 0..system.components.len() {
        let whole = binary(BinaryOp::Mul, correction(system, &leaf, component), SCALE);
        corrections.push(extract(&gather(&fold(&whole)), &mut face_slots, &|n| leaf.face_slot(n)));
    }
    let mut rates = Vec::new();
    let mut sources = Vec::new();
    for rate in &system.rates {
        let mut groups: Vec<Group> = Vec::new();
        for term in &rate.terms {
            let (negated, coefficient) = sign(gather(&fold(&term.coefficient)));
            if coefficient == Expr::Number(0.0) {
                continue;
            }
            let coefficient = extract(&coefficient, &mut element_slots, &|n| leaf.element_slot(n));
            let entry = (negated, term.component, term.axis);
            match groups.iter_mut().find(|group| group.coefficient == coefficient) {
                Some(group) => group.terms.push(entry),
                None => groups.push(Group { coefficient, terms: vec![entry] }),
            }
        }
        rates.push(groups);
        let source = rate.source.as_ref().map(|source| gather(&fold(source)));
        sources.push(source.map(|source| extract(&source, &mut element_slots, &|n| leaf.element_slot(n))));
    }
    Forms { corrections, rates, sources, face_slots, element_slots }
}

fn correction(system: &System, leaf: &Leaf, component: usize) -> Expr {
    let (star, physical) = (&system.flux[component], system.physical_flux(component));
    if vanishes_for_equal_states(system, star, &physical) {
        return substitute(star, &|e| match e {
            Expr::Component(Side::Interior, _) => Some(Expr::Number(0.0)),
            Expr::Component(Side::Exterior, n) => Some(leaf.jump(*n)),
            _ => None,
        });
    }
    binary(BinaryOp::Sub, star.clone(), physical)
}

fn vanishes_for_equal_states(system: &System, star: &Expr, physical: &Expr) -> bool {
    let mut samples = Samples::new(31);
    (0..POINTS).all(|_| {
        let mut face = samples.face(system);
        face.components[1] = face.components[0].clone();
        let (a, b) = (evaluate(star, &face), evaluate(physical, &face));
        (a - b).abs() <= 1e-11 * (1.0 + a.abs() + b.abs())
    })
}

fn binary(op: BinaryOp, a: Expr, b: Expr) -> Expr {
    Expr::Binary(op, Box::new(a), Box::new(b))
}

fn is(e: &Expr, value: f64) -> bool {
    *e == Expr::Number(value)
}

/// Replaces leaves.
fn substitute(e: &Expr, leaf: &impl Fn(&Expr) -> Option<Expr>) -> Expr {
    leaf(e).unwrap_or_else(|| rebuild(e, &|operand| substitute(operand, leaf)))
}

/// The same node over other operands.
fn rebuild(e: &Expr, f: &impl Fn(&Expr) -> Expr) -> Expr {
    match e {
        Expr::Neg(a) => Expr::Neg(Box::new(f(a))),
        Expr::Binary(op, a, b) => binary(*op, f(a), f(b)),
        Expr::Call(function, args) => Expr::Call(*function, args.iter().map(f).collect()),
        Expr::Select(c, a, b) => Expr::Select(Box::new(rebuild_condition(c, f)), Box::new(f(a)), Box::new(f(b))),
        leaf => leaf.clone(),
    }
}

fn rebuild_condition(c: &Condition, f: &impl Fn(&Expr) -> Expr) -> Condition {
    let both = |a: &Condition, b: &Condition| (Box::new(rebuild_condition(a, f)), Box::new(rebuild_condition(b, f)));
    match c {
        Condition::Compare(op, a, b) => Condition::Compare(*op, f(a), f(b)),
        Condition::And(a, b) => {
            let (a, b) = both(a, b);
            Condition::And(a, b)
        }
        Condition::Or(a, b) => {
            let (a, b) = both(a, b);
            Condition::Or(a, b)
        }
        Condition::Not(a) => Condition::Not(Box::new(rebuild_condition(a, f))),
    }
}

/// Removes structural zeros and ones, and folds numbers. (A structural zero stays one whatever it is multiplied by.)
fn fold(e: &Expr) -> Expr {
    let e = rebuild(e, &fold);
    match e {
        Expr::Neg(a) => negated(*a),
        Expr::Binary(op, a, b) => folded(op, *a, *b),
        Expr::Select(_, ref a, ref b) if a == b => (**a).clone(),
        other => other,
    }
}

fn negated(a: Expr) -> Expr {
    match a {
        Expr::Number(0.0) => Expr::Number(0.0),
        Expr::Number(x) => Expr::Number(-x),
        Expr::Neg(a) => *a,
        a => Expr::Neg(Box::new(a)),
    }
}

fn folded(op: BinaryOp, a: Expr, b: Expr) -> Expr {
    if let (Expr::Number(x), Expr::Number(y)) = (&a, &b) {
        return Expr::Number(crate::real::binary(op, *x, *y));
    }
    match op {
        BinaryOp::Add if is(&a, 0.0) => b,
        BinaryOp::Add | BinaryOp::Sub if is(&b, 0.0) => a,
        BinaryOp::Sub if is(&a, 0.0) => negated(b),
        BinaryOp::Add => match b {
            Expr::Neg(b) => binary(BinaryOp::Sub, a, *b),
            b => binary(op, a, b),
        },
        BinaryOp::Sub => match b {
            Expr::Neg(b) => binary(BinaryOp::Add, a, *b),
            b => binary(op, a, b),
        },
        BinaryOp::Mul if is(&a, 0.0) || is(&b, 0.0) => Expr::Number(0.0),
        BinaryOp::Mul if is(&a, 1.0) => b,
        BinaryOp::Mul | BinaryOp::Div if is(&b, 1.0) => a,
        BinaryOp::Mul if is(&a, -1.0) => negated(b),
        BinaryOp::Mul if is(&b, -1.0) => negated(a),
        BinaryOp::Div if is(&a, 0.0) => Expr::Number(0.0),
        _ => binary(op, a, b),
    }
}

/// The same for a whole face, or element.
fn uniform(e: &Expr) -> bool {
    !e.any(|e| matches!(e, Expr::Component(..) | Expr::Position(_) | Expr::Time))
}

/// Factors of a product.
#[derive(Default)]
struct Product {
    above: Vec<Expr>,
    below: Vec<Expr>,
    varying: Vec<Expr>,
}

impl Product {
    fn multiply(&mut self, e: &Expr) {
        match e {
            Expr::Binary(BinaryOp::Mul, a, b) => {
                self.multiply(a);
                self.multiply(b);
            }
            Expr::Binary(BinaryOp::Div, a, b) if uniform(b) => {
                self.multiply(a);
                self.below.push((**b).clone());
            }
            Expr::Neg(a) => {
                self.above.push(Expr::Number(-1.0));
                self.multiply(a);
            }
            e if uniform(e) => self.above.push(e.clone()),
            e => self.varying.push(rebuild(e, &gather)),
        }
    }

    fn value(self) -> Expr {
        let all = |list: Vec<Expr>| list.into_iter().reduce(|a, b| folded(BinaryOp::Mul, a, b));
        let above = all(self.above).unwrap_or(Expr::Number(1.0));
        let factor = match all(self.below) {
            Some(below) => folded(BinaryOp::Div, above, below),
            None => above,
        };
        match all(self.varying) {
            Some(varying) => folded(BinaryOp::Mul, factor, varying),
            None => factor,
        }
    }
}

/// Gathers what is uniform in products, and turns divisions by it into multiplications.
fn gather(e: &Expr) -> Expr {
    match e {
        Expr::Binary(BinaryOp::Mul | BinaryOp::Div, ..) | Expr::Neg(_) => {
            let mut product = Product::default();
            product.multiply(e);
            product.value()
        }
        e => rebuild(e, &gather),
    }
}

/// Takes a sign off.
fn sign(e: Expr) -> (bool, Expr) {
    match e {
        Expr::Neg(a) => {
            let (negated, a) = sign(*a);
            (!negated, a)
        }
        Expr::Number(x) if x < 0.0 => (true, Expr::Number(-x)),
        Expr::Binary(op @ (BinaryOp::Mul | BinaryOp::Div), a, b) => {
            let ((first, a), (second, b)) = (sign(*a), sign(*b));
            (first != second, folded(op, a, b))
        }
        other => (false, other),
    }
}

/// Replaces the largest uniform parts that read materials or normals by slots.
fn extract(e: &Expr, slots: &mut Vec<Expr>, leaf: &impl Fn(usize) -> Expr) -> Expr {
    let local = |e: &Expr| matches!(e, Expr::Material(..) | Expr::Normal(_));
    if !e.any(local) {
        return e.clone();
    }
    if uniform(e) {
        let slot = slots.iter().position(|slot| slot == e).unwrap_or_else(|| {
            slots.push(e.clone());
            slots.len() - 1
        });
        return leaf(slot);
    }
    let slots = std::cell::RefCell::new(slots);
    rebuild(e, &|operand| extract(operand, &mut slots.borrow_mut(), leaf))
}
