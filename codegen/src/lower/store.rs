//! The tables of an operator while it is lowered: sharing, names, definitions.
//!
//! Two coefficients that differ by a shift only are one table read at two shifts. The first reading seen fixes which
//! one is at shift zero, except that a table of a single let is that let at shift zero.

use std::collections::{BTreeMap, BTreeSet};

use kernelwright_syntax::program::{BinaryOp, Shift};

use crate::math::{Definition, Table, TableCondition, TableExpr};
use crate::math_text;

use super::LowerError;
use super::node::{Cond, Node, Source};

/// Tables in order of first use.
pub(super) struct Store<'a> {
    source: &'a Source<'a>,
    /// Canonical text of the definition, moved to shift zero, to number and shift of that form.
    known: BTreeMap<String, (usize, Shift)>,
    tables: Vec<(String, Node)>,
    names: BTreeSet<String>,
}

/// What a table is for; its name if it has none from a let.
#[derive(Debug, Clone)]
pub(super) struct Role {
    /// Flux, unknown, boundary, `mask`.
    pub owner: String,
    /// `coefficient`, `condition`, or nothing.
    pub what: &'static str,
}

impl<'a> Store<'a> {
    pub fn new(source: &'a Source<'a>) -> Self {
        let op = source.op;
        let names = op.params.iter().map(|p| p.name.clone());
        let names = names.chain(op.data.iter().map(|d| d.name.clone()));
        let names = names.chain(op.lets.iter().map(|l| l.name.clone()));
        let names = names.chain(op.fluxes.iter().map(|f| f.name.clone()));
        let names = names.chain(op.axes.iter().flat_map(|a| [a.letter.clone(), a.size.clone()]));
        let names = names.chain(op.unknowns.iter().cloned()).collect();
        Store { source, known: BTreeMap::new(), tables: Vec::new(), names }
    }

    /// The table whose value is `node`, and the shift at which to read it.
    pub fn read(&mut self, node: &Node, role: &Role) -> (usize, Shift) {
        let anchor = self.anchor(node);
        let key = format!("{:?}", node.moved_back(self.source, anchor));
        if let Some((table, base)) = self.known.get(&key) {
            return (*table, [0, 1, 2].map(|a| anchor[a] - base[a]));
        }
        let table = self.tables.len();
        let (name, at) = match node {
            // The let itself is at shift zero, wherever it is first read.
            Node::Let(id, at) => (self.source.op.lets[*id].name.clone(), *at),
            _ => (self.unique(role, node), [0; 3]),
        };
        self.known.insert(key, (table, [0, 1, 2].map(|a| anchor[a] - at[a])));
        self.tables.push((name, node.moved_back(self.source, at)));
        (table, at)
    }

    /// A table whose value is `node` at shift zero.
    pub fn unshifted(&mut self, node: &Node, role: &Role) -> usize {
        let anchor = self.anchor(node);
        let key = format!("{:?}", node.moved_back(self.source, anchor));
        match (self.known.get(&key), node) {
            (Some((table, base)), _) if *base == anchor => return *table,
            (None, Node::Let(_, [0, 0, 0])) => return self.read(node, role).0,
            _ => {}
        }
        let name = self.unique(role, node);
        self.known.entry(key).or_insert((self.tables.len(), anchor));
        self.tables.push((name, node.clone()));
        self.tables.len() - 1
    }

    /// Smallest shift along each axis.
    fn anchor(&self, node: &Node) -> Shift {
        let mut least = [None::<i32>; 3];
        node.each_shift(self.source, &mut |a, s| least[a] = Some(least[a].map_or(s, |l| l.min(s))));
        least.map(|l| l.unwrap_or(0))
    }

    fn unique(&mut self, role: &Role, node: &Node) -> String {
        let axes = self.source.traits(node).axes;
        let letters: String =
            self.source.op.axes.iter().zip(axes).filter(|(_, d)| *d).map(|(a, _)| a.letter.as_str()).collect();
        let parts = [role.owner.as_str(), role.what, letters.as_str()];
        let stem = parts.iter().filter(|p| !p.is_empty()).copied().collect::<Vec<_>>().join("_");
        let mut name = stem.clone();
        let mut number = 2;
        while !self.names.insert(name.clone()) {
            name = format!("{stem}_{number}");
            number += 1;
        }
        name
    }

    /// Tables (without margins yet) and the definitions they need, in the order of the program.
    pub fn finish(self) -> Result<(Vec<Definition>, Vec<Table>), LowerError> {
        let used = self.used_lets()?;
        let number: BTreeMap<usize, usize> = used.iter().enumerate().map(|(n, &id)| (id, n)).collect();
        let mut lets = Vec::new();
        for &id in &used {
            let value = table_expr(&self.source.definition(id, [0; 3])?, &number);
            lets.push(Definition { name: self.source.op.lets[id].name.clone(), value });
        }
        let mut tables = Vec::new();
        for (name, node) in &self.tables {
            let axes = self.source.traits(node).axes;
            let value = table_expr(node, &number);
            let text = match node {
                Node::Let(id, _) => self.source.op.lets[*id].text.clone(),
                _ => self.text(name, axes, &value, &lets),
            };
            let axes = (0..3).filter(|&a| axes[a]).collect();
            tables.push(Table { name: name.clone(), axes, below: [0; 3], above: [0; 3], value, text });
        }
        Ok((lets, tables))
    }

