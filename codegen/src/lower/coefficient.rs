//! Rows and fluxes: linear parts stay, coefficients become tables or arithmetic.

use kernelwright_syntax::program::{BinaryOp, CompareOp, Shift};
use kernelwright_syntax::source::Span;

use crate::math::{Expr, Flux, Row};

use super::LowerError;
use super::node::{Cond, Node, Source};
use super::store::{Role, Store};

/// Lowers one row or flux after another.
pub(super) struct Rows<'a> {
    source: &'a Source<'a>,
    store: Store<'a>,
    /// Name of what is being lowered, and where it stands.
    owner: (String, Span),
}

/// A product with its numbers folded: `num/den * above… / below…`.
#[derive(Debug, Clone)]
struct Product {
    num: f64,
    den: f64,
    above: Vec<Node>,
    below: Vec<Node>,
}

impl Product {
    fn one() -> Self {
        Product { num: 1.0, den: 1.0, above: Vec::new(), below: Vec::new() }
    }

    /// A let alone: its table has its name and is likely to be shared.
    fn is_let(&self) -> bool {
        self.below.is_empty() && matches!(self.above.as_slice(), [Node::Let(..)])
    }

    fn times_number(&mut self, num: f64, den: f64) {
        self.num *= num;
        self.den *= den;
    }

    /// The product as one node.
    fn node(self) -> Node {
        let Product { num, den, above, below } = self;
        let negated = num == -1.0 && !above.is_empty();
        let mut factors = above;
        if (num != 1.0 || factors.is_empty()) && !negated {
            factors.insert(0, Node::Number(num));
        }
        let join = |op: BinaryOp| move |a: Node, b: Node| Node::Binary(op, Box::new(a), Box::new(b));
        let product = factors.into_iter().reduce(join(BinaryOp::Mul)).expect("a product has a number or a factor");
        let divisors = (den != 1.0).then_some(Node::Number(den)).into_iter().chain(below);
        let quotient = divisors.fold(product, join(BinaryOp::Div));
        if negated { Node::Neg(Box::new(quotient)) } else { quotient }
    }
}

impl<'a> Rows<'a> {
    pub fn new(source: &'a Source<'a>) -> Self {
        Rows { source, store: Store::new(source), owner: (String::new(), source.op.span) }
    }

