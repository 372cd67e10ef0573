//! Problems of systems: mesh, materials, conditions, initial values, times.

use super::formula::{Degree, Place, Scope, Table, shape};
use super::{HIGHEST_ORDER, NAMED, algebra, numbers};
use crate::ast::{Argument, Documented, Expr, ExprKind as Ast, Item, Name, Setting};
use crate::check::Declared;
use crate::check::number::{number, whole};
use crate::check::operator::unknown_word;
use crate::diagnostic::{Diagnostic, closest};
use crate::library;
use crate::program::Precision;
use crate::program::system::{Formula, MaterialValue, MeshSource, Quantity, Run, System};
use crate::source::Span;

/// Most cubes along an axis of a box.
const MOST_CELLS: u64 = 1 << 12;

/// What may stand in a problem of a system.
const KEYS: [&str; 13] = [
    "system",
    "mesh",
    "flux",
    "step",
    "order",
    "material",
    "initial",
    "exact",
    "boundary",
    "until",
    "every",
    "probe",
    "precision",
];

/// A problem being checked.
struct Build<'a> {
    item: &'a Item,
    settings: &'a [Documented<Setting>],
    system: System,
    table: Table,
    errors: &'a mut Vec<Diagnostic>,
}

/// Checks a problem of a system; none after an error.
pub fn run(
    item: &Item,
    settings: &[Documented<Setting>],
    declared: &mut Declared,
    errors: &mut Vec<Diagnostic>,
) -> Option<Run> {
    let before = errors.len();
    foreign(settings, errors);
    let chosen = settings.iter().find(|setting| setting.kind.key.text == "system")?;
    let (name, arguments) = called(&chosen.kind.value, "a system", errors)?;
    let number = declared.find_system(&name, errors)?;
    let system = declared.systems.get(number)?.clone()?;
    let table = Table {
        fields: system.fields.clone(),
        materials: system.materials.clone(),
        params: system.params.clone(),
        ..Table::default()
    };
    let mut build = Build { item, settings, system, table, errors };
    let (order, params) = build.arguments(&name, arguments);
    let order = build.order(order);
    let step = build.step(declared);
    let run = build.finish(number, step, order, params);
    run.filter(|_| errors.len() == before)
}

/// Settings that belong to problems of operators, and those given twice.
fn foreign(settings: &[Documented<Setting>], errors: &mut Vec<Diagnostic>) {
    for (position, setting) in settings.iter().enumerate() {
        let key = &setting.kind.key;
        if !KEYS.contains(&key.text.as_str()) {
            let error =
                Diagnostic::new("not-allowed", setting.span, format!("a problem of a system has no `{}`", key.text));
            errors.push(error.help("it has `initial`, `boundary`, `until` …"));
        }
        let name = |setting: &Setting| setting.name.as_ref().map(|name| name.text.clone());
        let same = |other: &&Documented<Setting>| {
            let many = matches!(key.text.as_str(), "boundary" | "material");
            other.kind.key.text == key.text && name(&other.kind) == name(&setting.kind) && !many
        };
        if let Some(first) = settings[..position].iter().find(same) {
            let error = Diagnostic::new("duplicate", setting.span, format!("a second `{}`", key.text));
            errors.push(error.note(first.span, "first one"));
        }
    }
}

/// `name` or `name(…)`.
fn called<'e>(value: &'e Expr, what: &str, errors: &mut Vec<Diagnostic>) -> Option<(Name, &'e [Argument])> {
    match &value.kind {
        Ast::Name(text) => Some((Name { text: text.clone(), span: value.span }, &[])),
        Ast::Call(name, arguments) => Some((name.clone(), arguments)),
        _ => {
            errors.push(Diagnostic::new("type", value.span, format!("expected the name of {what}")));
            None
        }
    }
}

impl Declared {
    /// The number of a system of the program, or of the library, which joins the program.
    fn find_system(&mut self, name: &Name, errors: &mut Vec<Diagnostic>) -> Option<usize> {
        let known = |system: &Option<System>| system.as_ref().is_some_and(|system| system.name == name.text);
        if let Some(number) = self.systems.iter().position(known) {
            return Some(number);
        }
        if self.broken_systems.contains(&name.text) {
            return None;
        }
        if let Some(system) = library::system(&name.text) {
            self.systems.push(Some(system));
            return Some(self.systems.len() - 1);
        }
        let mut known: Vec<&str> = self.systems.iter().flatten().map(|system| system.name.as_str()).collect();
        library::system_names().for_each(|name| known.push(name));
        let near = closest(&name.text, known);
        let error = Diagnostic::new("unknown-name", name.span, format!("there is no system `{}`", name.text));
        errors.push(error.help_if(near.map(|near| format!("did you mean `{near}`?"))));
        None
    }