    fn text(&self, name: &str, axes: [bool; 3], value: &TableExpr, lets: &[Definition]) -> String {
        let op = self.source.op;
        let letters: Vec<&str> = op.axes.iter().zip(axes).filter(|(_, d)| *d).map(|(a, _)| a.letter.as_str()).collect();
        let names = math_text::Names {
            letters: op.axes.iter().map(|a| a.letter.as_str()).collect(),
            sizes: op.axes.iter().map(|a| a.size.as_str()).collect(),
            params: op.params.iter().map(|p| p.name.as_str()).collect(),
            data: op.data.iter().map(|d| d.name.as_str()).collect(),
            lets: lets.iter().map(|l| l.name.as_str()).collect(),
        };
        let target = if letters.is_empty() { name.to_string() } else { format!("{name}[{}]", letters.join(", ")) };
        format!("{target} = {}", names.table_expr(value))
    }

    /// Lets that tables read, directly or through lets, ascending.
    fn used_lets(&self) -> Result<Vec<usize>, LowerError> {
        let mut used = vec![false; self.source.op.lets.len()];
        self.tables.iter().for_each(|(_, n)| mark_lets(n, &mut used));
        // A let reads earlier ones only.
        for id in (0..used.len()).rev() {
            if used[id] {
                mark_lets(&self.source.definition(id, [0; 3])?, &mut used);
            }
        }
        Ok((0..used.len()).filter(|&id| used[id]).collect())
    }
}

fn mark_lets(node: &Node, used: &mut [bool]) {
    match node {
        Node::Let(id, _) => used[*id] = true,
        Node::Neg(a) => mark_lets(a, used),
        Node::Binary(_, a, b) => {
            mark_lets(a, used);
            mark_lets(b, used);
        }
        Node::Call(_, args) => args.iter().for_each(|a| mark_lets(a, used)),
        Node::If(c, a, b) => {
            mark_condition(c, used);
            mark_lets(a, used);
            mark_lets(b, used);
        }
        _ => {}
    }
}

fn mark_condition(c: &Cond, used: &mut [bool]) {
    match c {
        Cond::Compare(_, a, b) => {
            mark_lets(a, used);
            mark_lets(b, used);
        }
        Cond::And(a, b) | Cond::Or(a, b) => {
            mark_condition(a, used);
            mark_condition(b, used);
        }
        Cond::Not(a) => mark_condition(a, used),
    }
}

/// The node as a table expression, lets renumbered.
fn table_expr(n: &Node, lets: &BTreeMap<usize, usize>) -> TableExpr {
    let sub = |n: &Node| Box::new(table_expr(n, lets));
    match n {
        Node::Number(v) => TableExpr::Number(*v),
        Node::Size(a) => TableExpr::Size(*a),
        Node::Index(a, 0) => TableExpr::Index(*a),
        Node::Index(a, s) => {
            let (op, by) = if *s > 0 { (BinaryOp::Add, *s) } else { (BinaryOp::Sub, -*s) };
            TableExpr::Binary(op, Box::new(TableExpr::Index(*a)), Box::new(TableExpr::Number(f64::from(by))))
        }
        Node::Param(p) => TableExpr::Param(*p),
        Node::Let(id, s) => TableExpr::Let(*lets.get(id).expect("every let of a table was marked as used"), *s),
        Node::Data(id, s) => TableExpr::Data(*id, *s),
        Node::Neg(a) => TableExpr::Neg(sub(a)),
        Node::Binary(op, a, b) => TableExpr::Binary(*op, sub(a), sub(b)),
        Node::Call(f, args) => TableExpr::Call(*f, args.iter().map(|a| table_expr(a, lets)).collect()),
        Node::If(c, a, b) => TableExpr::Select(Box::new(table_condition(c, lets)), sub(a), sub(b)),
        Node::Unknown(..) | Node::Flux(..) => unreachable!("tables are made of coefficients only"),
    }
}

fn table_condition(c: &Cond, lets: &BTreeMap<usize, usize>) -> TableCondition {
    let sub = |c: &Cond| Box::new(table_condition(c, lets));
    match c {
        Cond::Compare(op, a, b) => TableCondition::Compare(*op, table_expr(a, lets), table_expr(b, lets)),
        Cond::And(a, b) => TableCondition::And(sub(a), sub(b)),
        Cond::Or(a, b) => TableCondition::Or(sub(a), sub(b)),
        Cond::Not(a) => TableCondition::Not(sub(a)),
    }
}
