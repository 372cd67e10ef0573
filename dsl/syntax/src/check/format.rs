//! Formats: the order of rows, chunks, padding, the nest and the coding of indices, and whether they go together.

use crate::ast::{Argument, Documented, Expr, ExprKind as Ast, Item, Layout, Name};
use crate::check::number::whole;
use crate::check::operator::unknown_word;
use crate::diagnostic::Diagnostic;
use crate::program::{Base, Coding, Format, Height, Level, Order, Origin, Padding};
use crate::source::Span;

/// Rows of a chunk at most.
const HIGHEST: u64 = 4096;
/// Steps of `rows` in their order.
const STEPS: [&str; 4] = ["given", "sort", "chunk", "pad"];
/// Loops of a nest.
const LOOPS: [(&str, Level); 5] = [
    ("entry", Level::Entry),
    ("row", Level::Row),
    ("chunk", Level::Chunk),
    ("slot", Level::Slot),
    ("lane", Level::Lane),
];

/// A format being checked.
struct Build<'a> {
    format: Format,
    /// Where each part is stated.
    places: Places,
    errors: &'a mut Vec<Diagnostic>,
}

/// Where the parts of a format are stated.
struct Places {
    store: Span,
    chunk: Option<Span>,
    pad: Option<Span>,
    lengths: Option<Span>,
    index: Span,
}

/// Checks a format; what it returns is only good if nothing was reported.
pub fn format(item: &Item, layouts: &[Documented<Layout>], errors: &mut Vec<Diagnostic>) -> Option<Format> {
    let span = item.name.span;
    let format = Format {
        name: item.name.text.clone(),
        doc: item.doc.clone(),
        span,
        order: Order::Given,
        height: Height::Rows(1),
        padding: Padding::None,
        lengths: false,
        nest: Vec::new(),
        coding: Coding::U32,
    };
    let places = Places { store: span, chunk: None, pad: None, lengths: None, index: span };
    let mut build = Build { format, places, errors };
    build.once(item, layouts)?;
    let read: Vec<Option<()>> = layouts.iter().map(|layout| build.layout(&layout.kind)).collect();
    if read.iter().any(Option::is_none) || build.format.nest.is_empty() {
        return None;
    }
    build.nest()?;
    build.together();
    Some(build.format)
}