    /// The number of a time step of the program or of the library.
    fn find_step(&mut self, name: &Name, errors: &mut Vec<Diagnostic>) -> Option<usize> {
        if let Some(number) =
            self.steps.iter().position(|step| step.as_ref().is_some_and(|step| step.name == name.text))
        {
            return Some(number);
        }
        if self.broken_steps.contains(&name.text) {
            return None;
        }
        if let Some(step) = library::step(&name.text) {
            self.steps.push(Some(step));
            return Some(self.steps.len() - 1);
        }
        let mut known: Vec<&str> = self.steps.iter().flatten().map(|step| step.name.as_str()).collect();
        library::step_names().for_each(|name| known.push(name));
        let near = closest(&name.text, known);
        let error = Diagnostic::new("unknown-name", name.span, format!("there is no time step `{}`", name.text));
        errors.push(error.help_if(near.map(|near| format!("did you mean `{near}`?"))));
        None
    }
}

/// The order among the arguments, and the parameters.
type Arguments = (Option<u32>, Option<Vec<f64>>);

impl<'a> Build<'a> {
    fn report(&mut self, code: &'static str, span: Span, message: impl Into<String>, help: &str) {
        self.errors.push(Diagnostic::new(code, span, message).help(help));
    }

    fn find(&self, key: &str) -> Option<&'a Expr> {
        self.settings.iter().find(|setting| setting.kind.key.text == key).map(|setting| &setting.kind.value)
    }

    fn all(&self, key: &'static str) -> impl Iterator<Item = &'a Setting> + use<'a> {
        self.settings.iter().map(|setting| &setting.kind).filter(move |setting| setting.key.text == key)
    }

    fn finish(
        &mut self,
        system: usize,
        step: Option<usize>,
        order: Option<u32>,
        params: Option<Vec<f64>>,
    ) -> Option<Run> {
        let flux = self.flux();
        let mesh = match self.find("mesh") {
            Some(value) => self.mesh(value).map(Some),
            None => Some(None),
        };
        let materials = self.materials();
        let initial = self.fields("initial");
        let exact = self.fields("exact");
        self.complete(&initial);
        let boundaries = self.boundaries();
        let until = match self.find("until") {
            Some(value) => self.positive(value, "the end of time"),
            None => {
                let message = format!("problem `{}` has no `until`", self.item.name.text);
                self.report("missing", self.item.name.span, message, "add `until 1;`");
                None
            }
        };
        let every = self.find("every").map(|value| self.positive(value, "the time between outputs"));
        let precision = self.precision();
        Some(Run {
            name: self.item.name.text.clone(),
            doc: self.item.doc.clone(),
            span: self.item.name.span,
            system,
            flux: flux?,
            step: step?,
            order: order?,
            params: params?,
            mesh: mesh?,
            materials: materials?,
            initial: initial.into_iter().map(|value| value.unwrap_or_else(algebra::zero)).collect(),
            exact,
            boundaries: boundaries?,
            until: until?,
            every: match every {
                Some(every) => Some(every?),
                None => None,
            },
            probes: self.probes()?,
            precision: precision?,
        })
    }

    fn arguments(&mut self, name: &Name, arguments: &[Argument]) -> Arguments {
        let mut order = None;
        let mut given: Vec<Option<Vec<f64>>> = vec![None; self.system.params.len()];
        for argument in arguments {
            let Some(key) = &argument.name else {
                let message = format!("arguments of `{}` are given by name", name.text);
                self.report("arguments", argument.value.span, message, "write `name = value`");
                continue;
            };
            if self.system.order.as_ref().is_some_and(|(of, _)| *of == key.text) {
                order = whole(&argument.value, "the order", 1..=HIGHEST_ORDER, self.errors).map(|order| order as u32);
                continue;
            }
            let place = self.system.params.iter().position(|param| param.name == key.text);
            let Some(place) = place else {
                let known: Vec<&str> = self.system.params.iter().map(|param| param.name.as_str()).collect();
                let known: Vec<&str> =
                    known.into_iter().chain(self.system.order.iter().map(|(name, _)| name.as_str())).collect();
                self.errors.push(unknown_word(key, "a parameter of the system", &known));
                continue;
            };
            if given[place].is_some() {
                let message = format!("`{}` is given twice", key.text);
                self.errors.push(Diagnostic::new("duplicate", key.span, message));
            }
            given[place] = numbers(&argument.value, self.system.params[place].size, self.errors);
        }
        let mut values = Vec::new();
        for (param, given) in self.system.params.clone().into_iter().zip(given) {
            match given.or(param.default.clone()) {
                Some(value) => values.extend(value),
                None => {
                    let message = format!("parameter `{}` of `{}` has no value", param.name, name.text);
                    let help = format!("write `{}({} = …)`", name.text, param.name);
                    self.report("missing", name.span, message, &help);
                }
            }
        }
        let complete = values.len() == self.system.param_names().len();
        (order, complete.then_some(values))
    }

    /// From the arguments, from `order`, or the system's default.
    fn order(&mut self, argument: Option<u32>) -> Option<u32> {
        let stated = self.find("order");
        let stated = stated.and_then(|value| whole(value, "the order", 1..=HIGHEST_ORDER, self.errors));
        let default = self.system.order.as_ref().and_then(|(_, default)| *default);
        let order = argument.or(stated.map(|order| order as u32)).or(default);
        if order.is_none() && self.errors.is_empty() {
            let message = format!("problem `{}` has no order", self.item.name.text);
            self.report("missing", self.item.name.span, message, "add `order 4;`");
        }
        order
    }

    fn step(&mut self, declared: &mut Declared) -> Option<usize> {
        let name = match (self.find("step"), self.system.step.clone()) {
            (Some(value), _) => called(value, "a time step", self.errors)?.0,
            (None, Some(text)) => Name { text, span: self.item.name.span },
            (None, None) => Name { text: "lserk4".to_string(), span: self.item.name.span },
        };
        declared.find_step(&name, self.errors)
    }

    fn flux(&mut self) -> Option<usize> {
        let Some(value) = self.find("flux") else { return Some(0) };
        let (name, _) = called(value, "a flux", self.errors)?;
        let found = self.system.fluxes.iter().position(|flux| flux.name == name.text);
        if found.is_none() {
            let known: Vec<&str> = self.system.fluxes.iter().map(|flux| flux.name.as_str()).collect();
            self.errors.push(unknown_word(&name, "a flux of the system", &known));
        }
        found
    }

    fn positive(&mut self, value: &Expr, what: &str) -> Option<f64> {
        let found = number(value, self.errors)?;
        if found > 0.0 {
            return Some(found);
        }
        let error = Diagnostic::new("bad-number", value.span, format!("{what} is not above zero"));
        self.errors.push(error.label(format!("this is {found}")));
        None
    }

    fn precision(&mut self) -> Option<Precision> {
        let Some(value) = self.find("precision") else { return Some(Precision::F64) };
        let (name, _) = called(value, "a precision", self.errors)?;
        match name.text.as_str() {
            "f64" => Some(Precision::F64),
            "f32" => Some(Precision::F32),
            _ => {
                self.errors.push(unknown_word(&name, "a precision", &["f32", "f64"]));
                None
            }
        }
    }

    /// `box(…)` or `file("…")`.
    fn mesh(&mut self, value: &Expr) -> Option<MeshSource> {
        let (name, arguments) = called(value, "a mesh", self.errors)?;
        match (name.text.as_str(), arguments) {
            ("file", [Argument { name: None, value: Expr { kind: Ast::Text(path), .. } }]) if !path.is_empty() => {
                Some(MeshSource::File(path.clone()))
            }
            ("file", _) => {
                self.report("arguments", value.span, "`file` takes a path", "write `mesh file(\"cavity.msh\");`");
                None
            }
            ("box", arguments) => self.cuboid(arguments, value.span),
            _ => {
                self.errors.push(unknown_word(&name, "a mesh", &["box", "file"]));
                None
            }
        }
    }

    fn cuboid(&mut self, arguments: &[Argument], span: Span) -> Option<MeshSource> {
        const KNOWN: [&str; 8] = ["n", "nx", "ny", "nz", "low", "high", "periodic", "cut"];
        let (mut cells, mut low, mut high) = ([None; 3], [0.0; 3], [1.0; 3]);
        let (mut periodic, mut centred) = ([false; 3], false);
        for argument in arguments {
            let Some(key) = &argument.name else {
                self.report(
                    "arguments",
                    argument.value.span,
                    "arguments of `box` are given by name",
                    "write `box(n = 8)`",
                );
                return None;
            };
            let value = &argument.value;
            match key.text.as_str() {
                "n" => cells = [Some(whole(value, "a number of cubes", 1..=MOST_CELLS, self.errors)?); 3],
                "nx" | "ny" | "nz" => {
                    let axis = usize::from(key.text.as_bytes()[1] - b'x');
                    cells[axis] = Some(whole(value, "a number of cubes", 1..=MOST_CELLS, self.errors)?);
                }
                "low" => low = self.corner(value)?,
                "high" => high = self.corner(value)?,
                "periodic" => periodic = self.axes(value)?,
                "cut" => match &value.kind {
                    Ast::Name(word) if word == "centred" => centred = true,
                    Ast::Name(word) if word == "diagonal" => {}
                    _ => {
                        let help = "`diagonal` (six tetrahedra a cube) or `centred` (twelve)";
                        self.report("arguments", value.span, "this is no way to cut a cube", help);
                        return None;
                    }
                },
                _ => {
                    self.errors.push(unknown_word(key, "an argument of `box`", &KNOWN));
                    return None;
                }
            }
        }
        let [Some(nx), Some(ny), Some(nz)] = cells else {
            self.report(
                "arguments",
                span,
                "`box` needs the number of cubes along each axis",
                "write `box(n = 8)` or `box(nx = 8, ny = 4, nz = 4)`",
            );
            return None;
        };
        if !(0..3).all(|axis| low[axis] < high[axis]) {
            self.report("arguments", span, "the box has no inside", "`low` is below `high` along each axis");
            return None;
        }
        Some(MeshSource::Box { cells: [nx, ny, nz].map(|n| n as usize), low, high, periodic, centred })
    }

    fn corner(&mut self, value: &Expr) -> Option<[f64; 3]> {
        numbers(value, 3, self.errors)?.try_into().ok()
    }

    /// `[x, z]`
    fn axes(&mut self, value: &Expr) -> Option<[bool; 3]> {
        let mut axes = [false; 3];
        let named = |part: &Expr| match &part.kind {
            Ast::Name(letter) => super::formula::axis(letter),
            _ => None,
        };
        let Ast::List(parts) = &value.kind else {
            self.report("arguments", value.span, "expected a list of axes", "write `periodic = [x, y, z]`");
            return None;
        };
        for part in parts {
            let Some(axis) = named(part) else {
                self.report("arguments", part.span, "this is no axis", "`x`, `y` or `z`");
                return None;
            };
            axes[axis] = true;
        }
        Some(axes)
    }

    /// Names of regions or boundaries.
    fn tags(&mut self, tags: &[Expr]) -> Vec<String> {
        let text = |tag: &Expr| match &tag.kind {
            Ast::Name(name) if name == "all" => "*".to_string(),
            Ast::Name(text) | Ast::Text(text) => text.clone(),
            Ast::Number(_, value) => format!("{value}"),
            _ => String::new(),
        };
        tags.iter().map(text).collect()
    }

    fn quantity(&mut self, name: &Name, list: &[Quantity], what: &str) -> Option<Quantity> {
        let found = list.iter().find(|known| known.name == name.text).cloned();
        if found.is_none() {
            let known: Vec<&str> = list.iter().map(|known| known.name.as_str()).collect();
            self.errors.push(unknown_word(name, what, &known));
        }
        found
    }

    fn materials(&mut self) -> Option<Vec<MaterialValue>> {
        let place = Place {
            what: "a material of a problem",
            fields: false,
            derivatives: false,
            materials: false,
            face: false,
            exterior: false,
            time: false,
            ..NAMED
        };
        let mut values = Vec::new();
        let mut good = true;
        for setting in self.all("material") {
            let name = setting.name.as_ref()?;
            let materials = self.system.materials.clone();
            let Some(material) = self.quantity(name, &materials, "a material of the system") else { continue };
            let what = format!("the material `{}`", name.text);
            let value = Scope::new(&self.table, place, self.errors).sized(&setting.value, material.size, &what);
            let mut regions = self.tags(&setting.tags);
            if regions.iter().any(|region| region == "*") {
                regions.clear();
            }
            good &= value.is_some();
            for (component, part) in value.into_iter().flat_map(|value| value.parts).enumerate() {
                values.push(MaterialValue {
                    material: material.first + component,
                    regions: regions.clone(),
                    value: part,
                });
            }
        }
        for material in self.system.materials.clone() {
            let given = values.iter().any(|value| value.material == material.first);
            if !given && material.default.is_none() && good {
                let message = format!("material `{}` has no value", material.name);
                let help = format!("add `material {} = …;`", material.name);
                self.report("missing", self.item.name.span, message, &help);
            }
        }
        // Those of a region come before those for all.
        values.sort_by_key(|value| value.regions.is_empty());
        good.then_some(values)
    }

    /// `initial` or `exact` of every component.
    fn fields(&mut self, key: &'static str) -> Vec<Option<Formula>> {
        let place = Place {
            what: if key == "initial" { "`initial`" } else { "`exact`" },
            fields: false,
            derivatives: false,
            face: false,
            exterior: false,
            time: key == "exact",
            ..NAMED
        };
        let mut values: Vec<Option<Formula>> = vec![None; self.system.components().len()];
        for setting in self.all(key) {
            let Some(name) = &setting.name else { continue };
            let fields = self.system.fields.clone();
            let Some(field) = self.quantity(name, &fields, "a field of the system") else { continue };
            let what = format!("{} `{}`", if key == "initial" { "the initial" } else { "the exact" }, name.text);
            let value = Scope::new(&self.table, place, self.errors).sized(&setting.value, field.size, &what);
            let Some(value) = value else {
                values[field.first..field.first + field.size].fill(Some(algebra::zero()));
                continue;
            };
            debug_assert_eq!(value.degree, Degree::Constant, "no fields can be read ({})", shape(value.parts.len()));
            for (slot, part) in values[field.first..].iter_mut().zip(value.parts) {
                *slot = Some(part);
            }
        }
        values
    }

    /// Every field begins with something.
    fn complete(&mut self, initial: &[Option<Formula>]) {
        for field in self.system.fields.clone() {
            if initial[field.first].is_none() {
                let message = format!("problem `{}` does not say how `{}` begins", self.item.name.text, field.name);
                let help =
                    format!("add `initial {} = {};`", field.name, if field.size == 1 { "0" } else { "[0, 0, 0]" });
                self.report("missing", self.item.name.span, message, &help);
            }
        }
    }

    fn boundaries(&mut self) -> Option<Vec<(String, usize)>> {
        let mut boundaries: Vec<(String, usize)> = Vec::new();
        let before = self.errors.len();
        for setting in self.all("boundary") {
            let (name, _) = called(&setting.value, "a boundary condition", self.errors)?;
            let found = self.system.conditions.iter().position(|condition| condition.name == name.text);
            let Some(condition) = found else {
                let known: Vec<&str> = self.system.conditions.iter().map(|known| known.name.as_str()).collect();
                let error = unknown_word(&name, "a boundary condition of the system", &known);
                self.errors.push(error.help_if((name.text == "periodic").then(|| {
                    "periodic sides are part of the mesh: `mesh box(n = 8, periodic = [x, y, z]);`".to_string()
                })));
                continue;
            };
            for (tag, place) in self.tags(&setting.tags).into_iter().zip(&setting.tags) {
                if boundaries.iter().any(|(known, _)| *known == tag) {
                    let shown = if tag == "*" { "all" } else { &tag };
                    let message = format!("boundary `{shown}` has a second condition");
                    self.errors.push(Diagnostic::new("duplicate", place.span, message));
                }
                boundaries.push((tag, condition));
            }
        }
        (self.errors.len() == before).then_some(boundaries)
    }

    fn probes(&mut self) -> Option<Vec<(String, [f64; 3])>> {
        let mut probes = Vec::new();
        for setting in self.all("probe") {
            let name = setting.name.as_ref()?;
            probes.push((name.text.clone(), self.corner(&setting.value)?));
        }
        Some(probes)
    }
}
