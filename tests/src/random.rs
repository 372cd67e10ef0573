//! Random programs, as text: operators nobody has thought of.

use std::fmt::Write;

/// A small generator of random numbers (splitmix64), the same everywhere.
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    /// A generator with a seed.
    pub fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x5851_f42d_4c95_7f2d)
    }

    /// The next 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// An integer below `n`.
    pub fn below(&mut self, n: u64) -> u64 {
        self.bits() % n
    }

    /// An integer from `low` to `high`, both included.
    pub fn between(&mut self, low: i64, high: i64) -> i64 {
        low + self.below((high - low + 1) as u64) as i64
    }

    /// True once in `n` times.
    pub fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    /// A real in [-1/2, 1/2).
    pub fn real(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1u64 << 53) as f64 - 0.5
    }

    /// One of several.
    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len() as u64) as usize]
    }

    /// A vector of reals.
    pub fn vector(&mut self, n: usize) -> Vec<f64> {
        (0..n).map(|_| self.real()).collect()
    }
}

const LETTERS: [&str; 3] = ["i", "j", "k"];

/// A random linear operator `op` with a problem `main`, as the text of a program.
///
/// One to three axes of 1 to 9 points, offsets up to 7 on any mix of axes, face values, fluxes, data read at offsets,
/// conditionals, mixed boundaries, masks, terms without unknown, one or two unknowns.
pub fn operator(seed: u64) -> String {
    let mut g = Generator { random: Random::new(seed), axes: 1, coefficients: Vec::new() };
    g.program()
}

struct Generator {
    random: Random,
    axes: usize,
    /// Names of values usable as coefficients at a point, as expressions.
    coefficients: Vec<String>,
}

impl Generator {
    fn program(&mut self) -> String {
        self.axes = 1 + self.random.below(3) as usize;
        let largest = [9, 9, 6][self.axes - 1];
        let sizes: Vec<i64> = (0..self.axes).map(|_| self.random.between(1, largest)).collect();
        let unknowns: &[&str] = if self.random.one_in(5) { &["u", "v"] } else { &["u"] };
        let periodic: Vec<bool> = (0..self.axes).map(|_| self.random.one_in(4)).collect();
        let centring = if self.random.one_in(3) { "nodes" } else { "cells" };
        let grid: Vec<String> = (0..self.axes).map(|a| format!("{0}: n{0}", LETTERS[a])).collect();
        let mut t = format!("operator op {{\n    grid {centring} [{}];\n    param a, b = 0.25;\n", grid.join(", "));
        self.coefficients = vec!["a".into(), "b".into(), "1.5".into(), "(a + 3)".into()];
        self.data(&mut t);
        self.lets(&mut t);
        self.mask(&mut t);
        let fluxes = self.fluxes(&mut t, unknowns);
        let rows: Vec<String> = unknowns.iter().map(|_| self.row(unknowns, &fluxes)).collect();
        if unknowns.len() == 1 {
            writeln!(t, "    apply u => {};", rows[0]).expect("a string grows");
        } else {
            writeln!(t, "    apply (u, v) => ({});", rows.join(", ")).expect("a string grows");
        }
        for (axis, periodic) in periodic.iter().enumerate() {
            self.boundary(&mut t, axis, *periodic);
        }
        t.push_str("}\n\n");
        let sizes: Vec<String> = sizes.iter().enumerate().map(|(a, n)| format!("n{} = {n}", LETTERS[a])).collect();
        write!(t, "problem main {{\n    operator op({}, a = 1.25);\n", sizes.join(", ")).expect("a string grows");
        for name in ["whole", "profile", "faces"] {
            if t.contains(&format!("data {name}[")) {
                writeln!(t, "    data {name} = random(seed = {});", 1 + self.random.below(99)).expect("a string grows");
            }
        }
        let random = "random(seed = 7)";
        let rhs = if unknowns.len() == 1 { random.to_string() } else { format!("({random}, {random})") };
        write!(t, "    rhs {rhs};\n    solver richardson;\n    iterations 3;\n}}\n").expect("a string grows");
        t
    }

    /// Sometimes a mask. (A generator of its own: what else a seed gives stays as it is.)
    fn mask(&self, t: &mut String) {
        let mut random = self.random.clone();
        if random.one_in(6) {
            let axis = random.below(self.axes as u64) as usize;
            let (l, m) = (LETTERS[axis], LETTERS[(axis + 1) % self.axes]);
            writeln!(t, "    mask if {l} + 2*{m} < n{l} + 1 && {l} != 2 {{ 1 }} else {{ 0 }};")
                .expect("a string grows");
        }
    }

    fn data(&mut self, t: &mut String) {
        let all = LETTERS[..self.axes].join(", ");
        if self.random.one_in(2) {
            let outside = *self.random.pick(&["mirror", "clamp", "zero", "periodic"]);
            writeln!(t, "    data whole[{all}] outside {outside};").expect("a string grows");
            let (near, other) = (self.at("whole", 2), self.at("whole", 3));
            self.coefficients.push(format!("(2 + {near})"));
            self.coefficients.push(format!("1 / (3 + {other} - whole)"));
        }
        if self.random.one_in(3) {
            let axis = self.random.below(self.axes as u64) as usize;
            writeln!(t, "    data profile[{}] outside clamp;", LETTERS[axis]).expect("a string grows");
            let offset = self.random.between(-3, 3);
            self.coefficients.push(format!("(1 + profile[{}])", step(LETTERS[axis], offset)));
        }
        if self.random.one_in(3) {
            let axis = self.random.below(self.axes as u64) as usize;
            let letters: Vec<String> =
                (0..self.axes).map(|a| LETTERS[a].to_string() + if a == axis { "+1/2" } else { "" }).collect();
            let outside = *self.random.clone().pick(&["mirror", "clamp", "zero", "periodic"]);
            writeln!(t, "    data faces[{}] outside {outside};", letters.join(", ")).expect("a string grows");
            let l = LETTERS[axis];
            self.coefficients.push(format!("(faces[{l}+1/2] + faces[{l}-1/2])"));
            self.coefficients.push(format!("(1.5 - faces[{l}+5/2] + faces[{l}-7/2])"));
        }
    }

