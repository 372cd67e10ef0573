//! Lines of generated text: indentation, comments, wrapping, and which statement a line belongs to.

/// Columns a line may have before it is wrapped.
const WIDTH: usize = 110;

/// Generated source with what is needed to map a compiler's log back to kernels.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Printed {
    /// The source.
    pub text: String,
    /// First line (from 1) of every function, its header comment included, in order.
    pub functions: Vec<Mark>,
    /// Line and text of every quoted statement, in order.
    pub statements: Vec<Mark>,
}

/// A line and what begins there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mark {
    /// Line, from 1.
    pub line: usize,
    /// Name of the kernel, or text of the statement.
    pub text: String,
}

impl Printed {
    /// The kernel that a line (from 1) belongs to and the last statement quoted at or above the line within it.
    pub fn locate(&self, line: usize) -> Option<(&str, Option<&str>)> {
        let last = |marks: &'_ [Mark]| marks.iter().rposition(|mark| mark.line <= line);
        let function = &self.functions[last(&self.functions)?];
        let statement = last(&self.statements).map(|at| &self.statements[at]).filter(|mark| mark.line >= function.line);
        Some((&function.text, statement.map(|mark| mark.text.as_str())))
    }
}

/// Collects lines.
#[derive(Debug)]
pub(crate) struct Writer {
    printed: Printed,
    depth: usize,
    line: usize,
    /// Whether a paragraph could end here: the last line was code that opened nothing.
    after_code: bool,
}

impl Writer {
    pub fn new() -> Writer {
        let printed = Printed { text: String::new(), functions: Vec::new(), statements: Vec::new() };
        Writer { printed, depth: 0, line: 1, after_code: false }
    }

    pub fn finish(self) -> Printed {
        self.printed
    }

    /// Marks the beginning of a function.
    pub fn function(&mut self, name: &str) {
        self.printed.functions.push(Mark { line: self.line, text: name.to_owned() });
    }

    /// A line as it is, at the margin: directives.
    pub fn verbatim(&mut self, line: &str) {
        self.printed.text.push_str(line);
        self.printed.text.push('\n');
        self.line += 1;
        self.after_code = false;
    }

    pub fn blank(&mut self) {
        self.verbatim("");
    }

    /// A line of code at the current depth, wrapped if long. A directive goes on behind a backslash.
    pub fn code(&mut self, line: &str) {
        let indent = "    ".repeat(self.depth);
        let directive = line.starts_with('#');
        let parts = wrap(line, WIDTH.saturating_sub(indent.len()));
        for (number, part) in parts.iter().enumerate() {
            let more = if number == 0 { "" } else { "    " };
            let splice = if directive && number + 1 < parts.len() { " \\" } else { "" };
            self.verbatim(&format!("{indent}{more}{part}{splice}"));
        }
        self.after_code = !directive;
    }

    /// A line that opens a block.
    pub fn open(&mut self, line: &str) {
        self.code(line);
        self.depth += 1;
        self.after_code = false;
    }

    /// A line that closes a block.
    pub fn close(&mut self, line: &str) {
        self.depth = self.depth.saturating_sub(1);
        self.code(line);
    }

    /// A line that closes one block and opens the next.
    pub fn turn(&mut self, line: &str) {
        self.close(line);
        self.depth += 1;
        self.after_code = false;
    }

    /// Comment lines, not wrapped: they quote.
    pub fn comment(&mut self, text: &str) {
        let indent = "    ".repeat(self.depth);
        for line in comment_lines(text) {
            self.verbatim(format!("{indent}// {line}").trim_end());
        }
    }

    /// Ends a paragraph, if there is one.
    pub fn paragraph(&mut self) {
        if self.after_code {
            self.blank();
        }
    }

    /// A comment that quotes the statement which the next lines compute, at the head of a paragraph.
    pub fn statement(&mut self, text: &str) {
        self.paragraph();
        self.printed.statements.push(Mark { line: self.line, text: text.to_owned() });
        self.comment(text);
    }
}

/// Lines of a comment with everything removed that would end the comment or upset a compiler: line splices (a
/// backslash or its trigraph at the end), control and direction-changing characters.
fn comment_lines(text: &str) -> Vec<String> {
    let clean = |line: &str| {
        let line: String = line.chars().map(|c| if upsets(c) { '\u{fffd}' } else { c }).collect();
        let line = line.trim_end().replace("??", "? ?");
        if line.ends_with('\\') { format!("{line}.") } else { line }
    };
    text.lines().map(clean).collect()
}