impl Build<'_> {
    fn report(&mut self, code: &'static str, span: Span, message: &str, help: &str) -> Option<()> {
        self.errors.push(Diagnostic::new(code, span, message).help(help));
        None
    }

    /// `store` and `index` must stand, every statement at most once.
    fn once(&mut self, item: &Item, layouts: &[Documented<Layout>]) -> Option<()> {
        let before = self.errors.len();
        let kind = |layout: &Layout| match layout {
            Layout::Rows(_) => "rows",
            Layout::Store(_) => "store",
            Layout::Lengths(_) => "lengths",
            Layout::Index(_) => "index",
        };
        for (position, layout) in layouts.iter().enumerate() {
            let word = kind(&layout.kind);
            if let Some(first) = layouts[..position].iter().find(|other| kind(&other.kind) == word) {
                let error = Diagnostic::new("duplicate", layout.span, format!("a second `{word}`"));
                self.errors.push(error.note(first.span, "first one"));
            }
        }
        for (word, example) in [("store", "store row, slot;"), ("index", "index u32;")] {
            if layouts.iter().all(|layout| kind(&layout.kind) != word) {
                let message = format!("format `{}` has no `{word}`", item.name.text);
                let error = Diagnostic::new("missing", item.name.span, message);
                self.errors.push(error.help(format!("add `{example}`")));
            }
        }
        (self.errors.len() == before).then_some(())
    }

    fn layout(&mut self, layout: &Layout) -> Option<()> {
        match layout {
            Layout::Rows(steps) => self.rows(steps),
            Layout::Store(names) => self.store(names),
            Layout::Lengths(word) => self.lengths(word),
            Layout::Index(coding) => self.index(coding),
        }
    }

    /// `given` or `sort(…)`, `chunk(…)`, `pad(…)`: each at most once, in this order.
    fn rows(&mut self, steps: &[Expr]) -> Option<()> {
        let mut last = 0;
        for step in steps {
            let (name, arguments): (Name, &[Argument]) = match &step.kind {
                Ast::Name(text) => (Name { text: text.clone(), span: step.span }, &[]),
                Ast::Call(name, arguments) => (name.clone(), arguments),
                _ => return self.report("type", step.span, "expected a step of `rows`", "such as `chunk(32)`"),
            };
            let Some(position) = STEPS.iter().position(|word| *word == name.text) else {
                self.errors.push(unknown_word(&name, "a step of `rows`", &STEPS));
                return None;
            };
            // `given` and `sort` are two words for the first step.
            let order = position.max(1);
            if order <= last {
                let help = "the order is `given` or `sort(…)`, then `chunk(…)`, then `pad(…)`, each once";
                return self.report("format-rows", step.span, "this step stands too late", help);
            }
            last = order;
            match name.text.as_str() {
                "given" => self.given(step.span, arguments)?,
                "sort" => self.sort(step.span, arguments)?,
                "chunk" => self.chunk(step.span, arguments)?,
                _ => self.pad(step.span, arguments)?,
            }
        }
        Some(())
    }

    fn given(&mut self, span: Span, arguments: &[Argument]) -> Option<()> {
        if arguments.is_empty() {
            return Some(());
        }
        self.report("arguments", span, "`given` takes no arguments", "write `rows given`")
    }

    /// `sort(length, descending)`, `sort(length, descending, window = 4096)`
    fn sort(&mut self, span: Span, arguments: &[Argument]) -> Option<()> {
        let help = "write `sort(length, descending)` or `sort(length, descending, window = 4096)`";
        let [by, direction, rest @ ..] = arguments else {
            return self.report("arguments", span, "`sort` needs what rows are sorted by, and the direction", help);
        };
        self.word(by, "what rows are sorted by", &["length"])?;
        self.word(direction, "a direction", &["descending"])?;
        let window = match rest {
            [] => None,
            [Argument { name: Some(name), value }] if name.text == "window" => {
                Some(whole(value, "the window", 1..=1 << 40, self.errors)?)
            }
            _ => return self.report("arguments", span, "`sort` takes nothing but a window", help),
        };
        self.format.order = Order::Sorted { window };
        Some(())
    }

    /// `chunk(32)` or `chunk(all)`
    fn chunk(&mut self, span: Span, arguments: &[Argument]) -> Option<()> {
        let [Argument { name: None, value }] = arguments else {
            let help = "write `chunk(32)` or `chunk(all)`";
            return self.report("arguments", span, "`chunk` takes its number of rows", help);
        };
        self.format.height = match &value.kind {
            Ast::Name(name) if name == "all" => Height::All,
            _ => Height::Rows(whole(value, "the height of a chunk", 2..=HIGHEST, self.errors)?),
        };
        self.places.chunk = Some(span);
        Some(())
    }

    /// `pad(none)`, `pad(longest)`, `pad(matrix)` or `pad(aligned)`
    fn pad(&mut self, span: Span, arguments: &[Argument]) -> Option<()> {
        let [to] = arguments else {
            let help = "write `pad(longest)`: the longest row of the chunk";
            return self.report("arguments", span, "`pad` takes the length that rows are padded to", help);
        };
        let words = [
            ("none", Padding::None),
            ("longest", Padding::Chunk),
            ("matrix", Padding::Matrix),
            ("aligned", Padding::Aligned),
        ];
        let word = self.word(to, "a length that rows are padded to", &words.map(|(word, _)| word))?;
        self.format.padding = words.iter().find(|(known, _)| *known == word).map(|(_, padding)| *padding)?;
        self.places.pad = Some(span);
        Some(())
    }

    /// An argument that is one of some words.
    fn word(&mut self, argument: &Argument, what: &str, words: &[&str]) -> Option<String> {
        let text = match (&argument.name, &argument.value.kind) {
            (None, Ast::Name(text)) => text.clone(),
            _ => {
                let list: Vec<String> = words.iter().map(|word| format!("`{word}`")).collect();
                let error = Diagnostic::new("type", argument.value.span, format!("expected {what}"));
                self.errors.push(error.help(format!("one of {}", list.join(", "))));
                return None;
            }
        };
        if !words.contains(&text.as_str()) {
            self.errors.push(unknown_word(&Name { text, span: argument.value.span }, what, words));
            return None;
        }
        Some(text)
    }

    fn store(&mut self, names: &[Name]) -> Option<()> {
        for (position, name) in names.iter().enumerate() {
            let Some((_, level)) = LOOPS.iter().find(|(word, _)| *word == name.text) else {
                self.errors.push(unknown_word(name, "a loop of a format", &LOOPS.map(|(word, _)| word)));
                return None;
            };
            if let Some(first) = names[..position].iter().find(|other| other.text == name.text) {
                let error = Diagnostic::new("duplicate", name.span, format!("a second loop over `{}`", name.text));
                self.errors.push(error.note(first.span, "first one"));
                return None;
            }
            self.format.nest.push(*level);
        }
        self.places.store = names.first()?.span.to(names.last()?.span);
        Some(())
    }

    fn lengths(&mut self, word: &Name) -> Option<()> {
        if word.text != "kept" {
            self.errors.push(unknown_word(word, "what is done with lengths", &["kept"]));
            return None;
        }
        self.format.lengths = true;
        self.places.lengths = Some(word.span);
        Some(())
    }

    /// `u32`, `u64` or `delta(u16, base = row, escape)`
    fn index(&mut self, coding: &Expr) -> Option<()> {
        self.places.index = coding.span;
        let help = "write `index u32;` or `index delta(u16, base = (chunk, slot), escape);`";
        self.format.coding = match &coding.kind {
            Ast::Name(name) if name == "u32" => Coding::U32,
            Ast::Name(name) if name == "u64" => Coding::U64,
            Ast::Name(text) => {
                let name = Name { text: text.clone(), span: coding.span };
                self.errors.push(unknown_word(&name, "a coding of indices", &["u32", "u64", "delta"]));
                return None;
            }
            Ast::Call(name, arguments) if name.text == "delta" => self.delta(coding.span, arguments)?,
            _ => return self.report("type", coding.span, "expected a coding of indices", help),
        };
        Some(())
    }

    fn delta(&mut self, span: Span, arguments: &[Argument]) -> Option<Coding> {
        let help = "write `delta(u16, base = row)` or `delta(u16, base = (chunk, slot), escape)`";
        let (width, base, rest) = match arguments {
            [width, Argument { name: Some(name), value }, rest @ ..] if name.text == "base" => (width, value, rest),
            _ => {
                self.report("arguments", span, "`delta` needs a width and a base", help);
                return None;
            }
        };
        self.word(width, "a width of distances", &["u16"])?;
        let base = self.base(base)?;
        let (origin, rest) = match rest {
            [Argument { name: Some(name), value }, rest @ ..] if name.text == "from" => (self.origin(value)?, rest),
            _ => (Origin::Zero, rest),
        };
        let escape = match rest {
            [] => false,
            [word] => self.word(word, "what is done with columns that are too far", &["escape"]).map(|_| true)?,
            _ => {
                self.report(
                    "arguments",
                    span,
                    "`delta` takes a width, a base, `from` and `escape`, in this order",
                    help,
                );
                return None;
            }
        };
        Some(Coding::Delta { base, origin, escape })
    }

    /// `row` or `first`
    fn origin(&mut self, value: &Expr) -> Option<Origin> {
        match &value.kind {
            Ast::Name(name) if name == "row" => Some(Origin::Row),
            Ast::Name(name) if name == "first" => Some(Origin::First),
            _ => {
                let message = "columns are counted from `row`, the row's number, or `first`, its first column";
                self.report("type", value.span, message, "leave it out to count from the matrix's first column")?;
                None
            }
        }
    }

    fn base(&mut self, value: &Expr) -> Option<Base> {
        let name = |expr: &Expr| match &expr.kind {
            Ast::Name(name) => Some(name.clone()),
            _ => None,
        };
        let parts: Option<Vec<String>> = match &value.kind {
            Ast::Tuple(parts) => parts.iter().map(name).collect(),
            _ => name(value).map(|name| vec![name]),
        };
        let parts = parts.unwrap_or_default();
        match parts.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
            ["row"] => Some(Base::Row),
            ["chunk"] => Some(Base::Chunk),
            ["chunk", "slot"] => Some(Base::ChunkSlot),
            _ => {
                self.report("type", value.span, "a base belongs to `row`, `chunk` or `(chunk, slot)`", "choose one");
                None
            }
        }
    }

    /// The nest has the loops that the chunks ask for.
    fn nest(&mut self) -> Option<()> {
        let mut loops = self.format.nest.clone();
        loops.sort_by_key(|level| LOOPS.iter().position(|(_, known)| known == level));
        let (fits, help) = match self.format.height {
            _ if loops == [Level::Entry] => (true, ""),
            Height::Rows(1) => {
                (loops == [Level::Row, Level::Slot], "without chunks the loops are `row, slot`, `slot, row` or `entry`")
            }
            Height::Rows(_) => (
                loops == [Level::Chunk, Level::Slot, Level::Lane],
                "with chunks the loops are `chunk`, `slot` and `lane`, in any order",
            ),
            Height::All => {
                (loops == [Level::Slot, Level::Lane], "in one chunk the loops are `slot, lane` or `lane, slot`")
            }
        };
        if fits {
            return Some(());
        }
        let mut error = Diagnostic::new("format-nest", self.places.store, "these loops do not visit every entry once");
        if let Some(chunk) = self.places.chunk {
            error = error.note(chunk, "chunks are declared here");
        }
        self.errors.push(error.help(help));
        None
    }

    /// Padding, order, lengths and coding fit the nest.
    fn together(&mut self) {
        if self.format.nest == [Level::Entry] {
            return self.entries();
        }
        let store = self.places.store;
        let chunked = self.format.height != Height::Rows(1);
        match (chunked, self.format.padding) {
            (true, Padding::None) => {
                let help = "add `.pad(longest)` to `rows`";
                self.report("format-padding", store, "chunks of several rows are padded", help);
            }
            (false, Padding::Chunk) => {
                let help = "add `.chunk(32)` before it, or pad to the longest row of the matrix with `.pad(matrix)`";
                let span = self.places.pad.unwrap_or(store);
                self.report("format-padding", span, "there are no chunks whose longest row could be meant", help);
            }
            (false, Padding::Aligned) => {
                let span = self.places.pad.unwrap_or(store);
                let help = "add `.chunk(64)` before it";
                self.report("format-padding", span, "there are no chunks whose rows could be aligned", help);
            }
            (true, Padding::Aligned) if self.format.order != Order::Given => {
                let span = self.places.pad.unwrap_or(store);
                let message = "rows that are sorted have no fixed distances from their columns";
                self.report("format-padding", span, message, "write `rows given`, or `pad(longest)`");
            }
            _ => {}
        }
        if self.format.has_ragged_slots() {
            let message = "with `slot` outside, a row must not be longer than the one before it";
            let help = "sort all rows with `sort(length, descending)`, or pad them with `pad(matrix)`";
            self.report("format-order", store, message, help);
        }
        if let Some(lengths) = self.places.lengths.filter(|_| self.format.padding == Padding::None) {
            let message = "lengths are known without being kept: there is no padding";
            self.report("format-lengths", lengths, message, "remove `lengths kept;`");
        }
        if let Some(lengths) = self.places.lengths.filter(|_| self.format.padding == Padding::Aligned) {
            let message = "a length does not say where the padding of an aligned row is";
            self.report("format-lengths", lengths, message, "remove `lengths kept;`");
        }
        if !chunked && matches!(self.format.coding, Coding::Delta { base: Base::Chunk | Base::ChunkSlot, .. }) {
            let help = "write `base = row`, or add `.chunk(32).pad(longest)` to `rows`";
            self.report("format-index", self.places.index, "there are no chunks that could have a base", help);
        }
    }

    /// Entries that store their rows leave no choice.
    fn entries(&mut self) {
        for place in [self.places.chunk, self.places.pad, self.places.lengths].into_iter().flatten() {
            let message = "entries that each store their row have no chunks, padding or lengths";
            self.report("format-nest", place, message, "remove it, or store `row, slot`");
        }
        if matches!(self.format.coding, Coding::Delta { .. }) {
            let message = "entries that each store their row have no base";
            self.report("format-index", self.places.index, message, "write `index u32;` or `index u64;`");
        }
    }
}