    pub fn into_store(self) -> Store<'a> {
        self.store
    }

    /// All fluxes in order.
    pub fn fluxes(&mut self) -> Result<Vec<Flux>, LowerError> {
        let mut out = Vec::new();
        for f in &self.source.op.fluxes {
            self.owner = (f.name.clone(), f.value.span);
            let node = self.source.expand(&f.value, [0; 3])?;
            if reads_flux(&node) {
                return self.fail("a flux reads another flux");
            }
            out.push(Flux { name: f.name.clone(), axis: f.axis, value: self.linear(&node)?, text: f.text.clone() });
        }
        Ok(out)
    }

    /// All rows in order.
    pub fn rows(&mut self) -> Result<Vec<Row>, LowerError> {
        let mut out = Vec::new();
        for (row, unknown) in self.source.op.apply.iter().zip(&self.source.op.unknowns) {
            self.owner = (unknown.clone(), row.value.span);
            let node = self.source.expand(&row.value, [0; 3])?;
            out.push(Row { value: self.linear(&node)?, text: row.text.clone() });
        }
        Ok(out)
    }

    /// The mask; none if it is a number other than zero.
    pub fn mask(&mut self) -> Result<Option<Expr>, LowerError> {
        let Some(mask) = &self.source.op.mask else { return Ok(None) };
        self.owner = ("mask".to_string(), mask.span);
        let node = self.source.expand(mask, [0; 3])?;
        if self.source.traits(&node).unknown {
            return self.fail("a mask does not read unknowns");
        }
        let value = match &node {
            Node::If(c, a, b) => match (self.source.number(a), self.source.number(b)) {
                (Some(a), Some(0.0)) if a != 0.0 => self.condition(c),
                (Some(0.0), Some(b)) if b != 0.0 => self.condition(&Cond::Not(c.clone())),
                _ => self.coefficient(&node),
            },
            _ => self.coefficient(&node),
        };
        Ok((!matches!(value, Expr::Number(v) if v != 0.0)).then_some(value))
    }

    fn fail<T>(&self, what: &'static str) -> Result<T, LowerError> {
        let (owner, span) = self.owner.clone();
        Err(LowerError::NotLinear { operator: self.source.op.name.clone(), owner, what, span })
    }

    /// An expression that must be affine in the unknowns.
    fn linear(&mut self, node: &Node) -> Result<Expr, LowerError> {
        if !self.source.traits(node).unknown {
            return Ok(self.coefficient(node));
        }
        match node {
            Node::Unknown(c, s) => Ok(Expr::Unknown(*c, *s)),
            Node::Flux(f, s) => Ok(Expr::Flux(*f, *s)),
            Node::Binary(op @ (BinaryOp::Add | BinaryOp::Sub), a, b) => {
                let (a, b) = (self.linear(a)?, self.linear(b)?);
                Ok(match (a, b) {
                    (a, Expr::Number(0.0)) => a,
                    (Expr::Number(0.0), b) if *op == BinaryOp::Add => b,
                    (Expr::Number(0.0), b) => Expr::Neg(Box::new(b)),
                    (a, b) => Expr::Binary(*op, Box::new(a), Box::new(b)),
                })
            }
            Node::Neg(_) | Node::Binary(..) => self.linear_product(node),
            Node::If(c, a, b) => {
                let (a, b) = (self.linear(a)?, self.linear(b)?);
                if self.source.cond_traits(c).unknown {
                    return self.fail("a condition reads an unknown");
                }
                Ok(Expr::Select(Box::new(self.condition(c)), Box::new(a), Box::new(b)))
            }
            _ => self.fail("a function of an unknown"),
        }
    }

    fn linear_product(&mut self, node: &Node) -> Result<Expr, LowerError> {
        let mut product = self.product(node);
        let is_unknown = |s: &Source, n: &Node| s.traits(n).unknown;
        if product.below.iter().any(|n| is_unknown(self.source, n)) {
            return self.fail("a division by an unknown");
        }
        let (unknown, above) = product.above.into_iter().partition(|n| is_unknown(self.source, n));
        product.above = above;
        let unknown: Vec<Node> = unknown;
        let [unknown] = unknown.as_slice() else { return self.fail("a product of unknowns") };
        let unknown = self.linear(unknown)?;
        if product.num == 0.0 || unknown == Expr::Number(0.0) {
            return Ok(Expr::Number(0.0));
        }
        Ok(match self.arithmetic(product) {
            Expr::Number(1.0) => unknown,
            Expr::Number(-1.0) => Expr::Neg(Box::new(unknown)),
            Expr::Neg(c) => Expr::Neg(Box::new(times(*c, unknown))),
            c => times(c, unknown),
        })
    }

    /// A coefficient: a number, a table, or arithmetic on tables and data.
    fn coefficient(&mut self, node: &Node) -> Expr {
        if let Some(v) = self.source.number(node) {
            return Expr::Number(v);
        }
        if self.source.traits(node).tabulable() {
            let product = self.product(node);
            return self.arithmetic(product);
        }
        let two = |s: &mut Self, a, b| (Box::new(s.coefficient(a)), Box::new(s.coefficient(b)));
        match node {
            Node::Data(id, s) => Expr::Data(*id, *s),
            Node::Binary(op @ (BinaryOp::Add | BinaryOp::Sub), a, b) => {
                let (a, b) = two(self, a, b);
                Expr::Binary(*op, a, b)
            }
            Node::Call(f, args) => Expr::Call(*f, args.iter().map(|a| self.coefficient(a)).collect()),
            Node::If(c, a, b) => {
                let condition = Box::new(self.condition(c));
                let (a, b) = two(self, a, b);
                Expr::Select(condition, a, b)
            }
            _ => {
                let product = self.product(node);
                self.arithmetic(product)
            }
        }
    }

    /// 1 where the condition holds, else 0.
    fn condition(&mut self, c: &Cond) -> Expr {
        if let Some(holds) = self.source.holds(c) {
            return Expr::Number(f64::from(u8::from(holds)));
        }
        let traits = self.source.cond_traits(c);
        let split = !traits.tabulable() || (self.source.dims() > 1 && self.source.is_all(traits.axes));
        let one = || Box::new(Expr::Number(1.0));
        match c {
            Cond::And(a, b) if split => times(self.condition(a), self.condition(b)),
            Cond::Or(a, b) if split => Expr::Select(Box::new(self.condition(a)), one(), Box::new(self.condition(b))),
            Cond::Not(a) if split => Expr::Select(Box::new(self.condition(a)), Box::new(Expr::Number(0.0)), one()),
            Cond::Compare(op, a, b) if !traits.tabulable() => compare(*op, self.coefficient(a), self.coefficient(b)),
            _ => {
                let (yes, no) = (Box::new(Node::Number(1.0)), Box::new(Node::Number(0.0)));
                self.table(&Node::If(Box::new(c.clone()), yes, no), "condition")
            }
        }
    }

    fn table(&mut self, node: &Node, what: &'static str) -> Expr {
        let (owner, what) = if self.owner.0 == "mask" { ("mask".into(), "") } else { (self.owner.0.clone(), what) };
        let (table, shift): (usize, Shift) = self.store.read(node, &Role { owner, what });
        Expr::Table(table, shift)
    }

    /// The factors of a product; lets over all axes are opened where that splits them.
    fn product(&self, node: &Node) -> Product {
        let (mut closed, mut open) = (Product::one(), Product::one());
        self.flatten(node, false, false, &mut closed);
        self.flatten(node, false, true, &mut open);
        let opened_whole = self.groups(&open).len() < 2;
        if opened_whole { closed } else { open }
    }

    fn flatten(&self, node: &Node, inverse: bool, open: bool, out: &mut Product) {
        if let Some(v) = self.source.number(node) {
            return if inverse { out.times_number(1.0, v) } else { out.times_number(v, 1.0) };
        }
        match node {
            Node::Neg(a) => {
                out.times_number(-1.0, 1.0);
                self.flatten(a, inverse, open, out);
            }
            Node::Binary(BinaryOp::Mul, a, b) => {
                self.flatten(a, inverse, open, out);
                self.flatten(b, inverse, open, out);
            }
            Node::Binary(BinaryOp::Div, a, b) => {
                self.flatten(a, inverse, open, out);
                self.flatten(b, !inverse, open, out);
            }
            Node::Let(id, s) if open && self.source.dims() > 1 && self.source.is_all(self.source.lets[*id].axes) => {
                match self.source.definition(*id, *s) {
                    Ok(value) => self.flatten(&value, inverse, open, out),
                    Err(_) => side(out, inverse).push(node.clone()),
                }
            }
            _ => side(out, inverse).push(node.clone()),
        }
    }

    /// Groups of the tabulable factors of a product: one table each, numbers apart.
    fn groups(&self, product: &Product) -> Vec<Product> {
        let above = product.above.iter().map(|n| (n, false));
        let factors: Vec<_> = above.chain(product.below.iter().map(|n| (n, true))).collect();
        let axes_of = |n: &Node| self.source.traits(n).axes;
        let factors: Vec<_> = factors.into_iter().filter(|(n, _)| self.source.traits(n).tabulable()).collect();
        let union = factors.iter().fold([false; 3], |u, (n, _)| join(u, axes_of(n)));
        let whole = self.source.dims() == 1
            || !self.source.is_all(union)
            || factors.iter().any(|(n, _)| self.source.is_all(axes_of(n)));
        let hosts = if whole { vec![union] } else { hosts(factors.iter().map(|(n, _)| axes_of(n)).collect()) };
        let mut groups: Vec<(usize, Product)> = Vec::new();
        for (node, inverse) in factors {
            let host = smallest_host(&hosts, axes_of(node));
            let at = groups.iter().position(|(h, _)| *h == host).unwrap_or_else(|| {
                groups.push((host, Product::one()));
                groups.len() - 1
            });
            side(&mut groups[at].1, inverse).push(node.clone());
        }
        groups.into_iter().map(|(_, g)| g).collect()
    }

    /// A product of coefficients: tables first, then data, then what must be divided by.
    fn arithmetic(&mut self, product: Product) -> Expr {
        if product.num == 0.0 {
            return Expr::Number(0.0);
        }
        let mut groups = self.groups(&product);
        let mut number = Some((product.num, product.den)).filter(|(n, d)| n != d);
        let only_sign = product.num == -product.den;
        if !(only_sign && groups.iter().all(Product::is_let)) {
            let count = |g: &Product| self.source.traits(&g.clone().node()).axes.iter().filter(|a| **a).count();
            if let Some(host) = groups.iter_mut().min_by_key(|g| (g.is_let(), count(g)))
                && let Some((num, den)) = number.take()
            {
                host.times_number(num, den);
            }
        }
        let mut factors: Vec<Expr> = groups.into_iter().map(|g| self.table(&g.node(), "coefficient")).collect();
        let data = |s: &Self, n: &&Node| !s.source.traits(n).tabulable();
        let above: Vec<&Node> = product.above.iter().filter(|n| data(self, n)).collect();
        let below: Vec<&Node> = product.below.iter().filter(|n| data(self, n)).collect();
        factors.extend(above.into_iter().map(|n| self.coefficient(n)));
        let mut value = number.filter(|_| !only_sign).map(|(num, den)| Expr::Number(num / den));
        for factor in factors {
            value = Some(match value {
                Some(v) => times(v, factor),
                None => factor,
            });
        }
        let mut value = value.unwrap_or(Expr::Number(1.0));
        for divisor in below {
            value = Expr::Binary(BinaryOp::Div, Box::new(value), Box::new(self.coefficient(divisor)));
        }
        match value {
            Expr::Number(v) if number.is_some() && only_sign => Expr::Number(-v),
            v if number.is_some() && only_sign => Expr::Neg(Box::new(v)),
            v => v,
        }
    }
}