    fn lets(&mut self, t: &mut String) {
        for number in 0..self.random.below(4) {
            let axis = self.random.below(self.axes as u64) as usize;
            let other = self.random.below(self.axes as u64) as usize;
            let (l, m) = (LETTERS[axis], LETTERS[other]);
            let body = match self.random.below(4) {
                0 => format!("1 + sqr(0.25 * {l} - b)"),
                1 => format!("2 + sin(0.7 * {l} + 0.4 * {m})"),
                2 => format!("(1 + 0.5 * {l} / n{l}) * exp(-0.1 * {m})"),
                _ => format!("if {l} < n{l} / 2 && a > 0 {{ 2 }} else {{ 0.5 + 0.1 * {m} }}"),
            };
            if self.random.one_in(3) {
                writeln!(t, "    let h{number}[{l}+1/2] = {body};").expect("a string grows");
                self.coefficients.push(format!("(h{number}[{l}+1/2] - 0.5 * h{number}[{l}-1/2])"));
            } else {
                writeln!(t, "    let c{number} = {body};").expect("a string grows");
                self.coefficients.push(format!("c{number}"));
                if !body.starts_with("if") {
                    self.coefficients.push(format!("c{number}[{}]", step(l, self.random.clone().between(-2, 2))));
                }
            }
        }
    }

    fn fluxes(&mut self, t: &mut String, unknowns: &[&str]) -> Vec<String> {
        let mut names = Vec::new();
        for number in 0..self.random.below(3) {
            let axis = self.random.below(self.axes as u64) as usize;
            let l = LETTERS[axis];
            let u = *self.random.pick(unknowns);
            let difference = match self.random.below(3) {
                0 => format!("({} - {})", self.at(u, 2), self.at(u, 2)),
                _ => format!("({u}[{l}+1] - {u})"),
            };
            let c = self.coefficient();
            writeln!(t, "    flux F{number}[{l}+1/2] = {c} * {difference};").expect("a string grows");
            names.push(format!("F{number}"));
        }
        names
    }

    fn row(&mut self, unknowns: &[&str], fluxes: &[String]) -> String {
        let mut row = format!("{} * u", self.coefficient());
        for flux in fluxes {
            write!(row, " - {} * div({flux})", self.coefficient()).expect("a string grows");
        }
        for _ in 0..self.random.below(5) {
            let u = *self.random.pick(unknowns);
            let sign = *self.random.pick(&["+", "-"]);
            let c = self.coefficient();
            let reach = *self.random.pick(&[1, 1, 2, 7]);
            let term = match self.random.below(4) {
                0 => format!("{c} * ({} - {u})", self.at(u, reach)),
                1 => format!("{} / 2", self.at(u, reach)),
                2 => {
                    let l = *self.random.pick(&LETTERS[..self.axes]);
                    format!("(if {l} > 1 {{ {c} * {} }} else {{ 0.5 * {u} }})", self.at(u, reach))
                }
                _ => format!("{c} * {}", self.at(u, reach)),
            };
            write!(row, " {sign} {term}").expect("a string grows");
        }
        if self.random.clone().one_in(5) {
            let c = self.random.clone().pick(&self.coefficients).clone();
            write!(row, " + {c}").expect("a string grows");
        }
        row
    }

    fn boundary(&mut self, t: &mut String, axis: usize, periodic: bool) {
        let l = LETTERS[axis];
        if periodic {
            writeln!(t, "    boundary {l}: periodic;").expect("a string grows");
            return;
        }
        for side in ["low", "high"] {
            let other = LETTERS[(axis + 1) % self.axes];
            let rule = match self.random.below(4) {
                0 if self.axes > 1 => format!("dirichlet(1 + 0.5 * {other} - a)"),
                1 => "dirichlet(b)".to_string(),
                2 => "dirichlet(0)".to_string(),
                _ => "no_flux".to_string(),
            };
            writeln!(t, "    boundary {side}({l}): {rule};").expect("a string grows");
        }
    }

    fn coefficient(&mut self) -> String {
        let first = self.random.pick(&self.coefficients).clone();
        match self.random.below(3) {
            0 => format!("{first} * {}", self.random.pick(&self.coefficients).clone().replace("1 / (3", "(3")),
            _ => first,
        }
    }

    /// `name` at random offsets up to `reach` on a random mix of axes.
    fn at(&mut self, name: &str, reach: i64) -> String {
        let mut steps = Vec::new();
        for letter in &LETTERS[..self.axes] {
            let offset = self.random.between(-reach, reach);
            if offset != 0 && !self.random.one_in(3) {
                steps.push(step(letter, offset));
            }
        }
        if steps.is_empty() { name.to_string() } else { format!("{name}[{}]", steps.join(", ")) }
    }
}

fn step(letter: &str, offset: i64) -> String {
    match offset {
        0 => letter.to_string(),
        o if o > 0 => format!("{letter}+{o}"),
        o => format!("{letter}-{}", -o),
    }
}
