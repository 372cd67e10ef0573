//! Quoted lines: tabs, carriage returns, letters beyond ASCII, control characters, very long lines.

use kernelwright_syntax::compile;
use kernelwright_syntax::diagnostic::closest;

#[track_caller]
fn refused(statement: &str, expected: &str) {
    let text =
        format!("operator o {{\r\n{statement}\r\ngrid cells [i: nx]; boundary i: periodic; apply u => u; }}\r\n");
    assert_eq!(compile("o.kw", &text).unwrap_err().to_string(), expected);
}

#[test]
fn tabs_stay_tabs_under_the_line() {
    let expected =
        "error: nothing is called `b`\n --> o.kw:2:11\n  |\n2 | \tlet\ta = b;\n  | \t   \t    ^ unknown name\n";
    refused("\tlet\ta = b;", &expected.replace("2:11", "2:10"));
}

#[test]
fn columns_count_characters() {
    let expected = "error: nothing is called `β`\n --> o.kw:2:9\n  |\n2 | let é = β;\n  |         ^ unknown name\n";
    refused("let é = β;", expected);
}

#[test]
fn long_lines_are_cut_around_the_place() {
    let padding = " ".repeat(5000);
    let text = format!("operator o {{ {padding} let a = b; {padding} }}");
    let rendered = compile("o.kw", &text).unwrap_err().to_string();
    assert!(rendered.lines().all(|line| line.chars().count() < 200), "{rendered}");
}

#[test]
fn many_errors_are_counted() {
    let lines: String = (0..70).map(|i| format!("let a{i} = b;\n")).collect();
    let text = format!("operator o {{ grid cells [i: nx]; boundary i: periodic; apply u => u; {lines} }}");
    let errors = compile("o.kw", &text).unwrap_err();
    assert_eq!(errors.len(), 70);
    assert!(errors.to_string().ends_with("\nerror: and 20 more\n"));
}

#[test]
fn suggestions_are_near() {
    let known = ["lambda", "omega", "nx", "pcg", "pcg_flexible"];
    assert_eq!(closest("lamda", known), Some("lambda"));
    assert_eq!(closest("Omega", known), Some("omega"));
    assert_eq!(closest("pgc", known), Some("pcg"));
    assert_eq!(closest("i", known), None);
    assert_eq!(closest("kappa", known), None);
}