fn side(p: &mut Product, inverse: bool) -> &mut Vec<Node> {
    if inverse { &mut p.below } else { &mut p.above }
}

fn times(a: Expr, b: Expr) -> Expr {
    Expr::Binary(BinaryOp::Mul, Box::new(a), Box::new(b))
}

fn compare(op: CompareOp, a: Expr, b: Expr) -> Expr {
    Expr::Compare(op, Box::new(a), Box::new(b))
}

fn join(a: [bool; 3], b: [bool; 3]) -> [bool; 3] {
    [0, 1, 2].map(|x| a[x] || b[x])
}

fn count(axes: [bool; 3]) -> usize {
    axes.iter().filter(|a| **a).count()
}

fn within(part: [bool; 3], whole: [bool; 3]) -> bool {
    (0..3).all(|a| !part[a] || whole[a])
}

/// The sets of axes that are not within another one.
fn hosts(sets: Vec<[bool; 3]>) -> Vec<[bool; 3]> {
    let mut hosts: Vec<[bool; 3]> = Vec::new();
    for set in &sets {
        let larger = sets.iter().any(|s| s != set && within(*set, *s));
        if !larger && !hosts.contains(set) {
            hosts.push(*set);
        }
    }
    hosts
}

/// The smallest host of a set, the first of several.
fn smallest_host(hosts: &[[bool; 3]], set: [bool; 3]) -> usize {
    let fitting = (0..hosts.len()).filter(|&h| within(set, hosts[h]));
    fitting.min_by_key(|&h| count(hosts[h])).expect("every set is within a host")
}

fn reads_flux(n: &Node) -> bool {
    match n {
        Node::Flux(..) => true,
        Node::Neg(a) => reads_flux(a),
        Node::Binary(_, a, b) | Node::If(_, a, b) => reads_flux(a) || reads_flux(b),
        Node::Call(_, args) => args.iter().any(reads_flux),
        _ => false,
    }
}