fn upsets(c: char) -> bool {
    (c.is_control() && c != '\t')
        || matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Splits a line of code before operators (after commas) at the lowest nesting that fits.
fn wrap(line: &str, width: usize) -> Vec<String> {
    let mut parts = Vec::new();
    let mut rest = line.trim_end();
    let mut room = width.max(40);
    while rest.len() > room {
        let Some(at) = best_break(rest, room) else { break };
        let (head, tail) = rest.split_at(at);
        parts.push(head.trim_end().to_owned());
        rest = tail.trim_start();
        room = width.max(40) - 4;
    }
    parts.push(rest.to_owned());
    parts
}

/// Position of the last break of the lowest nesting within `room` columns, not too near the beginning.
fn best_break(line: &str, room: usize) -> Option<usize> {
    let mut depth = 0usize;
    let mut best: Option<(usize, usize)> = None;
    for (at, c) in line.char_indices().take_while(|&(at, _)| at <= room) {
        match c {
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth = depth.saturating_sub(1),
            ' ' if at >= room / 3 => {
                if let Some(rank) = break_rank(line, at).map(|rank| 2 * depth + rank)
                    && best.is_none_or(|(lowest, _)| rank <= lowest)
                {
                    best = Some((rank, at));
                }
            }
            _ => {}
        }
    }
    best.map(|(_, at)| at)
}

/// Whether a line may break at a space, products only where nothing else offers itself.
fn break_rank(line: &str, at: usize) -> Option<usize> {
    const OPERATORS: [&str; 6] = [" + ", " - ", " && ", " || ", " ? ", " : "];
    let rest = &line[at..];
    if line[..at].ends_with(',') || OPERATORS.iter().any(|operator| rest.starts_with(operator)) {
        return Some(0);
    }
    (rest.starts_with(" * ") || rest.starts_with(" / ")).then_some(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lines_break_at_the_outermost_operators() {
        let line = "x = aaaaaaaaaaaaaaaa * (bbbbbbbbbbbbbbbb + cccccccc) + dddddddddddd * (eeeeeeeeee - ffffffff);";
        assert_eq!(
            wrap(line, 60),
            ["x = aaaaaaaaaaaaaaaa * (bbbbbbbbbbbbbbbb + cccccccc)", "+ dddddddddddd * (eeeeeeeeee - ffffffff);"]
        );
        let unbreakable = "x".repeat(200);
        assert_eq!(wrap(&unbreakable, 60), [unbreakable.as_str()]);
    }

    #[test]
    fn long_directives_go_on_behind_a_backslash() {
        let mut out = Writer::new();
        let sums: Vec<String> = (0..12).map(|i| format!("sum_of_products_{i}")).collect();
        out.code(&format!("#pragma omp simd reduction(+ : {})", sums.join(", ")));
        let text = out.finish().text;
        let lines: Vec<&str> = text.lines().collect();
        let (last, others) = lines.split_last().expect("a line");
        assert!(!others.is_empty() && others.iter().all(|line| line.ends_with(", \\")), "{text}");
        assert!(last.ends_with(')') && lines.iter().all(|line| line.len() <= WIDTH + 2), "{text}");
    }

    #[test]
    fn comments_cannot_swallow_code() {
        assert_eq!(comment_lines("a \\"), ["a \\."]);
        assert_eq!(comment_lines("a ??/"), ["a ? ?/"]);
        assert_eq!(comment_lines("a\nb\u{202e}\r\nc"), ["a", "b\u{fffd}", "c"]);
    }

    #[test]
    fn lines_are_found_again() {
        let mut out = Writer::new();
        out.verbatim("#include <math.h>");
        out.function("first");
        out.open("void first() {");
        out.statement("r = f - A*u;");
        out.code("x;");
        out.close("}");
        out.function("second");
        out.code("void second() {}");
        let printed = out.finish();
        assert_eq!(printed.locate(1), None);
        assert_eq!(printed.locate(2), Some(("first", None)));
        assert_eq!(printed.locate(4), Some(("first", Some("r = f - A*u;"))));
        assert_eq!(printed.locate(6), Some(("second", None)));
    }
}
